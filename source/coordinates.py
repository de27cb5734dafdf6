"""The variables of a kernel that say which work-item it is."""

COORDINATES = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim"})
