"""The sweeps, one module each; see sweep.py."""
