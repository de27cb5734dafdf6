"""The table of kinds of recorded kernels, kinds.toml."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.core.tables import read_table
from studies.leave_one_out.evidence import RecordedFigure

PATH = Path(__file__).with_name("kinds.toml")


@dataclass(frozen=True)
class KernelKind:
    """One kind of kernel; `figures`: patterns of the paths of its figures."""

    name: str
    class_: str
    recording: str
    figures: tuple[str, ...]

    def has_figure(self, figure: RecordedFigure) -> bool:
        return any(fnmatchcase(figure.path, pattern) for pattern in self.figures)


@dataclass(frozen=True)
class KindTable:
    """The content of kinds.toml."""

    kind: tuple[KernelKind, ...]


@functools.cache
def load_kinds() -> dict[str, KernelKind]:
    """All kinds by name, in the order of the table."""
    return {kind.name: kind for kind in read_table(PATH, KindTable).kind}


def match_kinds(patterns: Iterable[str]) -> tuple[str, ...]:
    """The names of the kinds that match any of the patterns; BadInput for a pattern without a kind."""
    matching_names: dict[str, None] = {}
    for pattern in patterns:
        names = [name for name in load_kinds() if fnmatchcase(name, pattern)]
        if not names:
            raise BadInput(f"kinds.toml: no kind is called {pattern!r}", remedy=f"known: {', '.join(load_kinds())}")
        matching_names |= dict.fromkeys(names)
    return tuple(matching_names)


def divide_figures(figures: Iterable[RecordedFigure]) -> dict[str, list[RecordedFigure]]:
    """The figures of each kind; BadInput for a figure that does not belong to exactly one."""
    figures_by_kind: dict[str, list[RecordedFigure]] = {name: [] for name in load_kinds()}
    for figure in figures:
        names = [kind.name for kind in load_kinds().values() if kind.has_figure(figure)]
        if len(names) != 1:
            names_text = " and ".join(names) or "none"
            raise BadInput(f"{figure.path}: its kinds in kinds.toml: {names_text}", remedy="give it exactly one kind")
        figures_by_kind[names[0]].append(figure)
    return figures_by_kind
