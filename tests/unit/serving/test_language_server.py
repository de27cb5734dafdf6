"""The language server: finding kernels, what is shown, debounce and supersede, trust; and the process itself."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import document_samples as samples
import needs
import pytest

needs.package("pygls")
from lsprotocol import types  # noqa: E402
from pygls.lsp.client import LanguageClient  # noqa: E402
from pygls.workspace import PositionCodec  # noqa: E402

from hipsynth.core import languages  # noqa: E402
from hipsynth.core.documents import JsonObject  # noqa: E402
from hipsynth.core.kernel_record import Registers  # noqa: E402
from hipsynth.profiling.metrics.bottleneck import OccupancyFigures  # noqa: E402
from hipsynth.profiling.reports.documents import LineCost, ProfileResult  # noqa: E402
from hipsynth.serving.documents import ImprovedProgram  # noqa: E402
from hipsynth.serving.limits import MOST_KERNELS, wall_limit  # noqa: E402
from hipsynth.serving.lsp import kernel_results, presentation, server  # noqa: E402
from hipsynth.serving.lsp.analysis_provider import Query, QueryFailed, WorkerSource  # noqa: E402
from hipsynth.serving.lsp.buffer import TextBuffer  # noqa: E402
from hipsynth.serving.lsp.kernel_positions import locate_kernels  # noqa: E402
from hipsynth.serving.lsp.session import EditorOptions, EditorSession, OpenDocument  # noqa: E402
from hipsynth.serving.pool import Pool, WorkerLost  # noqa: E402
from hipsynth.training.models.documents import PredictionResult  # noqa: E402

TEXT = """#include <hip/hip_runtime.h>
// __global__ void commented(int) {}
__global__ void later(int);
template <class T>
__global__ __launch_bounds__(256) void scale(const T* a, T* b) {
  const char* text = "}";
  b[threadIdx.x] = a[threadIdx.x * 32];
}
extern "C" __global__ void half_written(float* a) {
  if (a) {
"""
SCRIPT = """import torch
import triton
import triton.language as tl


@triton.jit
def helper(x):
    return x * 2


@triton.autotune(
    configs=[triton.Config({"BLOCK": 64})], key=["n"],
)
@triton.jit
def scale(
    x, n,
    BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.arange(0, BLOCK)

    tl.store(x + at, helper(tl.load(x + at)))


scale[(1,)](torch.ones(64, device="cuda"), 64)
"""
LINE = LineCost(
    file="k.hip", line=7, instructions=300.0, classes={"vmem": 100.0, "lds": 10.0}, bytes=25600.0,
    accesses=3200.0, misses=1600.0, l2_misses=5.0, lds_bytes=0.0, bank_conflicts=310.0,
    stall_cycles=9000.0, barrier_cycles=0.0, share=0.9,
)  # fmt: skip


def prediction(ns: float = 5000.0, occupancy: float = 0.88) -> PredictionResult:
    """As `synth predict` answers."""
    kernel = replace(
        samples.KERNEL,
        name="scale",
        metrics={"L1_Cache_Hit_Rate": 50.0},
        duration_ns=ns,
        intervals={"duration_ns": (ns / 2, 2 * ns)},
        why=("HBM: 5 us",),
        occupancy=occupancy,
    )
    return samples.prediction(kernel, model="/m/predictor.json.gz")


def profile() -> ProfileResult:
    kernel = samples.profiled_kernel("ns::scale<float>", 4000.0, {})
    room = OccupancyFigures(1.0, 8.0, "VGPRs", 1.0, 1.0)
    registers = Registers(vgprs=1.0, agprs=0.0, sgprs=1.0, lds_bytes=0.0, scratch_bytes=64.0)
    return samples.profile(replace(kernel, bottleneck=samples.bottleneck(room), lines=(LINE,), registers=registers))


class FakeSource:
    """Answers at once, after `delay_s`; keeps what it was asked."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self.predictions: list[Query] = []
        self.profiles: list[Query] = []
        self.failure: QueryFailed | None = None

    async def predict(self, query: Query) -> PredictionResult:
        self.predictions.append(query)
        await asyncio.sleep(self.delay_s)
        if self.failure:
            raise self.failure
        return prediction(len(query.source))

    async def profile(self, query: Query) -> ProfileResult:
        self.profiles.append(query)
        return profile()

    async def optimize(self, query: Query, budget_s: float) -> ImprovedProgram:
        assert budget_s > 0
        report = samples.optimize_document(status="improved", speedup=1.5)
        return ImprovedProgram(report=report, source=query.source + "// faster\n", diff="+// faster", assumed=())

    async def close(self) -> None: ...


def session(source: FakeSource, **options: Any) -> tuple[EditorSession, list[int]]:
    shown: list[int] = []

    async def changed(document: OpenDocument) -> None:
        shown.append(document.version)

    made = EditorSession(source, changed)
    made.options = EditorOptions(**{"debounce_ms": 20, **options})
    return made, shown


def document(text: str = TEXT) -> OpenDocument:
    made = OpenDocument("file:///k.hip", Path("/k.hip"), 1, TextBuffer(text), text)
    return made


def whole(text: str) -> types.TextDocumentContentChangeWholeDocument:
    return types.TextDocumentContentChangeWholeDocument(text)


def test_kernels_are_found_while_they_are_written() -> None:
    found = locate_kernels(TEXT)
    assert [(k.name, k.line, k.column, k.last) for k in found] == [("scale", 4, 39, 7), ("half_written", 8, 27, 10)]
    assert locate_kernels("") == [] and locate_kernels('"__global__ void f() {}" /* __global__ void g() {}') == []
    assert [k.name for k in locate_kernels("__global__ void f(")] == [
        "f"
    ]  # half a token: its parameters are being typed


def test_kernels_of_a_script_are_found_while_they_are_written() -> None:
    kernels = locate_kernels(SCRIPT)
    assert [(k.name, k.line, k.column, k.last) for k in kernels] == [("scale", 14, 4, 20)]
    half = SCRIPT[: SCRIPT.index("at = tl")]
    assert [(k.name, k.last) for k in locate_kernels(half)] == [("helper", 7), ("scale", 17)]  # not launched yet
    assert locate_kernels(SCRIPT.replace("import triton\n", "").replace("import triton.language as tl", "")) == []


@pytest.mark.parametrize("path", ["serving/web/language.js", "vscode/src/model.ts"])
def test_editors_tell_scripts_by_the_same_patterns(path: str) -> None:
    text = (Path(__file__).resolve().parents[3] / path).read_text()
    assert all(f"/{pattern.pattern}/m" in text for pattern in (languages._IMPORTS, languages._KERNEL))


def test_a_script_is_run_when_it_is_opened_or_saved(tmp_path: Path) -> None:
    path = tmp_path / "scale.py"
    path.write_text(SCRIPT)

    async def follow() -> None:
        source = FakeSource()
        made, _ = session(source, execute=True, flags="-O1", values={"n": 4})
        made.open("u", path, 1, SCRIPT)
        await finish(made)
        made.edit("u", 2, [whole(SCRIPT + "# 2\n")], PositionCodec())
        assert made.documents["u"].task is None or made.documents["u"].task.done()
        [lens] = server.lenses_of(made.documents["u"], made.options)
        assert lens.command and lens.command.title.endswith("of the saved text")
        path.write_text(SCRIPT + "# 2\n")
        made.save("u")
        await finish(made)
        first, second = source.predictions
        assert (first.path, second.path) == (str(path), str(path)) and second.source == SCRIPT + "# 2\n"
        assert first.run_host and first.flags == "-O3" and not first.values  # those are for HIP
        [lens] = server.lenses_of(made.documents["u"], made.options)
        assert lens.command and lens.command.title.endswith("predicted")
        await made.profile("u")
        assert source.profiles[0].path == str(path)

    async def finish(made: EditorSession) -> None:
        task = made.documents["u"].task
        assert task
        await task

    asyncio.run(follow())


def test_options_of_a_wrong_type_have_their_defaults() -> None:
    given = {"execute": "yes", "debounce_ms": 50, "arch": "gfx942", "unknown": 1}
    assert EditorOptions.of(given) == EditorOptions(arch="gfx942", debounce_ms=50)
    assert (
        EditorOptions.of(None) == EditorOptions.of([]) == EditorOptions()
        and not EditorOptions().execute
        and not EditorOptions().inlay_hints
    )


def test_a_newer_version_supersedes_an_older_one() -> None:
    async def edits() -> None:
        source = FakeSource(0.05)
        made, shown = session(source)
        made.open("u", Path("/k.hip"), 1, TEXT)
        for version in (2, 3):
            made.edit("u", version, [whole(TEXT + f"// {version}\n")], PositionCodec())  # within the pause: never asked
        await asyncio.sleep(0.04)
        made.edit("u", 4, [whole(TEXT + "// 4\n")], PositionCodec())  # the answer for version 3 is dropped
        task = made.documents["u"].task
        assert task
        await task
        assert [query.source[-2] for query in source.predictions] == ["3", "4"] and shown == [4]
        known = made.documents["u"].facts("scale")
        assert known and known.duration_ns == len(TEXT + "// 4\n")
        made.close("u")

    asyncio.run(edits())


def test_kernels_of_several_namespaces_say_which_is_shown() -> None:
    kernels = [
        replace(samples.KERNEL, name="k", instance=f"{space}::k<float>(float*)", duration_ns=ns)
        for space, ns in (("a", 5.0), ("b", 9.0))
    ]
    (shown,) = kernel_results.predicted_facts(samples.prediction(*kernels)).values()
    assert shown.duration_ns == 9.0 and shown.note == "of b::k, the longest of 2 kernels of this name"
    (alone,) = kernel_results.predicted_facts(samples.prediction(kernels[0], kernels[0])).values()
    assert not alone.note


def test_lenses_stay_while_their_text_changes() -> None:
    shown = document()
    assert [lens.command.title for lens in server.lenses_of(shown, EditorOptions()) if lens.command] == ["…", "…"]
    shown.predicted = server_outcome(shown, kernel_results.predicted_facts(prediction()))
    titles = [lens.command.title for lens in server.lenses_of(shown, EditorOptions()) if lens.command]
    assert titles[0] == "5 us (2.5 us to 10 us) · HBM bandwidth · occupancy 88 % · predicted"
    shown.buffer = TextBuffer(TEXT + "\n")
    stale = [lens.command.title for lens in server.lenses_of(shown, EditorOptions()) if lens.command]
    assert stale[0] == titles[0] + " · …" and len(stale) == 2
    shown.problem = "does not compile"
    assert "does not compile" in (server.lenses_of(shown, EditorOptions())[0].command or types.Command("", "")).title
    assert server.lenses_of(shown, EditorOptions(code_lens=False)) == []


def server_outcome(shown: OpenDocument, known: Mapping[str, kernel_results.KernelFacts]) -> Any:
    from hipsynth.serving.lsp.session import DocumentKernels

    return DocumentKernels(shown.version, shown.text, known, "m")


def test_executed_lines_follow_their_text_through_edits() -> None:
    shown = document()
    shown.executed = server_outcome(shown, kernel_results.executed_facts(profile()))
    assert shown.lines().keys() == {6}
    hover = server.hover_at(shown, 6, EditorOptions())
    assert hover and "90.0 %" in hover.contents.value and "1,600 (50 %)" in hover.contents.value  # type: ignore[union-attr]
    shown.buffer = TextBuffer("\n\n" + TEXT)
    assert shown.lines().keys() == {8}
    everything = types.Range(types.Position(0, 0), types.Position(99, 0))
    [hint] = server.hints_of(shown, everything)
    assert hint.label == "90 %" and hint.position == types.Position(8, 39)
    shown.buffer = TextBuffer(TEXT.replace("* 32", "* 1"))
    assert shown.lines() == {}  # the line has changed


def test_findings_carry_their_evidence() -> None:
    shown = document()
    shown.executed = server_outcome(shown, kernel_results.executed_facts(profile()))
    found = {d.code: d for d in server.diagnostics_of(shown)}
    assert found.keys() == {"low-occupancy", "scratch", "uncoalesced", "bank-conflict"}
    assert "12 %" in found["low-occupancy"].message and "VGPRs" in found["low-occupancy"].message
    assert "looks up 32 segments of 64 bytes, where 4 would" in found["uncoalesced"].message
    assert "31 cycles per LDS instruction" in found["bank-conflict"].message and "64 bytes" in found["scratch"].message
    assert {d.severity for d in found.values()} == {types.DiagnosticSeverity.Information}
    assert found["scratch"].range.start.line == 4 and found["uncoalesced"].range.start.line == 6
    shown.executed, low = None, prediction(occupancy=0.06)
    shown.predicted = server_outcome(shown, kernel_results.predicted_facts(low))
    [guess] = server.diagnostics_of(shown)
    assert guess.code == "low-occupancy" and guess.severity == types.DiagnosticSeverity.Hint
    fine = replace(LINE, accesses=400.0, bank_conflicts=0.0)
    assert list(presentation._line_findings(fine, "k")) == []


def test_findings_of_a_kernel_are_of_the_present_text() -> None:
    shown = document()
    shown.executed = server_outcome(shown, kernel_results.executed_facts(profile()))
    shown.buffer = TextBuffer("\n\n" + TEXT.replace("if (", "if  ("))
    assert "scratch" not in {d.code for d in server.diagnostics_of(shown)}, "nothing is known of the changed kernel"
    shown.predicted = server_outcome(shown, kernel_results.predicted_facts(prediction(occupancy=0.06)))
    found = {d.code: d.severity for d in server.diagnostics_of(shown)}
    assert found.pop("low-occupancy") == types.DiagnosticSeverity.Hint, "predicted"
    assert set(found.values()) == {types.DiagnosticSeverity.Information}, "lines that were executed as they are"


def test_nothing_is_executed_without_trust(tmp_path: Path) -> None:
    async def asked() -> None:
        source = FakeSource()
        made, _ = session(source)
        made.open("u", tmp_path / "k.hip", 1, TEXT)
        with pytest.raises(QueryFailed, match="execution is off"):
            await made.profile("u")
        assert source.profiles == []
        made.options = EditorOptions(execute=True, debounce_ms=0)
        await made.profile("u")
        (tmp_path / "k.hip").write_text(TEXT)
        await made.profile("u")
        assert [query.path for query in source.profiles] == [
            "",
            str(tmp_path / "k.hip"),
        ]  # unsaved text is its own program
        [row] = await made.compare("u")
        assert row.text.endswith("(+0 %)")
        with pytest.raises(QueryFailed, match="not open"):
            await made.profile("v")
        assert not any("Execute" in a.title for a in server.actions_of(made.documents["u"], 5, EditorOptions()))
        made.close("u")

    asyncio.run(asked())


def test_the_launch_of_a_kernel_without_host_code_is_said_and_chosen(tmp_path: Path) -> None:
    shown = document()
    [kernel] = prediction().kernels
    assumed = replace(prediction(), kernels=(replace(kernel, assumed="no main(): scale is launched with 4 x 1 x 1"),))
    facts = kernel_results.predicted_facts(assumed)["scale"]
    assert presentation.lens_title(facts, "").endswith("predicted, launch assumed")
    assert "- no main(): scale is launched with 4 x 1 x 1" in presentation.kernel_hover(facts, "gfx942", "m")
    made, _ = session(FakeSource())
    made.options = EditorOptions.of({"grid": [64], "block": ["x"], "values": {"n": 4096, "a": 2}})
    query = made.query(shown, "__global__ void one(int n) { }")
    assert (query.grid, query.block, query.values) == ((64,), None, {"n": 4096}), "arguments of this text alone"
    with_main = "__global__ void one(int n) { }\nint main() { one<<<1, 1>>>(2); }"
    made.options = replace(made.options, execute=True)
    assert made.query(shown, with_main).grid is None, "its host code runs, and says it"


def test_a_faster_version_is_offered_as_an_edit_of_the_very_text(tmp_path: Path) -> None:
    async def asked() -> None:
        made, _ = session(FakeSource())
        made.open("u", tmp_path / "k.hip", 1, TEXT)
        with pytest.raises(QueryFailed, match="execution is off"):
            await made.optimize("u")
        made.options = EditorOptions(execute=True, debounce_ms=0)
        titles = [action.title for action in server.actions_of(made.documents["u"], 5, made.options)]
        assert "hipsynth: Look for a faster version, and verify it" in titles
        assert not any("Apply" in title for title in titles)
        report = await made.optimize("u")
        assert report.speedup == 1.5
        [action] = [a for a in server.actions_of(made.documents["u"], 5, made.options) if "Apply" in a.title]
        assert action.title == "hipsynth: Apply the faster version (1.50 times as fast, verified)"
        assert action.edit and action.edit.changes
        [edit] = action.edit.changes["u"]
        buffer = TextBuffer(TEXT)
        buffer.apply(types.TextDocumentContentChangePartial(edit.range, edit.new_text), PositionCodec())
        assert buffer.text == TEXT + "// faster\n", "the whole text is replaced"
        changed = types.TextDocumentContentChangeWholeDocument(TEXT + "\n")
        made.edit("u", 2, [changed], PositionCodec())
        assert not any("Apply" in a.title for a in server.actions_of(made.documents["u"], 5, made.options))
        made.close("u")

    asyncio.run(asked())


def test_a_failure_is_said_in_the_lens_and_kept_apart_from_facts() -> None:
    async def asked() -> None:
        source = FakeSource()
        source.failure = QueryFailed("compile_failed", "k.hip does not compile: error: ...")
        made, _ = session(source, debounce_ms=0)
        made.open("u", Path("/k.hip"), 1, TEXT)
        task = made.documents["u"].task
        assert task
        await task
        assert made.documents["u"].state() == "does not compile"
        hover = server.hover_at(made.documents["u"], made.documents["u"].found[0].line, EditorOptions())
        assert hover and "k.hip does not compile: error: ..." in hover.contents.value  # type: ignore[union-attr]
        made.open("v", Path("/k.hip"), 1, TEXT * 20_000)
        assert made.documents["v"].found == []  # left alone
        made.close("u")
        made.close("v")

    asyncio.run(asked())


def test_workers_answer_in_the_words_of_synth() -> None:
    async def asked() -> None:
        source = WorkerSource()
        try:
            no_kernel, no_device = Query("int x;", "gfx90a", "-O3", ""), Query("", "gfx1", "", "")
            for query, reason in ((no_kernel, "no_kernel"), (no_device, "usage")):
                with pytest.raises(QueryFailed) as caught:
                    await source.predict(query)
                assert caught.value.reason == reason and "try:" in str(caught.value)
        finally:
            await source.close()
        with pytest.raises(QueryFailed) as caught:
            await source.predict(no_kernel)
        assert caught.value.reason == "worker_died"  # no process is started for a client that has gone

    asyncio.run(asked())


def test_a_worker_may_take_the_time_that_the_user_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float | None] = []

    async def answer(pool: Pool, kind: str, request: object, limit_s: float | None = None) -> JsonObject:
        limits.append(limit_s)
        raise WorkerLost("the worker process ended")

    monkeypatch.setattr(Pool, "ask", answer)

    async def asked() -> None:
        source = WorkerSource()
        for ask in (source.predict, source.profile):
            with pytest.raises(QueryFailed):
                await ask(Query(TEXT, "gfx90a", "-O3", "", limit_s=1000.0))

    asyncio.run(asked())
    assert limits == [wall_limit(1000.0)] * 2


def test_what_is_closed_shows_nothing_any_more() -> None:
    async def asked() -> None:
        source = FakeSource()
        made, shown = session(source, execute=True)
        made.open("u", Path("/k.hip"), 1, TEXT)
        running = asyncio.ensure_future(made.profile("u"))
        while not source.profiles:
            await asyncio.sleep(0)
        before = list(shown)
        made.close("u")
        await running
        assert shown == before

    asyncio.run(asked())


def test_lines_are_followed_through_an_edit() -> None:
    old = "a\nb\n}\nc\n}\n"
    assert kernel_results.line_map(old, old) == {0: 0, 1: 1, 2: 2, 3: 3, 4: 4}
    assert kernel_results.line_map(old, "new\n" + old) == {0: 1, 1: 2, 2: 3, 3: 4, 4: 5}
    assert kernel_results.line_map(old, "a\nx\n}\ny\nc\n}\n") == {0: 0, 2: 2, 3: 4, 4: 5}
    assert kernel_results.line_map("", "a\n") == kernel_results.line_map("a\n", "") == {}
    many = "}\n" * 20_000
    assert len(kernel_results.line_map("x\n" + many + "y\n", many)) == 0  # two edits far apart: not worth the time


HOSTILE = ("__global__ ", "__global__ void f(int a) {", "__global__ f(", "'\\", 'R"(', "/*", '"\\')


@pytest.mark.parametrize("part", HOSTILE)
def test_hostile_texts_are_searched_to_the_end(part: str) -> None:
    # Each took from minutes to hours while unfinished parts were searched from every beginning.
    assert len(locate_kernels(part * (500_000 // len(part)))) <= MOST_KERNELS


def test_the_server_starts_without_torch_and_speaks_the_protocol() -> None:
    heavy = "sys.exit(any(m in sys.modules for m in ('torch', 'pyarrow', 'numpy')))"
    code = f"import sys, hipsynth.serving.lsp.server; {heavy}"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

    async def talk() -> None:
        client = LanguageClient("test", "1")
        await client.start_io(sys.executable, "-m", "hipsynth.cli.main", "lsp")
        answer = await client.initialize_async(types.InitializeParams(types.ClientCapabilities()))
        assert answer.server_info and answer.server_info.name == "hipsynth"
        client.initialized(types.InitializedParams())
        item = types.TextDocumentItem("file:///k.hip", "hip", 1, TEXT)
        client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        named = types.TextDocumentIdentifier(item.uri)
        lenses = await client.text_document_code_lens_async(types.CodeLensParams(named))
        assert lenses and [lens.range.start.line for lens in lenses] == [4, 8]
        refused = await client.workspace_execute_command_async(types.ExecuteCommandParams(server.PROFILE, [item.uri]))
        assert "not_trusted" in str(refused)
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()

    asyncio.run(asyncio.wait_for(talk(), 30))


@pytest.mark.full
def test_the_server_starts_within_a_second() -> None:
    """Of processor time, the best of some starts: others may use the machine."""

    async def start() -> float:
        client = LanguageClient("test", "1")
        await client.start_io(sys.executable, "-m", "hipsynth.cli.main", "lsp")
        await client.initialize_async(types.InitializeParams(types.ClientCapabilities()))
        assert client._server
        fields = Path(f"/proc/{client._server.pid}/stat").read_text().rpartition(")")[2].split()
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    assert min(asyncio.run(asyncio.wait_for(start(), 60)) for _ in range(5)) < 1.0
