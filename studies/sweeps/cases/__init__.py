"""The sweeps, one module each; see frame.py."""
