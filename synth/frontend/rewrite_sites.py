"""Shared by the passes that change how code is written: sites drawn by a seed.

Such a pass need not be right every time: `equivalence` compiles each result, and drops one with other machine code.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from hipsynth.source.edits import Edit, apply_edits
from hipsynth.source.parse import Diagnostic, ParseConfig, ParsedUnit, Token, parse_source
from hipsynth.synth.frontend.pass_input import ProgramSource

Site = tuple[Edit, ...]  # edits that belong together
Plan = Callable[[ParsedUnit, random.Random], list[Site]]


def reform_source(
    source: ProgramSource, argument: str, config: ParseConfig, plan: Plan
) -> tuple[ProgramSource | None, list[Diagnostic]]:
    """The text with some of the sites that `plan` finds.

    `argument` is "SEED" or "SEED,SHARE": the share of sites that are changed (default 0.5); at least one is. Of sites
    that overlap, the first is changed.
    """
    unit, problems = parse_source(source.text, config, path=str(source.main) if source.main else None)
    if unit is None:
        return None, problems
    seed, _, share = argument.partition(",")
    digest = hashlib.sha256(unit.text).hexdigest()
    rng = random.Random(f"{plan.__module__}:{seed}:{share}:{digest}")
    sites = plan(unit, rng)
    if not sites:
        return source, []
    chosen = [site for site in sites if rng.random() < float(share or 0.5)] or [rng.choice(sites)]
    return replace(source, text=apply_edits(unit.text, _disjoint_edits(chosen))), []


def _disjoint_edits(sites: Sequence[Site]) -> list[Edit]:
    """The edits of all sites that do not overlap one before."""
    disjoint: list[Edit] = []
    ranges: list[tuple[int, int]] = []
    for site in sites:
        start, end = min(edit.start for edit in site), max(edit.end for edit in site)
        if all(end <= a or b <= start for a, b in ranges):
            ranges.append((start, end + (start == end)))
            disjoint += site
    return disjoint


def sets_size(unit: ParsedUnit, token: Token) -> bool:
    """Whether a size that an argument sets is in the token's line or the next: its form is `source.arguments`'."""
    end = unit.text.find(b"\n", unit.text.find(b"\n", token.end) + 1)
    return b"atoi(" in unit.text[unit.text.rfind(b"\n", 0, token.start) + 1 : end]
