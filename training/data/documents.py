"""The documents of exported samples: what `synth export --json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ChatExport:
    """Samples in the form of chats; `digits`: how values are written, `label`: which kernel of a run is asked for,
    `left_out`: labels by reason."""

    out: str
    format: str
    digits: str
    samples: int
    label: str
    left_out: Mapping[str, int]


@dataclass(frozen=True)
class QuestionExport:
    """Questions about bottlenecks, by name; `duplicates`: the same question with the same answer is kept once."""

    out: str
    format: str
    samples: int
    questions: Mapping[str, int]
    duplicates: int
    left_out: Mapping[str, int]
