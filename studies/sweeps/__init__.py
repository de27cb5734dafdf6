"""Sweeps of the simulator's own timing and cache model, each with the curve that it must follow."""
