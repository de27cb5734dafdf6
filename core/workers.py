"""Maps a function over many items with local processes or Ray. Results do not depend on engine or number of workers.

If a worker dies, its item is retried once and then reported as failed; other items are not affected.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import ModuleType
from typing import Generic, TypeVar

from hipsynth.core import stop_signal
from hipsynth.core.errors import HipsynthError, MissingDependency, UsageError, suggest_name
from hipsynth.core.installation import install_command
from hipsynth.core.reasons import Reason

T = TypeVar("T")
R = TypeVar("R")

ENGINES = ("local", "ray")
_ATTEMPTS = 2
_HELD = (signal.SIGINT, signal.SIGUSR1)
_GRACE_S = 8  # time for a worker to end its child processes
_LAST_S = 10  # time for a worker to return what it has of an interrupted item


class WorkerDied(HipsynthError):
    """Two processes in a row ended without returning a result for an item."""

    reason = Reason.WORKER_DIED


class WorkerTimeout(HipsynthError):
    """An item exceeded its hard time limit; its process was ended."""

    reason = Reason.TIMEOUT


@dataclass(frozen=True)
class ItemOutcome(Generic[R]):
    """Result of one item: `value`, or the `error` that the function raised or that ended its worker."""

    index: int
    value: R | None = None
    error: Exception | None = None

    def get(self) -> R:
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]


def check_engine(engine: str) -> None:
    """Raises UsageError for an unknown engine."""
    if engine not in ENGINES:
        raise UsageError(
            f"no engine called {engine!r}", cause=suggest_name(engine, ENGINES), remedy=f"one of: {', '.join(ENGINES)}"
        )


def map_unordered(
    function: Callable[[T], R],
    items: Iterable[T],
    workers: int = 1,
    engine: str = "local",
    item_timeout_s: float | None = None,
    collect_interrupted: bool = False,
) -> Iterator[ItemOutcome[R]]:
    """Yields one ItemOutcome per item, in order of completion. `function` and items must be picklable; `items` is lazy.

    `item_timeout_s` is the hard limit per item in seconds (local engine only). With `collect_interrupted`, Ctrl-C asks
    the workers for what they have (see stop_signal.py; local engine only); KeyboardInterrupt is raised after that.
    Raises UsageError for an unknown engine, MissingDependency if the Ray engine is selected but not installed.
    """
    check_engine(engine)
    if engine == "ray":
        return _map_ray(function, items, workers)
    return _ProcessPool(function, max(1, workers), item_timeout_s, collect_interrupted).run(items)


def use_outcomes(outcomes: Iterator[ItemOutcome[R]], use: Callable[[ItemOutcome[R]], None]) -> bool:
    """Calls `use` for the outcomes of map_unordered(..., collect_interrupted=True). True if Ctrl-C came, wherever it
    found this process; what the workers had by then was used, too."""
    try:
        for outcome in outcomes:
            use(outcome)
    except KeyboardInterrupt as interruption:
        with contextlib.suppress(KeyboardInterrupt, StopIteration):
            # If it came between two outcomes, the iterator has not seen it.
            use(outcomes.throw(interruption))  # type: ignore[attr-defined]
            for outcome in outcomes:
                use(outcome)
        return True
    finally:
        if isinstance(outcomes, Generator):
            outcomes.close()  # an error of `use` ends the workers, too
    return False


def in_order(outcomes: Iterable[ItemOutcome[R]]) -> Iterator[R]:
    """The values of all outcomes in the order of their items; raises the first error."""
    waiting: dict[int, R] = {}
    following = 0
    for outcome in outcomes:
        waiting[outcome.index] = outcome.get()
        while following in waiting:
            yield waiting.pop(following)
            following += 1


def _serve_items(connection: Connection, function: Callable[[T], object]) -> None:
    """Main loop of a worker: processes items until its connection closes. Ignores Ctrl-C: the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _exit_on_signal)
    signal.signal(signal.SIGUSR1, stop_signal.remember_signal)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)
    end_with_parent()
    while True:
        try:
            item = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer: tuple[bool, object] = (True, function(item))
        except Exception as error:
            answer = (False, _portable_error(error))
        try:
            connection.send(answer)
        except (BrokenPipeError, ConnectionResetError):
            return
        except Exception as error:  # a result that cannot be pickled fails only this item
            connection.send((False, HipsynthError(f"the result cannot be sent: {error}", reason=Reason.INTERNAL_ERROR)))


