"""Comments: drops some, and turns `// line` comments into `/* block */` comments and back. No line moves."""

from __future__ import annotations

import random

from hipsynth.source.clang import TOKEN_COMMENT
from hipsynth.source.edits import Edit
from hipsynth.source.parse import ParsedUnit
from hipsynth.synth.frontend.rewrite_sites import Site

DROPPED = 0.4


def plan_sites(unit: ParsedUnit, rng: random.Random) -> list[Site]:
    """One site per comment."""
    sites: list[Site] = []
    for token in unit.tokens:
        if token.kind == TOKEN_COMMENT:
            end = unit.text.find(b"\n", token.end)
            last = not unit.text[token.end : end if end >= 0 else len(unit.text)].strip()
            new = "\n" * token.text.count("\n") or " " if rng.random() < DROPPED else _turn_comment(token.text, last)
            if new is not None:
                sites.append((Edit(token.start, token.end, new),))
    return sites


def _turn_comment(text: str, last: bool) -> str | None:
    """The comment in the other form, None if it has no other; `last`: nothing follows it in its line."""
    if text.startswith("//") and "*/" not in text and "\\" not in text:
        return f"/*{text[2:].rstrip()} */"
    if text.startswith("/*") and last and "\n" not in text and "\\" not in text:
        return f"//{text[2:-2].rstrip()}"
    return None
