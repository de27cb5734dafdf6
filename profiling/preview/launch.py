"""A launch as previews need it: kernel, grid and block, argument bytes, and the allocated device memory."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from hipsynth.core.errors import UsageError
from hipsynth.core.kernel_record import Dim
from hipsynth.core.reasons import Reason
from hipsynth.simulator.launch_record import Contents
from hipsynth.source.names import base_name, short_name

POINTER = 8  # bytes
GUESSED_BYTES = 1 << 28  # of a buffer whose size is not known
_INTEGER_WORDS = frozenset({"unsigned", "signed", "long", "short", "int", "char", "bool"})
_FLOATS = {"float": (4, "<f"), "double": (8, "<d"), "_Float16": (2, "<e"), "__half": (2, "<e")}


@dataclass(frozen=True)
class DeviceBuffer:
    """Device memory that exists at a launch, at the address that the program sees.

    `contents`: what it holds, None if that is not known. `stale`: a launch whose results were not computed may have
    written to it, so that it holds something else in truth. `guessed`: its size is assumed.
    """

    start: int
    bytes: int
    contents: Contents | None = field(default=None, repr=False)
    stale: bool = False
    guessed: bool = False

    def holds(self, address: int) -> bool:
        return self.start <= address < self.start + self.bytes


@dataclass(frozen=True)
class DeviceLaunch:
    """A launch as far as it is known. `signature`: the kernel's demangled name; `symbol`: its mangled one.

    Grid in work-groups; `arguments` as they lie in memory. `variables`: contents of the device code's variables by
    symbol. `module`: code that was loaded while the program ran, as (code object, disassembly). `by_data`: memory was
    recorded because the kernel's addresses or branches may depend on it. `times`: how often it was made, `in_a_row`:
    how often directly after itself, `cold`: directly after the caches were emptied, `starts_cold`: for the first time.
    `after_read`: the host had seen what earlier kernels wrote; `after_loss`: or what lacked their results, so that the
    program may in truth do something else. `language`, `meta`: as in KernelRecord.
    `failure`: why the recording run could not execute it, NONE if it did or did not try. `stands_for`: how many
    launches its preview stands for, others of its shape too; 0: its own `times`.
    """

    symbol: str
    signature: str
    grid: Dim
    block: Dim
    dynamic_lds: int
    arguments: bytes
    buffers: tuple[DeviceBuffer, ...] = field(default=(), repr=False)
    cooperative: bool = False
    variables: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    module: tuple[bytes, bytes] | None = field(default=None, repr=False)
    by_data: bool = False
    times: int = 1
    after_read: bool = False
    after_loss: bool = False
    language: str = ""
    meta: Mapping[str, bool | int | str] = field(default_factory=dict, repr=False)
    failure: Reason = Reason.NONE
    in_a_row: int = 0
    stands_for: int = 0
    cold: int = 0
    starts_cold: bool = False

    @property
    def represented(self) -> int:
        """How many launches its preview stands for."""
        return self.stands_for or self.times

    @cached_property
    def kernel(self) -> str:
        """The kernel's name at its definition."""
        return base_name(self.signature)

    @property
    def shape(self) -> tuple[str, Dim, Dim]:
        return self.symbol, self.grid, self.block

    @cached_property
    def pointers(self) -> tuple[tuple[int, DeviceBuffer], ...]:
        """(offset, buffer) of each pointer among the arguments and in structures among them."""
        return tuple(
            (at, buffer) for at, address in words_of(self.arguments) if (buffer := self.buffer_at(address)) is not None
        )

    def buffer_at(self, address: int) -> DeviceBuffer | None:
        return next((buffer for buffer in self.buffers if buffer.holds(address)), None)

    def named_buffers(self, offsets: Sequence[int] | None = None) -> list[DeviceBuffer]:
        """The buffers that arguments point to, each once; `offsets`: only those of these arguments."""
        buffers = {buffer.start: buffer for at, buffer in self.pointers if offsets is None or at in offsets}
        return list(buffers.values())

    @property
    def follows_itself(self) -> bool:
        """Whether it was made several times, mostly directly after itself: it finds what it left in the caches."""
        return self.times > 1 and 2 * self.in_a_row >= self.times - 1

    @property
    def has_contents(self) -> bool:
        return any(buffer.contents is not None for buffer in self.buffers)


def words_of(arguments: bytes) -> Iterator[tuple[int, int]]:
    """(offset, number) of each aligned word of eight bytes."""
    word_bytes = len(arguments) // POINTER * POINTER
    return ((i * POINTER, word) for i, (word,) in enumerate(struct.iter_unpack("<Q", arguments[:word_bytes])))


def parameter_types(signature: str) -> list[str]:
    """The types between the brackets of a demangled signature: `float const*`, `unsigned int`."""
    kernel_name = short_name(signature)
    inner = signature[signature.find(kernel_name) + len(kernel_name) :].strip()
    if not (inner.startswith("(") and inner.endswith(")")):
        return []
    depth, parts = 0, [""]
    for letter in inner[1:-1]:
        depth += (letter in "<([") - (letter in ">)]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def is_number(parameter: str) -> bool:
    """Whether a parameter of this type is a built-in number."""
    return parameter in _FLOATS or _INTEGER_WORDS.issuperset(parameter.split())


def is_read_only(parameter: str) -> bool:
    """Whether a kernel can only read through a parameter of this type: a pointer to constants."""
    return parameter.rstrip(" &").endswith("const*") or (parameter.startswith("const ") and parameter.endswith("*"))


def packed_number(value: float, size: int, parameter: str) -> bytes:
    """A number as an argument of `size` bytes of this type has it. Raises UsageError for one that has no such value."""
    width, code = _FLOATS.get(parameter, (0, ""))
    if not math.isfinite(value):
        raise UsageError(f"{value} is no value of an argument", remedy="give a number")
    if width == size:
        try:
            return struct.pack(code, value)
        except OverflowError:
            raise UsageError(f"{value:g} is too large for {parameter}", remedy="give a smaller number") from None
    return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def with_argument(launch: DeviceLaunch, offset: int, data: bytes) -> DeviceLaunch:
    """The launch with other bytes at an argument's offset."""
    old = launch.arguments
    return replace(launch, arguments=old[:offset] + data + old[offset + len(data) :])