def _portable_error(error: Exception) -> Exception:
    """The error, or one that says the same if another process cannot read it."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        reason = error.reason if isinstance(error, HipsynthError) else Reason.INTERNAL_ERROR
        return HipsynthError(f"{type(error).__name__}: {error}", reason=reason)
    return error


def _exit_on_signal(*_: object) -> None:
    """Signal handler: raises SystemExit, so that child processes are ended and scratch folders removed."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(128 + signal.SIGTERM)


def end_with_parent() -> None:
    """Requests SIGTERM when the parent dies, which a busy worker would not notice otherwise. Linux only."""
    parent = multiprocessing.parent_process()
    stop_signal.request_signal_at_parents_end(signal.SIGTERM)
    if parent is not None and parent.pid != os.getppid():  # the parent died before prctl
        _exit_on_signal()


@contextlib.contextmanager
def _hidden_main_module(function: Callable[[T], object]) -> Iterator[None]:
    """Keeps a new process from running the caller's script again, as multiprocessing's "spawn" does: scripts that use
    hipsynth as a library need no `if __name__ == "__main__"`. Workers need it only for a `function` that it defines."""
    name = "__main__"
    if getattr(function, "func", function).__module__ == name:
        yield
        return
    script = sys.modules[name]
    sys.modules[name] = ModuleType(name)
    try:
        yield
    finally:
        sys.modules[name] = script


