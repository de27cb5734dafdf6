"""Reads the kernel names from a code object's ELF file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from hipsynth.core.errors import BadInput

_SHT_DYNSYM = 11


def kernels_in(code_object: Path) -> tuple[str, ...]:
    """Mangled names of the kernels in an AMDGPU code object, in symbol table order.

    Every kernel has a descriptor with the dynamic symbol `NAME.kd` (LLVM's AMDGPU usage guide). Raises BadInput for
    anything but a valid 64-bit little-endian ELF file.
    """
    data = code_object.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise BadInput(f"{code_object}: not a code object", remedy="compile the program again")
    try:
        names = [name for name in _dynamic_symbols(data) if name.endswith(".kd")]
    except (struct.error, IndexError, ValueError) as error:
        raise BadInput(f"{code_object}: damaged code object", cause=str(error)) from error
    return tuple(name.removesuffix(".kd") for name in names)


def _dynamic_symbols(data: bytes) -> Iterator[str]:
    table, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * index) for index in range(count)]
    for section in sections:
        if section[1] != _SHT_DYNSYM:
            continue
        offset, size, link = section[4], section[5], section[6]
        strings = sections[link][4]
        for position in range(offset, offset + size, 24):
            start = strings + int(struct.unpack_from("<I", data, position)[0])
            yield data[start : data.index(b"\0", start)].decode()
