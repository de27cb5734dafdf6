"""Analyses of source text that fail unexpectedly are left out, so that a search still has the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from hipsynth.core.errors import BadInput, HipsynthError
from hipsynth.source.edits import EditConflict
from hipsynth.source.parse_service import ParserLost

T = TypeVar("T")

# What a text is to blame for that an analysis reads or made. Other errors are the machine's: no text would do better.
TEXT_ERRORS = (BadInput, EditConflict, ParserLost)


@dataclass
class AnalysisFaults:
    """`failed`: the analyses that failed in a way that they do not know of, which is a fault of theirs -> how."""

    failed: dict[str, str] = field(default_factory=dict)

    def iterate(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """What an analysis offers, up to where it fails."""
        iterator = iter(items)
        while True:
            try:
                item = next(iterator)
            except StopIteration:
                return
            except Exception as fault:
                if isinstance(fault, HipsynthError) and not isinstance(fault, TEXT_ERRORS):
                    raise
                self._note(name, fault)
                return
            yield item

    def call(self, name: str, analysis: Callable[[], T]) -> T | None:
        """What an analysis returns; None if it fails."""
        return next(self.iterate(name, (analysis() for _ in range(1))), None)

    def _note(self, name: str, fault: Exception) -> None:
        place = fault.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        line = f" at {place.tb_frame.f_code.co_name}, line {place.tb_lineno}" if place is not None else ""
        self.failed.setdefault(name, f"{type(fault).__name__}: {fault}{line}")


def iterate_safely(faults: AnalysisFaults | None, name: str, items: Iterable[T]) -> Iterator[T]:
    """What an analysis offers; without `faults`, its errors are the caller's."""
    return iter(items) if faults is None else faults.iterate(name, items)