class _Worker(Generic[T]):
    """One process and the item it works on."""

    def __init__(self, function: Callable[[T], object]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_serve_items, args=(theirs, function), daemon=False)
        resource_tracker.ensure_running()  # would unblock signals below
        signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)  # inherited, until _serve_items handles them
        try:
            with _hidden_main_module(function):
                self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)
        theirs.close()
        self.index = -1
        self.item: T | None = None
        self.started = 0.0

    def give(self, index: int, item: T) -> None:
        self.index, self.item, self.started = index, item, time.monotonic()
        self.connection.send(item)

    def end(self) -> None:
        self.connection.close()
        self.process.join(0.2)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(_GRACE_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


class _ProcessPool(Generic[T, R]):
    """Local worker processes, one item each; a process that died is replaced."""

    def __init__(
        self, function: Callable[[T], R], workers: int, item_timeout_s: float | None, collect_interrupted: bool
    ) -> None:
        self.function = function
        self.limit = workers
        self.timeout = item_timeout_s
        self.collect_interrupted = collect_interrupted
        self.busy: list[_Worker[T]] = []
        self.idle: list[_Worker[T]] = []
        self.again: deque[tuple[int, T]] = deque()
        self.tries: dict[int, int] = {}

    def run(self, items: Iterable[T]) -> Iterator[ItemOutcome[R]]:
        source = enumerate(items)
        exhausted = False
        try:
            while True:
                while len(self.busy) < self.limit and not (exhausted and not self.again):
                    following = self.again.popleft() if self.again else next(source, None)
                    if following is None:
                        exhausted = True
                        break
                    self._start_worker(*following)
                if not self.busy:
                    return
                yield from self._collect_results()
        except KeyboardInterrupt:
            if self.collect_interrupted:
                yield from self._collect_last_results()
            raise
        finally:
            for worker in self.busy:  # interrupted, or the caller stopped iterating
                worker.process.terminate()
            for worker in [*self.busy, *self.idle]:
                worker.end()

    def _collect_last_results(self) -> Iterator[ItemOutcome[R]]:
        """Partial results of the items in work; workers get a few seconds to send them. A second Ctrl-C ends the
        wait."""
        for worker in self.busy:
            os.kill(worker.process.pid or 0, signal.SIGUSR1)
        end = time.monotonic() + _LAST_S
        while self.busy and time.monotonic() < end:
            yield from self._collect_results()

    def _start_worker(self, index: int, item: T) -> None:
        worker = self.idle.pop() if self.idle else _Worker(self.function)
        self.busy.append(worker)
        # If the worker died while idle, `_collect_results` sees the closed connection and retries the item.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            worker.give(index, item)

    def _collect_results(self) -> Iterator[ItemOutcome[R]]:
        ready = wait([worker.connection for worker in self.busy], timeout=0.5)
        for worker in [w for w in self.busy if w.connection in ready]:
            outcome = self._receive_result(worker)
            if outcome is not None:
                yield outcome
        for worker in [w for w in self.busy if self._is_late(w)]:
            self.busy.remove(worker)
            worker.process.kill()
            worker.end()
            problem = f"no answer within {self.timeout:g} s"
            yield ItemOutcome(worker.index, error=WorkerTimeout(problem, remedy="raise --timeout"))

    def _is_late(self, worker: _Worker[T]) -> bool:
        return self.timeout is not None and time.monotonic() - worker.started > self.timeout

    def _receive_result(self, worker: _Worker[T]) -> ItemOutcome[R] | None:
        """The worker's result; None if it died and its item will be retried."""
        self.busy.remove(worker)
        try:
            answer = worker.connection.recv_bytes()
        except (EOFError, OSError):
            return self._bury_worker(worker)
        self.idle.append(worker)
        try:
            ok, value = pickle.loads(answer)
        except Exception as error:  # a result that cannot be read fails only this item
            problem = f"the result cannot be read: {type(error).__name__}: {error}"
            return ItemOutcome(worker.index, error=HipsynthError(problem, reason=Reason.INTERNAL_ERROR))
        return ItemOutcome(worker.index, value=value) if ok else ItemOutcome(worker.index, error=value)

    def _bury_worker(self, worker: _Worker[T]) -> ItemOutcome[R] | None:
        worker.process.join(2)
        code = worker.process.exitcode
        worker.end()
        self.tries[worker.index] = self.tries.get(worker.index, 0) + 1
        if self.tries[worker.index] < _ATTEMPTS:
            assert worker.item is not None  # it has worked on it
            self.again.append((worker.index, worker.item))
            return None
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return ItemOutcome(
            worker.index, error=WorkerDied(f"the worker process ended with {how}", cause="a crash or a full memory")
        )


def _map_ray(function: Callable[[T], R], items: Iterable[T], workers: int) -> Iterator[ItemOutcome[R]]:
    """map_unordered on a Ray cluster (an existing one, or one started on this machine)."""
    try:
        import ray
    except ImportError as error:
        remedy = f"{install_command('ray')}, or use --engine local"
        raise MissingDependency("the ray engine is not installed", remedy=remedy) from error
    if not ray.is_initialized():
        try:
            ray.init(address="auto", log_to_driver=False)
        except ConnectionError:  # no cluster is running
            ray.init(address="local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
    return _ray_outcomes(ray, function, items, workers)


def _ray_outcomes(
    ray: ModuleType, function: Callable[[T], R], items: Iterable[T], workers: int
) -> Iterator[ItemOutcome[R]]:
    remote = ray.remote(max_retries=_ATTEMPTS - 1)(function)
    source = enumerate(items)
    pending: dict[object, int] = {}
    exhausted = False
    while True:
        while len(pending) < workers and not exhausted:
            following = next(source, None)
            if following is None:
                exhausted = True
                break
            pending[remote.remote(following[1])] = following[0]
        if not pending:
            return
        for reference in ray.wait(list(pending), num_returns=1)[0]:
            index = pending.pop(reference)
            try:
                yield ItemOutcome(index, value=ray.get(reference))
            except Exception as error:
                yield ItemOutcome(index, error=_ray_error(ray, error))


def _ray_error(ray: ModuleType, error: Exception) -> Exception:
    """The exception raised by the function, or WorkerDied if its process was lost."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, Exception):
        return cause
    if isinstance(error, ray.exceptions.RayTaskError):
        return HipsynthError(str(error).strip().splitlines()[-1], reason=Reason.INTERNAL_ERROR)
    return WorkerDied("the Ray worker was lost", cause=str(error))
