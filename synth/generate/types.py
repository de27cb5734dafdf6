"""Data types of the kernel language: one table of C++ and numpy names, sizes and value ranges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason

Array = npt.NDArray[Any]  # values of one DType, by work-item; numpy's scalars compute alike


class IRError(BadInput):
    """The kernel language rejects a construct: wrong type, out of bounds, out of scope, or possible overflow."""

    reason = Reason.INVALID_IR


@dataclass(frozen=True, slots=True)
class DType:
    """One data type. `kind` is f, i, u or b; values lie in [lo, hi]; `eps` is the unit roundoff of a float."""

    name: str
    cpp: str
    kind: str
    bytes: int
    numpy: str  # dtype of a buffer in memory
    compute: str  # dtype that the oracle computes in: int64 for int, which never wraps because overflow is rejected
    lo: float
    hi: float
    suffix: str = ""
    eps: float = 0.0
    lanes: int = 1

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        return self.kind in "iu"

    @property
    def narrow(self) -> bool:
        """Whether C++ converts the type to int before it computes, so that results must be converted back."""
        return self.is_int and self.bytes < 4

    @property
    def base(self) -> DType:
        """The type of one lane of a vector type."""
        return self if self.lanes == 1 else DTYPES[self.name.split("x")[0]]

    def cast(self, values: npt.ArrayLike) -> Array:
        """Values converted to `compute`, wrapped or rounded as on the device."""
        return np.asarray(values).astype(self.compute, copy=False)


F16 = DType("f16", "_Float16", "f", 2, "float16", "float16", -6e4, 6e4, "", 2.0**-11)
F32 = DType("f32", "float", "f", 4, "float32", "float32", -1e30, 1e30, "f", 2.0**-24)
F64 = DType("f64", "double", "f", 8, "float64", "float64", -1e200, 1e200, "", 2.0**-53)
I32 = DType("i32", "int", "i", 4, "int32", "int64", -(2**31), 2**31 - 1)
U32 = DType("u32", "unsigned int", "u", 4, "uint32", "uint32", 0, 2**32 - 1, "u")
U64 = DType("u64", "unsigned long long", "u", 8, "uint64", "uint64", 0, 2**64 - 1, "ull")
I64 = DType("i64", "long long", "i", 8, "int64", "int64", -(2**63), 2**63 - 1, "ll")
U8 = DType("u8", "unsigned char", "u", 1, "uint8", "uint8", 0, 2**8 - 1)
U16 = DType("u16", "unsigned short", "u", 2, "uint16", "uint16", 0, 2**16 - 1)
I16 = DType("i16", "short", "i", 2, "int16", "int64", -(2**15), 2**15 - 1)  # in memory only
BOOL = DType("bool", "bool", "b", 1, "bool", "bool", 0, 1)


def _make_vector(base: DType, lanes: int) -> DType:
    name = {"f32": "float", "f64": "double", "i64": "longlong", "u64": "ulonglong"}
    name |= {"i32": "int", "u32": "uint", "u16": "ushort", "u8": "uchar"}
    cpp = name[base.name] + str(lanes)
    return DType(
        f"{base.name}x{lanes}", cpp, base.kind, base.bytes * lanes, base.numpy, base.compute, base.lo, base.hi,
        base.suffix, base.eps, lanes,
    )  # fmt: skip


VECTORS = tuple(_make_vector(base, lanes) for base in (F32, F64, I32, U32, I64, U64, U16, U8) for lanes in (2, 3, 4))


def _make_extended_vector(base: DType, lanes: int) -> DType:
    cpp = {"f16": "half", "f32": "float", "f64": "double"}[base.name] + f"x{lanes}"
    return replace(base, name=f"{base.name}xext{lanes}", cpp=cpp, bytes=base.bytes * lanes, lanes=lanes)


# Operands and accumulators of matrix instructions, in the compiler's extended vector types.
HALF4, ACC4, ACC16, DACC4 = (
    _make_extended_vector(F16, 4),
    _make_extended_vector(F32, 4),
    _make_extended_vector(F32, 16),
    _make_extended_vector(F64, 4),
)
EXTENDED = (HALF4, ACC4, ACC16, DACC4)
DTYPES = {t.name: t for t in (F16, F32, F64, I32, U32, I64, U64, U8, U16, I16, BOOL, *EXTENDED, *VECTORS)}


def find_dtype(name: str) -> DType:
    """The type called `name`; raises IRError if there is none."""
    if name not in DTYPES:
        raise IRError(f"unknown data type {name!r}", remedy=f"one of {', '.join(DTYPES)}")
    return DTYPES[name]


def vector_type(base: DType, lanes: int) -> DType:
    """The vector type of `lanes` elements of a scalar type; the scalar type itself for 1."""
    return base if lanes == 1 else find_dtype(f"{base.name}x{lanes}")
