"""The machine code and the TTGIR of kernels as text, beside what source lines and instructions cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hipsynth.profiling.backends.protocol import TargetResult, describe_target
from hipsynth.profiling.lines.line_records import KernelLines
from hipsynth.profiling.reports.lines import HEAT, line_cells, place_text, share_cells, source_lines, table_head


def assembly_listing(results: Sequence[TargetResult]) -> str:
    """The instructions that ran, of all kernels of all targets, in the order of addresses, below their source lines."""
    parts: list[str] = []
    for title, kernel in _titled_kernels(results):
        parts += ["", f"{title}  machine code", "", f"  {table_head()}  address"]
        parts += _assembly_lines(kernel)
    return "\n".join(parts).strip("\n")


def ttgir_listing(results: Sequence[TargetResult]) -> str:
    """The TTGIR of all kernels that have one. The first operation of each stretch of a source line has that line's
    share of the time, which is of all its stretches together."""
    parts: list[str] = []
    for title, kernel in _titled_kernels(results):
        if not kernel.operations:
            continue
        parts += ["", f"{title}  TTGIR, with the shares of its source lines", "", f"  {'share':>7} {'':<{HEAT}}   line"]
        parts += _operation_lines(kernel)
    return "\n".join(parts or ["no TTGIR: it is of Triton kernels, in Python scripts"]).strip("\n")


def _titled_kernels(results: Sequence[TargetResult]) -> Iterator[tuple[str, KernelLines]]:
    for result in results:
        target = describe_target(result.arch, result.device, result.flags)
        names = {kernel.symbol: kernel.name for kernel in result.kernels}
        for kernel in result.lines:
            yield f"{names[kernel.symbol]}  {target}", kernel


def _assembly_lines(kernel: KernelLines) -> Iterator[str]:
    texts = {file: source_lines(file) for file in {row.file for row in kernel.instructions if row.line}}
    before = ("", -1)
    for row in kernel.instructions:
        if (row.file, row.line) != before:
            before = (row.file, row.line)
            text = texts.get(row.file, [])
            source = text[row.line - 1].strip() if 0 < row.line <= len(text) else ""
            yield f"  {place_text(row.file, row.line)}  {source}".rstrip()
        yield f"  {line_cells(row.amounts)}  {row.address:>7x} {row.text}"


def _operation_lines(kernel: KernelLines) -> Iterator[str]:
    shares = {(line.file, line.line): line.amounts.share for line in kernel.lines if line.line}
    before = ("", 0)
    for row in kernel.operations:
        place = (row.file, row.line)
        cells = share_cells(shares[place]) if place != before and place in shares else " " * len(share_cells(0))
        before = place if row.line else before
        yield f"  {cells}  {row.line or '':>5} {row.text}".rstrip()
