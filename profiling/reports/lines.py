"""Counters per source line as text: the source with a heat column, the lines that cost most, and the loops."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.core.files import SOURCE_BYTES, read_regular
from hipsynth.profiling.backends.protocol import TargetResult, describe_target
from hipsynth.profiling.lines.line_records import Amounts, KernelLines, SourceLine
from hipsynth.profiling.reports.numbers import format_number

HEAT = 6  # width of the bar in characters, for the whole time
TOP = 5  # lines that are listed first
CONTEXT = 1  # lines of source shown before and after those with instructions
COLUMNS = (
    ("instr", 6),
    ("bytes", 6),
    ("vL1D", 6),
    ("miss", 5),
    ("L2miss", 6),
    ("confl", 6),
    ("stalls", 6),
)
LEGEND = (
    "share: of the kernel's time, by the units that bound it. Per dispatch: wave instructions, bytes requested,",
    "vL1D look-ups and their misses, L2 misses, LDS bank-conflict cycles, cycles that waves wait for memory and LDS,",
    "attributed to the accesses waited for, in proportion to their latencies (docs/explanation/lines.md).",
)


def lines_listing(results: Sequence[TargetResult], width: int = 120) -> str:
    """The lines of all kernels of all targets, at most `width` columns wide."""
    parts: list[str] = []
    for result in results:
        names = {kernel.symbol: kernel.name for kernel in result.kernels}
        for kernel in result.lines:
            target = describe_target(result.arch, result.device, result.flags)
            parts += ["", f"{names[kernel.symbol]}  by source line, {target}"]
            parts += _kernel_lines(kernel, width)
    return "\n".join([*parts, "", *LEGEND]).strip("\n")


def _kernel_lines(kernel: KernelLines, width: int) -> Iterator[str]:
    ranked = sorted((line for line in kernel.lines if line.line), key=lambda line: -line.amounts.share)
    yield "  costs most: " + ", ".join(
        f"{_short_place(line)} {100 * line.amounts.share:.0f} %" for line in ranked[:TOP] if line.amounts.share >= 0.005
    )
    if kernel.outside:
        yield f"  not attributed, since no instruction was seen to cause it: {', '.join(kernel.outside)}"
    yield ""
    yield "  " + table_head()
    for file in dict.fromkeys(line.file for line in kernel.lines if line.line):
        yield f"  {file}"
        yield from _file_lines([line for line in kernel.lines if line.file == file], source_lines(file), width)
    for line in kernel.lines:
        if not line.line:
            yield f"  {line_cells(line.amounts)}        (no line)"
    if kernel.loops:
        yield "  loops, inner ones included"
    for loop in kernel.loops:
        inner = "  " * (loop.depth - 1)
        place = f"{inner}{place_text(loop.file, loop.line)}"
        yield f"  {line_cells(loop.amounts)}  {place}  {format_number(loop.passes)} passes of waves"


def _short_place(line: SourceLine) -> str:
    return place_text(line.file, line.line)


def place_text(file: str, line: int) -> str:
    """ "kernel.hip:12", without folders."""
    return f"{Path(file).name}:{line}" if line else "(no line)"


def source_lines(file: str) -> list[str]:
    """The text of a source file; nothing if it cannot be read."""
    try:
        return read_regular(Path(file), SOURCE_BYTES).decode(errors="replace").splitlines()
    except (BadInput, OSError):
        return []


def _file_lines(lines: Sequence[SourceLine], text: Sequence[str], width: int) -> Iterator[str]:
    costs = {line.line: line.amounts for line in lines}
    blank = " " * len(table_head())
    for row in select_lines(costs, text, CONTEXT):
        if row is None:
            yield f"  {blank}    ..."
            continue
        number, source = row
        cells = line_cells(costs[number]) if number in costs else blank
        yield f"  {cells}  {number:>5} {source}".rstrip()[:width]


def select_lines(numbers: Collection[int], text: Sequence[str], context: int) -> Iterator[tuple[int, str] | None]:
    """The lines of a text with these numbers (from 1), and up to `context` before and after each: number and content,
    "" beyond the text. None stands for lines left out between two of them."""
    nearby = sorted({n for line in numbers for n in range(line - context, line + context + 1) if n > 0})
    listed = [n for n in nearby if n <= len(text) or n in numbers]
    for before, number in zip([*listed[:1], *listed], listed, strict=False):
        if number > before + 1:
            yield None
        yield number, text[number - 1].expandtabs(4) if number <= len(text) else ""


def table_head() -> str:
    """The titles above line_cells()."""
    return f"{'share':>7} {'':<{HEAT}}" + "".join(f" {name:>{size}}" for name, size in COLUMNS)


def line_cells(a: Amounts) -> str:
    """The share of the time with its bar, and a column for each count."""
    missed = f"{100 * a.misses / a.accesses:.0f} %" if a.accesses else ""
    values = (a.instructions, a.bytes + a.lds_bytes, a.accesses, missed, a.l2_misses, a.bank_conflicts, a.stall_cycles)
    texts: Iterable[str] = (
        value if isinstance(value, str) else compact_count(value) if value else "" for value in values
    )
    columns = "".join(f" {text:>{size}}" for text, (_, size) in zip(texts, COLUMNS, strict=True))
    return share_cells(a.share) + columns


def share_cells(share: float) -> str:
    """A share of the time, with its bar."""
    return f"{100 * share:5.1f} % {heat_bar(share):<{HEAT}}"


def compact_count(value: float) -> str:
    """A count in at most six characters: 12,345,678 -> "12.3M"."""
    for least, factor, suffix in ((1e12, 1e12, "T"), (1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if value >= least:
            return format_number(value / factor, 3) + suffix
    return format_number(value, 3) if value < 100 else f"{value:.0f}"


def heat_bar(share: float) -> str:
    """A bar for a share of the time: HEAT characters for all of it, in eighths of a character."""
    eighths = round(8 * HEAT * min(max(share, 0.0), 1.0))
    return "█" * (eighths // 8) + ("▏▎▍▌▋▊▉"[eighths % 8 - 1] if eighths % 8 else "")
