"""Validation of the simulator against figures recorded on real GPUs, one study per recording.

frame.py defines rows, tables and studies; comparisons/ has one module per recording; recorded/ holds the recorded
figures, kernels/ our kernels of the same shape, measured/ the latest errors. `python -m studies.validation` runs the
studies, writes their pages, and fails if an error exceeds its tolerance.
"""
