"""The counters of source lines and loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from hipsynth.simulator.instructions import CLASSES, Instruction


@dataclass(frozen=True)
class Amounts:
    """What instructions did, per dispatch. `classes`: wave instructions by the unit that executes them.

    `bytes` and `lds_bytes` are requested by active lanes. `accesses` are look-ups of vL1D lines, `misses` those that
    the L2 had to answer, `l2_misses` include scalar loads. `bank_conflicts`, `stall_cycles` (waits for memory and LDS)
    and `barrier_cycles` are cycles, summed over waves. `share`: of the kernel's time (0..1), see attribute.time_shares.
    """

    instructions: float
    classes: Mapping[str, float]
    bytes: float
    accesses: float
    misses: float
    l2_misses: float
    lds_bytes: float
    bank_conflicts: float
    stall_cycles: float
    barrier_cycles: float
    share: float

    @staticmethod
    def of(rows: Iterable[Instruction], share: float) -> Amounts:
        """The sum over instructions."""
        rows = list(rows)
        sums = {event: sum(row.amounts[event] for row in rows) for event in _EVENTS}
        classes = {kind: sum(row.amounts["times"] for row in rows if row.kind == kind) for kind in CLASSES}
        times = sum(row.amounts["times"] for row in rows)
        return Amounts(times, {kind: n for kind, n in classes.items() if n}, **sums, share=share)


_EVENTS = [part.name for part in fields(Amounts) if part.name not in ("instructions", "classes", "share")]


@dataclass(frozen=True)
class SourceLine:
    """One line of a user's file. Line 0 of file "": instructions that the compiler attributes to no line."""

    file: str
    line: int
    amounts: Amounts


@dataclass(frozen=True)
class SourceLoop:
    """A loop of the machine code, named by the source line that continues it, usually the `for` or `while`.

    `last`: the last line of its body. `depth`: 1 for an outermost loop. `passes`: of waves through its body. Amounts
    include inner loops and functions inlined into it.
    """

    file: str
    line: int
    last: int
    depth: int
    passes: float
    amounts: Amounts


@dataclass(frozen=True)
class MachineInstruction:
    """One instruction that ran: its address in the code object, the disassembler's text, its source line as of
    SourceLine, and the cycles that issuing it took, summed over waves."""

    file: str
    line: int
    address: int
    text: str
    issue_cycles: float
    amounts: Amounts


@dataclass(frozen=True)
class IntermediateOperation:
    """One line of a Triton kernel's TTGIR, with its source line as of SourceLine."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class KernelLines:
    """One kernel's lines in the order of files and lines, its loops, and its instructions in the order of addresses.
    Sums over lines, and over instructions, are the kernel's counters.

    `outside`: names of the kernel's counters that could not be matched, because no instruction was seen to cause them.
    `operations`: the TTGIR of a Triton kernel, as its compiler left it.
    """

    symbol: str
    lines: tuple[SourceLine, ...]
    loops: tuple[SourceLoop, ...]
    outside: tuple[str, ...] = ()
    instructions: tuple[MachineInstruction, ...] = ()
    operations: tuple[IntermediateOperation, ...] = ()
