"""What the process that makes copies is told and what it answers, a line of JSON each; see `parse_protocol`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hipsynth.source.parse import MAX_BYTES, ParseConfig
from hipsynth.source.parse_protocol import MOST_TEXT_CHARS, check_lengths
from hipsynth.synth.frontend.comments_and_strings import Texts
from hipsynth.synth.frontend.make_copies import AugmentResult, CopyFailure
from hipsynth.synth.frontend.pass_input import BuildConfiguration


@dataclass(frozen=True)
class CopiedText:
    """The text of a program, and the passes applied to it. Raises ValueError for one that is empty or too long."""

    text: str
    derivation: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.text or len(self.text.encode()) > 4 * MAX_BYTES:
            raise ValueError("a program is empty or too long")
        check_lengths(self.derivation)


@dataclass(frozen=True)
class FlattenTask:
    """Make the files of a program, which lie below `root`, one self-contained text."""

    builds: tuple[BuildConfiguration, ...]
    root: Path | None


@dataclass(frozen=True)
class ReformTask:
    """Apply passes to a text."""

    program: CopiedText
    steps: tuple[str, ...]


@dataclass(frozen=True)
class RenameTask:
    """Make renamed copies of a text, with these numbers."""

    program: CopiedText
    numbers: tuple[int, ...]
    seed: int
    texts: Texts


@dataclass(frozen=True)
class CopyRequest:
    """A task about the program that the user knows by `name`."""

    config: ParseConfig
    name: str
    task: FlattenTask | ReformTask | RenameTask


@dataclass(frozen=True)
class CopyAnswer:
    """The texts of an AugmentResult. Raises ValueError for a text that is too long."""

    programs: tuple[CopiedText, ...]
    failures: tuple[CopyFailure, ...]
    kept: Mapping[str, str] = field(default_factory=dict)
    names: int = 0

    def __post_init__(self) -> None:
        for failure in self.failures:
            check_lengths((failure.name, failure.reason, failure.message))
        check_lengths((*self.kept, *self.kept.values()))

    @staticmethod
    def of(result: AugmentResult) -> CopyAnswer:
        """The answer for a result; long messages are cut. Raises ValueError for another text that is too long."""
        programs = tuple(CopiedText(program.text, program.derivation) for program in result.programs)
        failures = tuple(replace(failure, message=failure.message[:MOST_TEXT_CHARS]) for failure in result.failures)
        return CopyAnswer(programs, failures, result.kept, result.names)
