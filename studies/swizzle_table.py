"""Writes docs/reference/swizzle.md: the ten kernels of SwizzlePerf, mapped here, beside what the paper's patterns gain.

python -m studies.swizzle_table [NAME ...]    only these rows are measured again
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.files import write_whole
from hipsynth.tuning.swizzle.documents import SwizzleStatus
from hipsynth.tuning.swizzle.search import HIT_RATE, KernelSwizzle, ProgramSwizzle, SwizzleSettings, search_mappings
from hipsynth.tuning.trial import target_of
from studies.result_origin import describe_days, record_day

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "swizzle.md"
ARCH = "gfx942"


@dataclass(frozen=True)
class SwizzleRow:
    """One kernel: its program, the arguments for the paper's size, and what the authors measured (docs/explanation)."""

    name: str
    program: str
    arguments: tuple[str, ...]
    paper: str


ROWS = (
    SwizzleRow("GEMM", "gemm/gemm_mfma_f16", ("4096",), "49.4 -> 63.5 %, 1.03 x"),
    SwizzleRow("fused element-wise", "elementwise/elementwise_fused", ("65536",), "no valid pattern gains"),
    SwizzleRow(
        "layer norm",
        "layernorm/layernorm_one_launch",
        ("8192", "8192"),
        "at its ceiling, 66.7 %; its pattern skips work",
    ),
    SwizzleRow(
        "softmax", "softmax/softmax_row_per_group", ("8192", "8192"), "at its ceiling, 33.3 %; its pattern skips work"
    ),
    SwizzleRow("SpMV", "spmv_rows/spmv_rows", ("8192",), "29.1 -> 37.3 %, 1.01 x"),
    SwizzleRow("transpose", "half_transpose/half_transpose", ("8192",), "3.5 -> 24.3 %, 1.12 x"),
    SwizzleRow("Black-Scholes", "black_scholes/black_scholes_arrays", ("262144",), "no valid pattern gains"),
    SwizzleRow("FDTD-2D", "fdtd2d/fdtd2d_three_launches", ("8192", "1"), "no gain"),
    SwizzleRow("Smith-Waterman", "smith_waterman/smith_waterman_tiles", ("4096",), "its pattern skips work"),
    SwizzleRow("stencil-2D", "half_stencil/half_stencil", ("8192",), "29.7 -> 67.6 %, 1.15 x"),
)
HEAD = """# Mappings of ten kernels

The ten kernels of SwizzlePerf (arXiv 2508.20258) as HIP programs, at the sizes of the paper's public scripts except for
GEMM, which is 4096 here and 8192 there, mapped by `synth swizzle` on gfx942 (mi300x) and measured by `python -m
studies.swizzle_table`. Programs are simulated; the paper's figures are the authors' measurements of those of their
patterns that are bijections. Their programs are written in Triton, so rates before differ. The ceiling is the largest
L2 hit rate that any mapping can have, derived in [mappings](../explanation/swizzle.md); `~` marks one that is estimated
from a sample of lines. "Ceiling" as a status: no mapping that was executed gains; the bound ignores capacity, so hits
may stay below it. "Improved": faster by over 1 %, or over a point more hits at the
same duration within 1 %. Rows without a date: seconds of 23 November 2026 on 2 cores, which were busy with
4 to 9 other processes.

| kernel | status | L2 hits | ceiling | duration, us | mapping | runs | seconds | paper | measured |
|---|---|---|---:|---|---|---:|---:|---|---|
"""
COLUMNS = 10


def measure_row(row: SwizzleRow) -> str:
    started = time.monotonic()
    path = ROOT / "corpus" / "handwritten" / f"{row.program}.hip"
    result = search_mappings(path.read_text(), SwizzleSettings(target_of(ARCH), row.arguments))
    return "\n".join(_format_line(row, answer, result, time.monotonic() - started) for answer in result.answers)


def _format_line(row: SwizzleRow, answer: KernelSwizzle, result: ProgramSwizzle, seconds: float) -> str:
    name = row.name if len(result.answers) == 1 else f"{row.name}: {answer.name}"
    link = f"[{name}](../../corpus/handwritten/{row.program}.hip)"
    before, after, day = answer.before, answer.after or answer.before, describe_days([record_day()])
    if before is None or after is None or answer.status == SwizzleStatus.REFUSED:
        return f"| {link} | refused: {answer.reason} | | | | | | {seconds:.0f} | {row.paper} | {day} |"
    hits = f"{before.metrics[HIT_RATE] or 0:.1f} %"
    duration = f"{(before.duration_ns or 0) / 1e3:.1f}"
    if answer.status == SwizzleStatus.IMPROVED:
        hits += f" -> {after.metrics[HIT_RATE] or 0:.1f} %"
        ratio = (before.duration_ns or 0) / (after.duration_ns or 1)
        duration += f" -> {(after.duration_ns or 0) / 1e3:.1f} ({ratio:.3f} x)"
    ceiling = "" if answer.ceiling is None else f"{'' if answer.exact_ceiling else '~'}{answer.ceiling:.1f} %"
    cells = [link, answer.status, hits, ceiling, duration, answer.mapping.label]
    return f"| {' | '.join(cells)} | {answer.evaluated} | {seconds:.0f} | {row.paper} | {day} |"


def read_lines() -> dict[str, str]:
    """The lines of the page, by row; those from before days were recorded have none."""
    counts: dict[str, list[str]] = {row.name: [] for row in ROWS}
    for line in PAGE.read_text().splitlines() if PAGE.exists() else ():
        match = re.match(r"\| \[([^\]:]+)", line)
        if match and match[1] in counts:
            counts[match[1]].append(line + "  |" * (COLUMNS + 1 - line.count("|")))
    return {name: "\n".join(lines) for name, lines in counts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *(row.name for row in ROWS)])
    chosen = set(parser.parse_args().names)
    lines = read_lines()
    for row in ROWS:
        if not chosen or row.name in chosen:
            lines[row.name] = measure_row(row)
            print(lines[row.name], file=sys.stderr, flush=True)
        write_page(lines)


def write_page(lines: Mapping[str, str]) -> None:
    """Writes docs/reference/swizzle.md."""
    write_whole(PAGE, HEAD + "\n".join(lines[row.name] for row in ROWS if lines[row.name]) + "\n")


if __name__ == "__main__":
    main()
