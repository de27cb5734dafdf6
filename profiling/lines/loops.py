"""Loops of machine code: the ranges of addresses that a backward branch repeats."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_LABEL = re.compile(r"^([0-9a-f]{8,16}) <(.+)>:$")
_BRANCH = re.compile(r"^\s+s_c?branch\w*\s.*// ([0-9A-F]{8,16}):.*<(.+?)(?:\+0x([0-9a-f]+))?>$")


@dataclass(frozen=True)
class LoopRange:
    """The instructions of a loop: from `head` to the last branch back to it, `latch`, both addresses."""

    head: int
    latch: int

    def __contains__(self, address: int) -> bool:
        return self.head <= address <= self.latch

    def inside(self, other: LoopRange) -> bool:
        return self != other and self.head in other and self.latch in other


def loop_ranges(disassembly: str) -> list[LoopRange]:
    """All loops in the text of `llvm-objdump -d`, in the order of their heads; branches to one head are one loop."""
    starts = {match[2]: int(match[1], 16) for match in map(_LABEL.match, disassembly.splitlines()) if match}
    latches: dict[int, int] = {}
    for match in map(_BRANCH.match, disassembly.splitlines()):
        if match is None or match[2] not in starts:
            continue
        at, head = int(match[1], 16), starts[match[2]] + int(match[3] or "0", 16)
        if head <= at:
            latches[head] = max(at, latches.get(head, 0))
    return [LoopRange(head, latch) for head, latch in sorted(latches.items())]


def loop_depth(loop_range: LoopRange, loops: Iterable[LoopRange]) -> int:
    """1 for an outermost loop."""
    return 1 + sum(loop_range.inside(other) for other in loops)
