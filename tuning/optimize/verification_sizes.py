"""The sizes at which a program is verified: its own check arguments, and its default sizes scaled down."""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Sequence

from hipsynth.source.arguments import default_arguments

_CHECK = re.compile(r"^// check:[ \t]*(.*)$", re.M)
SCALES = (16, 64)
LARGE = 256
LEAST_DRAWN = 16  # smaller numbers may be modes, or numbers of repetitions
Arguments = tuple[str, ...]


def _scaled_down(values: Sequence[int], scale: int) -> list[int]:
    """Sizes above 256 are divided by `scale`; where there are none, those above 16 by less: they may be edges of a
    cube, or of a long loop."""
    if max(values) > LARGE:
        return [max(1, value // scale) if value > LARGE else value for value in values]
    return [max(16, value * 8 // scale) if value > 16 else value for value in values]


def draw_sizes(arguments: Arguments, seed: int) -> list[Arguments]:
    """Sizes of half to one and a half times those of `arguments`; then rounded, for programs that need it."""
    if not any(word.isdecimal() and int(word) > LEAST_DRAWN for word in arguments):
        return []
    draws = random.Random(seed)
    factors = [draws.uniform(0.5, 1.5) for _ in arguments]
    return [
        tuple(_draw_size(word, factor, step) for word, factor in zip(arguments, factors, strict=True))
        for step in (1, 16, 64)
    ]


def _draw_size(word: str, factor: float, step: int) -> str:
    if not word.isdecimal() or int(word) <= LEAST_DRAWN:
        return word
    return str(max(step, round(int(word) * factor / step) * step))


def candidate_arguments(text: str) -> list[Arguments]:
    """Argument lists to try, most useful first; () runs the program as it is."""
    sizes_found: list[Arguments] = [tuple(shlex.split(line)) for line in _CHECK.findall(text)]
    values = default_arguments(text)
    if values:
        for scale in SCALES:
            small = _scaled_down(values, scale)
            sizes_found.append(tuple(map(str, small)))
            sizes_found.append(tuple(str(value + 3 if value > 16 else value) for value in small))
    sizes_found.append(())
    return list(dict.fromkeys(sizes_found))
