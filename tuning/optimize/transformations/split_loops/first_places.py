"""Finds `if (x < least) least = x;`, and with `place = i;` a loop that remembers where its first extreme is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.statements import Statement

# Of the first extreme among lanes that share a loop; each lane has the first of its own iterations.
FIRST_OF_LANES = """// Finds the first of the least (largest) values of N lanes; all of them get it, and where it is.
template <bool kLeast, typename T, typename I>
__device__ __forceinline__ void take_first(T& value, I& place, T other, I elsewhere) {
  const bool better = kLeast ? other < value : other > value;
  if (better || (other == value && elsewhere < place)) value = other, place = elsewhere;
}
template <int N, bool kLeast, typename T, typename I>
__device__ __forceinline__ void first_of_lanes(T& value, I& place) {
  constexpr int kWave = N < 64 ? N : 64;
  for (int d = kWave / 2; d > 0; d /= 2) {
    take_first<kLeast>(value, place, __shfl_xor(value, d, kWave), __shfl_xor(place, d, kWave));
  }
  if constexpr (N > kWave) {
    __shared__ T values[N / kWave];
    __shared__ I places[N / kWave];
    __syncthreads();  // those of an earlier loop have been read
    if (threadIdx.x % kWave == 0) values[threadIdx.x / kWave] = value, places[threadIdx.x / kWave] = place;
    __syncthreads();
    for (int i = 0; i < N / kWave; ++i) take_first<kLeast>(value, place, values[i], places[i]);
  }
}

"""
_LEAST_IF_LEFT = {"<": True, ">": False}  # of the new value against the remembered one
_LEAST = {**_LEAST_IF_LEFT, "<=": True, ">=": False}  # where no place tells equal values apart


@dataclass(frozen=True)
class FirstPlace:
    """Declarations of the remembered value and its place, and whether the value is the least one."""

    value: int
    place: int
    least: bool


def find_first_places(body: Body, loop: Statement, variable: int) -> Iterator[FirstPlace]:
    """Those in a loop whose place is the loop's variable."""
    for statement in loop.inner():
        if statement.kind == "if" and len(statement.parts) == 1:
            first = _read_choice(body, statement, variable)
            if first is not None:
                yield first


def read_extreme(body: Body, loop: Statement, at: int) -> str:
    """Whether the assignment that begins at a token is that of `if (x < least) least = x;` in a loop: "least" or
    "largest"; "" for others. All lanes begin with one value, so that they join as `fminf` does."""
    for choice in loop.inner():
        parts = choice.parts
        single = parts[0].parts if len(parts) == 1 and parts[0].kind == "block" else parts
        if choice.kind != "if" or len(parts) != 1 or len(single) != 1 or single[0].start != at:
            continue
        place, words = _read_assignment(body, single[0])
        (start, end), tokens = choice.head, body.tokens
        signs = [i for i in range(start, end) if tokens[i].text in _LEAST]
        if len(signs) != 1 or place < 0 or body.tokens[at].text in words:
            return ""
        sides = (start, signs[0]), (signs[0] + 1, end)
        for new, remembered in (sides, sides[::-1]):
            is_same = words == [token.text for token in tokens[slice(*new)]]
            if is_same and remembered[1] - remembered[0] == 1 and body.local(tokens[remembered[0]]) == place:
                return "least" if _LEAST[tokens[signs[0]].text] == (new is sides[0]) else "largest"
    return ""


def _read_choice(body: Body, choice: Statement, variable: int) -> FirstPlace | None:
    tokens, (start, end) = body.tokens, choice.head
    signs = [i for i in range(start, end) if tokens[i].text in _LEAST_IF_LEFT]
    (branch,) = choice.parts
    if len(signs) != 1 or branch.kind != "block" or len(branch.parts) != 2:
        return None
    (sign,) = signs
    sides = (start, sign), (sign + 1, end)
    for new, remembered, least in (
        (sides[0], sides[1], _LEAST_IF_LEFT[tokens[sign].text]),
        (sides[1], sides[0], not _LEAST_IF_LEFT[tokens[sign].text]),
    ):
        value = body.local(tokens[remembered[0]])
        if remembered[1] - remembered[0] != 1 or value < 0:
            continue
        words = [t.text for t in tokens[new[0] : new[1]]]
        takes = [_read_assignment(body, statement) for statement in branch.parts]
        places = [(place, rest) for place, rest in takes if rest != words or place != value]
        if len(places) != 1 or places[0][0] < 0 or len(places[0][1]) != 1:
            continue
        at = next(s.start + 2 for s, take in zip(branch.parts, takes, strict=True) if take == places[0])
        if body.local(tokens[at]) == variable and places[0][0] not in (value, variable):
            return FirstPlace(value, places[0][0], least)
    return None


def _read_assignment(body: Body, statement: Statement) -> tuple[int, list[str]]:
    """The variable that `name = ...;` assigns, and the words that it gets; -1 for other statements."""
    tokens = body.tokens[statement.start : statement.end]
    if statement.kind != "simple" or len(tokens) < 4 or tokens[1].text != "=":
        return -1, []
    return body.local(tokens[0]), [t.text for t in tokens[2:-1]]
