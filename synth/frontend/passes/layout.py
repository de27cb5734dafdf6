"""Layout: another width of indentation, other spaces after keywords; braces on lines of their own where no code depends
on line numbers."""

from __future__ import annotations

import itertools
import random
import re

from hipsynth.source.clang import TOKEN_COMMENT, TOKEN_LITERAL
from hipsynth.source.edits import Edit
from hipsynth.source.parse import ParsedUnit
from hipsynth.source.tokens import compiled_tokens
from hipsynth.synth.frontend.rewrite_sites import Site, sets_size

_LINE = re.compile(rb"^([ \t]+)(?=[^\s#])", re.M)
_LINES_MATTER = re.compile(rb"__LINE__|\bassert\b|source_location|__builtin_LINE")
INDENTS = (" ", "   ", "    ", "\t")
KEYWORDS = frozenset({"if", "for", "while", "switch"})


def plan_sites(unit: ParsedUnit, rng: random.Random) -> list[Site]:
    """One site: all lines' indentation, and mostly also spaces after keywords, braces, or both, in the whole file."""
    others = rng.choice([(), (_keyword_site,), (_brace_site,), (_keyword_site, _brace_site)])
    site = sum((find(unit) for find in others), _indent_site(unit, rng.choice(INDENTS)))
    return [site] if site else []


def _indent_site(unit: ParsedUnit, unit_of: str) -> Site:
    """Each step of indentation becomes `unit_of`; lines within comments and literals stay."""
    inner = [(t.start, t.end) for t in unit.tokens if t.kind in (TOKEN_COMMENT, TOKEN_LITERAL) and "\n" in t.text]
    lines = [
        match
        for match in _LINE.finditer(unit.text)
        if not any(a < match.start() < b for a, b in inner)
        and unit.text[match.start() - 2 : match.start() - 1] != b"\\"
    ]
    widths = {len(match[1].expandtabs(4)) for match in lines}
    step = min(widths, default=0)
    if step == 0:
        return ()
    edits = []
    for match in lines:
        width = len(match[1].expandtabs(4))
        edits.append(Edit(match.start(), match.end(), unit_of * (width // step) + " " * (width % step)))
    return tuple(edits)


def _keyword_site(unit: ParsedUnit) -> Site:
    """`if (` becomes `if(`, and the reverse."""
    tokens = compiled_tokens(unit)
    pairs = [
        (a, b) for a, b in itertools.pairwise(tokens) if a.text in KEYWORDS and b.text == "(" and not sets_size(unit, a)
    ]
    return tuple(Edit(a.end, b.start, " " if a.end == b.start else "") for a, b in pairs if b.start - a.end < 2)


def _brace_site(unit: ParsedUnit) -> Site:
    """`) {` at the end of a line becomes a brace on its own line, if no line number is used."""
    if _LINES_MATTER.search(unit.text):
        return ()
    tokens = compiled_tokens(unit)
    edits = []
    for a, b in itertools.pairwise(tokens):
        end = unit.text.find(b"\n", b.end)
        if (
            a.text == ")"
            and b.text == "{"
            and unit.text[a.end : b.start] == b" "
            and not unit.text[b.end : end].strip()
        ):
            line = unit.text[unit.text.rfind(b"\n", 0, a.start) + 1 : a.start]
            blank = line[: len(line) - len(line.lstrip())]
            edits.append(Edit(a.end, b.start, "\n" + blank.decode(errors="surrogateescape")))
    return tuple(edits)
