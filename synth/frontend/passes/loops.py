"""Loops: `for (a; b; c) body` becomes `{ a; while (b) { body c; } }`, `while (b)`: `for (; b;)`. No line moves."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from hipsynth.source.edits import Edit
from hipsynth.source.parse import ParsedUnit, Token
from hipsynth.source.tokens import compiled_tokens, find_closing, split_at, text_between
from hipsynth.synth.frontend.rewrite_sites import Site

_PRAGMA = re.compile(rb"#[ \t]*pragma((?:[^\n\\]|\\\r?\n|\\.)*)\n\s*$")
_OF_SEVERAL = re.compile(rb"\b(?:collapse|ordered|tile)\b")  # pragmas that are of the loops inside, too


def plan_sites(unit: ParsedUnit, rng: random.Random) -> list[Site]:
    """One site per loop that has no pragma, and no `continue`, which would skip the step."""
    tokens = compiled_tokens(unit)
    sites: list[Site] = []
    nest_end = 0
    for i, token in enumerate(tokens[:-1]):
        if token.text not in ("for", "while") or tokens[i + 1].text != "(":
            continue
        close = find_closing(tokens, i + 1)
        pragma = _PRAGMA.search(unit.text[: token.start])
        if pragma and _OF_SEVERAL.search(pragma[1]):
            nest_end = max(nest_end, _end_of_loop(tokens, i))
        if close < 0 or close + 1 >= len(tokens) or pragma or i < nest_end:
            continue
        site = _to_while(unit, tokens, i, close) if token.text == "for" else _to_for(tokens, i, close)
        if site:
            sites.append(site)
    return sites


def _end_of_loop(tokens: Sequence[Token], at: int) -> int:
    """The index of the token that ends a loop's body: of a nest without braces, that of the innermost."""
    while at < len(tokens) and tokens[at].text == "for":
        at = find_closing(tokens, at + 1) + 1
        if at == 0:
            return len(tokens)
    if at < len(tokens) and tokens[at].text == "{":
        end = find_closing(tokens, at)
        return end if end >= 0 else len(tokens)
    return next((j for j in range(at, len(tokens)) if tokens[j].text == ";"), len(tokens))


def _to_while(unit: ParsedUnit, tokens: Sequence[Token], at: int, close: int) -> Site:
    parts = split_at(tokens, at + 2, close, ";")
    body = close + 1
    if len(parts) != 3 or tokens[body].text != "{":
        return ()
    end = find_closing(tokens, body)
    if end < 0 or any(token.text in ("continue", "goto") for token in tokens[body:end]):
        return ()
    first, test, step = (text_between(unit, tokens, a, b) for a, b in parts)
    head = f"{{ {first}; while ({test or 'true'}) {{" if first else f"{{ while ({test or 'true'}) {{"
    tail = f" {step}; }} }}" if step else "} }"
    return (Edit(tokens[at].start, tokens[body].end, head), Edit(tokens[end].start, tokens[end].end, tail))


def _to_for(tokens: Sequence[Token], at: int, close: int) -> Site:
    if (at and tokens[at - 1].text == "}") or tokens[close + 1].text == ";":  # perhaps the end of do ... while
        return ()
    return (
        Edit(tokens[at].start, tokens[at + 1].end, "for (; "),
        Edit(tokens[close].start, tokens[close].end, ";)"),
    )
