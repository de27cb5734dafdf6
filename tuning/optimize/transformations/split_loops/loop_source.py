"""The source of loops that lanes share: round robin, or neighbouring iterations at a time where sums are running."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hipsynth.source.edits import Edit
from hipsynth.source.tokens import text_between
from hipsynth.tuning.optimize.analysis.counting_loops import CountingLoop
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement
from hipsynth.tuning.optimize.function_text import bracket_operand
from hipsynth.tuning.optimize.transformations.split_loops.first_places import FirstPlace
from hipsynth.tuning.optimize.transformations.split_loops.loop_nests import (
    edit_nest,
    list_nest_names,
    write_counts,
)

LANE = "lane_part"  # the parameter of an item function: which of the lanes of a work-item this is
LANES = """// Joins the values of N neighbouring lanes, of a whole group if N > 64; all of them get the same result.
template <int N, typename T, typename Join>
__device__ __forceinline__ T join_lanes(T value, Join join) {
  constexpr int kWave = N < 64 ? N : 64;
  for (int d = kWave / 2; d > 0; d /= 2) value = join(value, __shfl_xor(value, d, kWave));
  if constexpr (N > kWave) {
    __shared__ T parts[N / kWave];
    __syncthreads();  // the parts of an earlier sum have been read
    if (threadIdx.x % kWave == 0) parts[threadIdx.x / kWave] = value;
    __syncthreads();
    value = parts[0];
    for (int i = 1; i < N / kWave; ++i) value = join(value, parts[i]);
  }
  return value;
}
template <int N, typename T>
__device__ __forceinline__ T sum_of_lanes(T value) {
  return join_lanes<N>(value, [](T a, T b) -> T { return a + b; });
}
template <int N, typename T>
__device__ __forceinline__ T largest_of_lanes(T value) {
  return join_lanes<N>(value, [](T a, T b) -> T { return max(a, b); });
}
template <int N, typename T>
__device__ __forceinline__ T least_of_lanes(T value) {
  return join_lanes<N>(value, [](T a, T b) -> T { return min(a, b); });
}
// Adds the values of N neighbouring lanes up to this one.
template <int N, typename T>
__device__ __forceinline__ T sum_up_to_lane(T value, unsigned lane) {
  for (unsigned d = 1; d < N; d *= 2) {
    const T before = __shfl_up(value, d, N);
    if (lane >= d) value += before;
  }
  return value;
}

