"""Are the tools a table with schemas, and is every wrong call a result with a reason?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import profiling_samples
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling.lines.line_records import Amounts, KernelLines, SourceLine
from hipsynth.toolchain import find_toolchain
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, Evaluator, KernelTime
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations import TRANSFORMATIONS
from hipsynth.tuning.optimize.verification.verify import Verifier
from hipsynth.tuning.tools import TOOLS, ToolLimits, ToolSession, run_tool, tool_definitions
from hipsynth.tuning.tools.functions import compare_runs
from hipsynth.tuning.tools.tool_table import check_arguments, without_folders
from hipsynth.tuning.trial import Conditions, target_of

PROGRAM = r"""#include <hip/hip_runtime.h>
#include <cstdlib>
#include <vector>
__global__ void scale(const float* in, float* out, int rows, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows) return;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += in[i * n + k];
  out[i] = sum;
}
int main(int argc, char** argv) {
  const int rows = argc > 1 ? std::atoi(argv[1]) : 512, n = 64;
  std::vector<float> host(rows * n), back(rows);
  for (int i = 0; i < rows * n; ++i) host[i] = 0.25f * (i % 37);
  float *in, *out;
  if (hipMalloc(&in, rows * n * 4) || hipMalloc(&out, rows * 4)) return 1;
  (void)hipMemcpy(in, host.data(), rows * n * 4, hipMemcpyHostToDevice);
  scale<<<(rows + 255) / 256, 256>>>(in, out, rows, n);
  (void)hipMemcpy(back.data(), out, rows * 4, hipMemcpyDeviceToHost);
  return back[0] < 0;
}
"""
WRONG = PROGRAM.replace("out[i] = sum;", "out[i] = sum + 1;")


@pytest.fixture(scope="module")
def session() -> Iterator[ToolSession]:
    made = ToolSession(target_of("gfx942"), sizes=(("96",), ("70",)))
    made.add(PROGRAM, made="source")
    yield made


def fresh(limits: ToolLimits | None = None) -> ToolSession:
    return ToolSession(target_of("gfx942"), limits)


def test_every_tool_has_a_name_a_description_and_a_schema() -> None:
    for row in tool_definitions():
        function = row["function"]
        assert row["type"] == "function" and len(function["description"]) > 40
        schema = function["parameters"]
        assert schema["additionalProperties"] is False and set(schema["required"]) <= set(schema["properties"])
        assert all(len(p["description"]) > 5 for p in schema["properties"].values())
    assert json.loads(json.dumps(tool_definitions())) == tool_definitions()


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("shell", {"command": "id"}, "unknown_tool"),
        ("", {}, "unknown_tool"),
        ("profile", {}, "bad_arguments"),
        ("profile", [], "bad_arguments"),
        ("profile", None, "bad_arguments"),
        ("profile", {"program": 0}, "bad_arguments"),
        ("profile", {"program": "v0", "file": "/etc/passwd"}, "bad_arguments"),
        ("profile", {"program": "/etc/passwd"}, "unknown_program"),
        ("profile", {"program": "../v0"}, "unknown_program"),
        ("apply", {"program": "v0", "move": True}, "bad_arguments"),
        ("compile", {"source": "\0"}, "bad_arguments"),
        ("compile", {"source": "\ud800"}, "bad_arguments"),
        ("compile", {"source": "x" * (65 << 10)}, "too_large"),
        ("compile", {"source": PROGRAM, "replaces": "v9"}, "unknown_program"),
        ("compile", {"source": PROGRAM, "arguments": "'"}, "bad_arguments"),
    ],
)
def test_a_wrong_call_has_a_reason(name: str, arguments: object, reason: str) -> None:
    done = run_tool(fresh(), name, arguments)
    assert done.failed and done.document["error"] == reason and done.document["message"]


EMPTY = fresh()


@settings(suppress_health_check=[HealthCheck.too_slow])  # of a busy machine
@given(st.text(max_size=8), st.recursive(st.none() | st.integers() | st.text(), st.lists), st.booleans())
def test_no_call_raises(name: str, value: object, known: bool) -> None:
    chosen = "run_and_verify" if known else name
    assert run_tool(EMPTY, chosen, {"program": value, name: value}).failed


def test_limits_end_a_run() -> None:
    session = fresh(ToolLimits(calls=1, programs=1))
    assert run_tool(session, "profile", {"program": "v0"}).document["error"] == "unknown_program"
    assert run_tool(session, "profile", {"program": "v0"}).document["error"] == "limit"
    session = fresh(ToolLimits(seconds=0.5))
    session.seconds = 1.0
    assert run_tool(session, "propose", {"program": "v0"}).document["error"] == "limit"
    session = fresh(ToolLimits(programs=1))
    session.add(PROGRAM)
    assert run_tool(session, "compile", {"source": WRONG}).document["error"] == "limit"


def test_a_source_cannot_read_what_lies_outside(tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("#error a-secret-word\n")
    done = run_tool(fresh(), "compile", {"source": f'#include "{secret}"\n{PROGRAM}'})
    assert done.document["error"] == "compile_failed"
    assert "not found" in done.document["message"] and "a-secret-word" not in json.dumps(done.document)


def test_messages_name_no_folders_of_this_machine() -> None:
    assert without_folders("/tmp/a-1/b/program.hip:3:1: error: no") == "program.hip:3:1: error: no"


def test_arguments_have_the_types_of_the_schema() -> None:
    parameters = TOOLS["apply"].parameters
    assert check_arguments(parameters, {"program": "v0", "move": 3}) == {"program": "v0", "move": 3}


def test_a_program_is_improved_with_the_tools(session: ToolSession) -> None:
    found = run_tool(session, "profile", {"program": "v0"}).document
    assert found["kernels"][0]["name"] == "scale" and found["duration_us"] > 0
    moves = run_tool(session, "propose", {"program": "v0"}).document["moves"]
    assert {"hints", "group_shape"} <= {row["transformation"] for row in moves}
    number = next(row["move"] for row in moves if row["transformation"] == "group_shape")
    made = run_tool(session, "apply", {"program": "v0", "move": number}).document
    assert made["program"] == "v1" and "+" in made["diff"]
    gained = run_tool(session, "compare", {"before": "v0", "after": "v1"}).document
    assert gained["speedup"] == pytest.approx(gained["before_us"] / gained["after_us"], abs=1e-2)
    verified = run_tool(session, "run_and_verify", {"program": "v1"}).document
    assert verified["passed"] and {row["check"] for row in verified["checks"]} >= {"other_inputs", "other_sizes"}
    assert run_tool(session, "apply", {"program": "v0", "move": number}).document["program"] == "v1"
    assert run_tool(session, "apply", {"program": "v0", "move": 999}).document["error"] == "unknown_move"


def test_moves_say_which_analyses_were_left_out(session: ToolSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Iterator[TransformationPlan]:
        raise IndexError("a fault")
        yield TransformationPlan()

    assert run_tool(session, "propose", {"program": "v0", "preview": 0}).document.get("left_out") is None
    broken = replace(TRANSFORMATIONS["hints"], list_plans=fail)
    name = "hipsynth.tuning.optimize.transformations.TRANSFORMATIONS"
    monkeypatch.setattr(name, {**TRANSFORMATIONS, "hints": broken})
    other = session.start_again()
    other.add(PROGRAM, made="source")
    left_out = run_tool(other, "propose", {"program": "v0", "preview": 0}).document["left_out"]
    assert left_out.keys() == {"hints"} and left_out["hints"].startswith("IndexError: a fault at fail")


def test_a_change_of_the_source_is_a_move() -> None:
    """Two groups of 256 rows do not fill the device: the loop over a row is split between groups."""
    session = ToolSession(target_of("gfx942"), sizes=(("96",), ("70",)))
    session.add(PROGRAM, made="source")
    moves = run_tool(session, "propose", {"program": "v0", "preview": 0}).document["moves"]
    [first, *_] = [row for row in moves if row["transformation"] == "split_k"]
    assert (
        first["kernel"] == "scale"
        and "do not fill" in first["why"]
        and sorted(r["move"] for r in moves) == [*range(len(moves))]
    )
    made = run_tool(session, "apply", {"program": "v0", "move": first["move"]}).document
    assert "scale_parts" in made["diff"]
    version = session.versions[made["program"]]
    assert version.made == "split_k" and version.root == "v0" and version.base == version.name and not version.plans
    assert run_tool(session, "run_and_verify", {"program": version.name}).document["passed"]
    later = run_tool(session, "propose", {"program": version.name, "preview": 0}).document["moves"]
    assert {row["kernel"] for row in later} >= {"scale_parts"}, "later moves read the changed text"


def test_a_program_is_read_and_edited(session: ToolSession) -> None:
    text = run_tool(session, "read", {"program": "v0", "first": 8, "most": 1}).document["text"]
    assert text == "8\t  for (int k = 0; k < n; ++k) sum += in[i * n + k];"
    change = {"program": "v0", "old": "out[i] = sum;", "new": "out[i] = sum + 2;"}
    edited = run_tool(session, "edit", change).document
    assert "+  out[i] = sum + 2;" in edited["diff"] and session.find_version(edited["program"]).root == "v0"
    for old in ("out[i] = product;", "int", ""):
        refused = run_tool(session, "edit", change | {"old": old}).document
        assert refused["error"] == "bad_arguments"
    assert run_tool(session, "edit", change | {"new": "out[j] = 1;"}).document["error"] == "compile_failed"
    assert run_tool(session, "read", {"program": "v0", "first": 999}).document["error"] == "bad_arguments"


def test_resources_and_causes_are_those_of_the_profile(session: ToolSession) -> None:
    [held] = run_tool(session, "resources", {"program": "v0"}).document["kernels"]
    assert held["name"] == "scale" and held["vgprs_per_lane"] > 0 and held["lds_bytes_per_group"] == 0
    assert held["waves_per_cu"] == 4 * held["groups_per_cu"] and held["limited_by"]
    [causes] = run_tool(session, "what_if", {"program": "v0"}).document["kernels"]
    worth = {row["cause"]: row["worth_percent"] for row in causes["causes"]}
    assert worth["coalescing"] > 0 and max(worth.values()) <= 100 and "lds_conflicts" not in worth
    assert list(worth.values()) == sorted(worth.values(), reverse=True)


def test_a_wrong_program_does_not_pass(session: ToolSession) -> None:
    made = run_tool(session, "compile", {"source": WRONG, "replaces": "v0"}).document
    assert made["must_behave_like"] == "v0"
    assert not run_tool(session, "run_and_verify", {"program": made["program"]}).document["passed"]


def test_a_program_that_needs_arguments_is_verified_at_sizes_near_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Verifier, "try_size", lambda self, size, share: bool(size))
    monkeypatch.setattr(Verifier, "keeps_outputs", lambda self, size: True)
    made, text = fresh(), PROGRAM.replace("argc > 1 ? std::atoi(argv[1]) : 512", "std::atoi(argv[1])")
    for words in (("4096",), ("1024",)):
        sizes = made.prepare_verifier(made.add(text, arguments=words).name).sizes
        assert sizes and all(0 < int(size) < int(words[0]) for (size,) in sizes)
    assert sizes[0] != made.prepare_verifier("v0").sizes[0]


def test_kernels_of_namespaces_are_compared_with_their_tuned_copies() -> None:
    before, after = (
        KernelTime(name, ns, 1, "latency", "", (1, 1, 1), (64, 1, 1), True, {"VALU_Utilization": ns})
        for name, ns in (("ns::scale<4>", 100.0), ("ns::scale_tuned<4>", 50.0))
    )
    found = compare_runs((before,), (after,))
    assert found.speedup == 2.0 and list(found.changed) == ["ns::scale<4>"]


@pytest.mark.full
def test_groups_are_mapped(session: ToolSession) -> None:
    found = run_tool(session, "swizzle", {"program": "v0"})
    assert not found.failed and found.document["kernels"][0]["status"] in ("improved", "ceiling", "refused")


def test_hot_lines_name_kernels_as_the_other_tools_do(session: ToolSession, monkeypatch: pytest.MonkeyPatch) -> None:
    where = profiling_samples.target("gfx942")
    copied = replace(profiling_samples.kernel("gfx942"), symbol="_Z4copyPf")
    line = SourceLine("program.hip", 1, Amounts.of((), 0.5))
    measured = replace(
        profiling_samples.result(where, copied), lines=(KernelLines("_Z4copyPf", lines=(line,), loops=()),)
    )
    monkeypatch.setattr("hipsynth.tuning.tools.functions.profile_program", lambda *_: [measured])
    found = run_tool(session, "hot_lines", {"program": "v0"}).document
    assert [row["kernel"] for row in found["lines"]] == ["copy"]


@pytest.mark.full
def test_lines_and_predictions(session: ToolSession) -> None:
    found = run_tool(session, "hot_lines", {"program": "v0", "most": 3}).document
    assert 0 < len(found["lines"]) <= 3 and found["lines"][0]["share"] > 0
    assert run_tool(session, "predict", {"program": "v0"}).document["kernels"][0]["duration_us"] > 0


def test_a_measurement_is_found_again_in_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = KernelTime(
        "a", 5.0, 1, "hbm", "", (1, 1, 1), (64, 1, 1), True, {"VALU_Utilization": None}, {"SQ_WAVES": 2}
    )
    found = CandidateMeasurement("ok", "", "", 0, (kernel, kernel), 0.5)
    monkeypatch.setattr("hipsynth.tuning.optimize.evaluate.run_trial", lambda *_: None)
    monkeypatch.setattr("hipsynth.tuning.optimize.evaluate.measurement_of_trial", lambda _: found)
    assert Evaluator(target_of("gfx942"), (), 1.0, tmp_path)(PROGRAM) == found
    monkeypatch.delattr("hipsynth.tuning.optimize.evaluate.run_trial")
    assert Evaluator(target_of("gfx942"), (), 1.0, tmp_path)(PROGRAM) == found


@pytest.mark.parametrize(("reason", "runs"), [(Reason.DISK_FULL, 2), (Reason.TIMEOUT, 2), (Reason.ILLEGAL_ACCESS, 1)])
def test_a_failure_of_the_machine_is_measured_again(
    reason: Reason, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[None] = []
    failed = CandidateMeasurement(RunStatus.FAILED, reason, "", -1, (), 0.5)
    monkeypatch.setattr("hipsynth.tuning.optimize.evaluate.run_trial", lambda *_: measured.append(None))
    monkeypatch.setattr("hipsynth.tuning.optimize.evaluate.measurement_of_trial", lambda _: failed)
    for _ in range(2):
        Evaluator(target_of("gfx942"), (), 1.0, tmp_path)(PROGRAM)
    assert len(measured) == runs


def test_a_measurement_is_of_one_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measurement = CandidateMeasurement(RunStatus.OK, Reason.NONE, "", 0, (), 0.5)
    monkeypatch.setattr("hipsynth.tuning.optimize.evaluate.run_trial", lambda *_: None)
    monkeypatch.setattr("hipsynth.tuning.optimize.evaluate.measurement_of_trial", lambda _: measurement)
    for identity in ("first", "second", "first"):
        toolchain = replace(find_toolchain(), identity=identity)
        monkeypatch.setattr("hipsynth.tuning.optimize.evaluate.find_toolchain", lambda toolchain=toolchain: toolchain)
        Evaluator(target_of("gfx942"), (), 1.0, tmp_path)(PROGRAM)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_candidate_runs_for_little_longer_than_the_first_program(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    first = CandidateMeasurement("ok", "", "", 0, (), 0.5, cpu_s=2.5)

    def run(text: str, target: object, conditions: Conditions) -> None:
        limits.append(conditions.time_s)

    monkeypatch.setattr("hipsynth.tuning.optimize.evaluate.run_trial", run)
    monkeypatch.setattr("hipsynth.tuning.optimize.evaluate.measurement_of_trial", lambda _: first)
    evaluator = Evaluator(target_of("gfx942"), (), 120.0, None)
    evaluator(PROGRAM)
    evaluator(PROGRAM)
    first = replace(first, cpu_s=0.5)
    Evaluator(target_of("gfx942"), (), 120.0, None)(PROGRAM)
    other = Evaluator(target_of("gfx942"), (), 120.0, None)
    other(PROGRAM)
    other(PROGRAM)
    assert limits == [120.0, 25.0, 120.0, 120.0, 15.0]
