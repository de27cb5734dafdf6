"""A checking interpreter: raises IRError for values outside their declared range and for data races.

The oracle runs work-items in lockstep, which is correct only for race-free programs. This one records which
work-items accessed each element since the last barrier (LDS) or since the launch (global memory).
"""

from __future__ import annotations

import numpy as np

from hipsynth.synth.generate import ir
from hipsynth.synth.generate.ir import Buffer, Expr, Kernel
from hipsynth.synth.generate.oracle import LaunchOracle, Slab, Value
from hipsynth.synth.generate.types import BOOL, Array, IRError

NOBODY, MANY = -1, -2  # instead of a work-item's number: no access yet, accesses by several work-items
SLACK = {"f16": 2e-2, "f32": 1e-3, "f64": 1e-3}  # relative: declared float ranges do not include rounding


class Ledger:
    """Which work-item last read and wrote each of the `size` elements of one array, and which had atomic updates.

    Each method takes flat element indices `at` and work-item numbers `who`, and raises IRError on a race.
    """

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.reader = np.full(size, NOBODY, np.int64)
        self.writer = np.full(size, NOBODY, np.int64)
        self.updated = np.zeros(size, np.bool_)

    def clear(self) -> None:
        self.reader[:] = NOBODY
        self.writer[:] = NOBODY
        self.updated[:] = False

    def _refuse(self, conflict: Array, what: str) -> None:
        if conflict.any():
            raise IRError(f"{self.name}: race, {what}")

    def _others(self, column: Array, at: Array, who: Array) -> Array:
        others: Array = (column[at] != NOBODY) & (column[at] != who)
        return others

    def read(self, at: Array, who: Array) -> None:
        self._refuse(self._others(self.writer, at, who) | self.updated[at], "read of another work-item's write")
        before = self.reader[at]
        self.reader[at] = who
        shared = (self.reader[at] != who) | ((before != NOBODY) & (before != who))
        self.reader[at[shared]] = MANY

    def write(self, at: Array, who: Array) -> None:
        self._refuse(self._others(self.reader, at, who) | self.updated[at], "write of what another work-item reads")
        self._refuse(self._others(self.writer, at, who), "two work-items write one element")
        self.writer[at] = who
        self._refuse(self.writer[at] != who, "two work-items write one element at once")

    def update(self, at: Array, who: Array) -> None:
        touched = self._others(self.reader, at, who) | self._others(self.writer, at, who)
        self._refuse(touched, "atomic on an element that another work-item reads or writes without atomics")
        self.updated[at] = True


class CheckedLaunchOracle(LaunchOracle):
    """`LaunchOracle` with range and race checks; slower, for tests."""

    def __init__(self, kernel: Kernel, memory: dict[str, Array], slab: Slab | None = None) -> None:
        super().__init__(kernel, memory, slab)
        self.who = np.arange(kernel.threads, dtype=np.int64).reshape(self.shape)
        self.ledgers = {name: Ledger(name, len(array)) for name, array in self.memory.items()}

    def value(self, e: Expr, mask: Array | None) -> Value:
        result = super().value(e, mask)
        for lane in result if isinstance(result, tuple) else (result,):
            self._in_range(e, np.asarray(lane), mask)
        return result

    def _in_range(self, e: Expr, values: Array, mask: Array | None) -> None:
        if mask is not None:
            shape = np.broadcast_shapes(values.shape, mask.shape)
            values = np.broadcast_to(values, shape)[np.broadcast_to(mask, shape)]
        if e.dtype is BOOL or not values.size:
            return
        slack = SLACK[e.dtype.base.name] * max(abs(e.lo), abs(e.hi)) if e.dtype.is_float else 0
        low, high = values.min(), values.max()
        if not (e.lo - slack <= low.item() and high.item() <= e.hi + slack):
            raise IRError(f"{e.op} {e.attr}: [{low}, {high}] outside its declared range [{e.lo}, {e.hi}]")

    def _record(self, kind: str, buffer: Buffer, index: tuple[Expr, ...], mask: Array | None) -> None:
        at = self.chosen(self.address(buffer, index, mask), mask, self.shape)
        who = self.chosen(self.who, mask, self.shape)
        ledger = self.ledgers[buffer.name]
        {"read": ledger.read, "write": ledger.write, "update": ledger.update}[kind](at, who)

    def load(self, e: Expr, mask: Array | None) -> Value:
        self._record("read", e.attr, e.args, mask)
        return super().load(e, mask)

    def store(self, s: ir.Store, mask: Array | None) -> None:
        super().store(s, mask)
        self._record("write", s.buffer, s.index, mask)

    def atomic(self, s: ir.Atomic, mask: Array | None) -> None:
        super().atomic(s, mask)
        self._record("update", s.buffer, s.index, mask)

    def barrier(self, s: ir.Barrier, mask: Array | None) -> None:
        for tile in self.kernel.lds:
            self.ledgers[tile.name].clear()
