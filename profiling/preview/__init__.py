"""Estimates without running kernels as a whole: records the launches of the host code, and interprets the machine
code interpreted for a small part of the grid."""
