"""Terminal output of predictions, beside executed figures where there are some."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hipsynth.core.kernel_record import Dim
from hipsynth.profiling import metrics as table
from hipsynth.profiling.backends.protocol import describe_target
from hipsynth.profiling.metrics.bottleneck import unit_name
from hipsynth.training.models.documents import (
    FailedExecution,
    KernelPrediction,
    PredictionResult,
    SimulatedKernel,
    VariantDocument,
)

DURATION = "duration_ns"
LaunchKey = tuple[str, Dim | None, Dim | None, str]
NAME_WIDTH = 38  # characters of a metric with its unit
MOST_ALIKE = 3  # predictions of one kernel and launch shape that are printed each


def prediction_lines(result: PredictionResult, why: bool = False) -> list[str]:
    """A result of `synth predict` as lines: per kernel the metrics with their intervals, beside what launches of the
    same kernel and shape did. Of a text that does not compile, the notes come first."""
    notes = [f"note: {note}" for note in result.notes]
    is_whole = result.source == "program"
    lines = [] if is_whole else [*notes, ""]
    lines += [f"{describe_target(result.arch, result.device, result.flags)}   predicted, not executed"]
    rows = result.executed or ()
    executed = {_launch_key(row): row for row in rows if isinstance(row, SimulatedKernel)}
    alike: dict[LaunchKey, list[KernelPrediction]] = {}
    for kernel in result.kernels:
        alike.setdefault(_launch_key(kernel), []).append(kernel)
    for key, kernels in alike.items():
        if len(kernels) > MOST_ALIKE and (mean := mean_prediction(kernels)) is not None:
            lines += ["", *_kernel_lines(mean, executed.get(key), why), *_spread_lines(kernels)]
            continue
        for kernel in kernels:
            lines += ["", *_kernel_lines(kernel, executed.get(key), why)]
    for other in (row for row in rows if isinstance(row, FailedExecution)):
        lines += ["", f"  the program did not execute: {other.reason} {other.message}".rstrip()]
    answered = {_launch_key(kernel) for kernel in result.kernels}
    for row in (row for launch, row in executed.items() if launch not in answered):
        lines += [
            "",
            f"{row.instance}  {_launch_text(row.grid, row.block)}",
            f"  executed in {_format_number(row.duration_ns / 1000)} us, not predicted",
        ]
    lines += [f"  {note}" for note in notes if is_whole]
    lines.append(f"  answered in {result.seconds:.2f} s; intervals are of what an execution on the simulator gives")
    return lines


def find_unanswered(
    kernels: Sequence[KernelPrediction], executed: Sequence[SimulatedKernel | FailedExecution]
) -> list[KernelPrediction]:
    """The kernels without any figure: their prediction has none, and no launch of theirs was executed. A prediction
    without a launch shape is of all launches of its kernel, one without a name of the whole program."""
    rows = [row for row in executed if isinstance(row, SimulatedKernel)]
    launches, names = {_launch_key(row) for row in rows}, {row.name for row in rows}
    without_figures = [kernel for kernel in kernels if not kernel.metrics and _launch_key(kernel) not in launches]
    return [
        kernel
        for kernel in without_figures
        if kernel.grid is not None or (kernel.name not in names if kernel.name else not rows)
    ]


def _launch_key(kernel: KernelPrediction | SimulatedKernel) -> LaunchKey:
    """The key by which predictions and executions are compared: the kernel's instance, its launch shape and build."""
    return kernel.instance, kernel.grid, kernel.block, _meta_text(kernel.meta)


def _meta_text(meta: Mapping[str, bool | int | str] | None) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted((meta or {}).items()))


