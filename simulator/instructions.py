"""Events per instruction of a kernel, as the simulator counts them (native/core/tally.h)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# The events of one instruction, in the order of kInstructionEventNames.
EVENTS = (
    "times", "lanes", "issue_cycles", "bytes", "accesses", "misses", "l1_cycles", "l2_requests", "l2_misses",
    "fabric_bytes", "lds_bytes", "lds_cycles", "bank_conflicts", "stall_cycles", "barrier_cycles",
)  # fmt: skip
CLASSES = ("valu", "mfma", "salu", "smem", "vmem", "lds", "flow")  # of instructions, by the unit that executes them


@dataclass(frozen=True)
class Instruction:
    """One instruction that ran: its address in the code object, its class, and event -> amount over all dispatches."""

    address: int
    kind: str
    amounts: Mapping[str, float]


@dataclass(frozen=True)
class KernelInstructions:
    """The instructions of one kernel, with those of functions that it called, in the order of their addresses.

    `symbol`: the kernel's in the result (KernelRecord.symbol). `checksum`: the CRC-32 of its code object if that was
    loaded while the program ran, else 0.
    """

    symbol: str
    rows: tuple[Instruction, ...]
    checksum: int = 0


def decode_instructions(rows: Sequence[Any]) -> tuple[KernelInstructions, ...]:
    """From the result document; raises ValueError or TypeError for what the simulator does not write."""
    return tuple(map(_decode_kernel, rows))


def _decode_kernel(row: Mapping[str, Any]) -> KernelInstructions:
    symbol, checksum = row["symbol"], row["checksum"]
    if not isinstance(symbol, str) or type(checksum) is not int:
        raise TypeError("a symbol is no text, or a checksum no number")
    return KernelInstructions(symbol, tuple(map(_decode_instruction, row["rows"])), checksum)


def _decode_instruction(row: Sequence[Any]) -> Instruction:
    address, kind, *amounts = row
    if type(address) is not int or kind not in CLASSES or len(amounts) != len(EVENTS):
        raise ValueError("an instruction is none")
    if not all(type(amount) in (int, float) for amount in amounts):
        raise TypeError("an amount is no number")
    return Instruction(address, kind, dict(zip(EVENTS, map(float, amounts), strict=True)))
