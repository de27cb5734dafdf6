"""Storages: where values live between their load and their use. Each returns values that replace those it was given."""

from __future__ import annotations

from collections.abc import Callable

from hipsynth.synth.generate.compose.composed_kernel import Sketch, WorkItemPosition
from hipsynth.synth.generate.ir import Buffer, Expr, Operand, cast, lift, load, narrow_range, pack, part
from hipsynth.synth.generate.patterns import total_span
from hipsynth.synth.generate.types import F16, I32, U32, vector_type

Storage = Callable[[Sketch, WorkItemPosition, list[Expr]], list[Expr]]


def _keep_in_registers(s: Sketch, p: WorkItemPosition, values: list[Expr]) -> list[Expr]:
    """In registers."""
    return values


def _scale_to_mean(s: Sketch, total: Expr, terms: int) -> Expr:
    """A sum scaled back to the size of its terms."""
    return s.local(total * (1.0 / terms) if s.t.is_float else total & s.mask(16), "mean")


def _other_lane(s: Sketch, lane: Expr, j: Operand) -> Expr:
    """The lane whose element a work-item reads in round j, with bank conflicts from none to many."""
    threads = s.threads
    match s.ctx["banks"]:
        case "rotate":
            return (lane + j * s.ctx.choices.pick((1, 3, 32))) % threads
        case "spread":
            return (lane * s.ctx.choices.pick((2, 4, 8, 16, 32)) + j) % threads
        case "same":
            return lift(j, I32) % threads if isinstance(j, Expr) else lift(j % threads, I32)
    return narrow_range(lane ^ j, 0, threads - 1)  # "butterfly"; a power of two of lanes


def _share_in_lds(s: Sketch, p: WorkItemPosition, values: list[Expr]) -> list[Expr]:
    """Shared with the work-group: each work-item writes its value and reads those of others."""
    threads, reuse, last_value = s.threads, min(s.ctx["reuse"], s.threads), values[-1]
    lanes = s.ctx.choices.pick((1, 1, 1, 2, 4)) if s.t is not F16 and s.t.bytes * threads * 4 <= 1 << 15 else 1
    t = vector_type(s.t, lanes)
    tile = s.k.lds(s.k.unused_name("tile"), t, threads, (last_value.lo, last_value.hi), dynamic=bool(s.ctx["dynamic"]))
    s.k.store(tile, s.lane, last_value if lanes == 1 else pack(t, [last_value] * lanes))
    s.k.barrier()
    acc = s.k.variable(s.k.unused_name("acc"), s.start(), s.t, total_span(s.t, last_value.hi, reuse))
    with s.k.loop(s.k.unused_name("r"), 0, reuse, unroll=s.ctx.choices.pick((0, 0, 4, 8))) as j:
        read = load(tile, _other_lane(s, s.lane, j))
        _accumulate_term(
            s, acc, read if lanes == 1 else part(s.local(read, "seen"), s.ctx.choices.integer(0, lanes - 1))
        )
    if s.ctx["launch"] in ("persistent", "rows", "chunk"):
        s.k.barrier()  # before the next round overwrites the tile
    s.terms = max(s.terms, reuse)
    return [*values, _scale_to_mean(s, acc, reuse)]


def _share_in_phases(s: Sketch, p: WorkItemPosition, values: list[Expr]) -> list[Expr]:
    """In LDS over several rounds: each replaces every element by a mean of two, between barriers."""
    last_value = values[-1]
    span = (last_value.lo, last_value.hi) if s.t.is_float else s.span
    tile = s.k.lds(s.k.unused_name("tile"), s.t, s.threads, span, dynamic=bool(s.ctx["dynamic"]))
    s.k.store(tile, s.lane, s.bounded(last_value))
    s.k.barrier()
    with s.k.loop(s.k.unused_name("phase"), 1, s.ctx["phases"] + 1) as j:
        other = load(tile, _other_lane(s, s.lane, j))
        mixed = load(tile, s.lane) * 0.5 + other * 0.5 if s.t.is_float else (load(tile, s.lane) ^ other) + 1
        mixed = s.local(narrow_range(mixed, *span) if s.t.is_float else s.bounded(mixed), "mixed")
        s.k.barrier()
        s.k.store(tile, s.lane, mixed)
        s.k.barrier()
    result = s.local(load(tile, s.lane))
    if s.ctx["launch"] in ("persistent", "rows", "chunk"):
        s.k.barrier()
    return [*values, result]


