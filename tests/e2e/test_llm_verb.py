"""`synth llm` as a user runs it: recorded answers of a model, each a way in which a program may be good or bad."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs
import pytest
from chat_server import ChatStub, Handler, completion, serving
from child_processes import child_process, wait_until

from hipsynth.core.program import iter_programs

ROOT = Path(__file__).resolve().parents[2]
ANSWERS = json.loads((ROOT / "tests" / "e2e" / "llm_answers.json").read_text())


@pytest.fixture(scope="module", autouse=True)
def _machine() -> None:
    needs.simulator()
    needs.sandbox()


def _command(url: str, out: Path, *arguments: object) -> list[str]:
    words = (
        "--url",
        url,
        "--model",
        "recorded",
        "--out",
        out,
        "--timeout",
        2,
        "--workers",
        1,
        "--retries",
        0,
        "--json",
    )
    return [sys.executable, "-m", "hipsynth.cli.main", "llm", *map(str, (*words, *arguments))]


def _llm(url: str, out: Path, *arguments: object) -> tuple[int, dict[str, Any]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SOME_KEY": "sk-secret"}
    done = subprocess.run(
        _command(url, out, *arguments), capture_output=True, text=True, timeout=600, check=False, env=environment
    )
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


def _recorded(handler: Handler, body: dict[str, Any]) -> None:
    """The recorded answer for a seed."""
    row = ANSWERS[body["seed"]]
    handler.send(completion(row["text"], row.get("finish", "stop")))


@pytest.fixture
def server() -> Iterator[ChatStub]:
    with serving(_recorded) as found:
        yield found


GRID = ("--problem", "saxpy", "--level", "plain", "--temperature", 0.5, "--seed", 0)


def test_each_recorded_answer_is_kept_or_has_its_reason(server: ChatStub, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = (*GRID, "--count", len(ANSWERS), "--price-in", 10, "--price-out", 100, "--api-key-env", "SOME_KEY")
    code, report = _llm(server.url, out, *options)
    wanted: dict[str, int] = {}
    for row in ANSWERS:
        wanted[row["reason"]] = wanted.get(row["reason"], 0) + 1
    good = wanted.pop("")
    assert report["excluded"] == wanted
    assert (code, report["programs"], report["answered"], report["failed"]) == (0, good, len(ANSWERS), {})
    assert report["tokens"] == {"read": 100 * len(ANSWERS), "written": 50 * len(ANSWERS), "unstated": 0}
    assert report["cost_usd"] == pytest.approx(len(ANSWERS) * (100 * 10 + 50 * 100) / 1e6)
    assert report["by"]["problem"] == {"saxpy": [good, len(ANSWERS)]}
    programs = list(iter_programs(out))
    assert len(programs) == good and {p.origin for p in programs} == {"llm"} and len({p.lineage for p in programs}) == 1
    assert all(p.lineage != p.id and p.params["model"] == "recorded" for p in programs)
    assert not any("sk-secret" in path.read_text() for path in out.iterdir())
    assert json.loads((out / "report.json").read_text()) == report
    asked = len(server.requests)
    assert _llm(server.url, out, *options)[1] == {**report, "reused": len(ANSWERS)}
    assert len(server.requests) == asked, "nothing is asked twice"


def test_what_was_answered_is_used_when_the_endpoint_fails(tmp_path: Path) -> None:
    def fails(handler: Handler, body: dict[str, Any]) -> None:
        if body["seed"] == 0:
            _recorded(handler, body)
        else:
            handler.send(b"busy", 500)

    with serving(fails) as server:
        code, report = _llm(server.url, tmp_path / "out", *GRID, "--count", 2)
    assert (code, report["programs"], report["failed"]) == (5, 1, {"http_500": 1})


def test_an_unusable_endpoint_is_exit_code_4(tmp_path: Path) -> None:
    with serving(lambda handler, _: handler.send(b"no such model", 404)) as server:
        code, document = _llm(server.url, tmp_path / "out", *GRID, "--count", 1)
    assert code == 4 and document["error"] == "endpoint_failed" and "--url" in document["remedy"]


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    def second_hangs(handler: Handler, body: dict[str, Any]) -> None:
        if body["seed"] == 1 and len(server.requests) <= 2:
            time.sleep(60)
        _recorded(handler, body)

    out = tmp_path / "out"
    with serving(second_hangs) as server:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = _command(server.url, out, *GRID, "--count", 2, "--at-once", 1)
        pipe = subprocess.PIPE
        with child_process(command, stdout=pipe, stderr=pipe, env=environment) as process:
            assert wait_until(lambda: len(server.requests) >= 2, 120)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        assert process.returncode == 130
        _, report = _llm(server.url, out, *GRID, "--count", 2)
        assert report["reused"] == 1 and report["answered"] == 2
        assert [body["seed"] for _, body, _ in server.requests] == [0, 1, 1]


def test_a_missing_key_and_a_folder_of_other_programs_are_refused(tmp_path: Path) -> None:
    code, document = _llm("http://127.0.0.1:9/v1", tmp_path / "out", "--api-key-env", "HIPSYNTH_NO_SUCH_KEY")
    assert code == 2 and "HIPSYNTH_NO_SUCH_KEY" in document["message"]
    (tmp_path / "programs.jsonl").touch()
    assert _llm("http://127.0.0.1:9/v1", tmp_path)[0] == 3