def variant_lines(answers: Sequence[VariantDocument]) -> list[str]:
    """The answers of `synth predict --sweep` as a table: what differs, and the kernel that takes longest, with its
    grid. Then the notes: of the first row, and of the first that has others."""
    cells = [_variant_cells(answer) for answer in answers]
    names = [name for name in cells[0] if len({row.get(name) for row in cells}) > 1 and name != "grid"]
    rows = [[*names, "kernel", "grid", "us", "80 % interval", "limited by"]]
    for answer, cell in zip(answers, cells, strict=True):
        rows.append([*(cell.get(name, "") for name in names), *_longest_cells(answer)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*lines, *_variant_notes(answers)]


def _variant_notes(answers: Sequence[VariantDocument]) -> Iterator[str]:
    """The notes of the first row, and what the first row with others adds to them."""
    first = answers[0].notes
    scope = "note" if len({answer.notes for answer in answers}) == 1 else "note on the first row"
    yield from (f"{scope}: {note}" for note in first)
    for number, answer in enumerate(answers, 1):
        if further := [note for note in answer.notes if note not in first]:
            yield from (f"note on row {number}: {note}" for note in further)
            return


def _longest_cells(answer: VariantDocument) -> tuple[str, str, str, str, str]:
    """Name, grid, duration, interval and limit of the kernel that takes longest."""
    timed = [(kernel.duration_ns, kernel) for kernel in answer.kernels if kernel.duration_ns is not None]
    if not timed:
        return "-", _format_shape(answer.grid), "-", "", answer.kernels[0].reason if answer.kernels else "no launch"
    duration, main = max(timed, key=lambda pair: pair[0])
    low, high = main.intervals.get(DURATION, (duration, duration))
    between = f"{_format_number(low / 1000)} - {_format_number(high / 1000)}" + (" unsure" if main.abstained else "")
    return main.name, _format_shape(main.grid), _format_number(duration / 1000), between, unit_name(main.bottleneck)


def _variant_cells(answer: VariantDocument) -> dict[str, str]:
    cells = {"device": answer.device, "flags": answer.flags}
    cells |= {"grid": _format_shape(answer.grid), "block": _format_shape(answer.block)}
    cells |= {f"arg{n}": word for n, word in enumerate(answer.arguments, 1)}
    return cells | {
        name: _format_number(value) if value % 1 else f"{value:.0f}" for name, value in answer.values.items()
    }


def _kernel_lines(kernel: KernelPrediction, executed: SimulatedKernel | None, why: bool) -> list[str]:
    lines = [_write_title(kernel) + (f"  {kernel.launches} launches" if kernel.launches > 1 else "")]
    if kernel.language:
        lines.append(f"  {kernel.language}: {_meta_text(kernel.meta)}")
    if kernel.verdict:
        lines.append(f"  {kernel.verdict}")
    has_figures = kernel.duration_ns is not None or bool(kernel.metrics)
    if kernel.abstained:
        lines.append(f"  {'not reliable' if has_figures else 'no answer'}: {kernel.reason}")
    if not has_figures:
        return lines
    heads = f"  {'':<{NAME_WIDTH}} {'predicted':>12} {'80 % interval':>23} {'executed':>12} {'error':>8}"
    lines.append(heads if executed else heads[: 2 + NAME_WIDTH + 1 + 12 + 24])
    facts = table.metric_table().metrics
    rows: list[tuple[str, str, str]] = [(DURATION, "Duration", "us")]
    rows += [(metric, table.display_name(metric), facts[metric].unit) for metric in table.shown_ids()]
    lines += [_metric_row(name, label, unit, kernel, executed) for name, label, unit in rows]
    if why:
        lines += [f"  why: {reason}" for reason in kernel.why]
    return lines


def mean_prediction(kernels: Sequence[KernelPrediction]) -> KernelPrediction | None:
    """The mean over launches of one kernel and shape that differ in their arguments or their data, as an execution
    reports it: durations weighted by how many launches they stand for, metrics and ends of intervals by their time as
    well. The rest is the slowest one's of those that are reliable; None if one has no duration."""
    durations = [kernel.duration_ns for kernel in kernels if kernel.duration_ns is not None]
    if len(durations) < len(kernels):
        return None
    counts = [kernel.launches for kernel in kernels]
    times = [count * duration for count, duration in zip(counts, durations, strict=True)]

    def mean_value(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
        numbers = [value for value in values if value is not None]
        if len(numbers) < len(kernels):
            return None
        return math.fsum(map(operator.mul, numbers, weights)) / math.fsum(weights)

    intervals = {}
    for name in set.intersection(*(set(kernel.intervals) for kernel in kernels)):
        weights = counts if name == DURATION else times
        low, high = (mean_value([kernel.intervals[name][end] for kernel in kernels], weights) for end in (0, 1))
        if low is not None and high is not None:
            intervals[name] = low, high
    slowest = max(kernels, key=lambda kernel: (not kernel.abstained, kernel.duration_ns or 0.0))
    return replace(
        slowest,
        metrics={name: mean_value([k.metrics.get(name) for k in kernels], times) for name in slowest.metrics},
        duration_ns=mean_value(durations, counts),
        intervals=intervals,
        launches=sum(counts),
    )


def _spread_lines(kernels: Sequence[KernelPrediction]) -> list[str]:
    """How far apart the launches are that a mean is of."""
    times = sorted(kernel.duration_ns / 1000 for kernel in kernels if kernel.duration_ns is not None)
    ends = " to ".join(dict.fromkeys(_format_number(value) for value in (times[0], times[-1])))
    unsure = sum(kernel.abstained for kernel in kernels)
    words = [f"means; {ends} us each", *([f"{unsure} of {len(kernels)} not reliable"] if unsure else [])]
    return [f"  {', '.join(words)}; --json lists {len(kernels)} of them"]


def _write_title(kernel: KernelPrediction) -> str:
    shape = f"  {_launch_text(kernel.grid, kernel.block)}" if kernel.grid else ""
    return f"{kernel.instance or kernel.name or 'program'}{shape}"


def _metric_row(name: str, label: str, unit: str, kernel: KernelPrediction, executed: SimulatedKernel | None) -> str:
    scale = 1e-3 if name == DURATION else 1.0
    value, ends = _value(kernel, name), kernel.intervals.get(name)
    unknown = "" if value is None else "?"
    between = f"{_format_number(ends[0] * scale)} - {_format_number(ends[1] * scale)}" if ends else unknown
    predicted = _format_number(None if value is None else value * scale)
    line = f"  {f'{label} [{unit}]':<{NAME_WIDTH}} {predicted:>12} {between:>23}"
    if executed is None:
        return line.rstrip()
    true = _value(executed, name)
    error = f"{100 * (value / true - 1):+.1f} %" if value is not None and true else ""
    return f"{line} {_format_number(None if true is None else true * scale):>12} {error:>8}".rstrip()


def _value(kernel: KernelPrediction | SimulatedKernel, name: str) -> float | None:
    return kernel.duration_ns if name == DURATION else kernel.metrics.get(name)


def _format_number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10000 else f"{value:.4g}"


def _launch_text(grid: Sequence[int] | None, block: Sequence[int] | None) -> str:
    return f"grid {'x'.join(map(str, grid or ()))}  block {'x'.join(map(str, block or ()))}"


def _format_shape(dims: Sequence[int] | None) -> str:
    dimensions = list(dims or ())
    while len(dimensions) > 1 and dimensions[-1] == 1:
        dimensions.pop()
    return "x".join(map(str, dimensions))
