"""How far the simulator can be trusted: figures recorded on real GPUs beside ours, one study per recording.

frame.py holds the nouns, studies/ one module per recording, recorded/ their figures, kernels/ our own kernels of the
same shape, measured/ the errors last found. `python -m hipsynth.profiling.validation` writes the
pages and fails on an error that is larger than allowed.
"""
