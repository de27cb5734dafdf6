"""The server's settings and bounds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.time_limit import PREDICTION_SECONDS

REQUEST_SOURCE_BYTES = 1 << 20  # of one program
BODY_BYTES = 3 << 20  # of a request: two programs of a comparison, written as JSON
DOCUMENTS = 512  # edited documents whose newest version is remembered
MOST_KERNELS = 256  # `__global__` in one source
CONNECTIONS = 256
HEADER_BYTES = 64 << 10  # of a request
HEADERS_S, BODY_S, ANSWER_S = 10.0, 60.0, 60.0  # that a client may take to send a request, and to read its answer
TOOL_CALL_S = 600.0  # on the clock, for one call of a language model's tool
OWN_LIMIT_FACTOR, OWN_LIMIT_EXTRA_S = 3.0, 30.0  # wall-clock margin over a program's own limit on processor time
CHECKS_S = 300.0  # on the clock: the runs of a full verification, each as long as it may be when the clock has run out


def wall_limit(limit_s: float) -> float:
    """Seconds after which a worker is given up whose program may take `limit_s` of processor time."""
    return OWN_LIMIT_FACTOR * limit_s + OWN_LIMIT_EXTRA_S


def search_limit(budget_s: float) -> float:
    """Seconds after which a worker is given up that searches with this budget: the search's own clock, and what checks
    may take that begin before it ends: as long again, or the least time for each of their runs."""
    return 2 * OWN_LIMIT_FACTOR * budget_s + CHECKS_S


@dataclass(frozen=True)
class ServerSettings:
    """`predictors`, `executors`: worker processes. `queue`: requests that may wait for a predictor, `jobs`: those that
    may wait for an executor; further ones are refused. `predict_s`, `execute_s`: the most seconds of processor
    time of one prediction and of one executed program; `search_s`: the largest budget of a search for a faster one.
    `cache_bytes`: stored answers. `kept_jobs`: finished jobs that can still be asked for. `model`: folder of a trained
    language model."""

    predictors: int = 2
    executors: int = 1
    queue: int = 16
    jobs: int = 8
    predict_s: float = PREDICTION_SECONDS
    execute_s: float = 60.0
    search_s: float = 300.0
    chat_s: float = 300.0
    cache_bytes: int = 64 << 20
    kept_jobs: int = 64
    model: Path | None = None
