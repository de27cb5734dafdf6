"""The server's parts on their own: its port and runtime file, what a worker refuses, how it answers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hipsynth.core.errors import BadInput, CompileFailed, UsageError
from hipsynth.serving import handlers, lifecycle, limits
from hipsynth.serving.pool import NotTaken, Pool, Worker, WorkerLost, WorkerProblem
from hipsynth.serving.requests import ProgramRequest, SearchRequest
from hipsynth.serving.worker import encode_answer, problem_of
from hipsynth.tuning.optimize.verification import verify
from hipsynth.tuning.trial.search_clock import LATEST, LEAST_RUN_S
from hipsynth.tuning.trial.trial_cache import AT_ONCE

REQUEST = ProgramRequest(source="int x;", arch="gfx90a")


def test_a_request_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="no request of the kind 'predic'") as found:
        handlers.answer("predic", {})
    assert found.value.cause == "did you mean predict?"


def test_a_port_in_use() -> None:
    with lifecycle.open_socket(0) as first, pytest.raises(UsageError, match="is in use") as found:
        lifecycle.open_socket(first.getsockname()[1])
    assert "--port" in found.value.remedy


def test_the_runtime_file_is_the_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = tmp_path / "hipsynth"
    folder.mkdir()
    killed = folder / "serve-999999999.json"
    killed.write_text("{}")
    with lifecycle.announce_address(lifecycle.Address("http://127.0.0.1:1", "secret")) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        record = json.loads(path.read_text())
        assert (record["url"], record["token"], record["pid"]) == ("http://127.0.0.1:1", "secret", os.getpid())
        assert not killed.exists()
    assert not path.exists()


def test_a_runtime_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hipsynth").write_text("a file")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(BadInput, match="cannot be written"), lifecycle.announce_address(lifecycle.Address("u", "t")):
        raise AssertionError("unreachable")


def test_requests_read_no_files() -> None:
    for flags in ("-I/etc", "-include /etc/passwd"):
        with pytest.raises(UsageError, match="cannot use the compiler flags"):
            handlers.target_of(replace(REQUEST, flags=flags))
    with pytest.raises(UsageError):
        handlers.target_of(replace(REQUEST, arch="gfx1"))
    with pytest.raises(UsageError):
        handlers.target_of(replace(REQUEST, device="mi300x"))


def test_too_many_kernels() -> None:
    with pytest.raises(BadInput, match="more than 256 kernels"):
        handlers.program_of(replace(REQUEST, source="__global__ void k();\n" * 257))


def test_problems_name_the_text_that_was_sent() -> None:
    told = "/tmp/hipsynth-process-1/scratch-x/0123456789abcdef.hip:3:1: error: no"
    found = problem_of(CompileFailed("no", diagnostics=told))
    assert found.diagnostics == "kernel.hip:3:1: error: no" and found.error == "compile_failed"


def test_numbers_that_json_does_not_have() -> None:
    assert json.loads(encode_answer({"a": [float("inf"), 1.5], "b": float("nan")})) == {"a": [None, 1.5], "b": None}


def test_lines_about_long_work_come_before_the_answer() -> None:
    async def test() -> None:
        worker = await Worker.start(0)
        said: list[str] = []
        request = SearchRequest(source="__global__ void k(float* x) { x[0] = y; }", arch="gfx90a", budget_s=9)
        try:
            with pytest.raises(WorkerProblem) as found:
                await worker.ask("optimize", request, said.append)
        finally:
            await worker.kill()
        assert found.value.problem.error == "syntax_error"
        assert said == [
            "no main(): k is launched with 4096 x 1 x 1 work-groups of 256 x 1 x 1; x of 1,048,576 elements"
        ]

    asyncio.run(test())


def test_a_request_that_an_ended_worker_never_read_goes_to_another() -> None:
    async def test() -> None:
        pool = Pool("test", 1, 1, 60)
        try:
            with pytest.raises(WorkerProblem) as found:  # no kernel in it; the worker is warm after this
                await pool.ask("predict", REQUEST)
            assert found.value.problem.error == "no_kernel"
            (pid,) = pool.pids
            os.kill(pid, signal.SIGSTOP)
            asking = asyncio.ensure_future(pool.ask("predict", REQUEST))
            while not pool.running:
                await asyncio.sleep(0)
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(WorkerProblem):
                await asking
            assert pool.lost == 0 and pool.pids != [pid]
        finally:
            await pool.close()
        assert not pool.pids

    asyncio.run(test())


@pytest.mark.parametrize(
    ("read", "lost"), [("head -c 8 > /dev/null; head -c 8 /dev/zero", WorkerLost), ("true", NotTaken)]
)
def test_a_killed_worker_costs_its_answer_only(
    read: str, lost: type[WorkerLost], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(_: int) -> Worker:
        pipe = asyncio.subprocess.PIPE
        words = ("sh", "-c", f"{read}; kill -9 $$")
        return Worker(await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, start_new_session=True))

    async def test() -> None:
        pool = Pool("test", 1, 1, 60)
        with monkeypatch.context() as patched:
            patched.setattr(Worker, "start", start)
            with pytest.raises(WorkerLost) as raised:
                await pool.ask("predict", REQUEST)
        assert type(raised.value) is lost and pool.lost == 1 and not pool.pids
        with pytest.raises(WorkerProblem):
            await pool.ask("predict", REQUEST)
        await pool.close()

    asyncio.run(test())


def test_a_worker_that_does_not_give_up_is_killed() -> None:
    async def test() -> None:
        worker = await Worker.start(0)
        os.kill(worker.process.pid, signal.SIGSTOP)
        asking = asyncio.ensure_future(worker.ask("predict", REQUEST))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert not worker.alive

    asyncio.run(test())


def test_a_signal_waits_for_imports_to_end(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGUSR1)\nloaded = True\n")
    code = """if True:
        import io, os, signal
        from hipsynth.serving.worker import RequestCancelled, RequestLoop
        loop = RequestLoop(io.BytesIO(), io.BytesIO(), lambda *_: None)
        loop.busy = True
        import slow
        assert slow.loaded and loop.busy
        try:
            os.kill(os.getpid(), signal.SIGUSR1)
        except RequestCancelled:
            print("given up")
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "given up\n", done.stderr


def test_workers_load_nothing_from_the_folder_they_start_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)

    async def test() -> None:
        worker = await Worker.start(0)
        with pytest.raises(WorkerProblem, match="no kernel in the file"):
            await worker.ask("predict", REQUEST)
        await worker.kill()

    asyncio.run(test())


@pytest.mark.parametrize("budget_s", [1.0, 10.0, 60.0, 300.0])
def test_a_worker_is_not_given_up_while_its_search_has_time(budget_s: float) -> None:
    clock_s = limits.OWN_LIMIT_FACTOR * budget_s
    runs = (verify.RUNS + verify.RUNS_PER_SIZE * verify.MOST_SIZES) / AT_ONCE
    least_s = runs * LEAST_RUN_S * limits.OWN_LIMIT_FACTOR  # as busy a machine
    assert limits.search_limit(budget_s) > clock_s + max(least_s, (LATEST - 1) * clock_s)
    assert limits.search_limit(budget_s) >= 2 * clock_s
