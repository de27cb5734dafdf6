"""The content of an editor's panel: figures and their origin, before and after an edit, and a roofline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hipsynth.core.errors import HipsynthError
from hipsynth.profiling.reports.numbers import format_number, format_quantity
from hipsynth.serving.lsp import presentation
from hipsynth.serving.lsp.kernel_results import KernelFacts
from hipsynth.serving.lsp.session import EditorOptions, OpenDocument

if TYPE_CHECKING:
    from hipsynth.profiling.metrics.roofline import RooflinePlot
    from hipsynth.serving.lsp.documents import EditorPanel, EditorTargets, PanelFigure, PanelKernel

SAVED, EDITED = "saved", "edited"
THROUGHPUT = "HBM_GFLOPS"  # the metric that is the height of a kernel's points


def panel_document(document: OpenDocument, options: EditorOptions) -> EditorPanel:
    """The panel's content for a document, with one entry of `kernels` per definition."""
    from hipsynth.serving.lsp.documents import EditorPanel, PanelTarget

    edited = document.baseline is not None and document.baseline.text != document.text
    heads: dict[str, int] = {}
    for kernel in document.found:
        heads.setdefault(kernel.name, kernel.line)
    return EditorPanel(
        target=PanelTarget(options.arch, options.device, options.flags),
        model=document.predicted.model if document.predicted else "",
        state=document.state(),
        edited=edited,
        kernels=tuple(_kernel_entry(document, name, line, edited) for name, line in heads.items()),
        roofline=_roofline_points(document, options, edited),
    )


def list_targets() -> EditorTargets:
    """The targets that predictions can be made for."""
    from hipsynth.profiling.matrix.targets import load_matrix
    from hipsynth.serving.lsp.documents import EditorTargets, NamedFlags, PredictedDevice
    from hipsynth.simulator.devices import list_devices, load_device

    tables = [load_device(name) for name in list_devices()]
    return EditorTargets(
        devices=tuple(PredictedDevice(table.name, table.title, table.arch) for table in tables),
        flags=tuple(NamedFlags(row.flags, row.doc) for row in load_matrix().flags),
    )


def _kernel_sides(document: OpenDocument, name: str, edited: bool) -> tuple[KernelFacts | None, ...]:
    """The columns of a kernel: its prediction, its execution, and the prediction for the saved text."""
    now = document.facts(name)
    guess = document.predicted.kernels.get(name) if document.predicted else None
    current = document.predicted is not None and document.predicted.text == document.text
    saved = document.baseline.kernels.get(name) if document.baseline and edited else None
    return now, guess if guess is not now and current else None, saved


def _kernel_entry(document: OpenDocument, name: str, line: int, edited: bool) -> PanelKernel:
    from hipsynth.serving.lsp.documents import PanelKernel

    now, guess, saved = _kernel_sides(document, name, edited)
    return PanelKernel(
        name=name,
        line=line,
        how=now.how if now else "",
        summary=presentation.lens_title(now, ""),
        why=now.why if now else (),
        note=now.note if now else "",
        figures=tuple(_kernel_figures(now, guess, saved)),
    )


def _kernel_figures(
    now: KernelFacts | None, guess: KernelFacts | None, saved: KernelFacts | None
) -> Iterator[PanelFigure]:
    """One row per quantity: texts to show, and the numbers themselves for exports."""
    from hipsynth.profiling.metrics.definitions import EQUAL_TO_THROUGHPUT, display_title, metric_table
    from hipsynth.serving.lsp.documents import PanelFigure

    if now is None:
        return
    units = metric_table().metrics
    hidden = EQUAL_TO_THROUGHPUT | {"duration_ns"}
    for name in ("duration_ns", *[metric for metric in now.metrics if metric not in hidden]):
        value, predicted, before = _fact_value(now, name), _fact_value(guess, name), _fact_value(saved, name)
        if value is None and predicted is None and before is None:
            continue
        unit = "ns" if name == "duration_ns" else units[name].unit if name in units else ""
        ends = now.intervals.get(name)
        title = "Duration" if name == "duration_ns" else display_title(name) if name in units else name
        yield PanelFigure(
            id=name,
            title=title,
            unit=unit,
            how=now.how,
            value=value,
            low=ends[0] if ends else None,
            high=ends[1] if ends else None,
            predicted=predicted,
            saved=before,
            text=_format_value(value, unit),
            interval=f"{_format_value(ends[0], unit)} to {_format_value(ends[1], unit)}" if ends else "",
            predictedText=_compare_sides(predicted, value, unit),
            savedText=_format_value(before, unit),
            change=_change_text(before, guess or now, name, unit),
        )


def _fact_value(facts: KernelFacts | None, name: str) -> float | None:
    if facts is None:
        return None
    return facts.duration_ns if name == "duration_ns" else facts.metrics.get(name)


def _format_value(value: float | None, unit: str) -> str:
    return "" if value is None else format_quantity(value, unit) if unit else format_number(value)


def _compare_sides(predicted: float | None, executed: float | None, unit: str) -> str:
    """A prediction beside the executed figure, and by how much it was off."""
    if predicted is None or not executed:
        return _format_value(predicted, unit)
    return f"{_format_value(predicted, unit)} ({round(100 * (predicted / executed - 1)):+d} %)"


def _change_text(before: float | None, after: KernelFacts, name: str, unit: str) -> str:
    """From the saved to the edited text; predictions are compared with predictions, percentages by difference."""
    value = _fact_value(after, name)
    if before is None or value is None or after.how != "predicted":
        return ""
    if unit == "%":
        return f"{_format_percent_change(value - before)} points"
    if before == 0:
        return ""
    return f"{_format_percent_change(100 * (value / before - 1))} %"


def _format_percent_change(change: float) -> str:
    return f"{round(change, 1) + 0.0:+.1f}"  # + 0.0: no "-0.0"


def _roofline_points(document: OpenDocument, options: EditorOptions, edited: bool) -> RooflinePlot | None:
    from hipsynth.profiling.metrics import roofline
    from hipsynth.profiling.reports.documents import ProfiledKernel
    from hipsynth.simulator.devices import default_device

    plotted = []
    for name in dict.fromkeys(kernel.name for kernel in document.found):
        now, guess, saved = _kernel_sides(document, name, edited)
        for facts, series in ((saved, SAVED), (guess, EDITED if edited else ""), (now, EDITED if edited else "")):
            if facts:
                low, high = facts.intervals.get(THROUGHPUT, (None, None))
                counters = facts.document.counters if isinstance(facts.document, ProfiledKernel) else {}
                plotted.append(roofline.PlottedKernel(name, facts.metrics, facts.how, series, low, high, counters))
    try:
        device = options.device or default_device(options.arch)
        return roofline.plot_kernels(device, plotted) if plotted else None
    except HipsynthError:  # an unknown device: the prediction says so
        return None
