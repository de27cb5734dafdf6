"""Calls of the HIP and C++ libraries that host code makes, and conversions between its values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hipsynth.profiling.preview.values import (
    FLOATS,
    FUNCTIONS,
    SIZES,
    UNKNOWN,
    Dim,
    HostAllocation,
    Reference,
    Vector,
    binary,
    known,
    whole,
)

if TYPE_CHECKING:
    from hipsynth.profiling.preview.host import Host

ALLOCATE = {
    "hipMalloc",
    "hipMallocManaged",
    "hipHostMalloc",
    "hipMallocAsync",
    "hipExtMallocWithFlags",
    "hipMallocHost",
}
PITCHED = {"hipMallocPitch"}
COPIES = {"hipMemcpy", "hipMemcpyAsync", "hipMemcpyHtoD", "hipMemcpyDtoD", "hipMemcpyHtoDAsync", "memcpy"}
READS = {"hipMemcpyDtoH", "hipMemcpyDtoHAsync", "hipMemcpyFromSymbol", "hipMemcpyFromSymbolAsync"}
SETS = {"hipMemset", "hipMemsetAsync", "memset"}
FILLERS = {"iota", "fill", "fill_n", "generate", "generate_n", "shuffle", "sort", "partial_sum", "inclusive_scan"}
PARSE = {"atoi", "atol", "atoll", "stoi", "stol", "stoul", "stoull", "strtol", "strtoul", "strtoull", "strtoll"}
PARSE_REAL = {"atof", "stod", "stof", "strtod"}


def library(host: Host, name: str, values: list[Any], given: list[str], words: list[str]) -> Any:
    """The value of a call of a library function; memory that it allocates is bound to its first argument."""
    if name in ALLOCATE or name in PITCHED:
        return _allocate(name, values)
    if name in ("malloc", "calloc", "aligned_alloc", "realloc"):
        return Vector(UNKNOWN, 1)
    if name in PARSE or name in PARSE_REAL:
        text = values[0] if values else UNKNOWN
        if isinstance(text, int):  # a number in place of a word: profiling.preview.many
            return float(text) if name in PARSE_REAL else text
        if isinstance(text, str) and re.fullmatch(r"\s*[-+]?(\d+|\d*\.\d*(e[-+]?\d+)?)", text):
            return float(text) if name in PARSE_REAL else int(float(text))
        return UNKNOWN
    if (name in COPIES or name in READS) and values and isinstance(values[0], Reference):
        _read_back(values[0])
    if name in COPIES or name in SETS or name in FILLERS:
        _moves(host, name, [v.get() if isinstance(v, Reference) else v for v in values])
        return 0
    if name in ("strcmp", "strncmp", "getopt", "getopt_long", "string"):
        return _text(host, name, values)
    if name == "hipOccupancyMaxPotentialBlockSize":
        return _full_occupancy(host, values)
    plain = [float(v) if given and given[0] in FLOATS and known(v) else v for v in values]
    if name in FUNCTIONS and plain and known(*plain):
        try:
            return FUNCTIONS[name](*plain)
        except (ValueError, ArithmeticError, TypeError):
            return UNKNOWN
    if name in ("move", "forward", "ref", "cref", "data", "raw_pointer_cast"):
        return values[0] if values else UNKNOWN
    if name == "size" and values and isinstance(values[0], Vector):
        return values[0].length
    return 0 if name.startswith("hip") and name[3:4].isupper() else UNKNOWN  # hipSuccess


def _read_back(to: Reference) -> None:
    """A number that a copy overwrites is one that the program computes."""
    if isinstance(to.get(), int | float):
        to.set(UNKNOWN)


def _moves(host: Host, name: str, values: list[Any]) -> None:
    """Notes what a call puts into an array, unless it is in a loop that is noted as a whole."""
    arrays = [v for v in values[:2] if isinstance(v, HostAllocation | Vector)]
    if host.quiet or not arrays or arrays[0] is not values[0]:
        return
    to, last = arrays[0], values[-1] if values else UNKNOWN
    if name in COPIES and len(arrays) == 2:
        host.fills.copy(to, arrays[1])
    elif name in SETS and len(values) > 2 and isinstance(values[1], int) and isinstance(values[2], int):
        host.fills.constant(to, values[1], values[2])
    elif name == "iota" and isinstance(to, Vector) and isinstance(to.length, int) and isinstance(last, int):
        host.fills.numbered(to, last)
    else:
        host.fills.unknown([to])


def _text(host: Host, name: str, values: list[Any]) -> Any:
    """The value of a call of a function that works on texts."""
    if name == "string":
        return values[0] if len(values) == 1 and isinstance(values[0], str) else UNKNOWN
    if name in ("strcmp", "strncmp"):
        length = values[2] if len(values) == 3 and isinstance(values[2], int) else None
        texts = [value[:length] for value in values[:2] if isinstance(value, str)]
        return UNKNOWN if len(texts) < 2 else (texts[0] > texts[1]) - (texts[0] < texts[1])
    if len(values) < 3 or not isinstance(values[2], str):
        return UNKNOWN
    letter, host.scopes[0]["optarg"] = host.getopt.next(values[2])
    return letter


def of_text(text: str, name: str, values: list[Any]) -> Any:
    """The value of a call of a method of std::string."""
    if name == "compare" and len(values) == 1 and isinstance(values[0], str):
        return (text > values[0]) - (text < values[0])
    whole_text = {"c_str": text, "data": text, "size": len(text), "length": len(text), "empty": int(not text)}
    return whole_text.get(name, UNKNOWN)


def _full_occupancy(host: Host, values: list[Any]) -> int:
    """hipOccupancyMaxPotentialBlockSize of a kernel whose registers allow full occupancy."""
    most = host.properties.get("maxThreadsPerBlock", UNKNOWN)
    per_cu = binary("/", host.properties.get("maxThreadsPerMultiProcessor", UNKNOWN), most)
    found = binary("*", host.properties.get("multiProcessorCount", UNKNOWN), per_cu), most
    for target, value in zip(values, found, strict=False):
        if isinstance(target, Reference):
            target.set(value)
    return 0


def _allocate(name: str, values: list[Any]) -> Any:
    target = values[0] if values else UNKNOWN
    size = values[1] if len(values) > 1 else UNKNOWN
    if name in PITCHED and len(values) > 3 and known(values[2], values[3]):
        size = values[2] * values[3]
    if isinstance(target, Reference):
        target.set(HostAllocation(whole(size) if isinstance(size, int | float) else None))
    return 0


def converted(base: list[str], value: Any) -> Any:
    """A number as a value of a type."""
    if not known(value) or not base:
        return value
    if base[-1] in FLOATS:
        return float(value)
    is_whole = base[-1] in SIZES or base[0] in ("unsigned", "long", "size_t")
    return whole(value) if is_whole and base[-1] != "bool" else value


def dimensions(value: Any) -> tuple[int, int, int] | None:
    """A launch dimension: a number or dim3; None if it is not known or not positive."""
    parts = (value.x, value.y, value.z) if isinstance(value, Dim) else (value, 1, 1)
    if not known(*parts) or any(part < 1 or part >= 1 << 32 for part in parts):
        return None
    return whole(parts[0]), whole(parts[1]), whole(parts[2])
