"""The decisions of a search about one kernel, from which the emitter writes source text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

Shape = tuple[int, int, int]
PlanValue = bool | int | Shape
AXES = "xyz"


@dataclass(frozen=True)
class TransformationPlan:
    """How the work-items of a kernel, as the program numbers them, are assigned to lanes.

    `shape`: work-items of a group along x, y and z. `lanes`: the axis along which the lanes of a wavefront run first.
    `coarsen`: work-items that one lane executes along `axis`, a group's width apart, or side by side if `adjacent`.
    `jam`: their statements alternate, so that what they share is computed once. `private`: atomic additions are
    summed in the LDS first. `restrict`: pointers do not alias. `unroll`: of innermost loops. `waves`: least waves per
    SIMD that registers must leave room for. `fast`: approximate functions. `pad`: longer rows of LDS arrays. `split`:
    neighbouring lanes along x that share the loops of one work-item, a power of two; 0: each has its own. `rows`: with
    `jam`, neighbouring work-items along the other one of x and y that a lane executes together with those along `axis`.
    `aggregate`: lanes that add the same number to one address share an atomic addition and its result. `tile`: results
    of a lane along x and y, and iterations of the loop over what they share that are staged in the LDS at a time; a
    plan with it has nothing else. `transpose`: side of the square tiles that go through the LDS between loads along
    one axis and stores along the other one; a plan with it has nothing else. `halo`: results of a lane of groups that
    stage the windows of their work-items in the LDS; a plan with it has nothing else. `matrix`: results of a group
    along x and y that its wavefronts compute with matrix instructions, and iterations of the loop that are staged at a
    time; a plan with it has nothing else. `places`: a group counts the places that its work-items take by an atomic
    addition, and adds to memory once. `bins`: elements of the one array that atomic additions change, all of which a
    group has in the LDS. `extremes`: a group finds the largest or least value that its work-items have for an address,
    and changes memory once. `turns`: how often a group executes so many work-items, if it does so several times.
    """

    shape: Shape | None = None  # None: the launch is unchanged
    lanes: int = 0
    axis: int = 0
    coarsen: int = 1
    adjacent: bool = False
    jam: bool = False
    private: bool = False
    restrict: bool = False
    unroll: int = 0
    waves: int = 0
    fast: bool = False
    pad: bool = False
    split: int = 0
    rows: int = 1
    aggregate: bool = False
    tile: Shape | None = None
    transpose: int = 0
    halo: int = 0
    matrix: Shape | None = None
    places: bool = False
    bins: int = 0
    extremes: bool = False
    turns: int = 1

    @property
    def is_complete(self) -> bool:
        """Whether nothing can be added: the kernel is written anew."""
        return self.tile is not None or self.matrix is not None or self.transpose > 0 or self.halo > 0

    @property
    def across(self) -> int:
        """The axis of `rows`."""
        return 1 - self.axis if self.axis < 2 else 0

    @property
    def copies(self) -> dict[int, int]:
        """Work-items that a lane executes, by axis, where they are more than one."""
        counts = {self.axis: self.coarsen, self.across: self.rows}
        return {axis: count for axis, count in counts.items() if count > 1}

    @property
    def items(self) -> int:
        """Lanes of a group."""
        return math.prod(self.shape) if self.shape else 0

    def decisions(self) -> dict[str, PlanValue]:
        """The decisions that differ from the original."""
        plain = asdict(TransformationPlan())
        return {name: value for name, value in asdict(self).items() if value != plain[name]}


Plans = Mapping[str, TransformationPlan]  # by kernel; a kernel that is missing is unchanged


@dataclass(frozen=True)
class Move:
    """One step of a search: a changed plan of one kernel. `transformation` is the name of its file."""

    transformation: str
    kernel: str
    plan: TransformationPlan
    why: str  # what limits the kernel, and the counter that should move
    evident: bool = False  # the source shows that it helps: it is executed whatever is predicted
