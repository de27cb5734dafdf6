"""Profile results as text: per kernel, what limits it on each target, then metrics and counters of all targets."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.name_patterns import matches_any
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling import metrics
from hipsynth.profiling.backends.protocol import TargetResult, describe_target
from hipsynth.profiling.metrics import bottleneck, roofline, uncertainty
from hipsynth.profiling.reports.autotunings import list_used, tuning_lines
from hipsynth.profiling.reports.numbers import format_number, format_percent, format_quantity, unit_prefix
from hipsynth.profiling.reports.rates import level_rates
from hipsynth.profiling.uncertainty import expected_error

# Not in the table: the duration is printed above it.
HIDDEN = metrics.EQUAL_TO_THROUGHPUT | {"Duration"}
NO_EVIDENCE = "no evidence"
Cell = tuple[str, str]  # value, expected error
TABLE_LABEL, TABLE_CELL = 54, 26  # usual width in characters of a table's names and units, and of each column
WORTH_SAYING = 0.02  # smallest sampling error of a counter that is mentioned
KINDS = "SQ_INSTS_VALU_"  # counters of the kinds of vector and matrix instructions
PACKED_RATIO = 1.5  # operations to what counters see of them, above which a kernel computes with packed instructions
MOST_SHAPES = 6  # of a kernel, that are listed
MOST_KERNELS_WITH_COUNTERS = 3  # up to this number of kernels, counters are shown by default


LEGEND = (
    "±: 80 % of the recorded kernels of this class are nearer to the hardware (constants fitted without them), plus",
    "the sampling error; ~: few such kernels, a wider range; docs/explanation/validation/leave-one-out.md",
    "Rates beside peaks count the bytes that move; L1_ and L2_Cache_Bandwidth, the vendor's, a whole line a request.",
    "Shares of the duration: what each unit alone would need; units work at the same time, so shares overlap.",
)


@dataclass(frozen=True)
class TableChoice:
    """What tables of metrics and counters hold: `counters` at all, `every` one that is not zero, those that match
    one of `patterns`, or all."""

    counters: bool
    every: bool = False
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """A kernel on one target."""

    result: TargetResult
    kernel: KernelRecord

    @property
    def title(self) -> str:
        return f"{self.result.arch} ({self.result.device})"

    @functools.cached_property
    def unrecorded_features(self) -> list[str]:
        """Features of the kernel that no recorded kernel of the architecture has."""
        return expected_error.without_evidence(self.kernel.counters, self.result.device, self.kernel.duration_ns)

    @functools.cached_property
    def metric_errors(self) -> dict[str, float]:
        """Metric id -> sampling error in the metric's unit."""
        return uncertainty.metric_errors(self.kernel, self.result.arch, self.bounds)

    @functools.cached_property
    def bounds(self) -> dict[str, float]:
        """Counter or "Duration" -> relative error that sampling adds."""
        return uncertainty.metric_error_bounds(self.kernel.error_estimate)

    def scaling_error(self, name: str, unit: str) -> float:
        """Sampling error of a metric, a counter or the duration, in "points" or in "%" of its value."""
        value = self.kernel.metrics.get(name)
        if name == "Duration" or name not in self.kernel.metrics:
            return 100 * self.bounds.get(name, 0.0)
        error = self.metric_errors.get(name, 0.0)
        return error if unit == "points" or not value else 100 * error / abs(value)


