"""What the parser's process is told and what it answers, a line of JSON each.

A hostile program may have taken over the process, so answers are checked as they are decoded: members, types, lengths.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth.source.entities import Entity
from hipsynth.source.functions import FunctionNode
from hipsynth.source.parse import Diagnostic, ParseConfig, ParsedUnit

MOST_TEXT_CHARS = 4000


def check_lengths(texts: Iterable[str]) -> None:
    """Raises ValueError for a text of more than MOST_TEXT_CHARS."""
    if any(len(text) > MOST_TEXT_CHARS for text in texts):
        raise ValueError("a text is too long")


def absolute_paths(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Paths for a request: the parser has another working folder."""
    return tuple(path.absolute() for path in paths)


def absolute_config(config: ParseConfig) -> ParseConfig:
    """Parser settings for a request."""
    return replace(config, include=absolute_paths(config.include))


@dataclass(frozen=True)
class ParseRequest:
    """A text to parse."""

    config: ParseConfig
    text: str


@dataclass(frozen=True)
class ParseAnswer:
    """The `tokens` of a text (kind, and range of bytes) with the numbers of the `entities` that each refers to, and its
    functions; or the `problem` for which it cannot be parsed. Raises ValueError for a text that is too long."""

    problem: Diagnostic | None = None
    tokens: tuple[tuple[int, int, int], ...] = ()
    entities: tuple[Entity, ...] = ()
    referents: tuple[tuple[int, ...], ...] = ()
    definitions: tuple[FunctionNode, ...] = ()

    def __post_init__(self) -> None:
        if self.problem is not None:
            check_lengths((self.problem.message, self.problem.missing_header))
        for entity in self.entities:
            check_lengths((entity.name, entity.place[0], entity.category, entity.shape))
        for node in self.definitions:
            check_lengths((node.name, node.mangled, *node.template_names, *(word for _, _, word in node.parameters)))


def answer_with_problem(problem: Diagnostic) -> ParseAnswer:
    """The answer for a text that cannot be parsed."""
    return ParseAnswer(replace(problem, message=problem.message[:MOST_TEXT_CHARS]))


def answer_with_unit(unit: ParsedUnit) -> ParseAnswer:
    """The answer for a text that was parsed. Raises ValueError for one with a name that is too long."""
    entities = tuple({entity: None for entities in unit.referents for entity in entities})
    number = {entity: i for i, entity in enumerate(entities)}
    return ParseAnswer(
        tokens=tuple((token.kind, token.start, token.end) for token in unit.tokens),
        entities=entities,
        referents=tuple(tuple(number[entity] for entity in referent) for referent in unit.referents),
        definitions=tuple(map(_without_long_symbol, unit.definitions)),
    )


def _without_long_symbol(node: FunctionNode) -> FunctionNode:
    return replace(node, mangled=node.mangled if len(node.mangled) <= MOST_TEXT_CHARS else "")
