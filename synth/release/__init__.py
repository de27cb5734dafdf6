"""Making, packing and checking a release (its format: core/store/release.py)."""
