"""The first screen of a profile at a terminal: each kernel's verdict, a bar for each unit, the largest counters."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence

from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling import metrics
from hipsynth.profiling.backends.protocol import TargetResult, describe_target
from hipsynth.profiling.metrics import bottleneck
from hipsynth.profiling.reports.autotunings import list_used, tuning_lines
from hipsynth.profiling.reports.terminal import Column, verdict_lines

MOST_LINES = 25
LEAST_LINES = 3  # of a kernel: its name, its duration, its verdict
MOST_UNITS = 6
MOST_TUNED = 8  # lines of what an autotuner tried
BAR = 24  # characters
SMALLEST = 0.005  # share of the duration of a unit that is printed
FULL, EMPTY, PARTS = "█", "░", "▏▎▍▌▋▊▉"  # PARTS: eighths
NEXT = ("all counters: --counters", "per line: --lines", "what causes cost: --what-if")
SEPARATOR = " · "
_PAUSE = re.compile(r"(?<=[,;]) ")
INDENT = "  "  # of what a long line goes on with, beyond its own
Style = Callable[[str, str], str]  # text, role ("name", "bar", "note") -> text as the terminal shows it


def plain_style(text: str, _role: str) -> str:
    """The text without colours: for files, pipes and tests."""
    return text


def render_screen(results: Sequence[TargetResult], width: int = 120, style: Style = plain_style) -> str:
    """At most MOST_LINES lines of at most `width` characters: what an autotuner chose, then the kernels that take most
    time first."""
    lines = [
        _shorten_line(
            f"{describe_target(failed.arch, failed.device, failed.flags)}  {failed.status}: {failed.reason}", width
        )
        for failed in results
        if failed.status != RunStatus.OK
    ]
    columns = [Column(result, kernel) for result in results for kernel in list_used(result)]
    slowest = sorted(columns, key=lambda column: -column.kernel.duration_ns * column.kernel.dispatches)
    names = list(dict.fromkeys(column.kernel.name for column in slowest))
    ordered = [column for name in names for column in columns if column.kernel.name == name]
    room, printed = MOST_LINES - 2 - len(lines[: MOST_LINES // 2]), 0
    lines = lines[: MOST_LINES // 2]
    tuned = [_shorten_line(line, width) for result in results for line in tuning_lines(result) if line]
    lines += tuned[:MOST_TUNED]
    room -= len(tuned[:MOST_TUNED])
    share = room // max(1, len(ordered))  # of the lines, for each kernel on each target
    for column in ordered:
        if room < LEAST_LINES:
            break
        block = list(_block_lines(column, width, min(room, max(share, LEAST_LINES)), style))
        lines += block
        room, printed = room - len(block), printed + 1
    hidden = len(ordered) - printed
    note = _shorten_line(f"{hidden} more of {len(ordered)}: --kernel NAME, --top N", width) if hidden else ""
    return "\n".join([*lines, *([style(note, "note")] if note else []), style(_next_line(width), "note")])


def _next_line(width: int) -> str:
    """What else there is to see, as far as it fits."""
    parts = [NEXT[0]]
    for part in NEXT[1:]:
        if len(SEPARATOR.join([*parts, part])) <= width:
            parts.append(part)
    return _shorten_line(SEPARATOR.join(parts), width)


def _block_lines(column: Column, width: int, room: int, style: Style) -> Iterator[str]:
    """The verdict, then bars and counters as far as there is room."""
    title, *rest = _fit_lines(list(_head_lines(column)), width, room)
    yield style(title, "name")
    yield from rest
    room -= 1 + len(rest)
    counters = _counter_lines(column.kernel, width)
    bars = list(_bar_lines(column.kernel, style))[: max(1, room - len(counters))] if room > 0 else []
    yield from bars
    yield from counters[: max(0, room - len(bars))]


def _head_lines(column: Column) -> Iterator[str]:
    target, *verdict = verdict_lines(column)
    kernel = column.kernel
    yield f"{kernel.name}  {'x'.join(map(str, kernel.grid))} x {'x'.join(map(str, kernel.block))}  {target.strip()}"
    yield from (line[2:] for line in verdict)


def _fit_lines(lines: Sequence[str], width: int, room: int) -> list[str]:
    """At most `room` lines: the first is a title, which stays one; the others go on in further lines where there is
    room for these and for what follows."""
    fitting = [_shorten_line(line, width) for line in lines[:1]]
    for at, line in enumerate(lines[1:room], 1):
        wrapped = _wrap_line(line, width)
        following = min(len(lines), room) - at - 1
        fitting += wrapped if len(fitting) + len(wrapped) + following <= room else [_shorten_line(line, width)]
    return fitting


def _wrap_line(line: str, width: int) -> list[str]:
    """Lines that end with a comma or semicolon; with a word where the next one is too far."""
    indent = line[: len(line) - len(line.lstrip())] + INDENT
    lines: list[str] = []
    for part in _PAUSE.split(line):
        if lines and len(lines[-1]) + 1 + len(part) <= width:
            lines[-1] += f" {part}"
        else:
            first = indent if lines else ""
            lines += textwrap.wrap(part, width, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False)
    return lines


def _shorten_line(line: str, width: int) -> str:
    """The line, or its first words and a mark."""
    if len(line) <= width:
        return line
    words = line[: width - 1].rsplit(" ", 1)[0].rstrip(" ,;") if line[width - 1] != " " else line[: width - 1]
    return (words if words.strip() else line[: width - 1]) + "…"


def _bar_lines(kernel: KernelRecord, style: Style) -> Iterator[str]:
    """What each unit alone would need, as a share of the duration."""
    bounds = [bound for bound in bottleneck.rank_bounds(kernel) if bound.share >= SMALLEST][:MOST_UNITS]
    size = max((len(bound.name) for bound in bounds), default=0)
    for bound in bounds:
        yield f"  {bound.name:<{size}}  {style(draw_bar(bound.share), 'bar')} {100 * bound.share:3.0f} %"


def draw_bar(share: float, size: int = BAR) -> str:
    """A bar of `size` characters that is full at a share of one."""
    eighths = round(8 * size * min(1.0, max(0.0, share)))
    cells, eighth = divmod(eighths, 8)
    return (FULL * cells + (PARTS[eighth - 1] if eighth else "")).ljust(size, EMPTY)


def _counter_lines(kernel: KernelRecord, width: int) -> list[str]:
    """The largest counters, two in a line."""
    table = metrics.metric_table().counters
    counts = {name: value for name, value in kernel.counters.items() if name in table and table[name].show and value}
    top = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:4]
    cells = [f"{name} {value:,.0f}" for name, value in top]
    size = max(map(len, cells), default=0)
    if 2 * size + 6 > width:
        return [_shorten_line(f"  {cell}", width) for cell in cells]
    return [
        f"  {'    '.join(cell.ljust(size) for cell in cells[at : at + 2])}".rstrip() for at in range(0, len(cells), 2)
    ]
