"""A program whose kernel numbers its work-items along x and y (and z) of the grid, as tiles need."""

from __future__ import annotations

from dataclasses import dataclass

from hipsynth.tuning.optimize.transformation_plan import Shape

SIDE = 16  # work-items of a group along x and y, until it is tiled


@dataclass(frozen=True)
class NumberedKernel:
    """The program's text, and about how many groups of which shape it then launches for the kernel."""

    text: str
    grid: Shape
    block: Shape
