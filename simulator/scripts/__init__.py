"""Python scripts with Triton kernels: how one is started (prepare.py), and the device that it sees (inside/)."""
