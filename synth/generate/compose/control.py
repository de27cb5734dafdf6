"""Control flow: how often and under which conditions the arithmetic of a composed kernel is executed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from hipsynth.synth.generate.compose.arithmetic import WORKS, Steps
from hipsynth.synth.generate.compose.composed_kernel import Sketch, WorkItemPosition
from hipsynth.synth.generate.ir import Expr, apply, cast, pack, part
from hipsynth.synth.generate.matrix import OF_TYPE, MatrixInstruction
from hipsynth.synth.generate.patterns import compute_chain, total_span
from hipsynth.synth.generate.productions import COMFORT, settle_range
from hipsynth.synth.generate.types import U32

LONGEST = 24  # steps in a row
States = list[tuple[Expr, Steps]]
Control = Callable[[Sketch, WorkItemPosition, States, list[Expr]], None]


def _declare_states(s: Sketch, values: list[Expr]) -> States:
    """The variables that the steps update: independent ones, for parallelism between instructions."""
    x, y = settle_range(values[0]), settle_range(values[-1])
    x, y = (v if v.op == "name" else s.local(v) for v in (x, y))
    states: States = []
    for n in range(s.ctx["lanes"]):
        start = s.bounded(x if not n else x * (1.0 + 0.25 * n) if s.t.is_float else x + n)
        steps = WORKS[s.ctx["work"]](s, start, y if s.t.kind != "i" else s.local(y & 0xFF))
        states.append((s.k.variable(s.k.unused_name("state"), start, s.t, steps.span), steps))
    return states


def _advance_states(s: Sketch, states: States) -> None:
    for state, steps in states:
        s.k.assign(state, steps.next(state))


def _emit_straight(s: Sketch, p: WorkItemPosition, states: States, values: list[Expr]) -> None:
    for _ in range(min(s.ctx["rounds"], LONGEST)):
        _advance_states(s, states)


def _emit_loop(s: Sketch, p: WorkItemPosition, states: States, values: list[Expr]) -> None:
    unroll = s.ctx.choices.pick((0, 0, 4, 8)) if s.ctx["rounds"] >= 8 else 0
    with s.k.loop(s.k.unused_name("r"), 0, s.ctx["rounds"], unroll=unroll):
        _advance_states(s, states)


def _emit_nested(s: Sketch, p: WorkItemPosition, states: States, values: list[Expr]) -> None:
    inner = s.ctx.choices.pick([n for n in (2, 3, 4, 8, 16) if n <= max(2, s.ctx["rounds"])])
    with ExitStack() as loops:
        loops.enter_context(s.k.loop(s.k.unused_name("o"), 0, max(1, s.ctx["rounds"] // inner)))
        loops.enter_context(s.k.loop(s.k.unused_name("r"), 0, inner))
        _advance_states(s, states)


def _emit_trips(s: Sketch, p: WorkItemPosition, states: States, values: list[Expr]) -> None:
    """A loop whose length depends on the data or on the work-item."""
    most = s.ctx["rounds"]
    key = s.whole_number(values[0], most) if s.ctx.choices.flag(60) else s.local(p.item % most, "key")
    with s.k.loop(s.k.unused_name("r"), 0, s.local(key + 1, "trips")):
        _advance_states(s, states)


def _emit_branch(s: Sketch, p: WorkItemPosition, states: States, values: list[Expr]) -> None:
    """Both sides of a branch inside a loop."""
    condition = _pick_condition(s, p, values)
    with s.k.loop(s.k.unused_name("r"), 0, max(1, s.ctx["rounds"] // 2)):
        with s.k.when(condition):
            for _ in range(s.ctx.choices.integer(1, 3)):
                _advance_states(s, states)
        with s.k.otherwise():
            for state, _ in states:
                s.k.assign(state, _other_side(state))


def _other_side(state: Expr) -> Expr:
    """The arithmetic of a branch's other side, within the range of the state."""
    if not state.dtype.is_float:
        return state >> 1
    return state * 0.5 + (state.lo + min(state.hi, COMFORT[state.dtype.name][1])) / 4


