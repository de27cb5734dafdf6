"""Where the language server gets predictions and profiles from: a protocol, and the worker processes that fulfil it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from hipsynth.core.documents import JsonObject, from_json
from hipsynth.core.errors import HipsynthError
from hipsynth.serving.limits import ServerSettings, search_limit, wall_limit
from hipsynth.serving.pool import Pool, WorkerProblem
from hipsynth.serving.requests import ProgramRequest, SearchRequest

if TYPE_CHECKING:
    from hipsynth.profiling.reports.documents import ProfileResult
    from hipsynth.serving.documents import ImprovedProgram
    from hipsynth.training.models.documents import PredictionResult

QUEUE = 10_000  # each open document waits for one answer at most


@dataclass(frozen=True)
class Query:
    """What is asked of one version of a document. `path`: the file on disk if the text equals it, else ""; `run_host`:
    whether a prediction may run its host code."""

    source: str
    arch: str
    flags: str
    device: str
    name: str = "program.hip"
    path: str = ""
    limit_s: float = 20.0  # of processor time, for the program to run
    run_host: bool = False
    last_compiled: str = ""  # an earlier text that compiled
    grid: tuple[int, ...] | None = None  # what to assume of launches, as `synth predict` does
    block: tuple[int, ...] | None = None
    values: Mapping[str, float] = field(default_factory=dict)


class QueryFailed(Exception):
    """The query has no answer; the message says why, in the words of `synth`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class AnswerSource(Protocol):
    """Answers queries. Both raise QueryFailed; cancelling the awaiting task stops the work."""

    async def predict(self, query: Query) -> PredictionResult: ...

    async def profile(self, query: Query) -> ProfileResult:
        """As of `synth profile --lines`."""
        ...

    async def optimize(self, query: Query, budget_s: float) -> ImprovedProgram:
        """As of `synth optimize` with this budget."""
        ...

    async def close(self) -> None: ...


class WorkerSource:
    """Processes of this machine, started when they are needed: a prediction waits neither for a profile nor for one
    long prediction of another file."""

    def __init__(self) -> None:
        self._predictors = Pool("prediction", 2, QUEUE, wall_limit(ServerSettings().predict_s))
        self._executors = Pool("job", 1, QUEUE, ServerSettings().execute_s)

    async def predict(self, query: Query) -> PredictionResult:
        """Asks a worker process for a prediction. Raises QueryFailed with the worker's reason."""
        from hipsynth.training.models.documents import PredictDocument

        answer = await _ask_pool(self._predictors, "predict", _program_request(query), wall_limit(query.limit_s))
        return from_json(PredictDocument, answer).results[0]

    async def profile(self, query: Query) -> ProfileResult:
        from hipsynth.profiling.reports.documents import ProfileDocument

        answer = await _ask_pool(self._executors, "profile", _program_request(query), wall_limit(query.limit_s))
        return from_json(ProfileDocument, answer).results[0]

    async def optimize(self, query: Query, budget_s: float) -> ImprovedProgram:
        """What a search finds, however busy the machine is."""
        from hipsynth.serving.documents import ImprovedProgram

        request = SearchRequest(**vars(_program_request(query)), budget_s=budget_s)
        answer = await _ask_pool(self._executors, "optimize", request, search_limit(budget_s))
        return from_json(ImprovedProgram, answer)

    def kill(self) -> None:
        """Ends the processes at once."""
        self._predictors.kill()
        self._executors.kill()

    async def close(self) -> None:
        await asyncio.gather(self._predictors.close(), self._executors.close())


def _program_request(query: Query) -> ProgramRequest:
    return ProgramRequest(
        source=query.source,
        arch=query.arch,
        device=query.device or None,
        flags=query.flags,
        name=query.name,
        path=query.path,
        limit_s=query.limit_s,
        lines=True,
        run_host=query.run_host,
        last_compiled=query.last_compiled,
        grid=query.grid,
        block=query.block,
        values=query.values,
    )


async def _ask_pool(pool: Pool, kind: str, request: ProgramRequest, limit_s: float | None = None) -> JsonObject:
    try:
        return await pool.ask(kind, request, limit_s)
    except WorkerProblem as problem:
        stated_problem = problem.problem
        words = str(HipsynthError(stated_problem.message, cause=stated_problem.cause, remedy=stated_problem.remedy))
        raise QueryFailed(stated_problem.error, "\n".join(filter(None, [words, stated_problem.diagnostics]))) from None
    except HipsynthError as error:
        raise QueryFailed(error.reason, str(error)) from error
