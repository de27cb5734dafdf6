"""Values of host code as far as they are known before it runs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

SIZES = {
    **dict.fromkeys(("bool", "char", "int8_t", "uint8_t", "std::byte", "uchar"), 1),
    **dict.fromkeys(
        ("short", "half", "__half", "_Float16", "int16_t", "uint16_t", "hip_bfloat16", "__hip_bfloat16"), 2
    ),
    **dict.fromkeys(("int", "unsigned", "float", "int32_t", "uint32_t", "uint", "__half2", "half2", "char4"), 4),
    **dict.fromkeys(("long", "double", "size_t", "int64_t", "uint64_t", "ptrdiff_t", "float2", "int2", "uint2"), 8),
    **dict.fromkeys(("float4", "int4", "uint4", "double2", "hipDoubleComplex", "longlong2"), 16),
    **dict.fromkeys(("float3", "int3", "uint3"), 12),
    **dict.fromkeys(("double4", "double3"), 32),
    **dict.fromkeys(("hipFloatComplex", "hipComplex", "ulong", "intptr_t", "uintptr_t"), 8),
}
FLOATS = frozenset({"float", "double", "half", "__half", "_Float16", "hip_bfloat16", "__hip_bfloat16"})


class Unknown:
    """A value that only running the program would show."""

    def __repr__(self) -> str:
        return "?"

    def __bool__(self) -> bool:
        return False


UNKNOWN = Unknown()


@dataclass(frozen=True)
class Dim:
    x: Any = 1
    y: Any = 1
    z: Any = 1


@dataclass
class HostAllocation:
    """An allocation of `bytes` bytes (None: not known)."""

    bytes: int | None = None


@dataclass
class Vector:
    """A std::vector, array or the like: its length and the bytes of an element."""

    length: Any = UNKNOWN
    element: int = 4
    items: list[Any] | None = None
    fill: Any = 0  # what the elements are made with


class GuessedType(list[str]):
    """The words of some type that has the size of one that is not known."""


@dataclass
class Reference:
    """Where a value is kept: `&x`, a captured or reference parameter."""

    scope: dict[str, Any]
    name: str

    def get(self) -> Any:
        return self.scope.get(self.name, UNKNOWN)

    def set(self, value: Any) -> None:
        self.scope[self.name] = value


class Alias(Reference):
    """A C++ reference: wherever its name is read, the value is meant."""


# Name and words of the default (empty: none, or it may be deduced) of each.
TemplateParameters = list[tuple[str, list[str]]]


@dataclass
class Function:
    """A function, method or lambda of the program: positions of its tokens."""

    name: str
    parameters: list[list[str]]
    body: tuple[int, int]  # from its opening brace to the closing one
    scope: dict[str, Any] | None = None  # of a lambda
    initial: list[tuple[str, list[str]]] = field(default_factory=list)  # of a constructor
    template: list[str] = field(default_factory=list)  # parameter names
    defaults: list[list[str]] = field(default_factory=list)  # of the parameters; empty: none


@dataclass
class Class:
    name: str
    fields: list[tuple[str, list[str], list[str]]]  # name, type, initial value
    methods: dict[str, list[Function]]
    template: list[str] = field(default_factory=list)


@dataclass
class Object:
    of: Class
    fields: dict[str, Any] = field(default_factory=dict)
    layout: list[tuple[str, int, int]] = field(default_factory=list)  # name, bytes of an element, number of elements
    options: dict[str, Any] = field(default_factory=dict)  # of a command-line parser: profiling.preview.options


def known(*values: Any) -> bool:
    return all(isinstance(value, int | float) for value in values)


def unqualified(words: list[str]) -> list[str]:
    """The words without `name ::`."""
    kept: list[str] = []
    for word in words:
        if word != "::":
            kept.append(word)
        elif kept:
            kept.pop()
    return kept


def laid_out(sizes: Sequence[tuple[int, int]]) -> tuple[list[int], int]:
    """Where the members of an object begin, given the bytes of an element and the number of elements of each, and the
    bytes of the whole. Vectors of three floats have the alignment of one, others that of their size."""
    at, widest, starts = 0, 1, []
    for size, length in sizes:
        align = min(16, size & -size)
        widest = max(widest, align)
        at = -(-at // align) * align
        starts.append(at)
        at += size * length
    return starts, -(-at // widest) * widest


def whole(value: Any) -> int:
    """A number as an integer."""
    return value if isinstance(value, int) else int(value)


def _quotient(a: Any, b: Any) -> Any:
    if b == 0:
        return UNKNOWN
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: Any, b: Any) -> Any:
    return UNKNOWN if not b or isinstance(a, float) or isinstance(b, float) else a - _quotient(a, b) * b


def _shifted(a: Any, b: Any) -> Any:
    return a << b if isinstance(a, int) and isinstance(b, int) and 0 <= b < 64 else UNKNOWN


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "%": _remainder,
    "<<": _shifted,
    ">>": lambda a, b: a >> b if isinstance(a, int) and isinstance(b, int) and 0 <= b < 64 else UNKNOWN,
    "&": lambda a, b: a & b if isinstance(a, int) and isinstance(b, int) else UNKNOWN,
    "|": lambda a, b: a | b if isinstance(a, int) and isinstance(b, int) else UNKNOWN,
    "^": lambda a, b: a ^ b if isinstance(a, int) and isinstance(b, int) else UNKNOWN,
    "<": lambda a, b: +(a < b),
    ">": lambda a, b: +(a > b),
    "<=": lambda a, b: +(a <= b),
    ">=": lambda a, b: +(a >= b),
    "==": lambda a, b: +(a == b),
    "!=": lambda a, b: +(a != b),
}
LARGEST = 1 << 80


def binary(sign: str, a: Any, b: Any) -> Any:
    """The value of `a sign b`. A pointer plus a number is the pointer."""
    if isinstance(a, HostAllocation) and sign in "+-":
        return a
    if isinstance(a, str) and isinstance(b, str) and sign in ("==", "!=", "+"):
        return a + b if sign == "+" else int((a == b) == (sign == "=="))
    if not known(a, b):
        return UNKNOWN
    try:
        value = BINARY[sign](a, b)
    except (ArithmeticError, TypeError, ValueError):
        return UNKNOWN
    return UNKNOWN if not isinstance(value, Unknown) and abs(value) > LARGEST else value


def _rounded(function: Callable[[float], int]) -> Callable[..., Any]:
    return lambda x: float(function(x))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "fmin": min,
    "fmax": max,
    "ceil": _rounded(math.ceil),
    "ceilf": _rounded(math.ceil),
    "floor": _rounded(math.floor),
    "floorf": _rounded(math.floor),
    "sqrt": math.sqrt,
    "sqrtf": math.sqrt,
    "pow": math.pow,
    "powf": math.pow,
    "log2": math.log2,
    "log2f": math.log2,
    "log": math.log,
    "abs": abs,
    "round": lambda x: float(math.floor(x + 0.5)),
}
