"""The oracle: executes a module in numpy, all work-items in lockstep, to get the output that the program must print.

Values are arrays over (grid z, y, x, block z, y, x), broadcast: a value that is constant along an axis has
extent 1 there, so uniform and row- or column-wise values cost almost nothing. Lockstep is one of the execution orders
that a race-free program permits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import numpy as np

from hipsynth.core.program import Expected
from hipsynth.synth.generate import ir
from hipsynth.synth.generate.ir import Buffer, Expr, HostBuffer, Kernel, Module
from hipsynth.synth.generate.matrix import MatrixInstruction
from hipsynth.synth.generate.ops import OPS
from hipsynth.synth.generate.types import Array, DType

Value = Array | tuple[Array, ...]  # of a scalar type, or each lane of a vector type
SAMPLES = 6  # elements that a program prints of each output buffer
AFFORDABLE = 1 << 20  # work-items and elements
SLAB = 1 << 15  # work-items executed together in lockstep
BASE_RTOL = {"f16": 2e-2, "f32": 2e-4, "f64": 1e-8}
STATEMENTS: dict[type, str] = {  # -> the method of Run that executes it
    ir.Let: "let", ir.Assign: "assign", ir.Store: "store", ir.Atomic: "atomic", ir.If: "branch", ir.For: "loop",
    ir.Barrier: "barrier", ir.MatrixFma: "matrix_fma", ir.Break: "leave",
}  # fmt: skip
AXES = {f"{name}.{axis}": n for n, (name, axis) in enumerate(product(("blockIdx", "threadIdx"), "zyx"))}
Slab = tuple[range, range, range]  # of work-groups along z, y and x


def is_affordable(module: Module) -> bool:
    """Whether the oracle takes at most about a second."""
    return count_work(module) <= AFFORDABLE


def count_work(module: Module) -> int:
    """The work-items and elements of the whole program."""
    work_items = sum(x.kernel.threads for x in module.launches)
    return (work_items + sum(int(b.size) for b in module.buffers)) * module.repeat


def fill_buffer(host: HostBuffer, tile: int) -> Array:
    """The initial contents of a buffer: `size` elements of its dtype, which repeat the first `tile` ones."""
    if tile < host.size:
        return np.resize(fill_buffer(replace(host, size=tile), tile), int(host.size))
    init = host.init
    if init.kind in ("zero", "constant"):
        return np.full(host.size, init.lo, host.dtype.numpy)
    if init.kind == "ramp":  # repeats after `mod` elements
        i = np.arange(min(init.mod, host.size), dtype=np.uint64)
        steps = (i * np.uint64(init.mul) + np.uint64(init.add)) % np.uint64(init.mod)
    else:
        i = np.arange(host.size, dtype=np.uint32)
        steps = (hash_u32(i + np.uint32(init.add)) % np.uint32(init.mod)).astype(np.uint64)
    wide = np.int64 if host.dtype.is_int else np.float64
    values: Array = (wide(init.lo) + wide(init.step) * steps.astype(wide)).astype(host.dtype.numpy)
    return values if values.size == host.size else np.tile(values, -(-host.size // values.size))[: host.size].copy()


def hash_u32(x: Array) -> Array:
    """The 32-bit integer hash that generated programs define as `mix`."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    mixed: Array = x ^ (x >> np.uint32(16))
    return mixed