def render_results(
    results: Sequence[TargetResult], width: int = 120, counters: bool | None = None, patterns: Sequence[str] = ()
) -> str:
    """All kernels of all targets; tables are wrapped at about `width` columns, and have the metrics and counters that
    match one of `patterns` (all if there are none).

    `counters`: whether to show all that are not zero; None: the most telling ones, if there are at
    most MOST_KERNELS_WITH_COUNTERS kernels.
    """
    lines: list[str] = []
    for result in results:
        if result.status != RunStatus.OK:
            target = describe_target(result.arch, result.device, result.flags)
            lines.append(f"{target}  {result.status}: {result.reason}")
    names = dict.fromkeys(kernel.name for result in results for kernel in result.kernels)
    if len(names) > 1:
        lines += ["", *_overview_lines(results, list(names))]
    for result in results:
        lines += tuning_lines(result)
    full = len(names) <= MOST_KERNELS_WITH_COUNTERS if counters is None else counters
    choice = TableChoice(full or bool(patterns), counters is True or bool(patterns), tuple(patterns))
    for name in names:
        columns = [Column(result, kernel) for result in results for kernel in list_used(result) if kernel.name == name]
        lines += ["", *_kernel_lines(name, columns, width, choice)]
    unused = sum(len(result.kernels) - len(list_used(result)) for result in results)
    if unused:
        lines += ["", f"{unused} builds that were tried and not chosen: the table above; their metrics: --json, --html"]
    for result in results:
        if result.transfers:
            lines += ["", *_transfer_lines(result)]
        if result.host_operators:
            calls = ", ".join(f"{count} x {name}" for name, count in result.host_operators.items())
            title = f"{result.arch} ({result.device})"
            lines += ["", f"PyTorch's operators on the CPU  {title}, in none of these times: {calls}"]
    simulated = any(kernel.source.kind == "executed" for result in results for kernel in result.kernels)
    if simulated:
        lines += ["", *LEGEND]
    if counters is None and not full and not patterns:
        lines.append("Counters of every kernel: --counters")
    return "\n".join(lines).strip("\n")


def _transfer_lines(result: TargetResult) -> Iterator[str]:
    """Copies and fills, of which the host may wait for some; kernels may run at the same time."""
    yield f"copies and fills  {result.arch} ({result.device})"
    for row in result.transfers:
        size, spent, rate = (
            format_quantity(row.bytes / 1e6, "MB"),
            format_quantity(row.ns, "ns"),
            format_quantity(row.bytes / row.ns, "GB/s") if row.ns else "-",
        )
        yield f"  {row.kind.replace('_', ' '):<17} {row.count} x, {size} in {spent}, {rate}"
    if result.kernels and result.clock_ns:
        kernels = format_quantity(sum(kernel.duration_ns * kernel.dispatches for kernel in result.kernels), "ns")
        total = format_quantity(result.clock_ns, "ns")
        parts = f"from the first operation to the last; kernels one by one, {kernels}; host code: 0"
        yield f"  {'in all':<17} {total} {parts}"


def _overview_lines(results: Sequence[TargetResult], names: Sequence[str]) -> Iterator[str]:
    """The share of each kernel in a target's total kernel time."""
    width = max(len(name) for name in names)
    measured = [result for result in results if result.kernels]
    head = [describe_target(result.arch, result.device, result.flags) for result in measured]
    size = max(24, *(len(text) for text in head))
    yield f"{'kernel time':<{width}}" + "".join(f"  {text:>{size}}" for text in head)
    for name in names:
        cells = []
        for result in measured:
            total = sum(k.duration_ns * k.dispatches for k in result.kernels)
            kernels = [k for k in result.kernels if k.name == name]
            spent = sum(k.duration_ns * k.dispatches for k in kernels)
            times = sum(k.dispatches for k in kernels)
            share = 100 * spent / total if total else 0.0  # a program may have forged durations of zero
            cells.append(f"{times} x {format_quantity(spent / times, 'ns')} {share:4.0f} %" if kernels else "-")
        yield f"{name:<{width}}" + "".join(f"  {text:>{size}}" for text in cells)


