"""The import root: `hipsynth.profiling` is the folder `profiling/` of the checkout, and so on.

The symbolic links next to this file are the contents of the wheel. The common root keeps the general folder names from
clashing with other packages: the standard library of Python 3.15 has a `profiling` module.
"""
