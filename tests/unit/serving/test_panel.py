"""What the language server sends to a client's panel."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import document_samples as samples
import needs
import pytest

needs.package("pygls")
from hipsynth.core.documents import document_json  # noqa: E402
from hipsynth.profiling.reports.documents import ProfileResult  # noqa: E402
from hipsynth.serving.documents import ImprovedProgram  # noqa: E402
from hipsynth.serving.lsp import kernel_results, panel, server  # noqa: E402
from hipsynth.serving.lsp.analysis_provider import Query  # noqa: E402
from hipsynth.serving.lsp.buffer import TextBuffer  # noqa: E402
from hipsynth.serving.lsp.session import DocumentKernels, EditorOptions, EditorSession, OpenDocument  # noqa: E402
from hipsynth.training.models.documents import PredictionResult  # noqa: E402

TEXT = "__global__ void scale(float* a) { a[0] = 1; }\n"


def predicted(ns: float, gflops: float = 50.0) -> PredictionResult:
    metrics = {"HBM_GFLOPS": gflops, "HBM_Arithmetic_Intensity": 0.25, "L2_Cache_Arithmetic_Intensity": None}
    intervals = {"duration_ns": (ns / 2, ns * 2), "HBM_GFLOPS": (25.0, 99.0)}
    kernel = replace(samples.KERNEL, name="scale", duration_ns=ns, metrics=metrics)
    return samples.prediction(replace(kernel, intervals=intervals, why=("reads much",)), model="m.json.gz")


def executed(ns: float) -> ProfileResult:
    metrics = {"HBM_GFLOPS": 40.0, "HBM_Arithmetic_Intensity": 0.2}
    return samples.profile(samples.profiled_kernel("scale", ns, metrics))


def shown_panel(it: OpenDocument, options: EditorOptions | None = None) -> dict[str, Any]:
    return document_json(panel.panel_document(it, options or EditorOptions()))


def document(text: str = TEXT) -> OpenDocument:
    made = OpenDocument("file:///k.hip", Path("/k.hip"), 1, TextBuffer(text), TEXT)
    return made


def figure(shown: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [row for row in shown["kernels"][0]["figures"] if row["id"] == name]
    return dict(found)


def test_nothing_known_yet() -> None:
    shown = shown_panel(document())
    assert shown["kernels"] == [
        {"name": "scale", "line": 0, "how": "", "summary": "…", "why": [], "note": "", "figures": []}
    ]
    assert shown["roofline"] is None and not shown["edited"] and shown["state"] == "…"


def test_every_figure_says_how_it_is_known() -> None:
    it = document()
    it.predicted = DocumentKernels(1, TEXT, kernel_results.predicted_facts(predicted(5000.0)), "m")
    guess = shown_panel(it)
    assert figure(guess, "duration_ns")["text"] == "5 us" and figure(guess, "duration_ns")["how"] == "predicted"
    assert figure(guess, "duration_ns")["interval"] == "2.5 us to 10 us"
    assert [row["id"] for row in guess["kernels"][0]["figures"]][-1] == "HBM_Arithmetic_Intensity"  # no empty rows
    it.executed = DocumentKernels(1, TEXT, kernel_results.executed_facts(executed(4000.0)))
    ran = shown_panel(it)
    assert figure(ran, "duration_ns")["how"] == "executed" and figure(ran, "duration_ns")["value"] == 4000.0
    assert figure(ran, "duration_ns")["predictedText"] == "5 us (+25 %)"
    assert ran["kernels"][0]["why"] == ["bound by HBM bandwidth"]
    assert [point["kind"] for point in ran["roofline"]["points"]] == ["predicted", "executed"]
    assert ran["roofline"]["points"][0]["low"] == 25.0
    json.dumps(ran)


def test_before_and_after_an_edit() -> None:
    it = document(TEXT + "// edited\n")
    it.baseline = DocumentKernels(1, TEXT, kernel_results.predicted_facts(predicted(5000.0)))
    it.predicted = DocumentKernels(2, it.text, kernel_results.predicted_facts(predicted(4000.0)))
    shown = shown_panel(it)
    assert shown["edited"] and figure(shown, "duration_ns")["savedText"] == "5 us"
    assert figure(shown, "duration_ns")["change"] == "-20.0 %"
    assert [point["series"] for point in shown["roofline"]["points"]] == ["saved", "edited"]
    it.baseline.kernels["scale"].metrics["L2_Cache_Hit_Rate"] = 40.0  # type: ignore[index]
    it.predicted.kernels["scale"].metrics["L2_Cache_Hit_Rate"] = 60.0  # type: ignore[index]
    assert figure(shown_panel(it), "L2_Cache_Hit_Rate")["change"] == "+20.0 points"
    it.executed = DocumentKernels(2, it.text, kernel_results.executed_facts(executed(9000.0)))
    assert figure(shown_panel(it), "duration_ns")["change"] == "-20.0 %"  # predictions with predictions


def test_matrix_kernels_are_plotted_below_the_matrix_roof() -> None:
    it, heights = document(), []
    kernel = samples.profiled_kernel("scale", 4000.0, {"HBM_GFLOPS": 60_000.0, "HBM_Arithmetic_Intensity": 500.0})
    for counters in ({}, {"SQ_INSTS_VALU_MFMA_MOPS_F16": 9.0}):
        result = samples.profile(replace(kernel, counters=counters))
        it.executed = DocumentKernels(1, TEXT, kernel_results.executed_facts(result))
        (point,) = shown_panel(it, EditorOptions(device="mi300x"))["roofline"]["points"]
        heights.append(point["attainable"])
    assert heights[1] > heights[0]


def test_an_unknown_device_has_no_roofline() -> None:
    it = document()
    it.predicted = DocumentKernels(1, TEXT, kernel_results.predicted_facts(predicted(5000.0)))
    assert shown_panel(it, EditorOptions(device="none"))["roofline"] is None


def test_targets_name_every_device_and_flag_set() -> None:
    offered = document_json(panel.list_targets())
    assert {"mi210", "mi300x"} <= {row["name"] for row in offered["devices"]}
    assert "-O3" in [row["flags"] for row in offered["flags"]] and all(row["doc"] for row in offered["flags"])


def test_settings_change_only_what_they_name() -> None:
    known = EditorOptions(arch="gfx942", execute=True)
    assert EditorOptions.of({}, known) == EditorOptions.of(None, known) == EditorOptions.of({"arch": 3}, known) == known
    assert EditorOptions.of({"seconds": 60}) == EditorOptions(seconds=60.0)  # JSON has one kind of number
    huge = 10**309
    assert EditorOptions.of({"values": {"n": huge}, "seconds": huge, "debounce_ms": huge}, known) == known
    assert EditorOptions.of({"flags": "-O2"}, known) == EditorOptions(arch="gfx942", execute=True, flags="-O2")


@pytest.mark.parametrize("change", [{"flags": "-O2"}, {"device": "mi250"}])
def test_another_target_forgets_what_was_known(change: dict[str, Any]) -> None:
    class Counting:
        asked: list[Query]

        def __init__(self) -> None:
            self.asked = []

        async def predict(self, query: Query) -> PredictionResult:
            self.asked.append(query)
            return predicted(1000.0)

        async def profile(self, query: Query) -> ProfileResult:
            raise AssertionError("never asked")

        async def optimize(self, query: Query, budget_s: float) -> ImprovedProgram:
            raise AssertionError("never asked")

        async def close(self) -> None: ...

    async def run() -> None:
        source = Counting()
        session = EditorSession(source, lambda _document: asyncio.sleep(0))
        session.options = EditorOptions(debounce_ms=1)
        session.open("u", Path("/k.hip"), 1, TEXT)
        it = session.documents["u"]
        assert it.task
        await it.task
        assert it.baseline is it.predicted and it.baseline is not None
        session.configure(EditorOptions(debounce_ms=1, **change))
        assert it.predicted is None and it.baseline is None
        await it.task
        session.configure(EditorOptions(debounce_ms=1, execute=True, **change))  # the same target: nothing is forgotten
        assert it.predicted is not None
        asked = [(query.flags, query.device) for query in source.asked]
        assert asked[1] == (change.get("flags", "-O3"), change.get("device", ""))
        session.close("u")

    asyncio.run(run())


def test_a_cancelled_execution_ends() -> None:
    """The work itself, not only its answer."""

    class Endless:
        ended = started = False

        async def predict(self, query: Query) -> PredictionResult:
            return predicted(1000.0)

        async def profile(self, query: Query) -> ProfileResult:
            self.started = True
            try:
                await asyncio.sleep(60)
            finally:
                self.ended = True
            raise AssertionError("never reached")

        async def optimize(self, query: Query, budget_s: float) -> ImprovedProgram:
            raise AssertionError("never asked")

        async def close(self) -> None: ...

    async def run() -> None:
        source, sent = Endless(), io.BytesIO()
        made = server.make_server(source)
        made.protocol.writer = sent  # type: ignore[assignment]

        def tell(**message: Any) -> None:
            made.protocol.handle_message(made.protocol.structure_message({"jsonrpc": "2.0", **message}))

        start = {"processId": None, "rootUri": None, "capabilities": {}, "initializationOptions": {"execute": True}}
        tell(id=1, method="initialize", params=start)
        item = {"uri": "file:///k.hip", "languageId": "hip", "version": 1, "text": TEXT}
        tell(method="textDocument/didOpen", params={"textDocument": item})
        await asyncio.sleep(0)
        asked = {"command": server.PROFILE, "arguments": ["file:///k.hip"]}
        tell(id=2, method="workspace/executeCommand", params=asked)
        await until(lambda: source.started)
        tell(method="$/cancelRequest", params={"id": 2})
        await until(lambda: source.ended)
        await until(lambda: b"is canceled" in sent.getvalue())
        await asyncio.sleep(0.01)
        assert "executing" not in sent.getvalue().decode().rsplit("prediction", 1)[1]

    asyncio.run(run())


async def until(holds: Callable[[], bool]) -> None:
    """Returns when something holds; a test whose time is over fails."""
    for _ in range(500):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never held")
