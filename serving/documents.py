"""Answers of the server other than the documents of `synth predict` and `synth profile`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from hipsynth.core.errors import ErrorDocument
from hipsynth.profiling.metrics.roofline import RooflinePlot
from hipsynth.profiling.reports.documents import ProfileDocument
from hipsynth.training.models.documents import PredictDocument
from hipsynth.tuning.optimize.documents import OptimizeDocument, VerifyDocument
from hipsynth.tuning.swizzle.documents import SwizzleDocument


@dataclass(frozen=True)
class AcceptedJob:
    """The name of a job that was started."""

    job: str


@dataclass(frozen=True, kw_only=True)
class ImprovedProgram:
    """What a search for a faster program found: its `report`, the `source` (the one that was sent if none is faster
    and correct) and the `diff` between both. `assumed`: of the launches of kernels without main(), a sentence each."""

    report: OptimizeDocument | SwizzleDocument
    source: str
    diff: str
    assumed: tuple[str, ...]


class JobPhase(StrEnum):
    """Where a job is."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, kw_only=True)
class JobDocument:
    """`document`, when done, as of `synth profile --json` or
    `synth verify --json`, or what a search found; `progress`: lines about a search's work so far."""

    job: str
    state: JobPhase
    elapsed_s: float
    limit_s: float
    document: ProfileDocument | VerifyDocument | ImprovedProgram | None
    problem: ErrorDocument | None
    progress: tuple[str, ...] = ()


@dataclass(frozen=True)
class MetricRatio:
    """One metric of a kernel that both sides of a comparison have; `ratio` b / a is null where it is not known."""

    kernel: str
    metric: str
    a: float | None
    b: float | None
    ratio: float | None


@dataclass(frozen=True)
class Comparison:
    """Two predictions, and for each kernel and metric of both the ratio b / a."""

    a: PredictDocument
    b: PredictDocument
    difference: tuple[MetricRatio, ...]


@dataclass(frozen=True)
class Prepared:
    """An architecture and flags for which later compiles are fast."""

    prepared: tuple[str, str]


@dataclass(frozen=True)
class ChatAnswer:
    """A language model's answer, why it ended ("stop" or "length"), and the tokens read and written."""

    content: str
    finish: str
    prompt: int
    written: int


@dataclass(frozen=True)
class ChatText:
    """One message of a chat completion, as OpenAI's API has it."""

    role: str
    content: str


@dataclass(frozen=True, kw_only=True)
class ChatChoice:
    """One answer: a whole `message`, or the `delta` of a stream."""

    index: int
    message: ChatText | None = None
    delta: ChatText | None = None
    finish_reason: str


@dataclass(frozen=True)
class ChatUsage:
    """Tokens of a chat completion, as OpenAI's API counts them."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


@dataclass(frozen=True, kw_only=True)
class ChatCompletion:
    """An answer in OpenAI's format."""

    id: str
    created: int
    model: str
    object: Literal["chat.completion", "chat.completion.chunk"]
    choices: tuple[ChatChoice, ...]
    usage: ChatUsage


@dataclass(frozen=True)
class Health:
    """The answer of `/healthz`: `status` is "ok" while the server takes requests."""

    status: str


@dataclass(frozen=True)
class Readiness:
    """Whether predictions are warm, and whether there is a language model."""

    ready: bool
    model: bool


@dataclass(frozen=True)
class DeviceChoice:
    """A device, with an empty plot of its roofline."""

    name: str
    title: str
    arch: str
    plot: RooflinePlot


@dataclass(frozen=True)
class FlagChoice:
    """A set of compiler flags that the workbench offers, and a line about it."""

    flags: str
    about: str


@dataclass(frozen=True)
class MetricChoice:
    """A metric; `shown`: tables for people have it. The three throughputs are equal, and one of them is shown."""

    id: str
    title: str
    unit: str
    shown: bool


@dataclass(frozen=True, kw_only=True)
class ServerChoices:
    """What a page or an editor offers: targets, flag sets, metrics, names of the units of the timing model, and the
    most seconds of processor time of an execution and of a search's budget."""

    devices: tuple[DeviceChoice, ...]
    default_device: str
    flags: tuple[FlagChoice, ...]
    metrics: tuple[MetricChoice, ...]
    units: Mapping[str, str]
    execute_s: float
    search_s: float
    model: bool
