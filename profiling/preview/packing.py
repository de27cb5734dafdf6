"""The bytes of kernel arguments: numbers, pointers, and objects that hold them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from hipsynth.profiling.preview.values import HostAllocation, Object, Unknown, Vector, laid_out

GUESSED_BYTES = 1 << 28  # of a buffer whose size is not known
POINTER = 8
Allocate = Callable[[int, Any], int]  # a buffer of so many bytes, for a value of host code: its address


def packed(value: Any, size: int, pointer: bool, allocate: Allocate = lambda size, value: 0) -> bytes | None:
    """An argument of `size` bytes; None if it is not known. What a pointer points to is allocated even if its size is
    not known."""
    if pointer:
        return struct.pack("<Q", allocate(buffer_bytes(value), value))
    if isinstance(value, Object):
        return _object(value, size, allocate)
    if isinstance(value, Vector) and value.items is not None:
        return _braced(value.items, size, allocate)
    if isinstance(value, HostAllocation) and size == POINTER:
        return struct.pack("<Q", allocate(buffer_bytes(value), value))
    if isinstance(value, float):
        return struct.pack({2: "<e", 4: "<f", 8: "<d"}.get(size, "<d"), value)[:size].ljust(size, b"\0")
    if isinstance(value, int):
        return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return None


def buffer_bytes(value: Any) -> int:
    """The bytes of an argument that is a pointer."""
    if isinstance(value, HostAllocation) and value.bytes is not None:
        return value.bytes
    if isinstance(value, Vector) and isinstance(value.length, int):
        return value.length * value.element
    return 0 if value == 0 else GUESSED_BYTES


def _object(value: Object, size: int, allocate: Allocate) -> bytes | None:
    """The members of an object, each where its type and those before it put it."""
    parts, sizes = [], []
    for name, bytes_, length in value.layout:
        held = value.fields.get(name)
        if not bytes_:
            return None
        items: Sequence[Any] = [held]
        if isinstance(held, Object):  # parts of its alignment
            inner = _object(held, bytes_ * length, allocate)
            starts = range(0, bytes_ * length, bytes_)
            items = [None if inner is None else int.from_bytes(inner[i : i + bytes_], "little") for i in starts]
        elif length != 1:
            items = held.items if isinstance(held, Vector) and held.items is not None else []
            items = [*items, *[0] * (length - len(items))][:length]
        made = [packed(item, bytes_, False, allocate) for item in items]
        if any(one is None for one in made):
            return None
        parts.append(b"".join(one for one in made if one is not None))
        sizes.append((bytes_, length))
    return _joined(parts, laid_out(sizes)[0], size)


def _braced(items: Sequence[Any], size: int, allocate: Allocate) -> bytes | None:
    """Members in braces, of which only the number and the bytes of all are known: numbers of four bytes if that fits,
    else of eight."""
    for number in (4, 8):
        sizes = [(POINTER if isinstance(item, HostAllocation | Vector | Unknown) else number, 1) for item in items]
        starts, whole = laid_out(sizes)
        if whole == size:
            made = [packed(item, one, one == POINTER and not isinstance(item, int | float), allocate)
                    for item, (one, _) in zip(items, sizes, strict=True)]  # fmt: skip
            return None if any(one is None for one in made) else _joined([m or b"" for m in made], starts, size)
    return None


def _joined(parts: Sequence[bytes], starts: Sequence[int], size: int) -> bytes:
    data = bytearray(size)
    for part, start in zip(parts, starts, strict=True):
        data[start : start + len(part)] = part
    return bytes(data[:size])
