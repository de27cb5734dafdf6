"""The server's work: predictions of the newest version of each document, jobs that execute programs, comparisons."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from hipsynth.core.errors import HipsynthError, MissingDependency
from hipsynth.profiling.metrics import paper_ids
from hipsynth.serving.cache import Cache, key_of
from hipsynth.serving.limits import DOCUMENTS, ServerSettings, wall_limit
from hipsynth.serving.pool import Pool, QueueFull, WorkerProblem, elapsed
from hipsynth.serving.worker import problem_of
from hipsynth.simulator.devices import DEFAULT_ARCH

Body = Mapping[str, Any]
DEFAULT_TARGET = {"arch": DEFAULT_ARCH, "device": None, "flags": "-O3"}
MOST_TARGETS = 64


class RequestSuperseded(HipsynthError):
    """A newer version of the document was sent."""

    reason = "superseded"


@dataclass
class DocumentWork:
    """The newest version of a document, and the work on it."""

    version: int
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)


@dataclass
class JobState:
    """A job that executes a program. `document` and `problem` are set at its end."""

    id: str
    limit_s: float
    state: str = "queued"
    started: float = field(default_factory=time.monotonic)
    took_s: float | None = None
    document: dict[str, Any] | None = None
    problem: dict[str, str] | None = None
    task: asyncio.Task[None] | None = None

    def ended(self) -> None:
        """Called when the task is over, also if it was cancelled before it began."""
        if self.state in ("queued", "running"):
            self.state = "cancelled"
        if self.took_s is None:
            self.took_s = elapsed(self.started)

    def view(self) -> dict[str, Any]:
        spent = elapsed(self.started) if self.took_s is None else self.took_s
        shown = {"job": self.id, "state": self.state, "elapsed_s": spent, "limit_s": self.limit_s}
        return shown | {"document": self.document, "problem": self.problem}


class Service:
    """One per server; all methods run on its event loop."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.cache = Cache(settings.cache_bytes)
        self.predictors = Pool("prediction", settings.predictors, settings.queue, wall_limit(settings.predict_s))
        self.executors = Pool("job", settings.executors, settings.jobs, settings.execute_s, nice=5)
        self.chats = Pool("chat", 1, 4, settings.chat_s)
        self.documents: OrderedDict[str, DocumentWork] = OrderedDict()
        self.jobs: OrderedDict[str, JobState] = OrderedDict()
        self.targets: set[tuple[str, str]] = {(DEFAULT_TARGET["arch"] or "", DEFAULT_TARGET["flags"] or "")}
        self.ready = asyncio.Event()
        self._background: set[asyncio.Task[Any]] = set()

    @property
    def pools(self) -> tuple[Pool, ...]:
        return self.predictors, self.executors, self.chats

    # --- life

    def start(self) -> None:
        self._later(self._warm())

    async def _warm(self) -> None:
        await self.predictors.warm(DEFAULT_TARGET)
        self.ready.set()
        await self.executors.warm(DEFAULT_TARGET)

    async def close(self) -> None:
        for task in [*self._background, *(job.task for job in self.jobs.values() if job.task)]:
            task.cancel()
        await asyncio.gather(*(pool.close() for pool in self.pools))

    def _later(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    # --- predictions

    async def predict(self, body: Body) -> dict[str, Any]:
        """The document of `synth predict --json`. Raises RequestSuperseded, QueueFull, WorkerLost, WorkerTooSlow or
        Problem; code that does not compile is answered by the language model, if the server has one."""
        return await self._newest(body, self._predict(body))

    async def _predict(self, body: Body) -> dict[str, Any]:
        asked = {name: value for name, value in body.items() if name not in ("document", "version")}
        key = key_of("predict", asked)
        if (found := self.cache.get(key)) is not None:
            return found
        self._prepare(asked)
        try:
            document = await self.predictors.ask("predict", {**asked, "limit_s": self.settings.predict_s})
        except WorkerProblem as problem:
            if problem.document["error"] != "compile_failed" or self.settings.model is None:
                raise
            document = await self._by_model(asked, problem)
        self.cache.put(key, document)
        return document

    async def _by_model(self, asked: Body, problem: WorkerProblem) -> dict[str, Any]:
        body = {**asked, "model_folder": str(self.settings.model)}
        try:
            return await self.chats.ask("read_by_model", body)
        except (WorkerProblem, HipsynthError):
            raise problem from None  # what is wrong is the code, not the model

    def _prepare(self, asked: Body) -> None:
        """Builds the precompiled header of a target that is asked about for the first time."""
        target = asked["arch"], asked["flags"]
        if target in self.targets or len(self.targets) >= MOST_TARGETS:
            return
        self.targets.add(target)
        wanted = {"arch": asked["arch"], "device": asked["device"], "flags": asked["flags"]}
        self._later(self._quietly(wanted))

    async def _quietly(self, wanted: Body) -> None:
        with contextlib.suppress(WorkerProblem, HipsynthError):
            await self.executors.ask("prepare", wanted)

    async def _newest(self, body: Body, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """Runs work unless a newer version of its document is known; a newer one ends it with Superseded."""
        name, version = body.get("document"), body.get("version", 0)
        task: asyncio.Task[dict[str, Any]] = self._later(work)
        running = self._running(name, version, task) if name is not None else None
        try:
            return await task
        except asyncio.CancelledError:
            task.cancel()
            if running is not None and running.version > version:
                raise RequestSuperseded("a newer version was sent", cause=f"version {running.version}") from None
            raise

    def _running(self, name: str, version: int, task: asyncio.Task[Any]) -> DocumentWork:
        known = self.documents.setdefault(name, DocumentWork(version))
        self.documents.move_to_end(name)
        while len(self.documents) > DOCUMENTS:
            self.documents.popitem(last=False)
        if version < known.version:
            task.cancel()
        elif version > known.version:
            known.version = version
            for older in known.tasks:
                older.cancel()
            known.tasks.clear()
        known.tasks.add(task)
        task.add_done_callback(known.tasks.discard)
        return known

    async def compare(self, a: Body, b: Body) -> dict[str, Any]:
        """Both predictions, and for each kernel and metric of both the ratio b / a."""
        first, second = await asyncio.gather(self.predict(a), self.predict(b))
        return {"a": first, "b": second, "difference": difference(first, second)}

    # --- jobs

    def submit(self, body: Body) -> JobState:
        """Starts a job; one of an older version of the same document is cancelled. Raises QueueFull."""
        waiting = sum(job.state == "queued" for job in self.jobs.values())
        if waiting >= self.settings.jobs:
            raise QueueFull(
                "too many jobs wait", cause="the job queue is full", remedy="try again later, or cancel some"
            )
        limit = min(body["limit_s"] or self.settings.execute_s, self.settings.execute_s)
        asked = {name: value for name, value in body.items() if name not in ("document", "version")}
        job = JobState(secrets.token_hex(12), limit)
        self.jobs[job.id] = job
        self._forget_old_jobs()
        job.task = self._later(self._execute(job, {**asked, "limit_s": limit}))
        job.task.add_done_callback(lambda _: job.ended())
        if body.get("document") is not None:
            self._running(f"job {body['document']}", body["version"], job.task)
        return job

    async def _execute(self, job: JobState, body: Body) -> None:
        key = key_of("profile", body)
        try:
            document = self.cache.get(key)
            if document is None:
                document = await self._executed(job, body)
                if all(result["status"] == "ok" for result in document["results"]):
                    self.cache.put(key, document)
            job.state, job.document = "done", document
        except WorkerProblem as problem:
            job.state, job.problem = "failed", problem.document
        except HipsynthError as error:
            job.state, job.problem = "failed", problem_of(error)

    async def _executed(self, job: JobState, body: Body) -> dict[str, Any]:
        return await self.executors.ask(
            "profile", body, wall_limit(job.limit_s), lambda: setattr(job, "state", "running")
        )

    async def job(self, name: str, wait_s: float) -> JobState | None:
        """A job, as soon as it has ended or `wait_s` have passed; None if there is none of this name."""
        job = self.jobs.get(name)
        if job is not None and job.task is not None and wait_s > 0:
            await asyncio.wait([job.task], timeout=wait_s)
        return job

    def cancel(self, name: str) -> JobState | None:
        """Stops a job; None if there is none of this name."""
        job = self.jobs.get(name)
        if job is not None and job.task is not None and not job.task.done():
            job.task.cancel()
            job.state = "cancelled"
        return job

    def _forget_old_jobs(self) -> None:
        ended = [name for name, job in self.jobs.items() if job.took_s is not None]
        for name in ended[: max(0, len(ended) - self.settings.kept_jobs)]:
            del self.jobs[name]

    # --- the language model

    async def chat(self, body: Body) -> dict[str, Any]:
        """The model's answer: content, finish, and numbers of tokens. Raises MissingDependency without a model."""
        if self.settings.model is None:
            remedy = "train one, and start `synth serve --model DIR`"
            cause = "--model was not given"
            raise MissingDependency("this server has no language model", cause=cause, remedy=remedy, reason="no_model")
        return await self.chats.ask("chat", {**body, "model_folder": str(self.settings.model)})


def difference(first: Body, second: Body) -> list[dict[str, Any]]:
    """Rows {kernel, metric, a, b, ratio} for the kernels that both predictions have; ratio is null where a is 0."""
    sides = [{k["name"]: k for k in document["results"][0].get("kernels", [])} for document in (first, second)]
    rows = []
    for name in sides[0].keys() & sides[1].keys():
        for metric in ("duration_ns", *paper_ids()):
            a, b = (side[name]["metrics"].get(metric, side[name].get(metric)) for side in sides)
            rows.append(
                {"kernel": name, "metric": metric, "a": a, "b": b, "ratio": b / a if a and b is not None else None}
            )
    return sorted(rows, key=lambda row: str(row["kernel"]))
