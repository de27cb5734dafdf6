"""The view of a kernel that transformations get."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.transformation_plan import Shape, TransformationPlan

MOST_LANES = 1024
MOST_GROUPS = 65535  # of a launch, along y and z


@dataclass(frozen=True)
class KernelView:
    """A kernel, its plan so far, and the record of that plan's run. `grid` and `block`: of the original launch, of
    several the one that takes the most time."""

    program: ParsedProgram
    kernel: KernelDefinition
    plan: TransformationPlan
    bottleneck: str
    grid: Shape
    block: Shape
    limited_by: str = ""  # what limits the occupancy
    allow: frozenset[str] = frozenset()  # what may change results: "fast-math"
    same_block: bool = True  # whether all launches have groups of one shape

    @property
    def base(self) -> TransformationPlan:
        """The plan with a shape of its own: the original's if it has none yet."""
        return self.plan if self.plan.shape else replace(self.plan, shape=self.block)

    def extent(self, axis: int) -> int:
        """Work-items along an axis."""
        return self.grid[axis] * self.block[axis]

    @property
    def axes(self) -> list[int]:
        """The axes that have more than one work-item."""
        return [axis for axis in range(3) if self.extent(axis) > 1]

    @property
    def words(self) -> set[str]:
        return {t.text for t in self.program.tokens[self.kernel.first : self.kernel.last]}
