"""Requests to worker processes: one dataclass per kind of work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hipsynth.core.languages import SUFFIXES, TRITON, language_of
from hipsynth.core.time_limit import PREDICTION_SECONDS


@dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """A way to compile; without a device, the default one of the architecture."""

    arch: str
    device: str | None = None
    flags: str = "-O3"


@dataclass(frozen=True, kw_only=True)
class ProgramRequest(BuildRequest):
    """A program of one text, to predict or to profile, within `limit_s` of processor time.

    `path`, which only the language server sends: the file that holds this text, whose folder the program may include
    from and read. `grid`, `block`, `values`: what to assume of launches. `lines`: also count by source line.
    `run_host`: a prediction may run the host code to record its launches. `last_compiled`: an earlier version of the
    text that compiled, for a prediction of one that does not.
    """

    source: str
    name: str = "kernel.hip"
    path: str = ""
    arguments: tuple[str, ...] = ()
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    limit_s: float = PREDICTION_SECONDS
    lines: bool = False
    run_host: bool = True
    last_compiled: str = ""

    @property
    def is_script(self) -> bool:
        """Whether it is a Python script: its name says so, or its text has Triton kernels."""
        return Path(self.name).suffix == SUFFIXES[TRITON] or language_of(self.source) == TRITON


@dataclass(frozen=True, kw_only=True)
class VerificationRequest(ProgramRequest):
    """Whether the program of `source` does the same as `original`."""

    original: str


@dataclass(frozen=True, kw_only=True)
class SearchRequest(ProgramRequest):
    """A program to make faster with `budget_s` of work; in a search for mappings, of time on the clock."""

    budget_s: float


@dataclass(frozen=True)
class ChatMessage:
    """One message of a chat: `role` is system, user or assistant."""

    role: str
    content: str


@dataclass(frozen=True)
class ChatRequest:
    """Messages to the language model of a folder, and the most tokens of its answer."""

    model_folder: str
    messages: tuple[ChatMessage, ...]
    max_tokens: int
