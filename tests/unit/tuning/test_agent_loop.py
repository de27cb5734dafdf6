"""A model that drives the tools: what it may answer, how its run ends, resumes and is verified. No simulator."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_server import Handler, serving
from fake_tuning import TEXT, measure, without_simulator

from hipsynth.core.errors import BadInput
from hipsynth.core.program import text_id
from hipsynth.synth.llm.endpoint import Client
from hipsynth.tuning.agent import agent_loop as drive_module
from hipsynth.tuning.agent.agent_loop import FAILED_CALLS, AgentResult, AgentSettings, drive_model
from hipsynth.tuning.agent.prompts import DONE, fit_messages, opening_messages, tool_result_message
from hipsynth.tuning.agent.sft_chats import NotTeachable, from_trace
from hipsynth.tuning.agent.trace import read_trace
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, Evaluator
from hipsynth.tuning.optimize.optimize import OptimizeRequest
from hipsynth.tuning.tools import TOOLS
from hipsynth.tuning.trial import target_of

Turn = str | list[tuple[Any, Any]] | bytes


def answer(turn: Turn) -> bytes:
    if isinstance(turn, bytes):
        return turn
    message: dict[str, Any] = {"role": "assistant", "content": turn if isinstance(turn, str) else None}
    if not isinstance(turn, str):
        functions = [{"name": n, "arguments": a if isinstance(a, str) else json.dumps(a)} for n, a in turn]
        calls = [{"id": f"c{i}", "type": "function", "function": f} for i, f in enumerate(functions)]
        message["tool_calls"] = calls
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return json.dumps({"model": "m", "choices": [{"message": message}], "usage": usage}).encode()


def script(turns: Sequence[Turn]) -> Callable[[Handler, dict[str, Any]], None]:
    """Replies by the number of answers so far; the last one is repeated."""

    def reply(handler: Handler, body: dict[str, Any]) -> None:
        given = sum(message["role"] == "assistant" for message in body["messages"])
        handler.send(answer(turns[min(given, len(turns) - 1)]))

    return reply


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    without_simulator(monkeypatch)


def driven(turns: Sequence[Turn], path: Path, **manner: Any) -> tuple[AgentResult, int]:
    """The run, and the number of requests."""
    with serving(script(turns)) as server:
        request = OptimizeRequest(TEXT, target_of("gfx942"))
        found = drive_model(request, Client(server.url, "", 10.0), AgentSettings("m", **manner), path)
        return found, len(server.requests)


HINTS = 1  # the number of the move that restricts the pointers
APPLY: list[Turn] = [[("propose", {"program": "v0"})], [("apply", {"program": "v0", "move": HINTS})], f"{DONE}: v1"]
CHEAT = TEXT.replace("2.0f", "/* wrong */ 1.0f")


def test_what_a_model_finds_is_verified_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    found, requests = driven(APPLY, path)
    assert (found.ended, found.found.status, found.found.speedup, requests) == ("finished", "improved", 2.0, 3)
    assert found.document("m", path).calls == 2 and found.tokens == 330 and found.found.diff
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    kinds = [row["kind"] for row in rows]
    assert kinds.count("message") == 7 and kinds[0] == "run" and kinds[-1] == "outcome"
    assert [json.loads(json.dumps(line.row())) for line in read_trace(path)] == rows
    again, requests = driven(APPLY, path)
    assert requests == 0 and again.found.text == found.found.text and again.calls == 2
    assert from_trace(read_trace(path), {}).split == "held_out"  # its origin is not known
    sample = from_trace(read_trace(path), {text_id(TEXT): "train"})
    assert sample.split == "train" and sample.messages[4]["tool_calls"][0]["function"]["arguments"] == {
        "program": "v0",
        "move": HINTS,
    }
    assert sample.speedup == 2.0


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    full, asked = driven(APPLY, whole)
    lines = whole.read_text().splitlines(keepends=True)
    assert len(lines) > 3
    for at in range(2, len(lines)):
        cut.write_text("".join(lines[:at]) + lines[at][: len(lines[at]) // 2])
        found, requests = driven(APPLY, cut)
        assert found.found.text == full.found.text and found.calls == full.calls and requests <= asked, at
        assert found.ended == "finished"
        assert requests == 0 or at < len(lines) - 1, "the model ended the run before its outcome was written"


def test_a_wrong_program_that_the_model_praises_is_not_the_answer(tmp_path: Path) -> None:
    turns: list[Turn] = [[("compile", {"source": CHEAT, "replaces": "v0"})], f"{DONE}: v1 is 10 times as fast"]
    found, _ = driven(turns, tmp_path / "run.jsonl")
    assert found.found.status == "unchanged" and found.found.text == TEXT and found.found.speedup == 1.0
    assert found.found.steps[0].reason == "outputs_equal: a copy differs"
    forgetful: list[Turn] = [[("compile", {"source": CHEAT})], DONE]
    assert driven(forgetful, tmp_path / "other.jsonl")[0].found.status == "unchanged"


def test_a_gain_that_sampling_leaves_open_is_not_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure_roughly(evaluator: Evaluator, text: str) -> CandidateMeasurement:
        found = measure(evaluator, text)
        return replace(found, kernels=tuple(replace(kernel, error=0.8) for kernel in found.kernels))

    monkeypatch.setattr(Evaluator, "__call__", measure_roughly)
    assert driven(APPLY, tmp_path / "run.jsonl")[0].found.status == "unchanged"


def test_programs_are_timed_with_the_arguments_of_the_original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model cannot make its program faster by compiling it for a smaller run."""

    def smaller(evaluator: Evaluator, text: str) -> CandidateMeasurement:
        found = measure(evaluator, text)
        (kernel,) = found.kernels
        return replace(found, kernels=(replace(kernel, duration_ns=1.0),)) if evaluator.conditions.arguments else found

    monkeypatch.setattr(Evaluator, "__call__", smaller)
    call = {"source": TEXT + "\n", "replaces": "v0", "arguments": "16"}
    found, _ = driven([[("compile", call)], f"{DONE}: v1"], tmp_path / "run.jsonl")
    assert found.found.status == "unchanged" and found.found.steps[0].reason == "not faster"
    apply = [("apply", {"program": "v1", "move": HINTS})]
    found, _ = driven([[("compile", call)], apply, f"{DONE}: v2"], tmp_path / "two.jsonl")
    compiled, applied = found.found.steps
    assert (applied.parent, applied.kept) == (compiled.number, True)
    assert applied.before_ns == pytest.approx(2 * (applied.after_ns or 0.0))