class LaunchOracle:
    """One launch of one kernel. `memory` maps parameters to flat arrays (a vector parameter sees an (n, lanes) view);
    `slab` restricts the launch to some work-groups."""

    def __init__(self, kernel: Kernel, memory: dict[str, Array], slab: Slab | None = None) -> None:
        self.kernel = kernel
        x, y, z = map(range, kernel.grid)
        self.slab = slab or (z, y, x)
        self.shape = (*map(len, self.slab), *reversed(kernel.block))
        self.names: dict[str, Value] = {n: np.asarray(v, np.int64) for n, v in (*kernel.scalars, *kernel.constants)}
        self.memory = {b.name: memory[b.name].reshape(-1, b.dtype.lanes) if b.dtype.lanes > 1 else memory[b.name]
                       for b in kernel.buffers}  # fmt: skip
        groups, threads = math.prod(self.shape[:3]), math.prod(self.shape)
        # The owner of an array: the work-group of one in LDS, the work-item of a private one.
        self.owner = {"lds": np.arange(groups, dtype=np.int64).reshape(*self.shape[:3], 1, 1, 1)}
        for tile in kernel.lds:
            lanes = (tile.dtype.lanes,) if tile.dtype.lanes > 1 else ()
            self.memory[tile.name] = np.zeros((groups * tile.size, *lanes), tile.dtype.numpy)
        if kernel.private:
            self.owner["private"] = np.arange(threads, dtype=np.int64).reshape(self.shape)
        for array in kernel.private:
            self.memory[array.name] = np.zeros(threads * array.size, array.dtype.numpy)
        self.left: list[Array] = []  # which work-items have left the loops around a statement, innermost last

    def execute(self) -> None:
        """Runs the kernel; results are written to the arrays in `memory`."""
        with np.errstate(all="ignore"):
            self.block(self.kernel.body, None)

    def block(self, statements: Iterable[ir.Statement], mask: Array | None) -> None:
        for statement in statements:
            getattr(self, STATEMENTS[type(statement)])(statement, mask)

    # ---- statements (mask None: every work-item is active)

    def let(self, s: ir.Let, mask: Array | None) -> None:
        if s.mutable or s.target.attr[0] in self.kernel.live:
            self.names[s.target.attr[0]] = self.value(s.value, mask)

    def assign(self, s: ir.Assign, mask: Array | None) -> None:
        """Changes a variable in the work-items of the mask (None: all)."""
        name = s.target.attr[0]
        old = self.names[name]
        value = self.value(s.value, mask)
        new = old + value if s.compound else value
        self.names[name] = new if mask is None else np.where(mask, new, old)

    def matrix_fma(self, s: ir.MatrixFma, mask: Array | None) -> None:
        """Adds the product of each wave's 16x16 or 32x32 tiles to the accumulator, as a matrix instruction does."""
        side, name = s.matrix.side, s.target.attr[0]
        wide = s.matrix.accumulator.base.compute
        a, b = (self._evaluate_operand(value, s.matrix, mask).astype(wide) for value in (s.left, s.right))
        product = np.matmul(a, b.transpose(0, 2, 1))  # wave, row, column
        groups = np.arange(64 // side)
        self.names[name] = tuple(
            old + product[:, s.matrix.row(groups, r), :].reshape(self.shape) for r, old in enumerate(self.names[name])
        )

    def _evaluate_operand(self, value: Expr, matrix: MatrixInstruction, mask: Array | None) -> Array:
        """An operand as (wave, side, depth)."""
        operand = self.value(value, mask)
        lanes = operand if isinstance(operand, tuple) else (operand,)
        shaped = [np.broadcast_to(x, self.shape).reshape(-1, 64 // matrix.side, matrix.side) for x in lanes]
        return np.stack(shaped, axis=2).reshape(len(shaped[0]), matrix.depth, matrix.side).transpose(0, 2, 1)

    def _rows_of_waves(self, value: Expr, mask: Array | None) -> Array:
        """A value as one row of 64 lanes per wavefront."""
        return np.broadcast_to(self.scalar(value, mask), self.shape).reshape(-1, 64)

    def store(self, s: ir.Store, mask: Array | None) -> None:
        """Writes values, or vectors of them, where the mask is set."""
        value = self.value(s.value, mask)
        at = self.address(s.buffer, s.index, mask)
        lanes = value if isinstance(value, tuple) else (value,)
        shape = np.broadcast_shapes(at.shape, *(np.shape(v) for v in lanes), () if mask is None else mask.shape)
        chosen = self.chosen(at, mask, shape)
        data = self.memory[s.buffer.name]
        columns = data.T if isinstance(value, tuple) else (data,)
        for column, lane in zip(columns, lanes, strict=True):
            column[chosen] = self.chosen(np.asarray(lane), mask, shape)

    def chosen(self, array: Array, mask: Array | None, shape: tuple[int, ...]) -> Array:
        """The array broadcast to `shape`, restricted to the active work-items and flattened."""
        full = np.broadcast_to(array, shape)
        return full.ravel() if mask is None else full[np.broadcast_to(mask, shape)]

    def atomic(self, s: ir.Atomic, mask: Array | None) -> None:
        """Applies every work-item's operation, those on the same address one after the other."""
        at = self.chosen(self.address(s.buffer, s.index, mask), mask, self.shape)
        value = self.chosen(np.asarray(self.scalar(s.value, mask)), mask, self.shape)
        data = self.memory[s.buffer.name]
        if s.op in STEPS:
            np.add.at(data, at, np.full(at.shape, STEPS[s.op], data.dtype))
        elif s.op == "add":
            if s.buffer.dtype.is_float:
                data += np.bincount(at, weights=value, minlength=data.size).astype(data.dtype)
            else:
                np.add.at(data, at, value.astype(data.dtype))
        else:
            ATOMIC[s.op].at(data, at, value.astype(data.dtype))

    def branch(self, s: ir.If, mask: Array | None) -> None:
        condition = np.asarray(self.scalar(s.condition, mask))
        for body, active in ((s.then, condition), (s.otherwise, ~condition if s.otherwise else condition)):
            if body and active.any():
                self.block(body, join_masks(mask, active))

    def loop(self, s: ir.For, mask: Array | None) -> None:
        """Runs a loop until no work-item is active: each iteration's mask holds those whose condition still holds."""
        name = s.var.attr[0]
        i = np.asarray(self.scalar(s.start, mask))
        stop, step = self.scalar(s.stop, mask), self.scalar(s.step, mask)
        breaks = any(isinstance(inner, ir.Break) for inner in s.body)
        if breaks:
            self.left.append(np.zeros(self.shape, np.bool_))
        while True:
            active = np.asarray(i > 0) if s.kind == "halve" else np.asarray(i < stop)
            if mask is not None:
                active = active & mask
            if not active.any():
                break
            self.names[name] = i
            inside = join_masks(mask, active) if not active.all() or mask is not None else None
            if breaks:
                inside = join_masks(inside, ~self.left[-1])
                if inside is not None and not inside.any():
                    break
                self.body_with_breaks(s.body, inside)
            else:
                self.block(s.body, inside)
            i = i >> 1 if s.kind == "halve" else i << 1 if s.kind == "double" else i + step

        if breaks:
            self.left.pop()

    def body_with_breaks(self, body: list[ir.Statement], mask: Array | None) -> None:
        """One iteration: statements after a break are executed by the work-items that stay."""
        for statement in body:
            self.block([statement], join_masks(mask, ~self.left[-1]))

    def leave(self, s: ir.Break, mask: Array | None) -> None:
        leaves = np.asarray(self.scalar(s.condition, mask))
        self.left[-1] |= leaves if mask is None else leaves & mask

    def barrier(self, s: ir.Barrier, mask: Array | None) -> None:
        """No effect: work-items run in lockstep."""

    # ---- values: operations through OPS, every other `Expr.op` through the method of that name

    def value(self, e: Expr, mask: Array | None) -> Value:
        """Value of an expression for all work-items, of the type that C++ would compute in."""
        op = OPS.get(e.op)
        if op is None:
            result: Value = getattr(self, e.op)(e, mask)
            return result
        if op.name == "select":
            condition, a, b = (self.scalar(x, mask) for x in e.args)
            return np.where(condition, a, b)
        arguments = [self.scalar(x, mask) for x in e.args]
        if op.wide:
            return e.dtype.cast(op.evaluate(*(np.asarray(a, np.float64) for a in arguments)))
        return op.evaluate(*arguments)

    def scalar(self, e: Expr, mask: Array | None) -> Array:
        """The value of an expression of a scalar type."""
        value = self.value(e, mask)
        assert not isinstance(value, tuple), e.op
        return value

    def const(self, e: Expr, mask: Array | None) -> Value:
        return e.dtype.cast(e.attr)[()]

    def size(self, e: Expr, mask: Array | None) -> Value:
        return np.asarray(int(e.attr), np.int64)

    def name(self, e: Expr, mask: Array | None) -> Value:
        return self.names[e.attr[0]]

    def builtin(self, e: Expr, mask: Array | None) -> Value:
        """Index of the work-item or its group along an axis, as an array that broadcasts; else a size of the launch."""
        axis = AXES.get(e.attr)
        if axis is None:
            return np.asarray(int(e.lo), np.int64)
        numbers = self.slab[axis] if axis < 3 else range(self.shape[axis])
        column = np.arange(numbers.start, numbers.stop, dtype=np.int64)
        return column.reshape([-1 if a == axis else 1 for a in range(6)])

    def cast(self, e: Expr, mask: Array | None) -> Value:
        return e.dtype.cast(self.scalar(e.args[0], mask))

    def load(self, e: Expr, mask: Array | None) -> Value:
        """Elements of a buffer at the index of each work-item; of a vector type, a tuple of its parts."""
        data = self.memory[e.attr.name]
        at = self.address(e.attr, e.args, mask)
        if e.dtype.lanes > 1:
            return tuple(e.dtype.cast(data[:, lane].take(at)) for lane in range(e.dtype.lanes))
        loaded = data.take(at)
        return loaded if loaded.dtype == e.dtype.compute else loaded.astype(e.dtype.compute)

    def part(self, e: Expr, mask: Array | None) -> Value:
        lanes = self.value(e.args[0], mask)
        assert isinstance(lanes, tuple)
        return lanes[int(e.attr)]

    def pack(self, e: Expr, mask: Array | None) -> Value:
        return tuple(self.scalar(x, mask) for x in e.args)

    def ballot(self, e: Expr, mask: Array | None) -> Value:
        """How many lanes of the wavefront fulfil a condition."""
        votes = self._rows_of_waves(e.args[0], mask).sum(axis=1, dtype=np.int64)
        return np.broadcast_to(votes[:, None], (len(votes), 64)).reshape(self.shape)

    def inside(self, e: Expr, mask: Array | None) -> Value:
        return self.value(e.args[0], mask)

    def shuffle(self, e: Expr, mask: Array | None) -> Value:
        """Values of other lanes of the wave; where there is no such lane, the own value."""
        value = self._rows_of_waves(e.args[0], mask)
        lane = np.arange(64)
        delta = int(self.scalar(e.args[1], mask).ravel()[0])
        source = lane ^ delta if e.attr == "xor" else lane + delta if e.attr == "down" else lane - delta
        source = np.where((source >= 0) & (source < 64), source, lane)
        return value[:, source].reshape(self.shape)

    def address(self, buffer: Buffer, index: tuple[Expr, ...], mask: Array | None) -> Array:
        """Flat element indices; inactive work-items get index 0."""
        positions = [np.asarray(self.scalar(value, mask)).astype(np.int64, copy=False) for value in index]
        at: Array = positions[0]
        for position, extent in zip(positions[1:], buffer.shape[1:], strict=True):
            at = at * extent + position
        if mask is not None:
            at = np.where(mask, at, 0)
        if buffer.space in self.owner:
            at = at + self.owner[buffer.space] * buffer.size
        return np.asarray(at)


def join_masks(mask: Array | None, more: Array) -> Array | None:
    """The conjunction of both masks; None when every work-item is active."""
    both = more if mask is None else mask & more
    return None if both.all() else both


ATOMIC: dict[str, np.ufunc] = {
    "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


STEPS = {"inc": 1, "dec": (1 << 32) - 1}  # what atomicInc and atomicDec add, with the largest limit


def evaluate_module(module: Module, run: type[LaunchOracle] = LaunchOracle) -> dict[str, Array]:
    """The final contents of every buffer of the program, by name."""
    memory = {b.name: fill_buffer(b, ir.TILE if module.tiled else b.size) for b in module.buffers}
    for _ in range(module.repeat):
        for launch in module.launches:
            bound = {b.name: memory[launch.arguments[b.name]] for b in launch.kernel.buffers}
            for slab in cut_slabs(launch.kernel) if run is LaunchOracle else [None]:
                run(launch.kernel, bound, slab).execute()
    return memory


def cut_slabs(kernel: Kernel) -> list[Slab]:
    """The grid, cut along its last dimension into slabs of about SLAB work-items, whose values fit in the cache."""
    x, y, z = map(int, kernel.grid)
    per = max(1, SLAB // math.prod(kernel.block))
    if y == z == 1:
        return [(range(1), range(1), part) for part in _cut_extent(x, per)]
    if z == 1:
        return [(range(1), part, range(x)) for part in _cut_extent(y, per // x)]
    return [(part, range(y), range(x)) for part in _cut_extent(z, per // (x * y))]


def _cut_extent(extent: int, each: int) -> list[range]:
    each = max(1, each)
    return [range(first, min(first + each, extent)) for first in range(0, extent, each)]


def sample_indices(size: int) -> list[int]:
    """Indices of the elements that a program prints: evenly spaced, first and last included."""
    return sorted({(size - 1) * k // (SAMPLES - 1) for k in range(SAMPLES)})


def weighted_checksum(values: Array, dtype: DType) -> str:
    """The weighted sum that the program prints: element i has weight 1 + i % 7, so the order of elements matters."""
    wide = np.float64 if dtype.is_float else np.uint64
    total = sum(weight * values[weight - 1 :: 7].sum(dtype=wide).item() for weight in range(1, 8))
    return f"{total:.9g}" if dtype.is_float else str(total % (1 << 64))


def output_tolerance(module: Module) -> float:
    """Relative tolerance of the printed numbers: that of the least precise float type, 0 if all are integers."""
    if not any(b.dtype.is_float for b in module.outputs):
        return 0.0
    kinds = {b.dtype for b in module.buffers if b.dtype.is_float}
    return max(BASE_RTOL[t.name] + module.terms * t.eps for t in kinds)


def expected_lines(module: Module) -> Expected:
    """The lines that the program must print, with a tolerance for reassociation, contraction and fast math."""
    memory = evaluate_module(module)
    lines = []
    for host in module.outputs:
        values = memory[host.name][: ir.TILE if module.tiled else None]
        lines.append(f"{host.name} checksum {weighted_checksum(values, host.dtype)}")
        for index in sample_indices(values.size):
            value = values[index]
            lines.append(f"{host.name} {index} " + (f"{float(value):.9g}" if host.dtype.is_float else str(int(value))))
    rtol = output_tolerance(module)
    return Expected(tuple(lines), rtol=rtol, atol=rtol * 1e-3)
