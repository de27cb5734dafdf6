"""`synth optimize`: a search over source transformations that executes every candidate and verifies what it keeps."""
