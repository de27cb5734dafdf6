"""The matrix instructions that products of loads are written with, and which elements each lane holds.

Sources: AMD CDNA2 and CDNA3 ISA guides, "Matrix Arithmetic Instructions"; AMD matrix instruction calculator.
"""

from __future__ import annotations

from dataclasses import dataclass

WAVE = 64


@dataclass(frozen=True)
class ProductInstruction:
    """`D += A B` for a block of `side` x `side` results: lane l holds column l % side of D, row l % side of A and
    column l % side of B, these at `each` iterations of the loop from l / side * each on."""

    name: str
    type: str  # of results
    side: int
    operand: str  # type of what a vector of operands has
    each: int = 1

    @property
    def builtin(self) -> str:
        return f"__builtin_amdgcn_mfma_{self.name}"

    @property
    def slices(self) -> int:
        """Groups of lanes, each with its own iterations of the loop."""
        return WAVE // self.side

    @property
    def parts(self) -> int:
        """Results of a lane."""
        return self.side * self.side // WAVE

    @property
    def iterations(self) -> str:
        """The iterations of a lane, in words."""
        return f"iteration l / {self.side}" if self.each == 1 else f"{self.each} iterations from {self.each} * (l / 16)"

    @property
    def row(self) -> str:
        """The row of a lane's result `part`, as an expression; `slice`: l / side."""
        if self.type == "double":
            return "4 * part + slice"
        return "4 * slice + part" if self.parts == 4 else "part / 4 * 8 + 4 * slice + part % 4"

    @property
    def rows(self) -> str:
        """The same in words."""
        if self.type == "double":
            return "rows l / 16, l / 16 + 4, + 8 and + 12"
        return "rows 4 * (l / 16) to 4 * (l / 16) + 3" if self.parts == 4 else "four rows of every eight"


# By the type of operands. All multiply and add as fma() does: they change the order of sums alone. On gfx90a, gfx942
# and gfx950.
_HALF = ProductInstruction("f32_16x16x16f16", "float", 16, "_Float16", 4)
_BFLOAT = ProductInstruction("f32_16x16x16bf16_1k", "float", 16, "short", 4)
INSTRUCTIONS = {
    "float": ProductInstruction("f32_16x16x4f32", "float", 16, "float"),
    "double": ProductInstruction("f64_16x16x4f64", "double", 16, "double"),
    **dict.fromkeys(("_Float16", "__half", "half"), _HALF),
    **dict.fromkeys(("hip_bfloat16", "__hip_bfloat16"), _BFLOAT),
}
# Its matrix instructions take subnormal operands of 16 bits for zero (AMD: "MI200 MFMA behavior specifics").
FLUSHES_HALVES = frozenset({"gfx90a"})


def choose_operands(sum_type: str, loaded: frozenset[str], arch: str) -> str:
    """The type of operands for products of loads of these types: that of all loads where an instruction multiplies it
    as it is, else that of the sum."""
    kind = next(iter(loaded))
    exact = len(loaded) == 1 and INSTRUCTIONS[kind].type == sum_type and arch not in ("", *FLUSHES_HALVES)
    return kind if exact else sum_type