@pytest.mark.parametrize(
    ("turns", "ended", "manner"),
    [
        (["I like kernels."], "nonsense", {}),
        ([""], "nonsense", {}),
        ([[("profile", {"program": "v0"})]], "loop", {}),
        ([[("shell", {"command": f"cat /etc/passwd {i}"}) for i in range(20)]], "failing calls", {}),
        ([[("profile", {"program": f"../{i}"}) for i in range(20)]], "failing calls", {}),
        ([[("profile", f"{{{i}") for i in range(20)]], "failing calls", {}),
        ([[("propose", {"program": "v0"}), ("predict", {"program": "v9"}), (7, [])]], "calls", {"calls": 3}),
        ([[("propose", {"program": "v0"})]], "tokens", {"tokens": 100}),
        ([[("propose", {"program": "v0"})]], "seconds", {"seconds": 0.0}),
        ([b"{"], "endpoint: bad_json", {}),
        ([b"[" * 100_000], "endpoint: bad_json", {}),
        ([b" " * (2 << 20)], "endpoint: too_large", {}),
        ([b'{"choices": [{"message": {"content": null, "tool_calls": 3}}]}'], "endpoint: no_text", {}),
        ([b'{"choices": [{"message": {"tool_calls": [3, {"function": 7}]}}]}'], "loop", {}),
    ],
)
def test_a_run_ends_with_a_reason(turns: list[Turn], ended: str, manner: dict[str, Any], tmp_path: Path) -> None:
    found, _ = driven(turns, tmp_path / "run.jsonl", **manner)
    assert (found.ended, found.found.status) == (ended, "unchanged")
    assert found.calls <= manner.get("calls", 40) and found.failed_calls <= FAILED_CALLS
    with pytest.raises(NotTeachable):
        from_trace(read_trace(tmp_path / "run.jsonl"), {})


def test_a_busy_endpoint_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive_module.time, "sleep", lambda seconds: None)
    left = [503, 503]

    def reply(handler: Handler, body: dict[str, Any]) -> None:
        handler.send(b"busy", status=left.pop()) if left else handler.send(answer(DONE))

    with serving(reply) as server:
        found = drive_model(
            OptimizeRequest(TEXT, target_of("gfx942")),
            Client(server.url, "", 10.0),
            AgentSettings("m"),
            tmp_path / "run.jsonl",
        )
    assert found.ended == "finished" and not left


def test_the_trace_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    driven([DONE], path)
    with serving(script([DONE])) as server, pytest.raises(BadInput, match="another run"):
        drive_model(OptimizeRequest(TEXT + "\n", target_of("gfx942")), Client(server.url), AgentSettings("m"), path)
    path.write_text('{"kind": "message", "message": {"role": "user", "content": ""}}\n')
    with serving(script([DONE])) as server, pytest.raises(BadInput, match="another run"):
        drive_model(OptimizeRequest(TEXT, target_of("gfx942")), Client(server.url), AgentSettings("m"), path)


@pytest.mark.parametrize(
    "line",
    [
        '{"kind": "message"}',
        '{"kind": "program", "program": {}}',
        '{"kind": "other"}',
        '{"kind": "outcome", "ended": "", "best": "", "status": "perfect", "reason": "", "speedup": 1.0}',
    ],
)
def test_a_line_that_no_run_writes_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(BadInput, match="line 1 is no line of a trace"):
        read_trace(path)


def test_the_model_is_offered_every_tool_and_little_old_text(tmp_path: Path) -> None:
    with serving(script([DONE])) as server:
        drive_model(
            OptimizeRequest(TEXT, target_of("gfx942")), Client(server.url), AgentSettings("m"), tmp_path / "run.jsonl"
        )
        body = server.requests[0][1]
    assert [row["function"]["name"] for row in body["tools"]] == list(TOOLS) and body["max_tokens"] == 2048
    messages = [
        *opening_messages(TEXT, "gfx942"),
        *(tool_result_message("x", str(i), {"text": "y" * 5000}) for i in range(9)),
    ]
    short = fit_messages(messages, 15_000)
    assert len(json.dumps(short)) < 17_000 and short[:2] == messages[:2] and short[-1] == messages[-1]
    assert fit_messages(messages, 10**6) == messages
