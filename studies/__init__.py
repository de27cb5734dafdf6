"""Comparisons with recorded hardware, sweeps, and the scripts that write pages of results; not part of the wheel."""
