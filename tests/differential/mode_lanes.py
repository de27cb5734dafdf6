"""Lanes of float operands for tests of the MODE register: edge values in, bits out, for any format."""

from __future__ import annotations

import zlib

import numpy as np
from alu_cases import EDGES_F16, EDGES_F32, EDGES_F64
from exact_floats import F16, F32, F64, FloatFormat, Mode, decode
from wave_helpers import LANES, Wave

MODES = [
    Mode(r, (r + 1 + d % 3) % 4, d, (d + 1 + r % 3) % 4, fp16_ovfl=bool((r + d) & 1))
    for r in range(4)
    for d in range(4)
]
EDGES = {F16: EDGES_F16, F32: EDGES_F32, F64: EDGES_F64}


def operand(name: str, slot: int, fmt: FloatFormat) -> list[int]:
    """64 values: edge values, denormals, and magnitudes so close that sums need rounding."""
    rng = np.random.default_rng(zlib.crc32(f"{name}/{slot}".encode()))
    edges = EDGES[fmt]
    out = [edges[i] for i in rng.integers(0, len(edges), 24)]
    low = 1 << (fmt.precision - 1)
    out += [int(rng.integers(1, low)) | (fmt.sign_bit if k & 1 else 0) for k in range(10)]  # denormals
    for k in range(LANES - len(out)):
        field = fmt.bias + int(rng.integers(-3, 4)) if k % 3 else int(rng.integers(1, 4)) * (fmt.precision // 2)
        out.append(field << (fmt.precision - 1) | int(rng.integers(0, low)) | (fmt.sign_bit if rng.integers(2) else 0))
    return out


def set_lanes(w: Wave, reg: int, values: list[int], fmt: FloatFormat) -> None:
    w.v[reg] = [v & 0xFFFFFFFF for v in values]
    if fmt.width == 64:
        w.v[reg + 1] = [v >> 32 for v in values]


def get_lanes(w: Wave, reg: int, fmt: FloatFormat) -> list[int]:
    low = [int(x) & ((1 << min(fmt.width, 32)) - 1) for x in w.v[reg]]
    return [a | int(b) << 32 for a, b in zip(low, w.v[reg + 1], strict=True)] if fmt.width == 64 else low


def register(reg: int, fmt: FloatFormat) -> str:
    return f"v[{reg}:{reg + 1}]" if fmt.width == 64 else f"v{reg}"


def same(got: int, want: int, fmt: FloatFormat, ulps: int = 0) -> bool:
    if decode(got, fmt).kind == "nan" or decode(want, fmt).kind == "nan":
        return decode(got, fmt).kind == decode(want, fmt).kind
    return abs(got - want) <= ulps
