"""A model's one answer with changed kernels, put in place of a program's own: rewriting without tools."""

from __future__ import annotations

import re

from hipsynth.source.outline import outline_kernels

_BLOCK = re.compile(r"```(?:\w+|c\+\+)?\n(.*?)(?:```|$)", re.DOTALL)


def kernels_in(text: str) -> dict[str, str]:
    """The text of each kernel that is complete, by name; of several with one name, the first."""
    kernels: dict[str, str] = {}
    for kernel in outline_kernels(text):
        if kernel.closed:
            kernels.setdefault(kernel.name, text[kernel.start : kernel.end])
    return kernels


def replace_kernels(source: str, answer: str) -> str:
    """The source with the kernels of the answer's first code block in place of its own; the source itself if none is
    called like one of them."""
    block = _BLOCK.search(answer)
    kernels = kernels_in(block[1] if block else answer)
    for name, text in kernels_in(source).items():
        if name in kernels:
            source = source.replace(text, kernels[name], 1)
    return source
