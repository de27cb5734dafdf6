"""The import root: `hipsynth.profiling` is the folder `profiling/` of the checkout, and so on.

The links beside this file are the contents of the wheel. One root keeps the general names of the folders apart from
other packages: Python 3.15's standard library has a `profiling` of its own.
"""
