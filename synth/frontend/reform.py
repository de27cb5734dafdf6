"""Shared by the passes that change how code is written: tokens outside directives, and sites drawn by a seed.

Such a pass need not be right every time: `proof` compiles each result, and one with other machine code is dropped.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from hipsynth.synth.frontend.clang import TOKEN_COMMENT
from hipsynth.synth.frontend.edits import Edit, apply_edits
from hipsynth.synth.frontend.parse import Diagnostic, ParseConfig, Token, Unit, parse
from hipsynth.synth.frontend.source import Source

_DIRECTIVE = re.compile(rb"^[ \t]*#(?:[^\n\\]|\\\r?\n|\\.)*", re.M)
OPENING, CLOSING = "([{", ")]}"
Site = tuple[Edit, ...]  # edits that belong together
Plan = Callable[[Unit, random.Random], list[Site]]


def reform(source: Source, argument: str, config: ParseConfig, plan: Plan) -> tuple[Source | None, list[Diagnostic]]:
    """A pass's `apply`: the text with some of the sites that `plan` finds.

    `argument` is "SEED" or "SEED,SHARE": the share of sites that are changed (default 0.5); at least one is. Of sites
    that overlap, the first is changed.
    """
    unit, problems = parse(source.text, config, path=str(source.main) if source.main else None)
    if unit is None:
        return None, problems
    seed, _, share = argument.partition(",")
    digest = hashlib.sha256(unit.text).hexdigest()
    rng = random.Random(f"{plan.__module__}:{seed}:{share}:{digest}")
    sites = plan(unit, rng)
    if not sites:
        return source, []
    chosen = [site for site in sites if rng.random() < float(share or 0.5)] or [rng.choice(sites)]
    return replace(source, text=apply_edits(unit.text, _apart(chosen))), []


def _apart(sites: Sequence[Site]) -> list[Edit]:
    """The edits of all sites that do not overlap one before."""
    kept: list[Edit] = []
    taken: list[tuple[int, int]] = []
    for site in sites:
        start, end = min(edit.start for edit in site), max(edit.end for edit in site)
        if all(end <= a or b <= start for a, b in taken):
            taken.append((start, end + (start == end)))
            kept += site
    return kept


def code_tokens(unit: Unit) -> list[Token]:
    """The tokens outside comments and preprocessor directives."""
    ranges = [match.span() for match in _DIRECTIVE.finditer(unit.text)]
    found: list[Token] = []
    at = 0
    for token in unit.tokens:
        while at < len(ranges) and ranges[at][1] <= token.start:
            at += 1
        if token.kind != TOKEN_COMMENT and not (at < len(ranges) and ranges[at][0] <= token.start):
            found.append(token)
    return found


def closing(tokens: Sequence[Token], at: int) -> int:
    """The index of the bracket that closes the one at index `at`; -1 if there is none."""
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i].text in OPENING) - (tokens[i].text in CLOSING)
        if depth == 0:
            return i
    return -1


def split_at(tokens: Sequence[Token], start: int, end: int, separator: str) -> list[tuple[int, int]]:
    """The [start, end) token ranges between separators that stand in no inner brackets."""
    parts, depth, first = [], 0, start
    for i in range(start, end):
        depth += (tokens[i].text in OPENING) - (tokens[i].text in CLOSING)
        if depth == 0 and tokens[i].text == separator:
            parts.append((first, i))
            first = i + 1
    return [*parts, (first, end)]


def sets_size(unit: Unit, token: Token) -> bool:
    """Whether a size that an argument sets is in the token's line or the next: its form is `core.arguments`'."""
    end = unit.text.find(b"\n", unit.text.find(b"\n", token.end) + 1)
    return b"atoi(" in unit.text[unit.text.rfind(b"\n", 0, token.start) + 1 : end]


def text_between(unit: Unit, tokens: Sequence[Token], start: int, end: int) -> str:
    """The source text of the tokens [start, end), with what stands between them."""
    if start >= end:
        return ""
    return unit.text[tokens[start].start : tokens[end - 1].end].decode(errors="surrogateescape")