"""
FIRST = ("first", "place")  # how a value and its place are joined
WAVE = 64
_PRAGMA = re.compile(rb"#pragma unroll[^\n]*\n\s*\Z")


@dataclass(frozen=True)
class RunningSum:
    """`name += value;`, of which the loop reads what it has summed so far, at the tokens `reads`, some before it."""

    place: int
    statement: Statement
    reads: tuple[int, ...]

    @property
    def reads_before(self) -> bool:
        """Whether an iteration reads what the earlier ones have summed."""
        return self.reads[0] < self.statement.start


@dataclass(frozen=True)
class SharedLoop:
    """`for (T variable = init; condition; variable += step)`; offsets of declarations of the variable and of those that
    it joins, with how ("sum", "largest", "least", or "first" of a value and "place"); `head` as text, by which two
    loops deal out the same iterations; `firsts`: extremes whose places are remembered; `running`: sums that it reads,
    with the statements that store, which only iterations inside the bounds may do; `nest`: the loops whose iterations
    are shared with its own."""

    statement: Statement
    variable: int
    init: tuple[int, int]
    condition: tuple[int, int]
    step: str
    joined: dict[int, str]
    head: str
    firsts: tuple[FirstPlace, ...] = ()
    running: tuple[RunningSum, ...] = ()
    stores: tuple[Statement, ...] = ()
    nest: tuple[CountingLoop, ...] = ()


def edit_loop(body: Body, loop: SharedLoop, lanes: int) -> Iterator[Edit]:
    """Edits that deal out a loop's iterations to `lanes` lanes. Raises NotUnderstood for names that the new code uses,
    and for running sums of more than a wavefront."""
    edits = _edit_running(body, loop, lanes) if loop.running else _edit_joined(body, loop, lanes)
    yield from edits


def _edit_joined(body: Body, loop: SharedLoop, lanes: int) -> Iterator[Edit]:
    statement, unit, tokens = loop.statement, body.program.unit, body.tokens
    start, end = _start_before_pragma(body, statement), tokens[statement.end - 1].end
    names = {place: _name_of(body, place) for place in loop.joined}
    sums = [names[place] for place, how in loop.joined.items() if how == "sum"]
    before = "".join(f"const auto {name}_before = {name};\n  {name} = 0;\n  " for name in sums)
    after = ""
    for choice in loop.firsts:
        least = "true" if choice.least else "false"
        after += f"\n  first_of_lanes<{lanes}, {least}>({names[choice.value]}, {names[choice.place]});"
    for place, how in loop.joined.items():
        if how in FIRST:
            continue
        first = f"{names[place]}_before + " if how == "sum" else ""
        after += f"\n  {names[place]} = {first}{how}_of_lanes<{lanes}>({names[place]});"
    _check_fresh(body, {f"{name}_before" for name in sums} | list_nest_names(loop.nest))
    if loop.nest:
        yield Edit(start, start, "{\n  " + write_counts(loop.nest) + before)
        yield from edit_nest(body, loop.nest, LANE, lanes, f"{after}\n  }}")
        return
    name = _name_of(body, loop.variable)
    times = "" if loop.step == "1" else f" * ({loop.step})"
    head = tokens[statement.head[0]].start, tokens[statement.head[1]].start
    declared, init = _read_declaration(body, loop), text_between(unit, tokens, *loop.init)
    condition = text_between(unit, tokens, *loop.condition)
    first = f"{bracket_operand(init)} + " if init != "0" else ""
    yield Edit(start, start, "{\n  " + before)
    lane = f"static_cast<decltype({name})>({LANE}){times}"
    yield Edit(*head, f"{declared}{first}{lane}; {condition}; {name} += {_write_stride(loop, lanes)}")
    yield Edit(end, end, f"{after}\n  }}")


def _edit_running(body: Body, loop: SharedLoop, lanes: int) -> Iterator[Edit]:
    """Lanes take neighbouring iterations. Those behind the end go through the first of their turn again, for nothing:
    all of them take part in the sums."""
    if lanes > WAVE:
        raise NotUnderstood("running sums of more than a wavefront")
    statement, unit, tokens = loop.statement, body.program.unit, body.tokens
    name, inside = _name_of(body, loop.variable), "is_inside"
    first = f"{name}_first"
    names = {running.place: _name_of(body, running.place) for running in loop.running}
    parts = {f"{each}_{part}" for each in names.values() for part in ("here", "left", "before")}
    _check_fresh(body, {first, inside} | parts)
    declared = _read_declaration(body, loop)
    init, condition = text_between(unit, tokens, *loop.init), text_between(unit, tokens, *loop.condition)
    kind = declared[: declared.rindex(name)]
    times = "" if loop.step == "1" else f" * ({loop.step})"
    head = tokens[statement.head[0]].start, tokens[statement.head[1]].start
    yield Edit(
        *head, f"{kind}{first} = {init}; {first}{condition[len(name) :]}; {first} += {_write_stride(loop, lanes)}"
    )
    opened, closed = tokens[statement.head[1] + 1], tokens[statement.end - 1]
    yield Edit(
        opened.end, opened.end,
        f"\n    {kind}{name} = {first} + static_cast<decltype({first})>({LANE}){times};"
        f"\n    const bool {inside} = {condition};\n    if (!{inside}) {name} = {first};",
    )  # fmt: skip
    for running in loop.running:
        yield from _edit_sum(body, running, lanes, opened.end, inside)
    for store in loop.stores:
        yield Edit(tokens[store.start].start, tokens[store.start].start, f"if ({inside}) ")
    last = "\n    ".join(f"{each} = __shfl({each}_here, {lanes - 1}, {lanes});" for each in names.values())
    yield Edit(closed.start, closed.start, f"  {last}\n  ")


def _edit_sum(body: Body, running: RunningSum, lanes: int, begin: int, inside: str) -> Iterator[Edit]:
    """What an iteration and the earlier ones have summed; at the loop's `begin` if it is read before it is added to."""
    unit, tokens, name = body.program.unit, body.tokens, _name_of(body, running.place)
    at, end = running.statement.start, running.statement.end
    value = text_between(unit, tokens, at + 2, end - 1)
    part = f"{inside} ? static_cast<decltype({name})>({value}) : 0"
    text = f"const decltype({name}) {name}_here = {name} + sum_up_to_lane<{lanes}>({part}, {LANE});"
    if running.reads_before:
        earlier = f"const auto {name}_left = __shfl_up({name}_here, 1, {lanes});"
        before = f"const auto {name}_before = {LANE} == 0 ? {name} : {name}_left;"
        yield Edit(begin, begin, "".join(f"\n    {line}" for line in (text, earlier, before)))
        text = ""
    yield Edit(tokens[at].start, tokens[end - 1].end, text)
    for read in running.reads:
        yield Edit(tokens[read].start, tokens[read].end, f"{name}_{'before' if read < at else 'here'}")


def _start_before_pragma(body: Body, loop: Statement) -> int:
    """Where a loop's text begins, with the `#pragma unroll` that belongs to it."""
    start = body.tokens[loop.start].start
    pragma = _PRAGMA.search(body.program.unit.text[:start])
    return pragma.start() if pragma else start


def _read_declaration(body: Body, loop: SharedLoop) -> str:
    """`int i = ` of a loop's head."""
    tokens = body.tokens
    begin = tokens[loop.statement.head[0]].start
    return body.program.unit.text[begin : tokens[loop.init[0]].start].decode(errors="surrogateescape")


def _write_stride(loop: SharedLoop, lanes: int) -> str:
    return str(lanes) if loop.step == "1" else f"{lanes} * ({loop.step})"


def _name_of(body: Body, place: int) -> str:
    """The name of a local by the offset of its declaration."""
    return next(token.text for token in body.tokens if token.start == place)


def _check_fresh(body: Body, names: set[str]) -> None:
    """Raises NotUnderstood if the program uses one of the names."""
    if names & {token.text for token in body.tokens}:
        raise NotUnderstood("a name that the new code uses")
