"""The engine: every item has exactly one outcome, whatever happens to its worker."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from child_processes import child_process, wait_until

from hipsynth.core import stop_signal
from hipsynth.core.errors import BadInput, MissingDependency, UsageError
from hipsynth.core.reasons import Reason
from hipsynth.core.workers import ItemOutcome, WorkerDied, WorkerTimeout, map_unordered, use_outcomes
from hipsynth.synth.llm.endpoint import NoAnswer


def work(item: int) -> int:
    """Misbehaves on chosen items."""
    if item == 13:
        os._exit(7)
    if item == 14:
        os.kill(os.getpid(), signal.SIGKILL)
    if item == 15:
        raise BadInput("item 15", cause="it is odd", remedy="choose another")
    if item == 16:
        time.sleep(60)
    if item == 17:
        if Path("begun").is_dir():
            Path("begun", str(os.getpid())).touch()
        while not stop_signal.stop_requested():
            time.sleep(0.01)
        return -1
    return item * item


def unpicklable(item: int) -> Any:
    return lambda: item


class OneSided(Exception):
    """An error that pickle writes but cannot read."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(f"{number} {text}")


def refuse_to_be_read() -> Any:
    raise ValueError("only on this side")


class Unreadable:
    def __reduce__(self) -> Any:
        return refuse_to_be_read, ()


def fail_in_ways(item: int) -> Any:
    if item == 0:
        raise OneSided(7, "words")
    if item == 1:
        return Unreadable()
    if item == 2:
        raise NoAnswer(Reason.RATE_LIMITED, "busy", again=True, wait_s=3.0, status=429)
    return item


def die_once(path: str) -> str:
    marker = Path(path)
    if not marker.exists():
        marker.touch()
        os._exit(1)
    return "second try"


def ordered(outcomes: Iterable[ItemOutcome[Any]]) -> list[ItemOutcome[Any]]:
    return sorted(outcomes, key=lambda outcome: outcome.index)


def test_every_item_has_one_result() -> None:
    outcomes = ordered(map_unordered(work, range(9), workers=2))
    assert [(o.index, o.get()) for o in outcomes] == [(n, n * n) for n in range(9)]


def test_items_are_taken_when_a_worker_is_free() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for n in range(9):
            taken.append(n)
            yield n

    done = 0
    for _ in map_unordered(work, items(), workers=2):
        done += 1
        assert len(taken) <= done + 2
    assert done == 9


def test_a_dying_worker_fails_only_its_own_item() -> None:
    outcomes = ordered(map_unordered(work, [1, 13, 2, 14, 3, 15], workers=2))
    assert [o.value for o in outcomes] == [1, None, 4, None, 9, None]
    assert isinstance(outcomes[1].error, WorkerDied) and "exit code 7" in str(outcomes[1].error)
    assert isinstance(outcomes[3].error, WorkerDied) and "signal 9" in str(outcomes[3].error)
    error = outcomes[5].error
    assert isinstance(error, BadInput) and (error.cause, error.remedy) == ("it is odd", "choose another")
    with pytest.raises(BadInput):
        outcomes[5].get()


def test_an_item_whose_worker_died_is_retried_once(tmp_path: Path) -> None:
    assert [o.get() for o in map_unordered(die_once, [str(tmp_path / "marker")])] == ["second try"]


def test_a_hanging_item_is_killed() -> None:
    outcomes = ordered(map_unordered(work, [16, 2], workers=1, item_timeout_s=5.0))
    assert isinstance(outcomes[0].error, WorkerTimeout) and outcomes[0].error.reason == "timeout"
    assert outcomes[1].value == 4


def test_a_result_that_cannot_be_sent_is_the_items_failure() -> None:
    (outcome,) = map_unordered(unpicklable, [1])
    assert "cannot be sent" in str(outcome.error)


def test_a_result_or_error_that_cannot_be_read_is_the_items_failure() -> None:
    one_sided, unreadable, busy, fine = ordered(map_unordered(fail_in_ways, range(4), workers=1))
    assert "OneSided: 7 words" in str(one_sided.error) and "only on this side" in str(unreadable.error)
    error = busy.error
    assert isinstance(error, NoAnswer) and fine.get() == 3
    assert (error.what, error.reason, error.code, error.again, error.wait_s) == (
        "busy", Reason.RATE_LIMITED, "http_429", True, 3.0
    )  # fmt: skip


def test_stopping_early_leaves_no_process() -> None:
    for _ in map_unordered(work, [1, 16, 16], workers=2):
        break
    assert not multiprocessing.active_children()


INTERRUPTED = """
from test_workers import work
from hipsynth.core.reasons import Reason
from hipsynth.core.workers import map_unordered
if __name__ == "__main__":
    try:
        for outcome in map_unordered(work, [1, 16, 16], workers=2):
            print("ready", flush=True)
    except KeyboardInterrupt:
        import multiprocessing
        print("interrupted", len(multiprocessing.active_children()))
"""


def test_interrupting_ends_the_workers(tmp_path: Path) -> None:
    here = Path(__file__).resolve()
    script = tmp_path / "main.py"
    script.write_text(INTERRUPTED)
    env = {**os.environ, "PYTHONPATH": f"{here.parents[3]}:{here.parent}:{here.parents[2] / 'support'}"}
    with child_process([sys.executable, str(script)], stdout=subprocess.PIPE, env=env) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        os.killpg(child.pid, signal.SIGINT)
        assert child.communicate(timeout=20)[0] == "interrupted 0\n"


