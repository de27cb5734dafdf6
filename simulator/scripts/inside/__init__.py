"""The virtual device of a Python process: runs beside a script, in the sandbox, so it imports nothing of hipsynth.

Device tensors are ordinary CPU tensors whose storage was allocated by the HIP runtime library, whose device pointers
are host pointers too. PyTorch's own operators work on them as on any other tensor; kernels see the same bytes.
"""
