"""Branches of the preprocessor that no macro can make a compiler take: those of `#if 0`, and beside `#if 1`."""

from __future__ import annotations

import re

from hipsynth.source.outline import blank_opaque

_CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b([^\n]*)", re.MULTILINE)
_DECIDED = re.compile(r"^[ \t]*#[ \t]*if[ \t]+[01]\b", re.MULTILINE)
_NO_LINE_END = re.compile(r"[^\n]")


def blank_untaken_branches(text: str) -> str:
    """The text with blanks in place of those branches, so that offsets and lines stay. Conditions of macros are not
    decided, since flags may define these."""
    if not _DECIDED.search(text):
        return text
    pieces, at = [], 0
    for start, end in _find_untaken_branches(blank_opaque(text)):
        if start >= at:  # in no other one
            pieces += [text[at:start], _NO_LINE_END.sub(" ", text[start:end])]
            at = end
    return "".join([*pieces, text[at:]])


def _find_untaken_branches(code: str) -> list[tuple[int, int]]:
    """[start, end) of each, between its directives, outer ones before those in them."""
    branches: list[tuple[int, int]] = []
    opened: list[tuple[str, int]] = []  # of each #if: "0" or "1" of a branch that is decided, else ""; where it begins
    for directive in _CONDITION.finditer(code):
        kind, condition = directive[1], directive[2].strip()
        if kind.startswith("if"):
            opened.append((condition if kind == "if" and condition in ("0", "1") else "", directive.end()))
            continue
        if not opened:
            continue
        state, start = opened.pop()
        if state in ("0", "rest"):
            branches.append((start, directive.start()))
        if kind != "endif":
            opened.append(("rest" if state in ("1", "rest") else "", directive.end()))
    return sorted(branches)
