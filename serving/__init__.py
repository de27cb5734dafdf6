"""`synth serve`: predictions, profiles and comparisons over HTTP on this machine, and the workbench page."""
