"""`synth optimize` of Python scripts: the meta-parameters of their Triton kernels, changed where they are written."""