OWN_FUNCTION = """
from dataclasses import dataclass
from hipsynth.core.reasons import Reason
from hipsynth.core.workers import map_unordered
@dataclass
class Job:
    number: int
def double(job):
    return 2 * job.number
if __name__ == "__main__":
    print([outcome.get() for outcome in map_unordered(double, [Job(4)])])
"""


def test_workers_find_a_function_of_the_script_itself(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text(OWN_FUNCTION)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=env, check=False)
    assert ran.stdout == "[8]\n", ran.stderr


COLLECTED = """
from test_workers import work
from hipsynth.core.reasons import Reason
from hipsynth.core.workers import map_unordered, use_outcomes
if __name__ == "__main__":
    outcomes = map_unordered(work, [17, 17, 17], workers=2, collect_interrupted=True)
    print("interrupted" if use_outcomes(outcomes, lambda outcome: print(outcome.get(), flush=True)) else "complete")
"""


def test_interrupted_workers_return_what_they_have(tmp_path: Path) -> None:
    here = Path(__file__).resolve()
    script, begun = tmp_path / "main.py", tmp_path / "begun"
    script.write_text(COLLECTED)
    begun.mkdir()
    env = {**os.environ, "PYTHONPATH": f"{here.parents[3]}:{here.parent}:{here.parents[2] / 'support'}"}
    with child_process([sys.executable, str(script)], stdout=subprocess.PIPE, env=env, cwd=tmp_path) as child:
        assert wait_until(lambda: len(list(begun.iterdir())) >= 2, 60)
        os.killpg(child.pid, signal.SIGINT)
        assert child.communicate(timeout=20)[0] == "-1\n-1\ninterrupted\n", "the third was not begun"


def test_an_error_of_the_use_ends_the_workers() -> None:
    def raise_error(outcome: ItemOutcome[int]) -> None:
        outcome.get()

    with pytest.raises(BadInput, match="item 15"):
        use_outcomes(map_unordered(work, [15, 17], workers=2, collect_interrupted=True), raise_error)
    assert not multiprocessing.active_children()


def test_an_interruption_between_two_outcomes() -> None:
    seen: list[int] = []

    def use(outcome: ItemOutcome[int]) -> None:
        seen.append(outcome.get())
        if len(seen) == 1:
            raise KeyboardInterrupt

    assert use_outcomes(map_unordered(work, [1, 17, 17], workers=2, collect_interrupted=True), use)
    assert seen in ([1, -1], [1, -1, -1]) and not multiprocessing.active_children()


def test_unknown_and_missing_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="spark") as caught:
        map_unordered(work, [1], engine="spark")
    assert "ray" in caught.value.remedy
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependency) as missing:
        map_unordered(work, [1], engine="ray")
    assert "pip install" in missing.value.remedy and missing.value.exit_code == 4


class FakeRay:
    """The part of Ray's interface that the engine uses, run in this process; `wait` answers the newest first."""

    class exceptions:
        class RayTaskError(Exception):
            def __init__(self, cause: Exception) -> None:
                super().__init__(f"task failed\n{cause}")
                self.cause = cause

        class WorkerCrashedError(Exception):
            pass

    def __init__(self) -> None:
        self.started: dict[str, Any] = {}
        self.most_pending = 0

    def is_initialized(self) -> bool:
        return bool(self.started)

    def init(self, **options: Any) -> None:
        if options["address"] == "auto":
            raise ConnectionError("no cluster is running")
        self.started = options

    def remote(self, **options: Any) -> Any:
        return lambda function: SimpleNamespace(remote=lambda item: (function, item))

    def wait(self, pending: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        self.most_pending = max(self.most_pending, len(pending))
        return pending[-num_returns:], pending[:-num_returns]

    def get(self, reference: Any) -> Any:
        function, item = reference
        if item == 13:
            raise self.exceptions.WorkerCrashedError("lost")
        try:
            return function(item)
        except Exception as error:
            raise self.exceptions.RayTaskError(error) from error


def test_ray_gives_the_same_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)  # type: ignore[arg-type]
    outcomes = ordered(map_unordered(work, [1, 13, 2, 15, 3, 4], workers=2, engine="ray"))
    assert [o.value for o in outcomes] == [1, None, 4, None, 9, 16]
    assert isinstance(outcomes[1].error, WorkerDied)
    assert isinstance(outcomes[3].error, BadInput)
    assert ray.most_pending == 2 and ray.started["num_cpus"] == 2


@pytest.mark.full
def test_ray_itself_gives_the_same_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed")
    here = Path(__file__).resolve()  # Ray's workers import this module by name
    monkeypatch.setenv(
        "PYTHONPATH",
        f"{here.parents[3]}:{here.parent}:{here.parents[2] / 'support'}:{os.environ.get('PYTHONPATH', '')}",
    )
    items = [1, 2, 13, 15, 3]
    local = ordered(map_unordered(work, items, workers=2))
    remote = ordered(map_unordered(work, items, workers=2, engine="ray"))
    ray.shutdown()
    assert [(o.index, o.value, type(o.error)) for o in local] == [(o.index, o.value, type(o.error)) for o in remote]
    assert str(local[3].error) == str(remote[3].error)
