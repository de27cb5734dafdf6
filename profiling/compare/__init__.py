"""Two profiles compared: programs, profile documents, revisions of a file, flags and devices."""
