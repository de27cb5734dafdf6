"""Types, names and functions of the subset of C++ that fills arrays, and how Python computes with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hipsynth.profiling.preview.values import FLOATS, unqualified


def array_of(name: str) -> str:
    """The variable that holds an array, which may be a member."""
    return f"a_{name.replace('.', '__')}"


class Untranslatable(Exception):
    """Not in the subset."""


class Enough(Exception):
    """A fill has run MOST_ROUNDS."""


@dataclass(frozen=True)
class Kind:
    """A type of numbers."""

    bits: int = 32
    signed: bool = True
    real: bool = False

    @property
    def unsigned(self) -> bool:
        return not (self.signed or self.real)

    @property
    def mask(self) -> str:
        return hex((1 << self.bits) - 1)


INT, REAL, SIZE = Kind(), Kind(64, True, True), Kind(64, False)
KINDS = {
    **{"bool": Kind(8, False), "char": Kind(8), "int8_t": Kind(8), "uint8_t": Kind(8, False), "uchar": Kind(8, False)},
    **{"short": Kind(16), "int16_t": Kind(16), "uint16_t": Kind(16, False), "int": INT, "int32_t": INT},
    **{"unsigned": Kind(32, False), "uint32_t": Kind(32, False), "uint": Kind(32, False), "long": Kind(64)},
    **{"int64_t": Kind(64), "ptrdiff_t": Kind(64), "size_t": SIZE, "uint64_t": SIZE},
    **{name: Kind(16 if "16" in name or "half" in name else 32, True, True) for name in FLOATS},
    **{"double": REAL},
}
PASSED = {"const", "volatile", "static", "constexpr", "signed", "&", "register"}


def kind_of(words: Sequence[str]) -> Kind | None:
    """The type of numbers that words name; None if they name another."""
    plain = [w for w in unqualified(list(words)) if w not in PASSED]
    if "unsigned" in plain and len(plain) > 1:
        rest = kind_of([w for w in plain if w != "unsigned"])
        return Kind(rest.bits, False) if rest else None
    if plain[:1] == ["long"] and set(plain) <= {"long", "int"}:
        return KINDS["long"]
    return KINDS.get(plain[0]) if len(plain) == 1 else None


@dataclass(frozen=True)
class Scalar:
    """A number outside the loops, as they find it."""

    kind: Kind
    value: int | float
    sure: bool = True  # no other loop has changed it


@dataclass(frozen=True)
class Array:
    """An array outside the loops."""

    kind: Kind
    held: Any


@dataclass(frozen=True)
class Text:
    """A Python expression, the type of its value, and whether that is known not to be negative."""

    text: str
    kind: Kind
    positive: bool = False
    place: str = ""  # the variable, if it is one
    grown: bool = False  # a product or shift, which may have more bits than its type


@dataclass
class Translated:
    """A fill: `code(scalars, arrays, rounds, rand)` changes the first three; arrays are lists by name."""

    code: Callable[[dict[str, Any], dict[str, list[Any]], list[int], Callable[[], int]], None]
    scalars: dict[str, Scalar]
    arrays: dict[str, Array]
    changed: set[str] = field(default_factory=set)  # arrays and scalars that are written
    read: set[str] = field(default_factory=set)  # arrays


def quotient(a: Any, b: Any) -> Any:
    found = abs(a) // abs(b)
    return found if (a < 0) == (b < 0) else -found


def remainder(a: Any, b: Any) -> Any:
    return a % b if a >= 0 and b > 0 else a - b * quotient(a, b)


def narrowed(value: int, bits: int) -> int:
    """The value of `bits` bits with sign."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


FUNCTIONS: dict[str, Any] = {
    **{name: getattr(math, name) for name in ("sin", "cos", "tan", "exp", "log", "sqrt", "floor", "ceil", "pow")},
    **{f"{name}f": getattr(math, name) for name in ("sin", "cos", "exp", "log", "sqrt", "floor", "pow", "fabs")},
    **{"fabs": math.fabs, "abs": abs, "min": min, "max": max, "fmin": min, "fmax": max, "fmod": math.fmod},
}
WHOLE = {"abs", "min", "max"}  # these keep the type of their arguments
RAND_MAX = (1 << 31) - 1
READY = {"_quotient": quotient, "_remainder": remainder, "_narrowed": narrowed, "_Enough": Enough, "__builtins__": {}}
READY |= {"len": len, "range": range, "float": float, "int": int, "bool": bool}
READY |= {f"_f_{name}": function for name, function in FUNCTIONS.items()}
Outer = Callable[[str], Scalar | Array | None]
