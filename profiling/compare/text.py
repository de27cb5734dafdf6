"""A comparison as text for terminals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hipsynth.profiling import metrics
from hipsynth.profiling.backends.protocol import describe_target
from hipsynth.profiling.compare.differ import describe_change, format_change
from hipsynth.profiling.compare.documents import (
    CompareDocument,
    DurationPair,
    KernelPair,
    LinePair,
    QuantityPair,
    TargetName,
    TargetPair,
)
from hipsynth.profiling.reports.numbers import format_number, format_quantity, unit_prefix

LINE_WIDTH = 120
TOP_LINES = 12  # of a kernel, those whose time changed most
LINE_SHOWN = 0.01  # of a kernel's time: smaller changes of a line are not listed
LEAST_LISTED_PERCENT = 0.5  # smaller changes of a quantity are not listed
# The same number under several names, and the duration, which is the first line.
REPEATED = frozenset({"L1_Cache_GFLOPS", "L2_Cache_GFLOPS", "Duration"})
Row = tuple[str, str, str, str]
LEGEND = (
    "±: 8 of 10 ratios of recorded kernels on one device are nearer to the hardware; between devices, their own ranges."
)


def comparison_lines(document: CompareDocument, counters: bool = False) -> list[str]:
    """All targets and kernels. `counters`: all that changed, instead of those that explain a duration."""
    lines = [f"A: {document.a.source}", f"B: {document.b.source}"]
    for target in document.targets:
        lines += ["", _target_text(target.a, target.b), *failure_lines(target)]
        for kernel in target.kernels:
            lines += ["", *_kernel_lines(kernel, counters)]
        for side, names in (("A", target.only_a), ("B", target.only_b)):
            lines += [f"only in {side}: {name}" for name in names]
        if target.total is not None and len(target.kernels) + len(target.only_a) + len(target.only_b) > 1:
            lines += ["", f"all kernels: {_duration_text(target.total)}", f"  {describe_change(target.total)}"]
    for side, targets in (("A", document.only_a), ("B", document.only_b)):
        lines += [f"only {side} was profiled for {_name_target(target)}" for target in targets]
    if any(kernel.duration.uncertainty_percent for target in document.targets for kernel in target.kernels):
        lines += ["", LEGEND]
    return lines


def failure_lines(target: TargetPair) -> list[str]:
    """A sentence for each side that failed or did not run to its end."""
    sides = (("A", target.failure_a), ("B", target.failure_b))
    return [f"{side} failed; only what it launched before is compared: {text}" for side, text in sides if text]


def _name_target(target: TargetName) -> str:
    return describe_target(target.arch, target.device, target.flags)


def _target_text(a: TargetName, b: TargetName) -> str:
    return _name_target(a) if a == b else f"A on {_name_target(a)}  |  B on {_name_target(b)}"


def _duration_text(pair: DurationPair) -> str:
    times = "" if pair.verdict == "equal" else f"  ({pair.speedup:.2f}x as fast)"
    return f"{format_quantity(pair.a_ns, 'ns')} -> {format_quantity(pair.b_ns, 'ns')}{times}"


def _kernel_lines(kernel: KernelPair, counters: bool) -> Iterator[str]:
    name = kernel.name if kernel.name == kernel.name_b else f"{kernel.name} -> {kernel.name_b} (paired by order)"
    yield f"{name}  {_shape_text(kernel)}"
    if specialized := meta_text(kernel):
        yield f"  {specialized}"
    yield f"  {kernel.summary}"
    yield f"  {_duration_text(kernel.duration)}"
    if kernel.limit_a or kernel.limit_b:
        if kernel.limit_a == kernel.limit_b:
            yield f"  both {kernel.limit_a}"
        else:
            yield from (f"  {side} {text}" for side, text in (("A", kernel.limit_a), ("B", kernel.limit_b)) if text)
    rows = [*metric_rows(kernel), *counter_rows(kernel, counters)]
    if rows:
        yield from _table([("", "A", "B", "change"), *rows])
    changed = changed_lines(kernel)[:TOP_LINES]
    if changed:
        yield "  by source line, the most changed first"
        yield from _line_table(kernel, changed)


def meta_text(kernel: KernelPair) -> str:
    """What the two were specialized for: "triton: BLOCK=128 -> 64, num_warps=4"; "" for HIP."""
    if kernel.meta is None:
        return ""
    languages = dict.fromkeys(language or "HIP" for language in (kernel.language_a, kernel.language_b))
    values = dict[str, tuple[bool | int | str | None, ...]]()
    for name, pair in kernel.meta.items():
        only_one = pair.a if kernel.language_a else pair.b
        values[name] = (only_one,) if len(languages) > 1 else (pair.a, pair.b)
    return f"{' -> '.join(languages)}: " + ", ".join(f"{name}={_values_text(*both)}" for name, both in values.items())


def _values_text(*values: bool | int | str | None) -> str:
    return " -> ".join(dict.fromkeys("-" if value is None else str(value) for value in values))


def changed_lines(kernel: KernelPair) -> list[LinePair]:
    """The lines whose time changed, the most first."""
    least = LINE_SHOWN * max(kernel.duration.a_ns, kernel.duration.b_ns)
    changed = [pair for pair in kernel.lines or () if abs(pair.b_ns - pair.a_ns) >= least]
    return sorted(changed, key=lambda pair: -abs(pair.b_ns - pair.a_ns))


def line_place(pair: LinePair) -> str:
    """The numbers of a line in A and B: "12", "12 -> 14", "- -> 14" for one that only B has."""
    numbers = ["-" if number is None else str(number) for number in (pair.line_a, pair.line_b)]
    return " -> ".join(dict.fromkeys(numbers))


def line_cells(kernel: KernelPair, pair: LinePair) -> tuple[str, str, str]:
    """A line's time in A and in B, and the change."""
    factor, prefixed = unit_prefix([kernel.duration.a_ns, kernel.duration.b_ns], "ns")
    return (
        f"{pair.a_ns / factor:.3g} {prefixed}" if pair.line_a else "",
        f"{pair.b_ns / factor:.3g} {prefixed}" if pair.line_b else "",
        f"{(pair.b_ns - pair.a_ns) / factor:+.3g} {prefixed}",
    )


