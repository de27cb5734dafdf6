"""Lines and columns of a text's kernels, as an editor counts them."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from hipsynth.serving.limits import MOST_KERNELS
from hipsynth.source.outline import outline_kernels


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
    """The first MOST_KERNELS kernels that a text defines or begins to define, in source order."""
    starts = [0]
    starts += [at + 1 for at, letter in enumerate(text) if letter == "\n"]
    positions = []
    for kernel in outline_kernels(text, MOST_KERNELS):
        line = bisect_right(starts, kernel.name_start) - 1
        last = bisect_right(starts, kernel.end - kernel.closed) - 1
        positions.append(KernelOutline(kernel.name, line, kernel.name_start - starts[line], last))
    return positions
