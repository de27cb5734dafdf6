"""Texts of scripts with Triton kernels."""

from __future__ import annotations

DOUBLE = """
import torch, triton, triton.language as tl

@triton.jit
def double(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 2 * tl.load(x_ptr + offsets))
"""

# Eight programs share each row of a table: dealt out over the XCDs, every one of them fetches every row.
SHARED_ROWS = """
import torch, triton, triton.language as tl

@triton.jit
def row_sums(x_ptr, y_ptr, WIDTH: tl.constexpr):
    pid = tl.program_id(axis=0)
    row = tl.load(x_ptr + pid // 8 * WIDTH + tl.arange(0, WIDTH))
    tl.store(y_ptr + pid, tl.sum(row, axis=0) + pid)

x = torch.rand((64, 4096), device="cuda")
y = torch.empty(512, device="cuda")
row_sums[(512,)](x, y, WIDTH=4096, num_warps=4)
"""