def _pick_condition(s: Sketch, p: WorkItemPosition, values: list[Expr]) -> Expr:
    """A condition on the lane, the wavefront or the data."""
    match s.ctx.choices.pick(("lane", "wave", "data")):
        case "lane":
            return apply("lt", p.item % 4, s.ctx.choices.integer(1, 3))
        case "wave":
            return apply("lt", p.item % 128, 64)
    return apply("lt", s.whole_number(values[0], 8), s.ctx.choices.integer(1, 6))


def _emit_cases(s: Sketch, p: WorkItemPosition, states: States, values: list[Expr]) -> None:
    """A chain of branches, each with another number of steps."""
    key = s.whole_number(values[0], 4) if s.ctx.choices.flag(50) else s.local(p.item % 4, "key")
    for case in range(4):
        with s.k.when(apply("eq", key, case)), s.k.loop(s.k.unused_name("r"), 0, max(1, s.ctx["rounds"] >> case)):
            _advance_states(s, states)


def _emit_exit(s: Sketch, p: WorkItemPosition, states: States, values: list[Expr]) -> None:
    """A loop that each work-item leaves when its search ends."""
    key = s.k.variable(s.k.unused_name("seed"), cast(p.item, U32), U32, (U32.lo, U32.hi))
    with s.k.loop(s.k.unused_name("r"), 0, s.ctx["rounds"], breaks=True):
        s.k.assign(key, key * 1664525 + 1013904223)
        s.k.leave(apply("lt", key >> 16, s.ctx.choices.pick((64, 512, 4096, 16384))))
        _advance_states(s, states)


CONTROLS: dict[str, Control] = {
    "straight": _emit_straight, "loop": _emit_loop, "nested": _emit_nested, "trips": _emit_trips,
    "branch": _emit_branch, "cases": _emit_cases, "exit": _emit_exit,
}  # fmt: skip


def emit_work(s: Sketch, p: WorkItemPosition, values: list[Expr]) -> Expr:
    """The result of the kernel's arithmetic for one element."""
    if s.ctx["work"] == "matrix":
        return _multiply_matrices(s, values)
    if s.ctx["work"] == "chain":
        return compute_chain(s.ctx, s.k, values, s.ctx["rounds"] % 24 + 1)
    states = _declare_states(s, values)
    CONTROLS[s.ctx["control"]](s, p, states, values)
    total = states[0][0]
    for state, _ in states[1:]:
        total = total + state
    return s.local(total)


def _multiply_matrices(s: Sketch, values: list[Expr]) -> Expr:
    """Products of the wavefront's values as small matrices, in independent accumulators."""
    matrix = s.ctx.choices.pick(OF_TYPE[s.t])
    a, b = (_matrix_operand(s, matrix, v) for v in (values[0], values[-1]))
    rounds, count = s.ctx["rounds"], s.ctx["lanes"] if matrix.side < 32 else min(2, s.ctx["lanes"])
    wide = matrix.accumulator.base
    span = total_span(wide, matrix.depth * a.hi * b.hi, rounds)
    accs = [s.k.accumulator(s.k.unused_name("acc"), matrix, span) for _ in range(count)]
    with s.k.loop(s.k.unused_name("r"), 0, rounds, unroll=s.ctx.choices.pick((0, 0, 4))):
        for acc in accs:
            s.k.matrix_fma(matrix, acc, a, b)
    s.terms = max(s.terms, matrix.depth * rounds)
    total = part(accs[0], 0)
    for n in range(1, 4):
        total = total + part(accs[n % count], n)
    return s.local(cast(apply("min", settle_range(s.local(total * (1.0 / rounds))), COMFORT[s.t.name][1]), s.t))


def _matrix_operand(s: Sketch, matrix: MatrixInstruction, value: Expr) -> Expr:
    """A value, or a few that are computed from it, as an operand of a matrix instruction."""
    value = settle_range(value)
    value = value if value.op == "name" else s.local(value)
    if matrix.lanes == 1:
        return value
    scaled = [value, *(s.local(value * scale) for scale in (0.5, 0.25, 0.75)[: matrix.lanes - 1])]
    return s.local(pack(matrix.operand, scaled), "op")
