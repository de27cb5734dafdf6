"""Subscripts of a kernel with windows as polynomials of a work-item's numbers and the variables of loops."""

from __future__ import annotations

from dataclasses import dataclass

from hipsynth.source.tokens import split_at
from hipsynth.tuning.optimize.analysis.polynomials import Monomial, PolynomialReader
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.transformations.lds_tile.tiled_loop import TiledLoop

AXIS_NAMES = {0: "@x", 1: "@y"}  # of a work-item's number along an axis


@dataclass
class AffineReader(PolynomialReader):
    """Reads expressions around a kernel's loop; `variables`: declarations of the variables of loops."""

    tiling: TiledLoop
    variables: frozenset[int] = frozenset()

    def split_terms(self, start: int, end: int) -> list[tuple[int, int]]:
        """A work-item's number is written as a sum, but is one term."""
        terms = super().split_terms(start, end)
        indices = [span for span in self.tiling.indices if start <= span[0] and span[1] <= end]
        outside = [term for term in terms if not any(a <= term[0] < b for a, b in indices)]
        bare = [span for span in indices if any(span[0] == term[0] for term in terms)]
        return sorted(outside + bare)

    def split_factors(self, start: int, end: int) -> list[tuple[int, int]]:
        """A work-item's number has a product in it, but is one factor."""
        return [(start, end)] if (start, end) in self.tiling.indices else split_at(self.body.tokens, start, end, "*")

    def read_factor(self, start: int, end: int, depth: int) -> dict[Monomial, int]:
        """A work-item's number is a factor, too."""
        axis = self.tiling.indices.get((start, end))
        return super().read_factor(start, end, depth) if axis is None else {(AXIS_NAMES[axis],): 1}

    @property
    def variable_names(self) -> frozenset[str]:
        """What polynomials call the variables of loops."""
        return frozenset(f"@{place}" for place in self.variables)

    def read_name(self, at: int, depth: int) -> dict[Monomial, int]:
        """Local constants that depend on a work-item's number or a loop are read through."""
        place = self.body.local(self.body.tokens[at])
        if place in self.variables:
            return {(f"@{place}",): 1}
        definition = next((local for local in self.tiling.definitions if local.place == place), None)
        is_fixed = definition is not None and not definition.axes
        if place >= 0 and not is_fixed and self.number_of(at) is None:
            if place not in self.body.constants:
                raise NotUnderstood("a variable that changes")
            return self.read(self.body.constants[place], depth + 1)
        return super().read_name(at, depth)
