"""Texts of programs with more declarations in them, and functions that several tests declare."""

from __future__ import annotations

PRINTING = '__device__ void note(int i) { printf("%d", i); }'
COUNTING = "__device__ int next() { static int calls = 0; return ++calls; }"


def declare_before_kernels(text: str, declarations: str) -> str:
    """The program with declarations ahead of its first kernel."""
    return text.replace("__global__", f"{declarations}\n__global__", 1)
