"""The launches that a program makes, as the runtime library wrote them down (native/runtime/launch_recorder.h).

The program could have written anything to the file, so its content is checked.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from hipsynth.core.errors import BadInput
from hipsynth.core.kernel_record import Dim
from hipsynth.core.reasons import Reason

FILE = "hipsynth-launches.bin"  # in the program's folder
ARENA = 0x2000_0000_0000  # where device memory begins; kArenaBase of native/core/arena.cpp
MOST_BYTES = 224 << 20  # of the file
HOST_VISIBLE = (1, 2)  # kinds of allocations that the host reads without a copy: managed and pinned
ALLOCATION = np.dtype([(name, "<u8") for name in ("start", "bytes", "kind")])
CONTENTS_ROW = np.dtype([(name, "<u8") for name in ("allocation", "contents", "bytes")])
_POINTER = struct.Struct("<Q")
_SYMBOL = re.compile(r"[\w.$@]{1,8192}\Z")
_REASON = re.compile(r"[a-z_]{1,64}\Z")
_LINE = 16384  # bytes of the longest line
_MOST_COPIED_BYTES = MOST_BYTES  # of all modules, with the zeros at their ends, and of all variants
_ENTRIES = frozenset({"contents", "global", "module", "launch", "refused"})  # lines that are kept
_MOST_ENTRIES = 1 << 22  # and allocations and variables of them: what follows the line that exceeds it is left out


@dataclass(frozen=True)
class LaunchRecording:
    """What to record: so many different launches, or as many bytes of them as the runtime library's kMostRecorded, then
    the program is ended; so many bytes of contents altogether."""

    most_launches: int = 1 << 14
    most_bytes: int = 96 << 20

    def entries(self, folder: Path) -> list[tuple[str, object]]:
        """The entries of a run's configuration, for a program that runs in `folder`."""
        limits = [("launches_most", self.most_launches), ("launches_bytes", self.most_bytes)]
        return [("launches_path", folder.resolve() / FILE), *limits]


@dataclass(frozen=True)
class Contents:
    """The first `known` bytes of an allocation: `data`, then zeros."""

    data: bytes
    known: int


@dataclass(frozen=True)
class Allocation:
    """Memory that existed at a launch. `contents` are None if they were not recorded."""

    start: int
    bytes: int
    contents: Contents | None = None


@dataclass(frozen=True, kw_only=True)
class RecordedLaunch:
    """One launch. Grid in work-groups; `arguments` as they lie in memory, with the addresses of `allocations`.

    `variables`: contents of the device code's variables by symbol. `by_data`: the kernel's addresses or branches may
    depend on data. `times`: how often it was made, with other addresses or contents; `in_a_row`: how
    often directly after itself, `cold`: directly after the caches were emptied, `starts_cold`: for the first time.
    `outcome`: "ran", "lost" (its
    results were not computed) or a SimError's reason; "" if the program ended in it. `after_read`: the host had seen
    what earlier kernels wrote, `after_loss`: or would have, had these run. `module`: code that was loaded while the
    program ran, as (code object, disassembly); None: the program's own. `variant`: JSON members, each followed by a
    comma, that say what a script's kernel was specialized for.
    """

    symbol: str
    grid: Dim
    block: Dim
    dynamic_lds: int
    cooperative: bool
    by_data: bool
    arguments: bytes
    allocations: tuple[Allocation, ...]
    variables: Mapping[str, bytes]
    module: tuple[bytes, bytes] | None
    after_read: bool
    after_loss: bool
    variant: str
    times: int = 1
    in_a_row: int = 0
    outcome: str = ""
    cold: int = 0
    starts_cold: bool = False


@dataclass(frozen=True)
class RefusedLaunch:
    """The first launch of a kernel that the device does not start, and why. `kernel`: its symbol, or its full name."""

    kernel: str
    why: str


@dataclass(frozen=True)
class RecordedRun:
    """What a program's host code launched, in order, and what it would have launched."""

    launches: tuple[RecordedLaunch, ...]
    refused: tuple[RefusedLaunch, ...]


@dataclass
class _PendingLaunch:
    """A launch whose repetitions and outcome are not known yet."""

    first: RecordedLaunch
    cold: int
    times: int = 1
    in_a_row: int = 0
    outcome: str = ""

    def finish(self) -> RecordedLaunch:
        """The launch, of which no more will be read."""
        return replace(self.first, times=self.times, in_a_row=self.in_a_row, outcome=self.outcome, cold=self.cold)


