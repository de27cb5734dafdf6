"""The matrix product of matmul.py, whose blocks the autotuner chooses: tuned_matmul.py [SIZE]."""

import sys

import torch
import triton
from matmul import check, matmul_kernel


def make_config(m: int, n: int, k: int, warps: int) -> triton.Config:
    blocks = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 4}
    return triton.Config(blocks | {"matrix_instr_nonkdim": 16}, num_warps=warps, num_stages=2)


CONFIGS = [
    make_config(32, 32, 64, 4),
    make_config(64, 64, 64, 4),
    make_config(128, 128, 64, 8),
    make_config(256, 256, 128, 8),  # needs more LDS than there is
]

tuned_kernel = triton.autotune(configs=CONFIGS, key=["M", "N", "K"])(matmul_kernel)


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    M, K = a.shape
    K, N = b.shape
    c = torch.empty((M, N), device=a.device, dtype=torch.float16)
    tuned_kernel[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)](
        a, b, c, M, N, K, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0), c.stride(1)
    )
    return c


check(matmul, int(sys.argv[1]) if len(sys.argv) > 1 else 512)
