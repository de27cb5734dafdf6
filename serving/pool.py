"""Worker processes behind an asyncio interface: bounded, warm, replaced when they die, and really stopped."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable

from hipsynth.core.documents import JsonObject, from_json, to_json
from hipsynth.core.errors import ErrorDocument, HipsynthError
from hipsynth.core.reasons import Reason
from hipsynth.serving.requests import BuildRequest
from hipsynth.serving.worker import HEADER, TAKEN_HEADER

GRACE_S = 1.5  # for a worker to give up a request before it is killed
SIGNAL_S = 0.1
MOST_ANSWER = 256 << 20
ReportProgress = Callable[[str], None] | None


class QueueFull(HipsynthError):
    """More requests wait than may."""

    reason = Reason.BUSY


class WorkerLost(HipsynthError):
    """The process that worked on the answer ended."""

    reason = Reason.WORKER_DIED


class NotTaken(WorkerLost):
    """It ended before it had read the request, which another worker may take."""


class WorkerTooSlow(HipsynthError):
    """A worker did not answer within the limit of a request, and was ended."""

    reason = Reason.TIMEOUT


class WorkerProblem(Exception):
    """A typed error that a worker answered."""

    def __init__(self, problem: ErrorDocument) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Worker:
    """One process. `ask` may be called by one task at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process, self.taken = process, False

    @classmethod
    async def start(cls, nice: int, module: str = "hipsynth.serving.worker") -> Worker:
        """A new process that runs a module whose main() answers requests (serving/worker.py)."""
        pipe = asyncio.subprocess.PIPE
        # -P: the server may be started in an untrusted folder, whose modules must not be loaded.
        command = [sys.executable, "-P", "-m", module, str(nice)]
        return cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, start_new_session=True))

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    async def ask(self, kind: str, request: object, on_progress: ReportProgress = None) -> JsonObject:
        """The document of a request; `on_progress` is told what the work does. Raises WorkerProblem, or WorkerLost
        (NotTaken) if the process ends; if the task is cancelled, the process gives the request up first."""
        self.taken = False
        answering = asyncio.ensure_future(
            self._exchange_messages(json.dumps({"kind": kind, "body": to_json(request)}).encode(), on_progress)
        )
        try:
            answer = await asyncio.shield(answering)
        except asyncio.CancelledError:
            await self._give_up(answering)
            raise
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            await self.kill()
            cause = "a crash, a full memory, or somebody ended it"
            lost = WorkerLost if self.taken else NotTaken
            raise lost("the worker process ended", cause=cause, remedy="ask again") from error
        if "problem" in answer:
            raise WorkerProblem(from_json(ErrorDocument, answer["problem"]))
        document = answer["document"]
        assert isinstance(document, dict)
        return document

    async def _exchange_messages(self, text: bytes, on_progress: ReportProgress) -> JsonObject:
        requests, answers = self.process.stdin, self.process.stdout
        assert requests is not None and answers is not None
        requests.write(len(text).to_bytes(HEADER, "big") + text)
        await requests.drain()
        self.taken = await answers.readexactly(HEADER) == TAKEN_HEADER
        while True:
            size = int.from_bytes(await answers.readexactly(HEADER), "big")
            if size > MOST_ANSWER:
                raise OSError(f"an answer of {size} bytes")
            answer: JsonObject = json.loads(await answers.readexactly(size))
            if "progress" not in answer:
                return answer
            if on_progress is not None:
                on_progress(str(answer["progress"]))

    async def _give_up(self, answering: asyncio.Future[JsonObject]) -> None:
        """Makes the process drop its request, so that it can take another; kills it if it does not."""
        end = time.monotonic() + GRACE_S
        while not answering.done() and self.alive and time.monotonic() < end:
            self.process.send_signal(signal.SIGUSR1)  # again: it may not have read the request yet
            with contextlib.suppress(asyncio.CancelledError):  # a second cancellation changes nothing
                await asyncio.wait([answering], timeout=SIGNAL_S)
        if not answering.done() or answering.exception() is not None:
            await self.kill()
            await asyncio.wait([answering])
            with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError):
                answering.result()

    async def kill(self) -> None:
        """Ends the worker and all processes of its group, and wait for it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()


class Pool:
    """Up to `size` workers and `queue` waiting requests. `lost` counts workers that died with a request."""

    def __init__(self, name: str, size: int, queue: int, limit_s: float, nice: int = 0) -> None:
        self.name, self.size, self.queue, self.limit_s, self.nice = name, size, queue, limit_s, nice
        self.waiting, self.running, self.lost = 0, 0, 0
        self._slots = asyncio.Semaphore(size)
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._closed = False

    @property
    def pids(self) -> list[int]:
        return [worker.process.pid for worker in self._all if worker.alive]

    async def warm(self, build: BuildRequest) -> None:
        """Starts all workers and has each prepare a target."""
        await asyncio.gather(*(self.ask("prepare", build) for _ in range(self.size)), return_exceptions=True)

    async def ask(
        self,
        kind: str,
        request: object,
        limit_s: float | None = None,
        on_start: Callable[[], None] | None = None,
        on_progress: ReportProgress = None,
    ) -> JsonObject:
        """The document of a request (serving/requests.py); `on_start` is called when a worker takes it, `on_progress`
        with what it reports of long work. Raises QueueFull, WorkerTooSlow, WorkerLost or WorkerProblem."""
        if self._closed:
            raise WorkerLost("the workers have ended", cause="the server ends", remedy="start it again")
        if self._slots.locked() and self.waiting >= self.queue:
            raise QueueFull(
                "too many requests wait", cause=f"the {self.name} queue is full", remedy="try again in a second"
            )
        self.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        if on_start is not None:
            on_start()
        try:
            return await self._ask_idle_worker(kind, request, limit_s or self.limit_s, on_progress)
        except WorkerLost:
            self.lost += 1
            raise
        finally:
            self.running -= 1
            self._slots.release()

    async def _ask_idle_worker(
        self, kind: str, request: object, limit_s: float, on_progress: ReportProgress
    ) -> JsonObject:
        """Asks idle workers until one takes the request (they may have been ended while they waited), or a new one."""
        while self._idle:
            with contextlib.suppress(NotTaken):
                return await self._ask_worker(self._idle.pop(), kind, request, limit_s, on_progress)
        return await self._ask_worker(await self._start_worker(), kind, request, limit_s, on_progress)

    async def _ask_worker(
        self, worker: Worker, kind: str, request: object, limit_s: float, on_progress: ReportProgress
    ) -> JsonObject:
        try:
            async with asyncio.timeout(limit_s):
                return await worker.ask(kind, request, on_progress)
        except TimeoutError:
            raise WorkerTooSlow(f"no answer within {limit_s:g} s", remedy="give it less to do") from None
        finally:
            if worker.alive and not self._closed:
                self._idle.append(worker)
            else:
                self._all.discard(worker)

    async def _start_worker(self) -> Worker:
        worker = await Worker.start(self.nice)
        self._all.add(worker)
        if self._closed:
            await worker.kill()
        return worker

    def kill(self) -> None:
        """Ends all workers at once, without waiting for them."""
        self._closed = True
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    async def close(self) -> None:
        self._closed = True
        await asyncio.gather(*(worker.kill() for worker in self._all), return_exceptions=True)


def elapsed_seconds(since: float) -> float:
    """Seconds since a reading of the monotonic clock, in milliseconds' steps."""
    return round(time.monotonic() - since, 3)
