"""Doors to predictions and profiles for other programs: editors and browsers."""