@dataclass(frozen=True)
class _LaunchLine:
    """The numbers of a line "launch", in its order. `module`: its number from 1, 0 for the program's own code;
    `argument_bytes` and `contents` (rows of CONTENTS_ROW) follow the line."""

    module: int
    grid: Dim
    block: Dim
    dynamic_lds: int
    cooperative: bool
    by_data: bool
    argument_bytes: int
    contents: int

    @staticmethod
    def parse(words: list[str]) -> _LaunchLine:
        """The numbers in a line's words. Raises ValueError for others, or another count of them."""
        module, *numbers = map(_parse_number, words)
        x, y, z, width, height, depth, lds, cooperative, by_data, argument_bytes, contents = numbers
        if not all(0 < size < 1 << 32 for size in (x, y, z, width, height, depth)):
            raise ValueError("a bad launch")
        flags = bool(cooperative), bool(by_data)
        return _LaunchLine(module, (x, y, z), (width, height, depth), lds, *flags, argument_bytes, contents)


@dataclass
class _Reader:
    """Reads a recording line by line. Raises ValueError, IndexError or KeyError if it is damaged."""

    data: bytes
    at: int = 0
    lost: bool = False
    cleared: bool = False
    after_read: bool = False
    after_loss: bool = False
    variant: str = ""
    copied_bytes: int = 0  # of modules and variants
    entries: int = 0  # lines that are kept, and the allocations and variables that layouts and launches list
    modules: list[tuple[bytes, bytes]] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)
    host_visible: bool = False
    contents: list[bytes] = field(default_factory=list)
    variables: dict[str, bytes] = field(default_factory=dict)
    launch_variables: Mapping[str, bytes] | None = None  # a copy for launches, until a variable changes
    launches: list[_PendingLaunch] = field(default_factory=list)
    refused: list[RefusedLaunch] = field(default_factory=list)
    last: int = -1

    def read(self) -> RecordedRun:
        """The whole run. A last line that was cut, when the program was ended, is left out."""
        kinds: dict[str, Callable[[list[str]], None]] = {
            "arena": self._read_arena,
            "layout": self._read_layout,
            "contents": self._read_contents,
            "global": self._read_global,
            "module": self._read_module,
            "variant": self._read_variant,
            "launch": self._read_launch,
            "again": self._read_repetition,
            "ran": self._read_end,
            "lost": self._read_end,
            "failed": self._read_end,
            "cleared": self._read_clearing,
            "read": self._read_by_host,
            "refused": self._read_refusal,
        }
        while self.at < len(self.data):
            end = self.data.find(b"\n", self.at, self.at + _LINE)
            if end < 0:
                if len(self.data) - self.at >= _LINE:
                    raise ValueError("a line is too long")
                break
            words = self.data[self.at : end].decode().split(" ")
            self.at = end + 1
            try:
                self._count_entries(words[0] in _ENTRIES)
                kinds[words[0]](words)
            except EOFError:
                break
        launches = [launch.finish() for launch in self.launches]
        return RecordedRun(tuple(launches), tuple(self.refused))

    def _take_bytes(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise EOFError
        self.at += count
        return self.data[self.at - count : self.at]

    def _read_arena(self, words: list[str]) -> None:
        if int(words[1]) != ARENA:
            raise ValueError("another address space")

    def _count_entries(self, count: int) -> None:
        self.entries += count
        if self.entries > _MOST_ENTRIES:
            raise EOFError

    def _count_copied_bytes(self, count: int) -> None:
        self.copied_bytes += count
        if self.copied_bytes > _MOST_COPIED_BYTES:
            raise ValueError("too large")

    def _read_layout(self, words: list[str]) -> None:
        self._count_entries(_parse_number(words[1]))
        table = np.frombuffer(self._take_bytes(_parse_number(words[1]) * ALLOCATION.itemsize), ALLOCATION)
        layout: list[tuple[int, int, int]] = table.tolist()
        ends = [start + size for start, size, _ in layout]
        overlap = any(start < end for end, (start, _, _) in zip(ends, layout[1:], strict=False))
        if overlap or max(ends, default=0) >> 63:
            raise ValueError("allocations overlap")
        self.allocations = [Allocation(start, size) for start, size, _ in layout]
        self.host_visible = any(kind in HOST_VISIBLE for _, _, kind in layout)

    def _read_contents(self, words: list[str]) -> None:
        self.contents.append(self._take_bytes(_parse_number(words[1])))

    def _read_global(self, words: list[str]) -> None:
        if not _SYMBOL.match(words[1]):
            raise ValueError("a bad name")
        self.variables[words[1]] = self.contents[_parse_number(words[2])]
        self.launch_variables = None

    def _copy_variables(self) -> Mapping[str, bytes]:
        """The variables as they are now, for a launch; launches between two changes share them."""
        if self.launch_variables is None:
            self._count_entries(len(self.variables))
            self.launch_variables = dict(self.variables)
        return self.launch_variables

    def _read_module(self, words: list[str]) -> None:
        elf, size = self.contents[_parse_number(words[1])], _parse_number(words[2])
        self._count_copied_bytes(max(size, len(elf)))
        self.modules.append((elf.ljust(size, b"\0"), self.contents[_parse_number(words[3])]))

    def _read_variant(self, words: list[str]) -> None:
        text = self.contents[_parse_number(words[1])]
        self._count_copied_bytes(len(text))
        self.variant = text.decode()

    def _read_launch(self, words: list[str]) -> None:
        _, symbol, *numbers = words
        line = _LaunchLine.parse(numbers)
        self._count_entries(len(self.allocations))
        arguments = self._take_bytes(line.argument_bytes)
        allocations = self._place_contents(line.contents)
        if not _SYMBOL.match(symbol):
            raise ValueError("a bad name")
        if self.launches and self.host_visible:
            self._read_by_host(words)
        launch = RecordedLaunch(
            symbol=symbol,
            grid=line.grid,
            block=line.block,
            dynamic_lds=line.dynamic_lds,
            cooperative=line.cooperative,
            by_data=line.by_data,
            arguments=arguments,
            allocations=allocations,
            variables=self._copy_variables(),
            module=self.modules[line.module - 1] if line.module else None,
            after_read=self.after_read,
            after_loss=self.after_loss,
            variant=self.variant,
            starts_cold=self.cleared,
        )
        self.last = len(self.launches)
        self.launches.append(_PendingLaunch(launch, cold=int(self.cleared)))
        self.cleared = False

    def _place_contents(self, count: int) -> tuple[Allocation, ...]:
        """The allocations of a launch, with the contents that the next `count` rows give for some of them."""
        rows = np.frombuffer(self._take_bytes(count * CONTENTS_ROW.itemsize), CONTENTS_ROW)
        allocations = list(self.allocations)
        for place, number, size in rows.tolist():
            contents, old = Contents(self.contents[number], size), allocations[place]
            if len(contents.data) > size or size > old.bytes:
                raise ValueError("contents that do not fit")
            allocations[place] = Allocation(old.start, old.bytes, contents)
        return tuple(allocations)

    def _read_repetition(self, words: list[str]) -> None:
        before, self.last = self.last, _parse_number(words[1])
        self.launches[self.last].times += 1
        self.launches[self.last].in_a_row += before == self.last and not self.cleared
        self.launches[self.last].cold += self.cleared
        self.cleared = False

    def _read_clearing(self, words: list[str]) -> None:
        self.cleared = True

    def _read_end(self, words: list[str]) -> None:
        outcome = words[-1]
        if not _REASON.match(outcome):
            raise ValueError("a bad reason")
        self.lost |= outcome != "ran"
        launch = self.launches[self.last]
        if launch.outcome in ("", "ran"):  # a loss of one of several counts
            launch.outcome = outcome

    def _read_by_host(self, words: list[str]) -> None:
        self.after_read = True
        self.after_loss |= self.lost

    def _read_refusal(self, words: list[str]) -> None:
        if not _SYMBOL.match(words[1]):
            raise ValueError("a bad name")
        self.refused.append(RefusedLaunch(words[1], self._take_bytes(_parse_number(words[2])).decode()))


def _parse_number(word: str) -> int:
    if not word.isdecimal() or len(word) > 20:
        raise ValueError("not a number")
    return int(word)


def parse_recording(data: bytes) -> RecordedRun:
    """What a run recorded, from the bytes of its file. Raises BadInput ("bad_result") if they are not what the runtime
    library writes."""
    try:
        return _Reader(data).read()
    except (ValueError, IndexError, KeyError, UnicodeDecodeError, struct.error, MemoryError) as error:
        raise BadInput(
            "the record of the program's launches is damaged",
            cause="the program wrote to it",
            reason=Reason.BAD_RESULT,
        ) from error
