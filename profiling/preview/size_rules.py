"""The launches of a program at many sizes, from runs at few of them.

The host code runs at both ends of a span of sizes, in its middle and at one more. If all four runs make the same
launches, whose grids, numbers and buffers follow simple rules of the size, those between follow them, too; else the
span is halved, in the end down to single runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hipsynth.core.kernel_record import Dim
from hipsynth.profiling.preview.launch import DeviceBuffer, DeviceLaunch
from hipsynth.profiling.preview.record import Recording
from hipsynth.simulator.launch_record import Contents

Line = tuple[str, ...]  # a command line
MOST_EXACT_SIZES = 8  # sizes of a span up to which the host code runs at each
CHECK_POSITION = 0.29  # where in a span, from 0 to 1, the run or launch lies that checks what its ends and middle say
PAGE, GUARD = 4096, 4096  # how the runtime library lays out allocations (native/core/arena.cpp)
WORD = 4  # bytes of the numbers among arguments
MOST_PER_ITEM = 64  # elements that one work-item may handle


@dataclass(frozen=True)
class _Rule:
    """A number that depends on the size n: slope * n + offset, or n / divisor rounded `up` or down."""

    slope: int = 0
    offset: int = 0
    divisor: int = 1
    up: bool = False

    def at(self, n: int) -> int:
        if self.divisor == 1:
            return self.slope * n + self.offset
        return -(-n // self.divisor) if self.up else n // self.divisor


def record_lines(record: Callable[[Line], Recording], lines: Sequence[Line]) -> dict[Line, Recording]:
    """The recording of each command line. `record` runs one."""
    recordings: dict[Line, Recording] = {}

    def run(line: Line) -> Recording:
        if line not in recordings:
            recordings[line] = record(line)
        return recordings[line]

    for position, members in _group_by_size(lines):
        sizes = sorted(members)
        todo = [(0, len(sizes) - 1)]
        while todo:
            low, high = todo.pop()
            places = low, low + round(CHECK_POSITION * (high - low)), (low + high) // 2, high
            inside = range(low, high + 1)
            if high - low < MOST_EXACT_SIZES or position < 0:
                for i in inside:
                    run(members[sizes[i]])
                continue
            recorded = {sizes[i]: run(members[sizes[i]]) for i in places}
            interpolated = _interpolate_recordings(recorded, [sizes[i] for i in inside if sizes[i] not in recorded])
            if interpolated is None:
                todo += [(low, (low + high) // 2), ((low + high) // 2 + 1, high)]
                continue
            for n, recording in interpolated.items():
                recordings[members[n]] = run(members[n]) if recording is None else recording
    return recordings


def _group_by_size(lines: Sequence[Line]) -> Iterator[tuple[int, dict[int, Line]]]:
    """Groups of command lines that differ in one number alone: its position, and the lines by the number; position -1
    for lines that are alone."""
    count = max(map(len, lines), default=0)
    varied = [len({line[i] for line in lines if i < len(line) and line[i].isdecimal()}) for i in range(count)]
    position = max(range(count), key=varied.__getitem__, default=-1)
    groups: dict[Line, dict[int, Line]] = {}
    for line in dict.fromkeys(lines):
        if 0 <= position < len(line) and line[position].isdecimal():
            groups.setdefault((*line[:position], "", *line[position + 1 :]), {})[int(line[position])] = line
        else:
            yield -1, {0: line}
    for members in groups.values():
        yield position, members


def _interpolate_recordings(
    recordings: Mapping[int, Recording], sizes: Sequence[int]
) -> dict[int, Recording | None] | None:
    """The recordings at sizes between the known ones, None for one that is not certain; None if no rule fits."""
    runs = [recording.launches for recording in recordings.values()]
    refused = {recording.refused for recording in recordings.values()}
    if any(recording.reason for recording in recordings.values()) or len({len(launches) for launches in runs}) != 1:
        return None
    if len(refused) != 1:  # at some sizes, or for other reasons
        return None
    columns = []
    for launches in zip(*runs, strict=True):
        if (launch_rules := _LaunchRules.of(list(recordings), launches)) is None:
            return None
        columns.append(launch_rules)
    interpolated: dict[int, Recording | None] = {}
    for n in sizes:
        columns_at = [column.at(n) for column in columns]
        launches = tuple(launch_rules for launch_rules in columns_at if launch_rules is not None)
        interpolated[n] = Recording(launches, refused=next(iter(refused))) if len(launches) == len(columns_at) else None
    return interpolated


@dataclass(frozen=True)
class _LaunchRules:
    """How one launch of a program depends on the size. `numbers`: rules that agree with all runs, for grid, times, LDS,
    sizes of buffers and words of arguments."""

    like: DeviceLaunch
    numbers: tuple[tuple[_Rule, ...], ...]
    words: tuple[int, ...]  # offsets

    @staticmethod
    def of(sizes: Sequence[int], launches: Sequence[DeviceLaunch]) -> _LaunchRules | None:
        """None if the launches are not alike, or depend on data that are not alike."""
        like = launches[0]
        if any(launch.after_read or launch.module or not _is_packed(launch) for launch in launches):
            return None
        if len({_constant_parts(launch) for launch in launches}) != 1:
            return None
        words = tuple(_number_offsets(like))
        rows = [_list_numbers(launch, words) for launch in launches]
        block = math.prod(like.block)
        numbers = tuple(tuple(_fitting_rules(sizes, column, block)) for column in zip(*rows, strict=True))
        if not all(numbers):
            return None
        contents = _common_contents(launches)
        return None if contents is None else _LaunchRules(replace(like, buffers=contents), numbers, words)

    def at(self, n: int) -> DeviceLaunch | None:
        """The launch at size n; None if rules that fit all runs differ there."""
        answers = [{rule.at(n) for rule in rules} for rules in self.numbers]
        if any(len(answer) != 1 for answer in answers):
            return None
        values = [answer.pop() for answer in answers]
        count = len(self.like.buffers)
        sizes, words = values[5 : 5 + count], values[5 + count :]
        buffers, start = [], self.like.buffers[0].start if count else 0
        for buffer, size in zip(self.like.buffers, sizes, strict=True):
            contents = buffer.contents and Contents(buffer.contents.data[:size], min(size, buffer.contents.known))
            buffers.append(replace(buffer, start=start, bytes=size, contents=contents))
            start = _next_start(start, size)
        arguments = bytearray(self.like.arguments)
        for offset, word in zip(self.words, words, strict=True):
            arguments[offset : offset + WORD] = (word % (1 << 8 * WORD)).to_bytes(WORD, "little")
        for offset, buffer in self.like.pointers:
            place = self.like.buffers.index(buffer)
            inside = int.from_bytes(self.like.arguments[offset : offset + 8], "little") - buffer.start
            arguments[offset : offset + 8] = (buffers[place].start + inside).to_bytes(8, "little")
        grid: Dim = (values[0], values[1], values[2])
        if min(values[:5]) < 0 or 0 in grid or min(sizes, default=0) < 0:
            return None
        return replace(
            self.like,
            grid=grid,
            times=values[3],
            dynamic_lds=values[4],
            arguments=bytes(arguments),
            buffers=tuple(buffers),
        )


def _next_start(start: int, size: int) -> int:
    return -(-(start + max(size, 1)) // PAGE) * PAGE + GUARD


def _is_packed(launch: DeviceLaunch) -> bool:
    """Whether each buffer lies right behind the one before."""
    pairs = zip(launch.buffers, launch.buffers[1:], strict=False)
    return all(_next_start(number.start, number.bytes) == other.start for number, other in pairs)


def _constant_parts(launch: DeviceLaunch) -> tuple[object, ...]:
    """The parts of a launch that must be equal at all sizes."""
    pointers = tuple(
        (
            offset,
            launch.buffers.index(buffer),
            int.from_bytes(launch.arguments[offset : offset + 8], "little") - buffer.start,
        )
        for offset, buffer in launch.pointers
    )
    variables = tuple(sorted(launch.variables.items()))
    first = launch.buffers[0].start if launch.buffers else 0
    stale = tuple(buffer.stale for buffer in launch.buffers)
    shape = launch.symbol, launch.block, len(launch.arguments), launch.cooperative, launch.by_data, first, stale
    return (
        *shape,
        pointers,
        variables,
        len(launch.arguments) % WORD and launch.arguments[-(len(launch.arguments) % WORD) :],
    )


def _number_offsets(launch: DeviceLaunch) -> Iterator[int]:
    pointer_offsets = {offset for offset, _ in launch.pointers}
    for offset in range(0, len(launch.arguments) // WORD * WORD, WORD):
        if offset not in pointer_offsets and offset - WORD not in pointer_offsets:
            yield offset


def _list_numbers(launch: DeviceLaunch, words: Sequence[int]) -> list[int]:
    values = [int.from_bytes(launch.arguments[at : at + WORD], "little") for at in words]
    return [*launch.grid, launch.times, launch.dynamic_lds, *(buffer.bytes for buffer in launch.buffers), *values]


def _fitting_rules(sizes: Sequence[int], values: Sequence[int], block: int) -> Iterator[_Rule]:
    """The rules that all values agree with."""
    slope, rest = divmod(values[-1] - values[0], sizes[-1] - sizes[0])
    line = _Rule(slope, values[0] - slope * sizes[0])
    candidates = [line] if rest == 0 else []
    if slope == 0 and rest:
        per_item = {block * k for k in range(1, MOST_PER_ITEM + 1)}
        divisors = sorted(per_item | {1 << k for k in range(1, 31)})
        candidates += [_Rule(divisor=divisor, up=up) for divisor in divisors for up in (True, False)]
    for rule in candidates:
        if all(rule.at(n) == value for n, value in zip(sizes, values, strict=True)):
            yield rule


def _common_contents(launches: Sequence[DeviceLaunch]) -> tuple[DeviceBuffer, ...] | None:
    """The buffers with the contents that they have at all sizes, in longer ones more of the same; None if a buffer that
    may matter holds other things at other sizes."""
    common = []
    for buffers in zip(*(launch.buffers for launch in launches), strict=True):
        contents = [launch.contents for launch in buffers if launch.contents is not None]
        longest = max(contents, key=lambda one: one.known, default=None)
        alike = len(contents) == len(buffers) and all(_begins_with(longest, launch) for launch in contents)
        matters = launches[0].by_data or len({launch.bytes for launch in buffers}) == 1
        if contents and not alike and matters:
            return None
        common.append(replace(buffers[0], contents=longest if alike else None))
    return tuple(common)


def _begins_with(longer: Contents | None, shorter: Contents) -> bool:
    """Whether contents begin with others."""
    if longer is None:
        return False
    return longer.data[: shorter.known].ljust(shorter.known, b"\0") == shorter.data.ljust(shorter.known, b"\0")
