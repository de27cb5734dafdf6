"""Order: swaps neighbouring declarations that do not use each other and call nothing."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

from hipsynth.source.edits import Edit
from hipsynth.source.parse import ParsedUnit, Token
from hipsynth.source.tokens import compiled_tokens, text_between
from hipsynth.synth.frontend.rewrite_sites import Site

_EFFECTS = frozenset({"++", "--", "(", "{", "+=", "-=", "*=", "/=", "&", "return"})
_ENDS = frozenset(";{}")


def plan_sites(unit: ParsedUnit, rng: random.Random) -> list[Site]:
    """One site per pair of neighbouring declarations in functions, in one line each."""
    tokens = compiled_tokens(unit)
    declared = {
        token.start
        for token, entities in zip(unit.tokens, unit.referents, strict=True)
        if any(e.local and e.category == "variable" and e.place == ("", token.start) for e in entities)
    }
    statements = _statement_ranges(tokens)
    sites: list[Site] = []
    for (a, b), (c, d) in itertools.pairwise(statements):
        if b != c or unit.text[tokens[b - 1].end : tokens[c].start].strip():  # a comment between them
            continue
        first, second = _declared_name(tokens, a, b, declared), _declared_name(tokens, c, d, declared)
        if first and second and not _uses_name(tokens, c, d, first) and not _uses_name(tokens, a, b, second):
            first_text, two = text_between(unit, tokens, a, b), text_between(unit, tokens, c, d)
            if "\n" not in first_text + two:
                sites.append(
                    (
                        Edit(tokens[a].start, tokens[b - 1].end, two),
                        Edit(tokens[c].start, tokens[d - 1].end, first_text),
                    )
                )
    return sites


def _statement_ranges(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """The [start, end) token ranges of statements that end with a semicolon."""
    ranges, first = [], 0
    for i, token in enumerate(tokens):
        if token.text in _ENDS:
            if token.text == ";":
                ranges.append((first, i + 1))
            first = i + 1
    return ranges


def _declared_name(tokens: Sequence[Token], start: int, end: int, declared: set[int]) -> str:
    """The variable that a simple declaration without effects declares, "" for any other statement."""
    names = [token.text for token in tokens[start:end] if token.start in declared]
    texts = [token.text for token in tokens[start:end]]
    plain = len(names) == 1 and texts.count("=") == 1 and not _EFFECTS.intersection(texts)
    return names[0] if plain else ""


def _uses_name(tokens: Sequence[Token], start: int, end: int, name: str) -> bool:
    return any(token.text == name for token in tokens[start:end])
