"""Lines and columns of a text's kernels, as an editor counts them."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from hipsynth.core.languages import TRITON, language_of
from hipsynth.serving.limits import MOST_KERNELS
from hipsynth.source.outline import outline_kernels
from hipsynth.source.triton_outline import outline_jit_kernels


@dataclass(frozen=True)
class KernelOutline:
    """One kernel definition. Lines count from 0; `column`: where its name begins; `last`: the line of its end."""

    name: str
    line: int
    column: int
    last: int

    def holds(self, line: int) -> bool:
        return self.line <= line <= self.last


def locate_kernels(text: str) -> list[KernelOutline]:
    """The first MOST_KERNELS kernels that a HIP text or Python script defines or begins to define, in source order."""
    starts = [0]
    starts += [at + 1 for at, letter in enumerate(text) if letter == "\n"]
    if language_of(text) == TRITON:
        spans = [(jit.name, jit.name_start, jit.end - 1) for jit in outline_jit_kernels(text)[:MOST_KERNELS]]
    else:
        kernels = outline_kernels(text, MOST_KERNELS)
        spans = [(kernel.name, kernel.name_start, kernel.end - kernel.closed) for kernel in kernels]
    positions = []
    for name, start, end in spans:
        line, last = (bisect_right(starts, place) - 1 for place in (start, end))
        positions.append(KernelOutline(name, line, start - starts[line], last))
    return positions
