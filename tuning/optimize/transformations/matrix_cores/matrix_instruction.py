"""The matrix instructions that products of loads are written with, and which elements each lane holds.

Sources: AMD CDNA2 and CDNA3 ISA guides, "Matrix Arithmetic Instructions"; AMD matrix instruction calculator.
"""

from __future__ import annotations

from dataclasses import dataclass

WAVE = 64


@dataclass(frozen=True)
class ProductInstruction:
    """`D += A B` for a block of `side` x `side` results: lane l holds column l % side of D, row l % side of A and
    column l % side of B, these at iteration l / side of the loop."""

    name: str
    type: str  # of operands and results
    side: int

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


# All multiply and add as fma() does: they change the order of sums alone. On gfx90a, gfx942 and gfx950.
INSTRUCTIONS = {
    "float": ProductInstruction("f32_16x16x4f32", "float", 16),
    "double": ProductInstruction("f64_16x16x4f64", "double", 16),
}
