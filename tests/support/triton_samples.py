"""Texts of scripts with Triton kernels."""

from __future__ import annotations

DOUBLE = """
import torch, triton, triton.language as tl

@triton.jit
def double(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 2 * tl.load(x_ptr + offsets))
"""
