"""One module per recording; frame.py says what a study has to have."""
