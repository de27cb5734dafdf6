"""Constants: integer literals in hexadecimal, as shifts or as products, and hexadecimal ones in decimal."""

from __future__ import annotations

import random
import re

from hipsynth.source.clang import TOKEN_LITERAL
from hipsynth.source.edits import Edit
from hipsynth.source.parse import ParsedUnit
from hipsynth.source.tokens import compiled_tokens
from hipsynth.synth.frontend.rewrite_sites import Site, sets_size

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|[1-9]\d*)([uU]?(?:ll|LL|[lL])?|(?:ll|LL|[lL])[uU])")
LEAST = 10  # smaller numbers are written in one way only


def plan_sites(unit: ParsedUnit, rng: random.Random) -> list[Site]:
    """One site per integer literal from LEAST to 2^31 - 1: there, all forms have the same type."""
    sites: list[Site] = []
    for token in compiled_tokens(unit):
        match = _INTEGER.fullmatch(token.text) if token.kind == TOKEN_LITERAL else None
        if match and not sets_size(unit, token) and LEAST <= (value := int(match[1], 0)) < 1 << 31:
            forms = [form for form in _literal_forms(value, match[2]) if form != token.text]
            sites.append((Edit(token.start, token.end, rng.choice(forms)),))
    return sites


def _literal_forms(value: int, suffix: str) -> list[str]:
    forms = [f"{value}{suffix}", f"{value:#x}{suffix}"]
    if value & (value - 1) == 0:
        forms.append(f"(1{suffix} << {value.bit_length() - 1})")
    factor = next((n for n in (16, 10, 8, 4, 3, 2) if value % n == 0 and value > n), 0)
    return [*forms, f"({factor} * {value // factor}{suffix})"] if factor else forms
