"""The state that the parts of a composed kernel share: the kernel in progress, its buffers, and a work-item's
position."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hipsynth.synth.generate import ir
from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Buffer, Expr, HostBuffer, Init, cast
from hipsynth.synth.generate.types import I32, U32, DType

UNIFORM_STORAGE = frozenset({"lds", "phases"})  # with barriers
UNIFORM_FINISH = frozenset({"bins", "exchange", "reduce", "wave"})
ROWS = frozenset({"columns", "cross", "cube", "blocked", "outer"})  # access patterns of a matrix or a volume


def needs_uniform_groups(ctx: Context) -> bool:
    """Whether all work-items of a group must stay together, for barriers, shuffles or matrix instructions."""
    return ctx["storage"] in UNIFORM_STORAGE or ctx["finish"] in UNIFORM_FINISH or ctx["work"] == "matrix"


@dataclass(frozen=True)
class WorkItemPosition:
    """Where a work-item works: element `item` of `count`, in rows of `width`."""

    item: Expr
    count: int
    width: int


@dataclass
class Sketch:
    """A kernel in progress and the buffers that it will be launched with."""

    ctx: Context
    k: KernelBuilder
    t: DType  # the type that it computes with
    hosts: list[HostBuffer] = field(default_factory=list)
    whole: bool = False  # the host must write the inputs element by element
    terms: int = 1  # of sums whose order may change
    lane: Expr = field(init=False)  # the number of the work-item in its group, where a part needs it

    def __post_init__(self) -> None:
        if (
            needs_uniform_groups(self.ctx)
            or self.ctx["storage"] == "constant"
            or self.ctx["launch"] in ("persistent", "rows")
        ):
            self.lane = self._lane_index()

    def _lane_index(self) -> Expr:
        x, y, _ = self.k.block
        at = self.k.builtin("threadIdx.x")
        if self.k.block[1:] != (1, 1):
            at = at + self.k.builtin("threadIdx.y") * x
        if self.k.block[2] > 1:
            at = at + self.k.builtin("threadIdx.z") * (x * y)
        return self.k.let("lane", at)

    @property
    def threads(self) -> int:
        """Work-items per group."""
        return math.prod(self.k.block)

    @property
    def groups(self) -> int:
        """Work-groups of the launch."""
        x, y, z = self.k.grid
        return x * y * z

    def group(self) -> Expr:
        """The number of the work-group, a new local."""
        at = self.k.builtin("blockIdx.x")
        if self.k.grid[1:] != (1, 1):
            at = at + self.k.builtin("blockIdx.y") * self.k.builtin("gridDim.x")
        if self.k.grid[2] != 1:
            at = at + self.k.builtin("blockIdx.z") * (self.k.builtin("gridDim.x") * self.k.builtin("gridDim.y"))
        return self.local(at, "group_id")

    def local(self, value: Expr, name: str = "") -> Expr:
        """A new immutable local."""
        return self.k.let(self.k.unused_name(name or self.ctx.names.local), value)

    def source(self, t: DType, size: int, init: Init | None = None) -> Buffer:
        """One more input of `size` elements."""
        used = sum(not host.output and not host.constant for host in self.hosts)
        form = init or self.init(t.base)
        name = self.k.unused_name(self.ctx.names.inputs[used])
        self.hosts.append(HostBuffer(name, t.base, size * t.lanes, form))
        return self.k.input(name, t, size, *form.span, restrict=self.ctx.restrict)

    def init(self, t: DType) -> Init:
        """A random initialiser; of at most 100 different values for types that hold few."""
        if not t.narrow:
            return self.ctx.init(t, 2.0)
        return Init("hash", 1, 1, add=self.ctx.choices.integer(0, 9999), mod=self.ctx.choices.pick((10, 64, 100)))

    def target(self, t: DType, size: int, span: tuple[float, float] | None = None) -> Buffer:
        """One more output of `size` elements, zero at first, whose values stay in `span`."""
        name = self.k.unused_name(self.ctx.names.outputs[sum(host.output for host in self.hosts)])
        self.hosts.append(HostBuffer(name, t.base, size * t.lanes, Init("zero"), output=True))
        return self.k.output(name, t, size, span, restrict=self.ctx.restrict)

    def coefficients(self, t: DType, size: int) -> Buffer:
        """An input in constant memory."""
        name, form = self.k.unused_name("coef"), self.init(t)
        self.hosts.append(HostBuffer(name, t, size, form, constant=True))
        return self.k.table(name, t, size, *form.span)

    def hashed(self, value: Expr, below: int) -> Expr:
        """A pseudo-random index below a size, computed from an integer."""
        x = self.local(cast(value, U32) * 2654435761, "h")
        x = self.local((x ^ (x >> 15)) * 2246822519, "h")
        return self.local(cast((x ^ (x >> 13)) % cast(ir.lift(below, I32), U32), I32), "slot")

    def whole_number(self, value: Expr, below: int) -> Expr:
        """A small integer that depends on the data: exact, so that host and device agree."""
        if value.dtype.is_float:
            return self.local(cast(value * 16.0, I32) % below, "key")
        return self.local(cast(cast(value, U32) % below, I32), "key")

    def bounded(self, value: Expr) -> Expr:
        """A signed integer cut to 16 bits, so that sums and products of a few do not overflow; others unchanged."""
        return value & 0xFFFF if self.t.kind == "i" else value

    @property
    def span(self) -> tuple[float, float]:
        """The range of integers that `bounded` returns."""
        return (0, 0xFFFF) if self.t.kind == "i" else (self.t.lo, self.t.hi)

    def mask(self, bits: int) -> int:
        """The lowest bits of the type, at most so many."""
        return int(min((1 << bits) - 1, self.t.hi))

    def start(self) -> Expr:
        """Zero."""
        return ir.const(0.0 if self.t.is_float else 0, self.t)
