"""Finishes: how results are written. Each is a context manager around the launch that yields a function to deliver a
result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from hipsynth.synth.generate import ir
from hipsynth.synth.generate.builder import WAVE
from hipsynth.synth.generate.compose.composed_kernel import Sketch, WorkItemPosition
from hipsynth.synth.generate.ir import Expr, apply, cast, lift, load, narrow_range, pack
from hipsynth.synth.generate.types import F16, F32, F64, I32, I64, U8, U16, U32, U64, DType, vector_type

Deliver = Callable[[WorkItemPosition, Expr], None]
Finish = Callable[[Sketch, int], AbstractContextManager[Deliver]]
WIDEST = {"f32": 1e18, "f64": 1e60}  # sums are declared up to here


def _sum_type(s: Sketch) -> DType:
    """The type in which results are summed."""
    return {F16: F32, I32: U32, I64: U64, U8: U32, U16: U32}.get(s.t, s.t)


ATOMICS_OF = {
    I32: ("max", "min", "xor", "or", "and"), U32: ("add", "add", "max", "min", "xor", "or", "and", "inc", "dec"),
}  # fmt: skip


@contextmanager
def _store_element(s: Sketch, count: int) -> Iterator[Deliver]:
    """One element each, in place."""
    target = s.target(s.t, count)
    yield lambda p, value: s.k.store(target, p.item, value)


@contextmanager
def _store_apart(s: Sketch, count: int) -> Iterator[Deliver]:
    """One element each, some apart."""
    gap = s.ctx.choices.pick((2, 3, 4, 8))
    target = s.target(s.t, (count - 1) * gap + 1)
    yield lambda p, value: s.k.store(target, p.item * gap, value)


@contextmanager
def _store_mirrored(s: Sketch, count: int) -> Iterator[Deliver]:
    """One element each, in reverse order."""
    target = s.target(s.t, count)
    yield lambda p, value: s.k.store(target, lift(count - 1, I32) - p.item, value)


@contextmanager
def _store_several(s: Sketch, count: int) -> Iterator[Deliver]:
    """The result and a function of it, to two outputs."""
    first, second = s.target(s.t, count), s.target(s.t, count)

    def deliver(p: WorkItemPosition, value: Expr) -> None:
        s.k.store(first, p.item, value)
        s.k.store(second, p.item, value * 0.5 + 0.25 if s.t.is_float else (value & s.mask(7)) + 1)

    yield deliver


@contextmanager
def _store_vector(s: Sketch, count: int) -> Iterator[Deliver]:
    """The result and functions of it, as a vector of two to four."""
    t = vector_type(s.t, s.ctx.choices.pick((2, 3, 4)))
    target = s.target(t, count)

    def deliver(p: WorkItemPosition, value: Expr) -> None:
        scales = (0.5, 0.25, 0.75) if s.t.is_float else (1, 2, 3)
        more = [value * scale if s.t.is_float else (value & s.mask(7)) + scale for scale in scales]
        s.k.store(target, p.item, pack(t, [value, *(s.local(x) for x in more[: t.lanes - 1])]))

    yield deliver


@contextmanager
def _store_narrow(s: Sketch, count: int) -> Iterator[Deliver]:
    """Converted to a smaller type."""
    small = {F64: F32, F32: F16, F16: F16, U16: U8}.get(s.t) or s.ctx.choices.pick((U8, U16))
    target = s.target(small, count)

    def deliver(p: WorkItemPosition, value: Expr) -> None:
        if small is F16 and s.t is not F16:
            value = apply("min", value, 64.0)
        s.k.store(target, p.item, cast(value, small))

    yield deliver


@contextmanager
def _add_atomically(s: Sketch, count: int) -> Iterator[Deliver]:
    """Added by an atomic to one of a number of cells, chosen by the element's number or pseudo-randomly."""
    cells = s.ctx.size("cells", s.ctx["cells"])
    t = I32 if s.t is I32 and s.ctx.choices.flag(50) else _sum_type(s)  # int has no sum: it might overflow
    target = s.target(t, cells)
    pattern = s.ctx.choices.pick(("modulo", "blocks", "hashed"))
    ops = (
        ("add", "add", "add", "max", "min")
        if t.is_float
        else ATOMICS_OF.get(t, ("add", "max", "min", "xor", "or", "and"))
    )
    op = s.ctx.choices.pick(ops)
    # Sums in any order: an error of one rounding per term, of which a cell has this many.
    s.terms = max(s.terms, 4 * (int(count) // int(cells)) + 64 if pattern != "blocks" else int(count))

    def deliver(p: WorkItemPosition, value: Expr) -> None:
        at = {"modulo": lambda: p.item % cells, "blocks": lambda: (p.item >> 6) % cells,
              "hashed": lambda: s.hashed(p.item, cells)}[pattern]()  # fmt: skip
        s.k.atomic(op, target, at, cast(value, t))

    yield deliver


@contextmanager
def _count_bins(s: Sketch, count: int) -> Iterator[Deliver]:
    """Added up or counted in bins of LDS, which each work-group adds to those of the program at its end."""
    bins, summed = s.ctx.choices.pick((64, 256, 1024)), s.ctx.choices.flag(50)
    t = _sum_type(s) if summed and s.t.is_float else U32
    span = (0.0, WIDEST[t.name]) if t.is_float else (t.lo, t.hi)
    target, lds_bins = s.target(t, bins, span), s.k.lds("own_bins", t, bins, span)
    with s.k.loop(s.k.unused_name("b"), s.lane, bins, s.threads) as bin_:
        s.k.store(lds_bins, bin_, 0.0 if t.is_float else 0)
    s.k.barrier()

    def deliver(p: WorkItemPosition, value: Expr) -> None:
        amount = cast(value, t) if t.is_float else cast(value, t) & 0xFF if summed else ir.const(1, t)
        s.k.atomic("add", lds_bins, s.hashed(p.item, bins), amount)

    yield deliver
    s.k.barrier()
    with s.k.loop(s.k.unused_name("b"), s.lane, bins, s.threads) as bin_:
        s.k.atomic("add", target, bin_, load(lds_bins, bin_))
    s.terms = max(s.terms, 4 * (int(count) // bins) + 64)


@contextmanager
def _store_total(s: Sketch, count: int) -> Iterator[Deliver]:
    """Added to the work-item's own sum, which is stored at the end."""
    t = _sum_type(s)
    target, acc = s.target(t, s.groups * s.threads), _declare_accumulator(s, t)
    yield lambda p, value: s.k.assign(acc, narrow_range(acc + cast(value, t), acc.lo, acc.hi))
    s.k.store(target, s.k.let("own_id", s.k.global_id()), acc)


def _declare_accumulator(s: Sketch, t: DType) -> Expr:
    span = (0.0, WIDEST[t.name]) if t.is_float else (t.lo, t.hi)
    return s.k.variable(s.k.unused_name("sum"), 0.0 if t.is_float else 0, t, span)


@contextmanager
def _reduce_group(s: Sketch, count: int) -> Iterator[Deliver]:
    """Summed over the work-group through a tree in LDS; the first work-item stores the sum or adds it to a total."""
    t, threads, atomic = _sum_type(s), s.threads, s.ctx.choices.flag(12)
    target, acc = s.target(t, 1 if atomic else s.groups), _declare_accumulator(s, t)
    yield lambda p, value: s.k.assign(acc, narrow_range(acc + cast(value, t), acc.lo, acc.hi))
    tile = s.k.lds(s.k.unused_name("partial"), t, threads, (acc.lo, acc.hi))
    s.k.store(tile, s.lane, acc)
    s.k.barrier()
    with s.k.loop(s.k.unused_name("s"), threads // 2, 1, kind="halve") as half:
        with s.k.below(s.lane, half) as low:
            s.k.store(tile, low, narrow_range(load(tile, low) + load(tile, low + half), acc.lo, acc.hi))
        s.k.barrier()
    with s.k.when(apply("eq", s.lane, 0)):
        if atomic:
            s.k.atomic("add", target, 0, load(tile, 0))
        else:
            s.k.store(target, s.group(), load(tile, 0))
    s.terms = max(s.terms, int(count) // 8 if atomic else 4 * threads)


@contextmanager
def _reduce_wave(s: Sketch, count: int) -> Iterator[Deliver]:
    """Summed over the wavefront by shuffles; its first lane adds the sum to one of a few totals."""
    t, totals = _sum_type(s), s.ctx.choices.pick((64, 1024, 4096, 16384))
    target, acc = s.target(t, totals), _declare_accumulator(s, t)
    yield lambda p, value: s.k.assign(acc, narrow_range(acc + cast(value, t), acc.lo, acc.hi))
    with s.k.loop(s.k.unused_name("offset"), WAVE // 2, 1, kind="halve") as offset:
        other = s.k.shuffle(
            s.k.unused_name("other"), s.ctx.choices.pick(("down", "xor")), acc, narrow_range(offset, 1, WAVE // 2)
        )
        s.k.assign(acc, narrow_range(acc + other, acc.lo, acc.hi))
    with s.k.when(apply("eq", s.lane % WAVE, 0)):
        s.k.atomic("add", target, s.group() % totals if totals > 1 else 0, acc)
    s.terms = max(s.terms, int(count) // 8)


@contextmanager
def _exchange_lanes(s: Sketch, count: int) -> Iterator[Deliver]:
    """Mixed with the results of other lanes of the wavefront, then stored."""
    t = {F16: F32, U8: U32, U16: U32}.get(s.t, s.t)
    target, votes = s.target(t, count), s.ctx.choices.flag(25)
    kind, distances = s.ctx.choices.pick(("down", "xor", "up")), s.ctx.choices.pick(((1,), (32,), (1, 2), (16, 8, 4)))

    def deliver(p: WorkItemPosition, value: Expr) -> None:
        mixed = s.local(s.bounded(cast(value, t)))
        for distance in distances:
            other = s.k.shuffle(s.k.unused_name("other"), kind, mixed, distance)
            mixed = s.local(mixed * 0.5 + other * 0.5 if t.is_float else s.bounded((mixed ^ other) + 1))
        if votes:  # a condition on the item, which host and device decide alike
            count_of = s.k.ballot(s.k.unused_name("votes"), apply("lt", p.item % 100, s.ctx.choices.integer(10, 90)))
            mixed = s.local(mixed + cast(count_of, t))
        s.k.store(target, p.item, mixed)

    yield deliver


FINISHES: dict[str, Finish] = {
    "store": _store_element, "vector": _store_vector, "narrow": _store_narrow, "gap": _store_apart,
    "mirror": _store_mirrored, "several": _store_several, "add": _add_atomically, "bins": _count_bins,
    "total": _store_total, "reduce": _reduce_group, "wave": _reduce_wave, "exchange": _exchange_lanes,
}  # fmt: skip
