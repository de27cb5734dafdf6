"""A model's one answer with changed kernels, put in place of a program's own: rewriting without tools."""

from __future__ import annotations

import re

from hipsynth.source.outline import outline_kernels

_BLOCK = re.compile(r"```(?:\w+|c\+\+)?\n(.*?)(?:```|$)", re.DOTALL)


def kernels_in(text: str) -> dict[str, str]:
    """The text of each kernel that is complete, by name; of several with one name, the first."""
    found: dict[str, str] = {}
    for one in outline_kernels(text):
        if one.closed:
            found.setdefault(one.name, text[one.start : one.end])
    return found


def replace_kernels(source: str, answer: str) -> str:
    """The source with the kernels of the answer's first code block in place of its own; the source itself if none is
    called like one of them."""
    block = _BLOCK.search(answer)
    made = kernels_in(block[1] if block else answer)
    for name, text in kernels_in(source).items():
        if name in made:
            source = source.replace(text, made[name], 1)
    return source