def _weight_by_constants(s: Sketch, p: WorkItemPosition, values: list[Expr]) -> list[Expr]:
    """A sum weighted with coefficients in constant memory, the same for all lanes or not."""
    taps, last_value = s.ctx.choices.pick((4, 8, 16, 32, 64)), values[-1]
    table = s.coefficients(s.t, taps)
    shared = s.ctx.choices.flag(60)
    with_own = last_value if s.t.is_float else last_value & s.mask(8)
    acc = s.k.variable(s.k.unused_name("acc"), s.start(), s.t, total_span(s.t, with_own.hi * table.hi, taps))
    with s.k.loop(s.k.unused_name("tap"), 0, taps, unroll=s.ctx.choices.pick((0, 1, 4))) as j:
        _accumulate_term(s, acc, load(table, j if shared else (s.lane + j) % taps) * with_own)
    s.terms = max(s.terms, taps)
    return [*values, _scale_to_mean(s, acc, taps)]


def _use_private_array(s: Sketch, p: WorkItemPosition, values: list[Expr]) -> list[Expr]:
    """An array of the work-item, filled and then updated several times: registers if unrolled, else scratch memory."""
    length, last_value = s.ctx.choices.pick((4, 6, 8, 16)), values[-1]
    unroll = s.ctx.choices.pick((1, 1, 0))
    span = (last_value.lo, last_value.hi) if s.t.is_float else s.span
    window = s.k.private(s.k.unused_name("window"), s.t, length, span)
    with s.k.loop(s.k.unused_name("w"), 0, length, unroll=unroll) as w:
        s.k.store(window, w, s.bounded(last_value if s.t.is_float else last_value + cast(w, s.t)))
    passes = s.k.loop(s.k.unused_name("pass"), 0, s.ctx.choices.pick((1, 2, 4, 8)))
    with passes, s.k.loop(s.k.unused_name("w"), 0, length, unroll=unroll) as w:
        s.k.store(window, w, _mix_pair(s, window, w, (w + 1) % length, span))
    return [*values, s.local(load(window, length - 1))]


def _mix_pair(s: Sketch, array: Buffer, first: Expr, second: Expr, span: tuple[float, float]) -> Expr:
    """A mixture of two elements that stays in the array's range."""
    a, b = load(array, first), load(array, second)
    return narrow_range(a * 0.75 + b * 0.25, *span) if s.t.is_float else s.bounded((a ^ b) + 1)


def _look_up_table(s: Sketch, p: WorkItemPosition, values: list[Expr]) -> list[Expr]:
    """Look-ups at pseudo-random places of a table that fits a cache."""
    entries, lookups = s.ctx.size("entries", s.ctx["entries"]), s.ctx["reuse"]
    table = s.source(s.t, entries)
    state = s.k.variable(s.k.unused_name("state"), cast(p.item, U32), U32, (U32.lo, U32.hi))
    acc = s.k.variable(s.k.unused_name("acc"), s.start(), s.t, total_span(s.t, table.hi, lookups))
    with s.k.loop(s.k.unused_name("look"), 0, lookups, unroll=s.ctx.choices.pick((0, 0, 2, 4))):
        s.k.assign(state, state * 1664525 + 1013904223)
        _accumulate_term(s, acc, load(table, cast((state >> 8) % cast(lift(entries, I32), U32), I32)))
    s.terms = max(s.terms, lookups)
    return [*values, _scale_to_mean(s, acc, lookups)]


def _accumulate_term(s: Sketch, acc: Expr, term: Expr) -> None:
    """`acc += term;` on a variable declared with the range of the whole sum."""
    s.k.accumulate(acc, term) if s.t.kind != "u" else s.k.assign(acc, acc + term)


STORAGES: dict[str, Storage] = {
    "direct": _keep_in_registers, "lds": _share_in_lds, "phases": _share_in_phases, "constant": _weight_by_constants,
    "private": _use_private_array, "table": _look_up_table,
}  # fmt: skip