def _line_table(kernel: KernelPair, pairs: Sequence[LinePair]) -> Iterator[str]:
    rows = [("A", "B", "change", "line", "")]
    rows += [(*line_cells(kernel, pair), line_place(pair), pair.text.strip()) for pair in pairs]
    sizes = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = "  ".join(f"{text:>{size}}" for text, size in zip(row[:4], sizes, strict=True))
        yield f"    {cells}  {row[4]}".rstrip()[:LINE_WIDTH]


def _shape_text(kernel: KernelPair) -> str:
    shapes = [
        f"grid {'x'.join(map(str, grid))} block {'x'.join(map(str, block))} {times} x"
        for grid, block, times in (
            (kernel.grid_a, kernel.block_a, kernel.dispatches_a),
            (kernel.grid_b, kernel.block_b, kernel.dispatches_b),
        )
    ]
    return " -> ".join(dict.fromkeys(shapes))


def metric_rows(kernel: KernelPair) -> Iterator[Row]:
    """(name and unit, A, B, change) of each metric that changed."""
    table = metrics.metric_table().metrics
    for name, pair in kernel.metrics.items():
        if name in REPEATED or name not in table or not is_notable(pair):
            continue
        if (pair.a is None or pair.b is None) and table[name].is_simulator_only:
            continue  # the other side was measured
        unit = table[name].unit
        factor, prefixed = unit_prefix([value for value in (pair.a, pair.b) if value is not None], unit)
        title = f"{name} {prefixed}".strip()
        yield title, _cell_text(pair.a, factor), _cell_text(pair.b, factor), change_text(pair, unit)


def counter_rows(kernel: KernelPair, all_of_them: bool) -> Iterator[Row]:
    """(name, A, B, change) of the counters that explain the duration, or of all that changed."""
    causes = {cause.counter for cause in kernel.causes}
    for name, pair in kernel.counters.items():
        if name in causes or (all_of_them and is_notable(pair)):
            yield (
                name,
                _cell_text(pair.a, 1, is_count=True),
                _cell_text(pair.b, 1, is_count=True),
                change_text(pair, ""),
            )


def is_notable(pair: QuantityPair) -> bool:
    """Whether a quantity changed by so much that it is listed."""
    if pair.a is None or pair.b is None:
        return pair.a != pair.b
    return pair.a != pair.b and (pair.change_percent is None or abs(pair.change_percent) >= LEAST_LISTED_PERCENT)


def change_text(pair: QuantityPair, unit: str) -> str:
    """The change of a quantity: points of percentages, else per cent, or a factor where it is large."""
    if pair.a is None or pair.b is None:
        return ""
    if unit == "%":
        return f"{pair.b - pair.a:+.3g} pt"
    return "new" if pair.change_percent is None else format_change(pair.change_percent)


def _cell_text(value: float | None, factor: float, is_count: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if is_count else format_number(value / factor)


def _table(rows: Sequence[Row]) -> Iterator[str]:
    sizes = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = "".join(f"  {text:>{size}}" for text, size in zip(row[1:], sizes[1:], strict=True))
        yield f"    {row[0]:<{sizes[0]}}{cells}".rstrip()
