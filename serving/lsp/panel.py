"""What a client's own panel shows of a document: figures and their origin, before and after an edit, and a roofline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hipsynth.core.documents import JsonObject, document_json
from hipsynth.core.errors import HipsynthError
from hipsynth.profiling.reports.numbers import number, quantity
from hipsynth.serving.lsp import view
from hipsynth.serving.lsp.facts import KernelFacts
from hipsynth.serving.lsp.session import EditorOptions, OpenDocument

SAVED, EDITED = "saved", "edited"
THROUGHPUT = "HBM_GFLOPS"  # the metric that is the height of a kernel's points


def panel(document: OpenDocument, options: EditorOptions) -> dict[str, Any]:
    """JSON: `target`, `model`, `state`, one entry of `kernels` per definition, and the document of metrics/roofline.py.

    `roofline` is None while no kernel is known or the device does not exist; `edited`: the text differs from the saved
    one, whose predicted figures are the `saved` ones.
    """
    edited = document.baseline is not None and document.baseline.text != document.text
    heads: dict[str, int] = {}
    for kernel in document.found:
        heads.setdefault(kernel.name, kernel.line)
    return {
        "target": {"arch": options.arch, "device": options.device, "flags": options.flags},
        "model": document.predicted.model if document.predicted else "",
        "state": document.state(),
        "edited": edited,
        "kernels": [_kernel(document, name, line, edited) for name, line in heads.items()],
        "roofline": _roofline(document, options, edited),
    }


def targets() -> dict[str, Any]:
    """What can be predicted for: {"devices": [{"name", "title", "arch"}], "flags": [{"flags", "doc"}]}."""
    from hipsynth.profiling.matrix.targets import matrix
    from hipsynth.simulator.devices import list_devices, load_device

    tables = [load_device(name) for name in list_devices()]
    return {
        "devices": [{"name": table.name, "title": table.title, "arch": table.arch} for table in tables],
        "flags": [{"flags": row.flags, "doc": row.doc} for row in matrix().flag_sets],
    }


def _sides(document: OpenDocument, name: str, edited: bool) -> tuple[KernelFacts | None, ...]:
    """What is shown of a kernel, the prediction beside an execution, and the prediction of the saved text."""
    now = document.facts(name)
    guess = document.predicted.kernels.get(name) if document.predicted else None
    current = document.predicted is not None and document.predicted.text == document.text
    saved = document.baseline.kernels.get(name) if document.baseline and edited else None
    return now, guess if guess is not now and current else None, saved


def _kernel(document: OpenDocument, name: str, line: int, edited: bool) -> dict[str, Any]:
    now, guess, saved = _sides(document, name, edited)
    row: dict[str, Any] = {"name": name, "line": line, "how": now.how if now else "", "summary": view.lens(now, "")}
    why: list[str] = []
    if now:
        limit = now.document.get("bottleneck")
        why = list(now.document.get("why") or ([limit["summary"]] if isinstance(limit, Mapping) else []))
    return row | {"why": why, "note": now.note if now else "", "figures": list(_figures(now, guess, saved))}


def _figures(now: KernelFacts | None, guess: KernelFacts | None, saved: KernelFacts | None) -> Iterator[dict[str, Any]]:
    """One row per quantity: texts to show, and the numbers themselves for exports."""
    from hipsynth.profiling.metrics.definitions import table

    if now is None:
        return
    units = table().metrics
    for name in ("duration_ns", *[metric for metric in now.metrics if metric != "duration_ns"]):
        value, predicted, before = _value(now, name), _value(guess, name), _value(saved, name)
        if value is None and predicted is None and before is None:
            continue
        unit = "ns" if name == "duration_ns" else units[name].unit if name in units else ""
        ends = now.intervals.get(name)
        title = "Duration" if name == "duration_ns" else units[name].title if name in units else name
        yield {
            "id": name, "title": title, "unit": unit, "how": now.how,
            "value": value, "low": ends[0] if ends else None, "high": ends[1] if ends else None,
            "predicted": predicted, "saved": before,
            "text": _text(value, unit), "interval": f"{_text(ends[0], unit)} to {_text(ends[1], unit)}" if ends else "",
            "predictedText": _beside(predicted, value, unit), "savedText": _text(before, unit),
            "change": _change(before, guess or now, name, unit),
        }  # fmt: skip


def _value(facts: KernelFacts | None, name: str) -> float | None:
    if facts is None:
        return None
    return facts.duration_ns if name == "duration_ns" else facts.metrics.get(name)


def _text(value: float | None, unit: str) -> str:
    return "" if value is None else quantity(value, unit) if unit else number(value)


def _beside(predicted: float | None, executed: float | None, unit: str) -> str:
    """A prediction beside the executed figure, and by how much it was off."""
    if predicted is None or not executed:
        return _text(predicted, unit)
    return f"{_text(predicted, unit)} ({round(100 * (predicted / executed - 1)):+d} %)"


def _change(before: float | None, after: KernelFacts, name: str, unit: str) -> str:
    """From the saved to the edited text; predictions are compared with predictions, percentages by difference."""
    value = _value(after, name)
    if before is None or value is None or after.how != "predicted":
        return ""
    if unit == "%":
        return f"{_rounded(value - before)} points"
    if before == 0:
        return ""
    return f"{_rounded(100 * (value / before - 1))} %"


def _rounded(change: float) -> str:
    return f"{round(change, 1) + 0.0:+.1f}"  # + 0.0: no "-0.0"


def _roofline(document: OpenDocument, options: EditorOptions, edited: bool) -> JsonObject | None:
    from hipsynth.profiling.metrics import roofline
    from hipsynth.simulator.devices import default_device

    plotted = []
    for name in dict.fromkeys(kernel.name for kernel in document.found):
        now, guess, saved = _sides(document, name, edited)
        for facts, series in ((saved, SAVED), (guess, EDITED if edited else ""), (now, EDITED if edited else "")):
            if facts:
                low, high = facts.intervals.get(THROUGHPUT, (None, None))
                plotted.append(roofline.PlottedKernel(name, facts.metrics, facts.how, series, low, high))
    try:
        device = options.device or default_device(options.arch)
        return document_json(roofline.plot_kernels(device, plotted)) if plotted else None
    except HipsynthError:  # an unknown device: the prediction says so
        return None
