"""Builds one kernel statement by statement and rejects everything that could make it invalid.

Adding a statement raises IRError for values used outside their scope, indices that may be out of bounds, writes to
const buffers, barriers and shuffles in divergent control flow, and assignments outside a variable's declared range.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from hipsynth.core.kernel_record import Dim
from hipsynth.synth.generate import ir
from hipsynth.synth.generate.extent import Extent
from hipsynth.synth.generate.ir import Buffer, Expr, Kernel, Operand, Statement
from hipsynth.synth.generate.matrix import MatrixInstruction
from hipsynth.synth.generate.traversal import live_names
from hipsynth.synth.generate.types import BOOL, F32, F64, I32, I64, U32, U64, DType, IRError

WAVE = 64  # lanes of a wavefront on every architecture that is modelled
MAX_BLOCK = 1024
MAX_LDS = 65536
MAX_PRIVATE = 512  # bytes
MAX_GROUPS = 1 << 23
SHUFFLES = ("down", "up", "xor")
ATOMICS = {"add": "fu", "min": "fiu", "max": "fiu", "and": "iu", "or": "iu", "xor": "iu", "inc": "u", "dec": "u"}


@dataclass
class _Scope:
    """A block that statements are being added to."""

    number: int
    body: list[Statement]
    uniform: bool
    trips: int  # upper bound on executions of this block per execution of the enclosing one
    closed: bool = False  # ends in an early return: no statement may follow
    breaks: bool = False  # the body of a loop that work-items may leave


class KernelBuilder:
    """Collects the statements of one kernel. `grid` is in work-groups, `block` in work-items: (x, y, z), or fewer.

    Raises IRError for launches of more than MAX_BLOCK work-items per group or MAX_GROUPS groups.
    """

    def __init__(self, name: str, grid: tuple[int, ...] | int, block: tuple[int, ...] | int, **options: bool) -> None:
        self.name = name
        self.grid, self.block = _to_dims(grid), _to_dims(block)
        if (
            min(*self.grid, *self.block) < 1
            or math.prod(self.block) > MAX_BLOCK
            or math.prod(map(int, self.grid)) > MAX_GROUPS
        ):
            raise IRError(f"{name}: impossible launch {self.grid} x {self.block}")
        self.options = options
        self._buffers: list[Buffer] = []
        self._lds: list[Buffer] = []
        self._private: list[Buffer] = []
        self._scalars: list[tuple[str, int]] = []
        self._constants: list[tuple[str, int]] = []
        self._names: set[str] = {name}
        self._numbers: dict[str, int] = {}  # of the last fresh name by prefix
        self._next_scope = 1
        self._scopes = [_Scope(0, [], True, 1)]
        self._declared: dict[str, tuple[Expr, int]] = {}  # mutable name -> (initial value, depth of its scope)

    # ---- names, parameters, memory

    def _claim_name(self, name: str) -> str:
        if name in self._names:
            raise IRError(f"{self.name}: two things called {name}")
        self._names.add(name)
        return name

    def unused_name(self, prefix: str) -> str:
        """An unused name: the prefix, with a number appended if it is taken."""
        number = self._numbers.get(prefix, 0)
        name = f"{prefix}{number}" if number else prefix
        while name in self._names:
            number += 1
            name = f"{prefix}{number}"
        self._numbers[prefix] = number
        return name

    def input(self, name: str, dtype: DType, size: int, lo: float, hi: float, *, restrict: bool = False) -> Buffer:
        """A `const T*` parameter of `size` elements, all in [lo, hi]."""
        return self._add_buffer(Buffer(name, dtype, (size,), lo, hi, const=True, restrict=restrict))

    def output(
        self, name: str, dtype: DType, size: int, span: tuple[float, float] | None = None, *, restrict: bool = False
    ) -> Buffer:
        """A `T*` parameter of `size` elements; `span` is the range of its values (default: that of the type)."""
        lo, hi = span if span is not None else (dtype.lo, dtype.hi)
        return self._add_buffer(Buffer(name, dtype, (size,), lo, hi, restrict=restrict))

    def _add_buffer(self, buffer: Buffer) -> Buffer:
        if buffer.size < 1:
            raise IRError(f"{self.name}: {buffer.name} is empty")
        self._claim_name(buffer.name)
        self._buffers.append(buffer)
        return buffer

    def table(self, name: str, dtype: DType, size: int, lo: float, hi: float) -> Buffer:
        """A `__constant__` array of `size` elements, all in [lo, hi]; its host buffer has the same name."""
        return self._add_buffer(Buffer(name, dtype, (size,), lo, hi, space="constant", const=True))

    def private(self, name: str, dtype: DType, size: int, span: tuple[float, float]) -> Buffer:
        """An array of each work-item, of values in `span`, which must be written before it is read."""
        buffer = Buffer(self._claim_name(name), dtype, (size,), *span, space="private")
        if size * dtype.bytes > MAX_PRIVATE:
            raise IRError(f"{self.name}: {name} has more than {MAX_PRIVATE} bytes")
        self._private.append(buffer)
        return buffer

    def lds(
        self, name: str, dtype: DType, shape: int | tuple[int, ...], span: tuple[float, float], *, dynamic: bool = False
    ) -> Buffer:
        """An LDS array of values in `span`; `dynamic` declares it `extern __shared__`. Raises IRError when the kernel's
        arrays exceed MAX_LDS bytes."""
        dims = (shape,) if isinstance(shape, int) else shape
        buffer = Buffer(self._claim_name(name), dtype, dims, *span, space="lds", dynamic=dynamic)
        if dynamic and (len(dims) != 1 or any(b.dynamic for b in self._lds)):
            raise IRError(f"{self.name}: at most one dynamic LDS array, of one dimension")
        self._lds.append(buffer)
        if sum(b.size * b.dtype.bytes for b in self._lds) > MAX_LDS:
            raise IRError(f"{self.name}: more than {MAX_LDS} bytes of LDS")
        return buffer

    def scalar(self, name: str, value: int) -> Expr:
        """An `int` parameter that has this value in every launch."""
        if isinstance(value, Extent) and value.name == name:
            return self._use_size(ir.size_value(value))
        self._scalars.append((self._claim_name(name), value))
        return self._name_value(name, I32, int(value), int(value), uniform=True, scope=0)

    def _use_size(self, value: Expr) -> Expr:
        """A problem size used in the kernel, which becomes an `int` parameter."""
        extent: Extent = value.attr
        if (extent.name, extent) not in self._scalars:
            self._scalars.append((self._claim_name(extent.name), extent))
        return value

    def constant(self, name: str, value: int) -> Expr:
        """A `constexpr int` at file scope."""
        self._constants.append((self._claim_name(name), value))
        return self._name_value(name, I32, value, value, uniform=True, scope=0)

    # ---- values

    def builtin(self, name: str) -> Expr:
        """A launch builtin such as threadIdx.x. It is unsigned (`raw`): convert sums and products to int with `let`."""
        axis = "xyz".index(name[-1])
        extent = {"threadIdx": self.block, "blockDim": self.block, "blockIdx": self.grid, "gridDim": self.grid}
        size = int(extent[name[:-2]][axis])
        lo, hi = (0, size - 1) if name.startswith(("threadIdx", "blockIdx")) else (size, size)
        return Expr("builtin", I32, (), name, lo, hi, not name.startswith("threadIdx"), True)

    def global_id(self, axis: str = "x") -> Expr:
        """blockIdx * blockDim + threadIdx."""
        block, size, lane = (self.builtin(f"{n}.{axis}") for n in ("blockIdx", "blockDim", "threadIdx"))
        return block * size + lane

    def let(self, name: str, value: Expr) -> Expr:
        """Declares an immutable local."""
        self._check_values(value)
        target = self._name_value(self._claim_name(name), value.dtype, value.lo, value.hi, value.uniform)
        self._add_statement(ir.Let(target, value))
        return target

    def variable(self, name: str, value: Operand, dtype: DType, span: tuple[float, float]) -> Expr:
        """Declares a mutable local whose values stay in `span`; raises IRError if the initial value does not."""
        start = ir.lift(value, dtype)
        self._check_values(start)
        if start.dtype is not dtype or start.lo < span[0] or start.hi > span[1]:
            raise IRError(f"{name}: initialised in [{start.lo:g}, {start.hi:g}], outside its declared range {span}")
        target = self._name_value(self._claim_name(name), dtype, *ir.fit_range(name, dtype, *span), uniform=False)
        self._declared[name] = (start, len(self._scopes))
        self._add_statement(ir.Let(target, start, mutable=True))
        return target

    def assign(self, target: Expr, value: Operand) -> None:
        """`name = value;`. Raises IRError if the value may leave the variable's declared range."""
        lifted = ir.lift(value, target.dtype)
        self._check_target(target, lifted)
        if lifted.lo < target.lo or lifted.hi > target.hi:
            raise IRError(f"{target.attr[0]}: [{lifted.lo:g}, {lifted.hi:g}] leaves [{target.lo:g}, {target.hi:g}]")
        self._add_statement(ir.Assign(target, lifted))

    def accumulate(self, target: Expr, value: Operand) -> None:
        """`name += value;`. Raises IRError if the sum may leave the declared range, counting every iteration of the
        enclosing loops."""
        term = ir.lift(value, target.dtype)
        self._check_target(target, term)
        start, depth = self._declared[target.attr[0]]
        trips = math.prod(s.trips for s in self._scopes[depth:])
        if term.lo < 0 or start.hi + term.hi * trips > target.hi * (1 + 1e-9):
            raise IRError(f"{target.attr[0]}: {trips} terms up to {term.hi:g} exceed its declared {target.hi:g}")
        self._add_statement(ir.Assign(target, term, compound="+"))

    def accumulator(self, name: str, matrix: MatrixInstruction, span: tuple[float, float]) -> Expr:
        """Declares the zero-initialised accumulators of a matrix instruction, with values in `span`."""
        t = matrix.accumulator
        target = self._name_value(self._claim_name(name), t, *ir.fit_range(name, t, *span), uniform=False)
        zero = ir.const(0.0, t.base)
        self._declared[name] = (zero, len(self._scopes))
        self._add_statement(ir.Let(target, ir.pack(t, [zero] * t.lanes), mutable=True))
        return target

    def matrix_fma(self, matrix: MatrixInstruction, target: Expr, left: Expr, right: Expr) -> None:
        """A matrix instruction. Raises IRError in divergent control flow, for block rows that are not whole waves,
        and if the accumulator may leave its declared range, counting every iteration of the enclosing loops."""
        for value in (target, left, right):
            self._check_values(value)
        if target.dtype is not matrix.accumulator or target.op != "name":
            raise IRError(f"matrix_fma needs an accumulator of type {matrix.accumulator.cpp}")
        if left.dtype is not matrix.operand or right.dtype is not matrix.operand:
            raise IRError(f"matrix_fma needs operands of type {matrix.operand.cpp}")
        if math.prod(self.block) % WAVE:
            raise IRError("matrix_fma needs whole waves")
        self._require_uniform("matrix_fma")
        _, depth = self._declared[target.attr[0]]
        trips = math.prod(s.trips for s in self._scopes[depth:])
        if min(left.lo, right.lo) < 0 or matrix.depth * left.hi * right.hi * trips > target.hi * (1 + 1e-9):
            raise IRError(f"{target.attr[0]}: {trips} products exceed its declared {target.hi:g}")
        self._add_statement(ir.MatrixFma(matrix, target, left, right))

    def _check_target(self, target: Expr, value: Expr) -> None:
        self._check_values(target)
        self._check_values(value)
        if target.op != "name" or target.attr[0] not in self._declared:
            raise IRError("assignment to a value that is not a mutable variable")
        if value.dtype is not target.dtype:
            raise IRError(f"{target.attr[0]}: {value.dtype.cpp} assigned to {target.dtype.cpp}")

    def shuffle(self, name: str, kind: str, value: Expr, delta: Operand) -> Expr:
        """A wave shuffle ("down", "up" or "xor") of a 32- or 64-bit value by `delta` lanes. Raises IRError in divergent
        control flow, for partial waves, and for a distance that is not uniform and below 64."""
        distance = ir.lift(delta, I32)
        self._check_values(value)
        self._check_values(distance)
        if kind not in SHUFFLES or value.dtype not in (F32, F64, I32, U32, I64, U64):
            raise IRError(f"no {kind} shuffle of {value.dtype.cpp}")
        if distance.lo < 0 or distance.hi >= WAVE or not distance.uniform or math.prod(self.block) % WAVE:
            raise IRError("shuffle needs whole waves and a uniform distance below 64")
        self._require_uniform("shuffle")
        return self.let(name, Expr("shuffle", value.dtype, (value, distance), kind, value.lo, value.hi, False))

    def ballot(self, name: str, condition: Expr) -> Expr:
        """How many lanes of the wavefront fulfil a condition. Raises IRError in divergent control flow and for partial
        waves."""
        self._check_values(condition)
        if condition.dtype is not BOOL or math.prod(self.block) % WAVE:
            raise IRError("ballot needs a bool and whole waves")
        self._require_uniform("ballot")
        return self.let(name, Expr("ballot", I32, (condition,), None, 0, WAVE, False))

    # ---- effects

    def store(self, buffer: Buffer, index: Operand | tuple[Operand, ...], value: Operand) -> None:
        """`buffer[index] = value;` Raises IRError for an index out of bounds or a value of another type or range."""
        lifted = self._writable_index(buffer, index)
        element = ir.lift(value, buffer.dtype)
        self._check_values(element)
        if element.dtype is not buffer.dtype or element.lo < buffer.lo or element.hi > buffer.hi:
            raise IRError(
                f"{buffer.name}: {element.dtype.cpp} in [{element.lo:g}, {element.hi:g}] stored to "
                f"{buffer.dtype.cpp} in [{buffer.lo:g}, {buffer.hi:g}]"
            )
        self._add_statement(ir.Store(buffer, lifted, element))

    def atomic(self, op: str, buffer: Buffer, index: Operand | tuple[Operand, ...], value: Operand) -> None:
        """`atomicAdd(&buffer[index], value);`, or another row of ATOMICS; the returned old value is unused."""
        lifted = self._writable_index(buffer, index)
        element = ir.lift(value, buffer.dtype)
        self._check_values(element)
        kinds = ATOMICS.get(op, "")
        if element.dtype is not buffer.dtype or buffer.dtype not in (F32, F64, I32, U32, I64, U64):
            raise IRError(f"{buffer.name}: atomic {op} of {element.dtype.cpp} on {buffer.dtype.cpp}")
        if element.dtype.kind not in kinds or (op in ("inc", "dec") and element.dtype is not U32):
            raise IRError(f"no atomic {op} for {element.dtype.cpp}")
        self._add_statement(ir.Atomic(op, buffer, lifted, element))

    def _writable_index(self, buffer: Buffer, index: Operand | tuple[Operand, ...]) -> tuple[Expr, ...]:
        parts = index if isinstance(index, tuple) else (index,)
        lifted = tuple(ir.lift(p, I32) for p in parts)
        if buffer.const or buffer not in (*self._buffers, *self._lds, *self._private):
            raise IRError(f"{buffer.name}: not writable here")
        for value in lifted:
            self._check_values(value)
        ir.check_index(buffer, lifted)
        return lifted

    def barrier(self) -> None:
        """`__syncthreads();` Raises IRError in divergent control flow."""
        self._require_uniform("barrier")
        self._add_statement(ir.Barrier())

    def _require_uniform(self, subject: str) -> None:
        if not all(s.uniform for s in self._scopes):
            raise IRError(f"{subject} in divergent control flow")

    # ---- control flow

    @contextmanager
    def _open_scope(self, body: list[Statement], uniform: bool, trips: int = 1) -> Iterator[_Scope]:
        scope = _Scope(self._next_scope, body, uniform, trips)
        self._next_scope += 1
        self._scopes.append(scope)
        yield scope
        self._scopes.pop()

    @contextmanager
    def when(self, condition: Expr, *, early: bool = False) -> Iterator[None]:
        """`if (condition) { ... }`; `early` prints an early return on the inverse, and no statement may follow."""
        self._check_values(condition)
        if condition.dtype is not BOOL:
            raise IRError("a condition must be a bool")
        if early and len(self._scopes) > 1:
            raise IRError("an early return only at the top of a kernel")
        statement = ir.If(condition, [], early=early)
        self._add_statement(statement)
        with self._open_scope(statement.then, condition.uniform):
            yield
        self._scopes[-1].closed = early

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """The else branch of the `when` immediately before."""
        last = self._scopes[-1].body[-1] if self._scopes[-1].body else None
        if not isinstance(last, ir.If) or last.otherwise or last.early:
            raise IRError("otherwise without a branch before it")
        with self._open_scope(last.otherwise, last.condition.uniform):
            yield

    @contextmanager
    def below(self, value: Expr, bound: Operand, *, early: bool = False) -> Iterator[Expr]:
        """`if (value < bound)`: yields the value with its range narrowed to below the bound."""
        limit = ir.lift(bound, value.dtype)
        if limit.hi < 1:
            raise IRError("no value is below this bound")
        with self.when(ir.apply("lt", value, limit), early=early):
            yield self._narrow_to_scope(ir.narrow_range(value, value.lo, limit.hi - 1))

    @contextmanager
    def within(self, value: Expr, lo: Operand, hi: Operand) -> Iterator[Expr]:
        """`if (value >= lo && value < hi)`: yields the value narrowed to [lo, hi)."""
        low, high = ir.lift(lo, value.dtype), ir.lift(hi, value.dtype)
        condition = ir.apply("land", ir.apply("ge", value, low), ir.apply("lt", value, high))
        with self.when(condition):
            yield self._narrow_to_scope(ir.narrow_range(value, low.lo, high.hi - 1))

    @contextmanager
    def at_least(self, value: Expr, bound: Expr) -> Iterator[Expr]:
        """`if (value >= bound)`: yields value - bound, which is then never negative."""
        with self.when(ir.apply("ge", value, bound)):
            yield self._narrow_to_scope(ir.narrow_range(value - bound, 0, math.inf))

    def _narrow_to_scope(self, value: Expr) -> Expr:
        """The value restricted to the innermost scope, because the guard that narrowed its range ends there."""
        scope = self._scopes[-1].number
        if value.op == "name":
            return replace(value, attr=(value.attr[0], scope))
        return Expr(
            "inside", value.dtype, (value,), ("this value", scope), value.lo, value.hi, value.uniform, value.raw
        )

    @contextmanager
    def loop(
        self, name: str, start: Operand, stop: Operand, step: Operand = 1, *, kind: str = "up", unroll: int = 0,
        breaks: bool = False,
    ) -> Iterator[Expr]:  # fmt: skip
        """A counted loop over int; yields its variable. `kind` as in `ir.For`; `breaks`: work-items may leave it early.
        Raises IRError for loops that never run or whose variable may overflow."""
        first, last, stride = (ir.lift(v, I32) for v in (start, stop, step))
        for value in (first, last, stride):
            self._check_values(value)
        if any(v.dtype is not I32 for v in (first, last, stride)) or stride.lo < 1:
            raise IRError(f"{name}: bounds must be int and the step positive")
        lo, hi, trips = _loop_range(name, kind, first, last, stride)
        uniform = first.uniform and last.uniform and stride.uniform and not breaks
        scope = self._next_scope
        var = self._name_value(self._claim_name(name), I32, lo, hi, uniform, scope)
        statement = ir.For(var, kind, first, last, stride, [], unroll)
        self._add_statement(statement)
        with self._open_scope(statement.body, uniform, trips) as scope_:
            scope_.breaks = breaks
            yield var

    def leave(self, condition: Expr) -> None:
        """`if (condition) break;` Raises IRError unless directly in a loop with `breaks`."""
        self._check_values(condition)
        if condition.dtype is not BOOL or not self._scopes[-1].breaks:
            raise IRError(f"{self.name}: a break needs a bool, and a loop with breaks directly around it")
        self._add_statement(ir.Break(condition))

    # ---- checks and the finished kernel

    def _name_value(
        self, name: str, dtype: DType, lo: float, hi: float, uniform: bool = True, scope: int | None = None
    ) -> Expr:
        number = self._scopes[-1].number if scope is None else scope
        return Expr("name", dtype, (), (name, number), lo, hi, uniform)

    def _check_values(self, value: Expr) -> None:
        """Raises IRError for values that use a name outside its scope, or a buffer of another kernel."""
        op = value.op
        if op in ("name", "inside"):
            if value.attr[1] not in [s.number for s in self._scopes]:
                raise IRError(f"{value.attr[0]} is used outside its scope")
        elif op == "load":
            if not any(value.attr in buffer_map for buffer_map in (self._buffers, self._lds, self._private)):
                raise IRError(f"{value.attr.name} does not belong to {self.name}")
        elif op == "size":
            self._use_size(value)
        for argument in value.args:
            if argument.op != "const":  # most operands
                self._check_values(argument)

    def _add_statement(self, statement: Statement) -> None:
        if self._scopes[-1].closed:
            raise IRError(f"{self.name}: a statement after an early return")
        self._scopes[-1].body.append(statement)

    def finish(self) -> Kernel:
        """The finished kernel; raises IRError if a block is still open."""
        if len(self._scopes) != 1:
            raise IRError(f"{self.name}: unfinished block")
        body = tuple(self._scopes[0].body)
        return Kernel(
            self.name, self.grid, self.block, tuple(self._buffers), tuple(self._scalars), tuple(self._constants),
            tuple(self._lds), body, self.options.get("launch_bounds", False),
            self.options.get("auto", False), tuple(self._private), live_names(body),
        )  # fmt: skip


