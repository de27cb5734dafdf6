"""Making, packing and checking a release (its format: synth/core/store/release.py)."""