def _kernel_lines(name: str, columns: Sequence[Column], width: int, choice: TableChoice) -> Iterator[str]:
    shapes = dict.fromkeys(_launch_shape(column.kernel) for column in columns)
    yield f"{name}  " + "; ".join(shapes)
    for column in columns:
        yield from verdict_lines(column)
    fitting = max(1, (width - TABLE_LABEL) // TABLE_CELL)
    for first in range(0, len(columns), fitting):
        yield ""
        yield from _metric_table(columns[first : first + fitting], choice)


def _launch_shape(kernel: KernelRecord) -> str:
    times = f"{kernel.dispatches} dispatch{'' if kernel.dispatches == 1 else 'es'}"
    varies = "" if kernel.same_shape else " (the first; others differ)"
    return f"grid {_format_dims(kernel.grid)}  block {_format_dims(kernel.block)}{varies}  {times}"


def _shape_lines(column: Column) -> Iterator[str]:
    """The times of a kernel's launches by grid, block and LDS, the longest in all first; none if all are of one."""
    shapes = [shape for shape in column.result.shapes if shape.symbol == column.kernel.symbol]
    shapes.sort(key=lambda shape: -shape.duration_ns * shape.dispatches)
    lds_differs = len({_count_lds_bytes(shape) for shape in shapes}) > 1
    for shape in shapes[:MOST_SHAPES]:
        lds = f"  {_count_lds_bytes(shape):,.0f} B LDS" if lds_differs else ""
        launches = (
            f"grid {_format_dims(shape.grid)}  block {_format_dims(shape.block)}{lds}" if shape.same_shape else "others"
        )
        yield f"      {launches}  {shape.dispatches} x {format_quantity(shape.duration_ns, 'ns')}"
    if len(shapes) > MOST_SHAPES:
        yield f"      and {len(shapes) - MOST_SHAPES} more; --json has all"


def _count_lds_bytes(kernel: KernelRecord) -> float:
    return kernel.registers.lds_bytes if kernel.registers else 0.0


def _format_dims(dims: Sequence[int]) -> str:
    return "x".join(str(n) for n in dims)


def verdict_lines(column: Column) -> Iterator[str]:
    """Duration, bottleneck, occupancy, registers, and achieved fractions of the device's peak rates."""
    kernel, device = column.kernel, column.result.device
    simulated = kernel.source.kind == "executed"
    error = _error_text("Duration", column) if simulated else kernel.source.kind
    each = " each" if kernel.dispatches > 1 else ""
    yield f"  {column.title}  {column.result.flags}"
    if kernel.meta:
        yield f"    {kernel.language}: {', '.join(f'{name}={value}' for name, value in kernel.meta.items())}"
    yield f"    {format_quantity(kernel.duration_ns, 'ns')}{each}  {error}"
    yield from _shape_lines(column)
    if kernel.sampling is not None and kernel.sampled:
        part = _simulated_part(kernel, kernel.sampling.groups_simulated)
        yield f"    {_sampling_text(column, part) if simulated else f'from {part}, interpreted'}"
    verdict = _bottleneck_text(kernel, device) if kernel.limits is not None else ""
    position = roofline.locate_kernel(kernel.metrics, device, kernel.counters)
    yield f"    {verdict or roofline.describe_position(position)}"
    room = bottleneck.simd_occupancy(kernel, device)
    if room is not None:
        yield f"    {room}; {_resource_text(kernel)}"
    peaks = list(_peak_lines(column))
    if peaks:
        yield f"    {', '.join(peaks)}"
    if simulated and column.unrecorded_features == [expected_error.NO_RECORDING]:
        yield f"    * {expected_error.NO_RECORDING} ({column.result.arch}): every range is a guess"
    elif simulated and column.unrecorded_features:
        unlike = ", ".join(column.unrecorded_features)
        yield f"    * unlike every recorded {column.result.arch} kernel: {unlike}; errors may be larger"


def _bottleneck_text(kernel: KernelRecord, device: str) -> str:
    return bottleneck.summarise_bounds(bottleneck.rank_bounds(kernel), bottleneck.latency_breakdown(kernel, device))


def _simulated_part(kernel: KernelRecord, simulated: int) -> str:
    """Names the simulated work-groups; of launches of different grids only their number is known."""
    groups = math.prod(kernel.grid) * kernel.dispatches
    if not kernel.same_shape:
        return f"{simulated:,} work-groups of all launches"
    return (
        f"{simulated:,} of {groups:,} work-groups"
        if simulated < groups
        else f"a part of each of {groups:,} work-groups"
    )


def _sampling_text(column: Column, part: str) -> str:
    """Describes the sampling, and the error that it adds to the duration and to the least certain metric."""
    sampling = column.kernel.sampling
    if sampling is not None and sampling.strategy == "replayed":
        groups = f"{sampling.groups_simulated:,} work-groups"
        return f"all {groups} do the same and were replayed, which computes no results (--exact runs them)"
    if sampling is not None and sampling.error and not any(sampling.error.values()):
        return "a sample said too little, so all work-groups ran for the counters, not the results (--exact: for both)"
    worst, name = max(
        ((_sampling_error(column, metric), metric) for metric in column.metric_errors.keys() - HIDDEN),
        default=(0.0, ""),
    )
    least = f"; least certain: {name} {format_percent(worst)}" if worst >= WORTH_SAYING else ""
    error = format_percent(column.bounds.get("Duration", 0.0))
    more = "--effort N takes up to N times as long, --exact runs all"
    equal = ", which all do the same and were replayed" if sampling is not None and sampling.groups_recorded else ""
    return f"scaled up from {part}{equal}; duration {error} uncertain by that{least} ({more})"


def _sampling_error(column: Column, metric: str) -> float:
    """The sampling error of a metric, relative to its value; of a hit rate, to 100 %."""
    value = column.kernel.metrics.get(metric)
    full = 100.0 if metrics.metric_table().metrics[metric].unit == "%" else abs(value or 0.0)
    return column.metric_errors[metric] / full if full else 0.0


def _resource_text(kernel: KernelRecord) -> str:
    """Registers and memory of the kernel, as far as the backend reports them."""
    if (registers := kernel.registers) is None:
        return ""
    parts = [
        f"{registers.vgprs:g} VGPRs",
        *([f"{registers.agprs:g} AGPRs"] if registers.agprs else []),
        f"{registers.sgprs:g} SGPRs",
    ]
    for size, name in ((registers.lds_bytes, "LDS per group"), (registers.scratch_bytes, "scratch per lane")):
        if size:
            parts.append(f"{size:,.0f} B {name}")
    return ", ".join(parts)


def _peak_lines(column: Column) -> Iterator[str]:
    """Achieved and peak rate of each level that the kernel uses."""
    kernel, device = column.kernel, column.result.device
    for rate in level_rates(kernel, device):
        if rate.gbps:
            yield _of_peak(rate.level, rate.gbps, rate.peak, "GB/s")
    yield from _compute_line(kernel, device)


def _compute_line(kernel: KernelRecord, device: str) -> Iterator[str]:
    """Achieved and peak rate of the number format of most floating-point operations."""
    gflops, exact = kernel.metrics.get(roofline.THROUGHPUT), kernel.metrics.get("Exact_GFLOPS")
    if matrix := roofline.matrix_format(kernel.counters):
        peak, rate = roofline.matrix_peaks(device).get(matrix), exact or gflops
        if peak and rate:
            yield _of_peak(matrix, rate, peak, "GFLOP/s")
        return
    if not gflops:
        return
    kind = _number_format(kernel.counters)
    if exact is not None and exact > PACKED_RATIO * gflops:  # counters see a packed instruction as one
        yield _of_peak(f"packed {kind}", exact, roofline.packed_peak(device), "GFLOP/s")
    else:
        ceilings = roofline.device_ceilings(device).compute
        yield _of_peak(kind, gflops, ceilings.get(kind, ceilings["FP32"]), "GFLOP/s")


def _number_format(counters: Mapping[str, float]) -> str:
    """The number format of most floating-point instructions, which selects the compute ceiling."""
    kinds = {
        kind: sum(counters.get(f"SQ_INSTS_VALU_{op}_F{kind[2:]}", 0) for op in ("ADD", "MUL", "FMA"))
        for kind in ("FP32", "FP64", "FP16")
    }
    return max(kinds, key=lambda kind: kinds[kind])


def _of_peak(name: str, value: float, peak: float, unit: str) -> str:
    factor, peak_text = unit_prefix([peak], unit)
    reached, possible = format_number(value / factor, 3), format_number(peak / factor, 3)
    return f"{name} {reached} of {possible} {peak_text} ({format_percent(value / peak)})"


def _metric_table(columns: Sequence[Column], choice: TableChoice) -> Iterator[str]:
    """Table of the paper's metrics, our metrics and counters, one column per target."""
    facts = metrics.metric_table().metrics
    own_metrics = [metric for metric in metrics.extra_ids() if facts[metric].own]
    blocks = [
        list(_metric_rows(columns, [metric for metric in metrics.all_ids() if metric not in own_metrics])),
        list(_metric_rows(columns, own_metrics)),
        list(_counter_rows(columns, choice.every)) if choice.counters else [],
    ]
    blocks = [[row for row in block if matches_any(row[0], choice.patterns)] for block in blocks]
    rows = [row for block in blocks for row in block]
    if not rows:
        yield "    (nothing of this kernel matches)"
        return
    names, units = (max(len(row[i]) for row in rows) for i in (0, 1))
    values, errors = ([max(len(row[2][n][i]) for row in rows) for n in range(len(columns))] for i in (0, 1))
    heads = [[column.title for column in columns], [column.result.flags for column in columns]]
    sizes = [max(v + 1 + e, *(len(h[n]) for h in heads)) for n, (v, e) in enumerate(zip(values, errors, strict=True))]
    if len(columns) > 1:
        for head in heads:
            cells = "".join(f"  {text:>{size}}" for text, size in zip(head, sizes, strict=True))
            yield " " * (names + units + 5) + cells
    for block in filter(None, blocks):
        if block is not next(filter(None, blocks)):
            yield ""
        for name, unit, row in block:
            parts = [f"{cell[0]:>{v}} {cell[1]:<{e}}" for cell, v, e in zip(row, values, errors, strict=True)]
            text = "".join(f"  {part:>{size}}" for part, size in zip(parts, sizes, strict=True))
            yield f"    {name:<{names}} {unit:<{units}}{text}".rstrip()


def _metric_rows(columns: Sequence[Column], wanted: Sequence[str]) -> Iterator[tuple[str, str, list[Cell]]]:
    """Rows of metrics: the paper's twelve always, others only if known and not zero."""
    facts = metrics.metric_table().metrics
    for metric in wanted:
        values = [column.kernel.metrics.get(metric) for column in columns]
        if metric in HIDDEN or (facts[metric].scale is None and not any(values)):
            continue
        factor, unit = unit_prefix([value for value in values if value is not None], facts[metric].unit)
        cells = [(_value_text(v, factor), _cell_error(metric, v, c)) for v, c in zip(values, columns, strict=True)]
        yield metrics.display_name(metric), unit, cells


def _cell_error(metric: str, value: float | None, column: Column) -> str:
    """The expected error of a metric, or only its sampling error if hardware cannot measure the metric."""
    facts = metrics.metric_table().metrics[metric]
    if value is None or column.kernel.source.backend != "sim" or (value == 0 and facts.kind != "hit_rate"):
        return ""
    if facts.own and _expected_error(metric, column) is None:
        return _scaling_error(metric, column)  # simulator-only metric: no recording can exist
    return _error_text(metric, column)


def _counter_rows(columns: Sequence[Column], every: bool) -> Iterator[tuple[str, str, list[Cell]]]:
    """Rows of counters that are not zero: `every` one, else those that tables show, and the kinds of vector and matrix
    instructions."""
    table = metrics.metric_table()
    in_table = {**table.counters, **table.others}
    for name in dict.fromkeys([*in_table, *(name for column in columns for name in column.kernel.counters)]):
        values = [column.kernel.counters.get(name) for column in columns]
        is_kind = name.startswith(KINDS) and (name in table.counters or "MOPS" in name)
        if any(values) and (every or is_kind or (name in in_table and in_table[name].show)):
            cells = [
                (_count_text(value), _counter_error(name, column))
                for column, value in zip(columns, values, strict=True)
            ]
            yield name, "", cells


def _count_text(count: float | None) -> str:
    """A counter, with decimals where its mean over dispatches is below one."""
    return "-" if count is None else f"{count:,.0f}" if count >= 1 or not count else f"{count:.2g}"


def _counter_error(name: str, column: Column) -> str:
    if column.kernel.source.backend != "sim":
        return ""
    return _error_text(name, column) if _expected_error(name, column) else _scaling_error(name, column)


def _scaling_error(name: str, column: Column) -> str:
    """The sampling error as text; "" if the whole grid ran."""
    error = column.scaling_error(name, "%")
    return _plus_minus(error, "%") if error else ""


def _expected_error(name: str, column: Column) -> expected_error.ErrorRow | None:
    return expected_error.find_error(name, column.result.device, column.kernel.duration_ns)


def _error_text(name: str, column: Column) -> str:
    """The range of the kernel's class, or else the median error, plus the sampling error, with its unit."""
    error = _expected_error(name, column)
    if error is None:
        return NO_EVIDENCE
    kernel = column.kernel
    range_ = expected_error.expected_range(name, column.result.device, kernel.counters, kernel.duration_ns)
    size = error.median if range_ is None else range_.range
    text = _plus_minus(math.hypot(size, column.scaling_error(name, error.unit)), error.unit)
    text += " ~" if range_ is not None and range_.wide else ""
    return text if expected_error.has_recorded_error(name, column.unrecorded_features) else f"{text} *"


def _plus_minus(error: float, unit: str) -> str:
    if math.isinf(error):
        return "± any"
    size = f"{error:.2g}" if error < 10 else f"{error:.0f}"
    return "± 0" if error == 0 else f"± {size} {'pt' if unit == 'points' else '%'}"


def _value_text(value: float | None, factor: float) -> str:
    return "-" if value is None else format_number(value / factor)