def _to_dims(extents: tuple[int, ...] | int) -> Dim:
    x, y, z = (*((extents,) if isinstance(extents, int) else extents), 1, 1)[:3]
    return x, y, z


def _loop_range(name: str, kind: str, start: Expr, stop: Expr, step: Expr) -> tuple[int, int, int]:
    """Lowest and highest value of the loop variable inside the body, and an upper bound on the trip count."""
    if kind == "up":
        if start.lo + 0 > stop.hi - 1:
            raise IRError(f"{name}: the loop never runs")
        if stop.hi - 1 + step.hi > I32.hi:
            raise IRError(f"{name}: the loop variable may overflow")
        trips = math.ceil((stop.hi - start.lo) / step.lo)
        exact = start.lo == start.hi and step.lo == step.hi
        last = start.lo + (trips - 1) * step.lo if exact else stop.hi - 1
        return int(start.lo), int(last), trips
    if kind == "halve" and start.lo >= 1:
        return 1, int(start.hi), int(start.hi).bit_length()
    if kind == "double" and start.lo == start.hi == 1 and 2 <= stop.hi <= 1 << 29:
        return 1, int(stop.hi) - 1, int(stop.hi - 1).bit_length()
    raise IRError(f"{name}: the bounds do not fit a loop of kind {kind!r}")
