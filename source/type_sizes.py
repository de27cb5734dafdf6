"""The sizes of C++ types as HIP has them, on host and device alike (LP64)."""

from __future__ import annotations

import re

_SCALARS = {
    "bool": 1,
    "char": 1,
    "short": 2,
    "int": 4,
    "long": 8,
    "float": 4,
    "double": 8,
    "_Float16": 2,
    "__half": 2,
    "half": 2,
    "__hip_bfloat16": 2,
    "hip_bfloat16": 2,
    "__bf16": 2,
    "size_t": 8,
    "ptrdiff_t": 8,
    "intptr_t": 8,
    "uintptr_t": 8,
    **{f"{sign}int{bits}_t": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
# Element types of vectors of 1 to 4 elements, such as float4.
_ELEMENTS = {
    **{
        f"{sign}{name}": size
        for sign in ("", "u")
        for name, size in (("char", 1), ("short", 2), ("int", 4), ("long", 8))
    },
    **{"longlong": 8, "ulonglong": 8, "float": 4, "double": 8},
}
_POINTER = 8
_QUALIFIER = re.compile(r"\b(?:const|volatile|struct|typename|restrict|__restrict__)\b|\bstd\s*::")
_WORD = re.compile(r"\w+|\S")


_VECTORS = {f"{name}{count}": size * count for name, size in _ELEMENTS.items() for count in (1, 2, 3, 4)}
_SIZES = {**_SCALARS, **_VECTORS, "__half2": 4, "half2": 4}
_SIGNS = {"unsigned", "signed"}


def type_bytes(spelling: str) -> int | None:
    """The size of a type such as `const float*`, `unsigned long` or `std::uint32_t`; None if it is not in the table."""
    words = _WORD.findall(_QUALIFIER.sub(" ", spelling))
    if words and words[-1] == "*":
        return _POINTER
    kinds = [word for word in words if word not in _SIGNS]
    if len(kinds) > 1 and kinds[-1] == "int":  # long int, short int
        kinds.pop()
    if kinds in (["long", "long"], []):
        return _SCALARS["long"] if kinds else _SCALARS["int"] if words else None
    return _SIZES.get(kinds[0]) if len(kinds) == 1 else _SCALARS["double"] * 2 if kinds == ["long", "double"] else None
