"""The server's work: predictions of the newest version of each document, jobs that execute programs, comparisons."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict, TypeVar

from hipsynth.core.documents import JsonObject, document_json, from_json
from hipsynth.core.errors import ErrorDocument, HipsynthError, MissingDependency
from hipsynth.core.reasons import TRANSIENT, Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling.metrics import paper_ids
from hipsynth.profiling.reports.documents import ProfileDocument
from hipsynth.serving.answer_cache import Cache, key_of
from hipsynth.serving.documents import ChatAnswer, Comparison, JobDocument, JobPhase, MetricRatio
from hipsynth.serving.limits import DOCUMENTS, ServerSettings, search_limit, wall_limit
from hipsynth.serving.longest_launches import longest_launches
from hipsynth.serving.pool import Pool, QueueFull, WorkerProblem, elapsed_seconds
from hipsynth.serving.requests import (
    BuildRequest,
    ChatMessage,
    ChatRequest,
    ProgramRequest,
    SearchRequest,
    VerificationRequest,
)
from hipsynth.serving.schema import AssumedLaunch, Build, Chat, Improve, Predict, Profile, Verify
from hipsynth.serving.worker import problem_of
from hipsynth.simulator.devices import DEFAULT_ARCH
from hipsynth.training.models.documents import KernelPrediction, PredictDocument
from hipsynth.tuning.optimize.documents import OptimizeDocument, SearchEnd, VerifyDocument

DEFAULT_BUILD = BuildRequest(arch=DEFAULT_ARCH)
MOST_TARGETS = 64
# Reasons for which a kernel has no prediction now, and may have one at the next question.
MAY_PASS = TRANSIENT | {Reason.TIMEOUT, Reason.NEEDS_LIBRARY}
Answered = TypeVar("Answered", JsonObject, None)


class RequestSuperseded(HipsynthError):
    """A newer version of the document was sent."""

    reason = Reason.SUPERSEDED


@dataclass
class DocumentWork:
    """The newest version of a document, and the work on it."""

    version: int
    tasks: set[asyncio.Task[JsonObject] | asyncio.Task[None]] = field(default_factory=set)


@dataclass
class JobState:
    """A job that executes a program. `document` and `problem` are set at its end."""

    id: str
    limit_s: float
    state: JobPhase = JobPhase.QUEUED
    started: float = field(default_factory=time.monotonic)
    took_s: float | None = None
    document: JsonObject | None = None
    problem: ErrorDocument | None = None
    progress: list[str] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    def note_end(self) -> None:
        """Called when the task is over, also if it was cancelled before it began."""
        if self.state in (JobPhase.QUEUED, JobPhase.RUNNING):
            self.state = JobPhase.CANCELLED
        if self.took_s is None:
            self.took_s = elapsed_seconds(self.started)

    def view(self) -> JsonObject:
        """A JobDocument as JSON; the profile is passed on as the worker wrote it."""
        spent = elapsed_seconds(self.started) if self.took_s is None else self.took_s
        document = JobDocument(
            job=self.id, state=self.state, elapsed_s=spent, limit_s=self.limit_s, document=None, problem=self.problem,
            progress=tuple(self.progress),
        )  # fmt: skip
        return document_json(document) | {"document": self.document}


class Service:
    """One per server; all methods run on its event loop."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.cache = Cache(settings.cache_bytes)
        self.predictors = Pool("prediction", settings.predictors, settings.queue, wall_limit(settings.predict_s))
        self.executors = Pool("job", settings.executors, settings.jobs, settings.execute_s, nice=5)
        self.searchers = Pool("search", 1, settings.jobs, search_limit(settings.search_s), nice=10)
        self.chats = Pool("chat", 1, 4, settings.chat_s)
        self.documents: OrderedDict[str, DocumentWork] = OrderedDict()
        self.jobs: OrderedDict[str, JobState] = OrderedDict()
        self.targets: set[tuple[str, str]] = {(DEFAULT_BUILD.arch, DEFAULT_BUILD.flags)}
        self.ready = asyncio.Event()
        self.stopping = asyncio.Event()  # requests that wait for something answer at once
        self._background: set[asyncio.Task[JsonObject] | asyncio.Task[None]] = set()

    @property
    def pools(self) -> tuple[Pool, ...]:
        return self.predictors, self.executors, self.searchers, self.chats

    # --- life

    def start(self) -> None:
        self._start_task(self._warm_workers())

    async def _warm_workers(self) -> None:
        await self.predictors.warm(DEFAULT_BUILD)
        self.ready.set()
        await self.executors.warm(DEFAULT_BUILD)

    async def close(self) -> None:
        for task in [*self._background, *(job.task for job in self.jobs.values() if job.task)]:
            task.cancel()
        await asyncio.gather(*(pool.close() for pool in self.pools))

    def _start_task(self, work: Coroutine[object, None, Answered]) -> asyncio.Task[Answered]:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    # --- predictions

    async def predict(self, body: Predict) -> JsonObject:
        """The document of `synth predict --json`. Raises RequestSuperseded, QueueFull, WorkerLost, WorkerTooSlow or
        WorkerProblem."""
        return await self._run_newest(body, self._predict_source(body))

    async def _predict_source(self, body: Predict) -> JsonObject:
        request = ProgramRequest(**_program(body), **_launch_fields(body), limit_s=self.settings.predict_s)
        key = key_of("predict", request)
        if (cached := self.cache.get(key)) is not None:
            return cached
        self._prepare_target(body)
        document = await self.predictors.ask("predict", request)
        if _is_repeatable("predict", document):
            self.cache.put(key, document)
        return document

    def _prepare_target(self, build: Build) -> None:
        """Builds the precompiled header of a target that is asked about for the first time, unless jobs would wait for
        it."""
        if self.executors.waiting or self.executors.running:
            return
        target = build.arch, build.flags
        if target in self.targets or len(self.targets) >= MOST_TARGETS:
            return
        self.targets.add(target)
        self._start_task(self._run_quietly(BuildRequest(arch=build.arch, device=build.device, flags=build.flags)))

    async def _run_quietly(self, request: BuildRequest) -> None:
        with contextlib.suppress(WorkerProblem, HipsynthError):
            await self.executors.ask("prepare", request)

    async def _run_newest(self, body: Predict, work: Coroutine[object, None, JsonObject]) -> JsonObject:
        """Runs work unless a newer version of its document is known; with a newer one it raises
        RequestSuperseded."""
        name, version = body.document, body.version
        task = self._start_task(work)
        running = self._track_document(name, version, task) if name is not None else None
        try:
            return await task
        except asyncio.CancelledError:
            task.cancel()
            if running is not None and running.version > version:
                raise RequestSuperseded("a newer version was sent", cause=f"version {running.version}") from None
            raise

    def _track_document(
        self, name: str, version: int, task: asyncio.Task[JsonObject] | asyncio.Task[None]
    ) -> DocumentWork:
        work = self.documents.setdefault(name, DocumentWork(version))
        self.documents.move_to_end(name)
        while len(self.documents) > DOCUMENTS:
            self.documents.popitem(last=False)
        if version < work.version:
            task.cancel()
        elif version > work.version:
            work.version = version
            for older in work.tasks:
                older.cancel()
            work.tasks.clear()
        work.tasks.add(task)
        task.add_done_callback(work.tasks.discard)
        return work

    async def compare(self, a: Predict, b: Predict) -> JsonObject:
        """A Comparison as JSON. Raises as predict()."""
        answers = await asyncio.gather(self.predict(a), self.predict(b))
        first, second = (from_json(PredictDocument, answer) for answer in answers)
        return document_json(Comparison(first, second, prediction_difference(first, second)))

    # --- jobs

    def submit(self, body: Profile) -> JobState:
        """Starts a job that executes a program; one of an older version of the same document is cancelled. Raises
        QueueFull."""
        limit = self._job_limit(body.limit_s)
        request = ProgramRequest(**_program(body), **_launch_fields(body), limit_s=limit, lines=body.lines)
        job = self._start_job("profile", request)
        if body.document is not None and job.task is not None:
            self._track_document(f"job {body.document}", body.version, job.task)
        return job

    def submit_verification(self, body: Verify) -> JobState:
        """Starts a job that verifies a changed program. Raises QueueFull."""
        limit = self._job_limit(body.limit_s)
        return self._start_job("verify", VerificationRequest(**_program(body), limit_s=limit, original=body.original))

    def submit_search(self, kind: str, body: Improve) -> JobState:
        """Starts a job that looks for a faster program: "optimize" or "swizzle"; one of an older version of the same
        document is cancelled. Raises QueueFull."""
        budget = min(body.budget_s, self.settings.search_s)
        limit = self.settings.execute_s if kind == "swizzle" else budget
        request = SearchRequest(**_program(body), **_launch_fields(body), limit_s=limit, budget_s=budget)
        job = self._start_job(kind, request)
        if body.document is not None and job.task is not None:
            self._track_document(f"{kind} {body.document}", body.version, job.task)
        return job

    def _job_limit(self, wanted_s: float | None) -> float:
        return min(wanted_s or self.settings.execute_s, self.settings.execute_s)

    def _start_job(self, kind: str, request: ProgramRequest) -> JobState:
        waiting = sum(job.state == JobPhase.QUEUED for job in self.jobs.values())
        if waiting >= self.settings.jobs:
            raise QueueFull(
                "too many jobs wait", cause="the job queue is full", remedy="try again later, or cancel some"
            )
        job = JobState(secrets.token_hex(12), request.limit_s)
        self.jobs[job.id] = job
        self._forget_old_jobs()
        job.task = self._start_task(self._execute_job(job, kind, request))
        job.task.add_done_callback(lambda _: job.note_end())
        return job

    async def _execute_job(self, job: JobState, kind: str, request: ProgramRequest) -> None:
        key = key_of(kind, request)
        try:
            document = self.cache.get(key)
            if document is None:
                document = await self._execute_request(job, kind, request)
                if _is_repeatable(kind, document):
                    self.cache.put(key, document)
            job.state, job.document = JobPhase.DONE, document
        except WorkerProblem as problem:
            job.state, job.problem = JobPhase.FAILED, problem.problem
        except HipsynthError as error:
            job.state, job.problem = JobPhase.FAILED, problem_of(error)

    async def _execute_request(self, job: JobState, kind: str, request: ProgramRequest) -> JsonObject:
        pool, limit = self.executors, wall_limit(job.limit_s)
        if isinstance(request, SearchRequest):
            pool, limit = self.searchers, search_limit(request.budget_s)
        return await pool.ask(
            kind, request, limit, lambda: setattr(job, "state", JobPhase.RUNNING), job.progress.append
        )

    async def job(self, name: str, wait_s: float) -> JobState | None:
        """A job, as soon as it has ended, the server stops or `wait_s` have passed; None if there is none of this
        name."""
        job = self.jobs.get(name)
        if job is not None and job.task is not None and wait_s > 0:
            stop = asyncio.ensure_future(self.stopping.wait())
            await asyncio.wait([job.task, stop], timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
        return job

    def cancel(self, name: str) -> JobState | None:
        """Stops a job; None if there is none of this name."""
        job = self.jobs.get(name)
        if job is not None and job.task is not None and not job.task.done():
            job.task.cancel()
            job.state = JobPhase.CANCELLED
        return job

    def _forget_old_jobs(self) -> None:
        finished = [name for name, job in self.jobs.items() if job.took_s is not None]
        for name in finished[: max(0, len(finished) - self.settings.kept_jobs)]:
            del self.jobs[name]

    # --- the language model

    async def chat(self, body: Chat) -> ChatAnswer:
        """The model's answer. Raises MissingDependency without a model."""
        if self.settings.model is None:
            remedy = "train one, and start `synth serve --model DIR`"
            cause = "--model was not given"
            raise MissingDependency(
                "this server has no language model", cause=cause, remedy=remedy, reason=Reason.NO_MODEL
            )
        messages = tuple(ChatMessage(message.role, message.content) for message in body.messages)
        request = ChatRequest(str(self.settings.model), messages, body.max_tokens)
        return from_json(ChatAnswer, await self.chats.ask("chat", request))


def _is_repeatable(kind: str, document: JsonObject) -> bool:
    """Whether an answer is the same next time: what failed may have been short of time or memory."""
    if kind == "swizzle":
        return False
    if kind == "predict":
        kernels = [kernel for result in from_json(PredictDocument, document).results for kernel in result.kernels]
        return not any(kernel.reason_code in MAY_PASS for kernel in kernels)
    if kind == "optimize":
        report = from_json(OptimizeDocument, document["report"])
        return report.ended is not SearchEnd.CLOCK and not report.late
    if kind == "verify":
        return from_json(VerifyDocument, document).verified is True
    return all(result.status == RunStatus.OK for result in from_json(ProfileDocument, document).results)


class _ProgramFields(TypedDict):
    source: str
    arch: str
    device: str | None
    flags: str
    name: str
    arguments: tuple[str, ...]


def _program(body: Build) -> _ProgramFields:
    """The fields of a request that describe its program, for a worker."""
    return {
        "source": body.source,
        "arch": body.arch,
        "device": body.device,
        "flags": body.flags,
        "name": body.name,
        "arguments": tuple(body.arguments),
    }


class _LaunchFields(TypedDict):
    grid: tuple[int, ...] | None
    block: tuple[int, ...] | None
    values: Mapping[str, float]


def _launch_fields(body: AssumedLaunch) -> _LaunchFields:
    """The fields of a request that say what to assume of launches."""
    return {"grid": _sides(body.grid), "block": _sides(body.block), "values": body.values}


def _sides(shape: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if shape is None else tuple(shape)


def prediction_difference(first: PredictDocument, second: PredictDocument) -> tuple[MetricRatio, ...]:
    """Rows for the kernels that both predictions have, by their names, of the longest launch of each; the ratio is None
    where a is 0."""
    sides = [longest_launches(document.results[0].kernels) for document in (first, second)]
    rows = []
    for name in sorted(sides[0].keys() & sides[1].keys()):
        for metric in ("duration_ns", *paper_ids()):
            a, b = (_figure(side[name], metric) for side in sides)
            rows.append(MetricRatio(name, metric, a, b, b / a if a and b is not None else None))
    return tuple(rows)


def _figure(kernel: KernelPrediction, metric: str) -> float | None:
    return kernel.duration_ns if metric == "duration_ns" else kernel.metrics.get(metric)
