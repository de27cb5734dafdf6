"""What host code writes into its arrays before a launch, in order; worked out only if a launch depends on it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hipsynth.profiling.preview.contents.statements import Translator
from hipsynth.profiling.preview.contents.terms import (
    RAND_MAX,
    Enough,
    Kind,
    Outer,
    Translated,
    Untranslatable,
    kind_of,
)
from hipsynth.profiling.preview.packing import buffer_bytes
from hipsynth.profiling.preview.values import HostAllocation, Vector, known

MOST_BYTES = 1 << 26  # of an array whose contents are worked out
MOST_NUMBERS = 1 << 23  # of an array that are kept one by one; what follows repeats them
GAP = 4096  # parts of an array that has not been written completely are further apart than 1 / GAP of it
MOST_ROUNDS = 500_000  # of all loops of a program; what follows repeats what was filled
MOST_STEPS = 400  # of a program
MOST_LOOKED_AT = 4096  # numbers, to tell whether they differ
SCRAMBLE = 0x9E3779B1  # odd: it takes numbers to different ones
Bytes = npt.NDArray[np.uint8]


@dataclass
class Held:
    """What an array holds: numbers of one type."""

    kind: Kind
    items: list[Any] | Bytes  # bytes: of calls that set them

    def numbers(self, kind: Kind) -> list[Any]:
        """The list of numbers, to be changed; of another type if these are bytes."""
        if isinstance(self.items, np.ndarray):
            whole = len(self.items) // (kind.bits // 8) * (kind.bits // 8)
            self.kind, self.items = kind, self.items[:whole].view(type_of(kind)).tolist()
        assert isinstance(self.items, list)
        return self.items

    def as_bytes(self) -> Bytes:
        if isinstance(self.items, np.ndarray):
            return self.items
        kind = self.kind
        wide = np.float64 if kind.real else np.int64 if kind.signed or kind.bits < 64 else np.uint64
        return np.array(self.items, wide).astype(type_of(kind)).view(np.uint8)


def type_of(kind: Kind) -> str:
    """The name that numpy has for a type."""
    return f"{'f' if kind.real else 'i' if kind.signed else 'u'}{kind.bits // 8}"


@dataclass(frozen=True)
class Made:
    """How an array was before anything was written to it."""

    bytes: Any
    items: Sequence[Any] | None = None
    fill: Any = 0

    @classmethod
    def of(cls, array: Any) -> Made:
        if isinstance(array, HostAllocation):
            return cls(array.bytes)
        size = array.length * array.element if known(array.length) else None
        if array.items is None or not isinstance(array.length, int) or array.length > MOST_NUMBERS:
            return cls(size, None, array.fill)
        return cls(size, [*array.items, *[0] * (array.length - len(array.items))])


@dataclass
class State:
    """Arrays by identity, and the numbers that loops left, by their place."""

    made: Mapping[int, Made]
    arrays: dict[int, Held] = field(default_factory=dict)
    scalars: dict[tuple[int, str], int | float] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)  # arrays that something not understood has written
    rand: Callable[[], int] = field(default_factory=lambda: partial(random.Random(1).randint, 0, RAND_MAX))
    rounds: list[int] = field(default_factory=lambda: [MOST_ROUNDS])


@dataclass
class Step:
    """One operation on arrays. `reads` and `writes`: their identities."""

    reads: set[int]
    writes: set[int]
    run: Callable[[State], None]
    keeps: Sequence[Any]  # so that identities stay unique


class Fills:
    """The operations of a program so far."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.written: set[tuple[int, str]] = set()  # numbers whose value only a loop knows
        self.writers: dict[int, set[str]] = {}  # the kernels that may have written to an array since
        self.made: dict[int, Made] = {}  # what arrays were made with, by identity
        self._known: dict[tuple[int, ...], Bytes | None] = {}  # by array and the steps that it depends on

    def _add(self, reads: Sequence[Any], writes: Sequence[Any], run: Callable[[State], None]) -> None:
        for one in (*reads, *writes):
            self.made.setdefault(id(one), Made.of(one))
        for one in writes:
            self.writers.pop(id(one), None)
        if len(self.steps) < MOST_STEPS:
            self.steps.append(Step({id(a) for a in reads}, {id(a) for a in writes}, run, (*reads, *writes)))
        else:  # what these hold is not known any more
            self.launched("", writes)

    def fill(self, words: Sequence[str], outer: Outer, place: Callable[[str], tuple[int, str]]) -> bool:
        """Records a statement that fills arrays; False if it does not, or is not understood. `place`: where a number
        outside it is kept."""
        try:
            found = Translator(words, outer).translate()
        except (Untranslatable, IndexError, RecursionError, ValueError, SyntaxError, MemoryError):
            return False
        places = {name: place(name) for name in found.scalars}
        later = {name for name in found.scalars if places[name] in self.written}
        arrays = {name: one.held for name, one in found.arrays.items()}
        changed = [held for name, held in arrays.items() if name in found.changed]

        def run(state: State) -> None:
            _filled(found, arrays, places, later, state)

        self._add(list(arrays.values()), changed, run)
        self.written |= {places[name] for name in found.scalars if name in found.changed}
        return True

    def unknown(self, arrays: Sequence[Any]) -> None:
        """Something that is not understood writes these."""

        def run(state: State) -> None:
            raise Untranslatable

        if arrays:
            self._add([], arrays, run)

    def forget(self, place: tuple[int, str]) -> None:
        """The number kept there has been set by what is evaluated at once."""
        self.written.discard(place)

    def copy(self, to: Any, source: Any) -> None:
        def run(state: State) -> None:
            held = _held(state, source, None)
            state.arrays[id(to)] = Held(held.kind, held.items.copy())

        self._add([source], [to], run)

    def constant(self, to: Any, byte: int, count: int) -> None:
        def run(state: State) -> None:
            state.arrays[id(to)] = Held(Kind(8, False), np.full(min(count, MOST_BYTES), byte & 255, np.uint8))

        self._add([], [to], run)

    def numbered(self, to: Vector, first: int) -> None:
        """std::iota."""

        def run(state: State) -> None:
            if to.length * to.element > MOST_BYTES:
                raise Untranslatable
            state.arrays[id(to)] = Held(Kind(8 * to.element), list(range(first, first + to.length)))

        self._add([], [to], run)

    def launched(self, kernel: str, arrays: Sequence[Any]) -> None:
        """A kernel that may write to arrays."""
        for one in arrays:
            self.writers.setdefault(id(one), set()).add(kernel)

    def of_kernel(self, kernel: str, arrays: Sequence[Any]) -> list[Any]:
        """The arrays that no other kernel may have written to since the host did."""
        return [one for one in arrays if self.writers.get(id(one), set()) <= {kernel}]

    def changed(self, arrays: Sequence[Any]) -> frozenset[int]:
        """The arrays that any kernel may have written to, by identity."""
        return frozenset(id(one) for one in arrays if self.writers.get(id(one)))

    def contents(self, arrays: Sequence[Any], steps: int) -> dict[int, Bytes]:
        """What arrays of whole numbers hold after so many steps, by identity, as far as it is known."""
        keys = {id(one): (id(one), *self._needed({id(one)}, steps)) for one in arrays}
        missing = {one for one, key in keys.items() if key not in self._known}
        if missing:
            state = State(self.made)
            for number in self._needed(missing, steps):
                self._run(self.steps[number], state)
            held = {one: state.arrays.get(one) for one in missing - state.lost}
            self._known |= {keys[one]: None for one in missing}
            sizes = {id(one): buffer_bytes(one) for one in arrays}
            for one, made in held.items():
                if made is not None and not made.kind.real and len(made.items):
                    self._known[keys[one]] = extended(made, min(sizes[one], MOST_BYTES))
        found = {one: self._known[key] for one, key in keys.items()}
        return {one: made for one, made in found.items() if made is not None}

    def _needed(self, arrays: set[int], steps: int) -> list[int]:
        """The steps, among the first so many, that what arrays hold depends on."""
        needed, chosen = set(arrays), []
        for number in range(steps - 1, -1, -1):
            if self.steps[number].writes & needed:
                needed |= self.steps[number].reads
                chosen.append(number)
        return chosen[::-1]

    @staticmethod
    def _run(step: Step, state: State) -> None:
        state.lost -= step.writes - step.reads
        try:
            step.run(state)
        except (Untranslatable, ArithmeticError, IndexError, KeyError, TypeError, ValueError, MemoryError):
            state.lost |= step.writes


def _held(state: State, array: Any, kind: Kind | None) -> Held:
    """What an array holds; zeros, or the value it was made with, if nothing was written. Raises Untranslatable."""
    if id(array) in state.lost:
        raise Untranslatable
    if id(array) in state.arrays:
        return state.arrays[id(array)]
    if kind is None:
        raise Untranslatable
    made = state.made[id(array)]
    if made.items is None:
        if not known(made.bytes) or made.bytes > MOST_BYTES:
            raise Untranslatable
        items = [made.fill] * min(int(made.bytes) * 8 // kind.bits, MOST_NUMBERS)
    else:
        items = list(made.items)
    if not known(*items[:1]):
        raise Untranslatable
    state.arrays[id(array)] = Held(kind, items)
    return state.arrays[id(array)]


def _filled(
    found: Translated,
    arrays: Mapping[str, Any],
    places: Mapping[str, tuple[int, str]],
    later: set[str],
    state: State,
) -> None:
    """Runs a fill; if it ends early, what it has filled is repeated up to the end of its arrays."""
    ignored = {name for name in found.changed - found.read if name in arrays and found.arrays[name].kind.real}
    held = {name: _held(state, arrays[name], found.arrays[name].kind) for name in arrays.keys() - ignored}
    numbers = {name: one.value for name, one in found.scalars.items()}
    numbers |= {name: state.scalars[places[name]] for name in later if places[name] in state.scalars}
    lists: dict[str, Any] = {name: one.numbers(found.arrays[name].kind) for name, one in held.items()}
    begun = {name: len(items) for name, items in lists.items()}
    try:
        found.code(numbers, lists | dict.fromkeys(ignored, Sink()), state.rounds, state.rand)
    except (Enough, IndexError) as error:
        if isinstance(error, IndexError) and MOST_NUMBERS not in begun.values():
            raise
        for name in found.changed & held.keys():
            _repeat(held[name], begun[name])
    state.scalars |= {places[name]: numbers[name] for name in found.changed & numbers.keys()}


def _repeat(held: Held, begun: int) -> None:
    """Repeats what was written in an array up to its end, or, as in a matrix by columns, each part up to the next."""
    if not isinstance(held.items, list) or len(held.items) > begun:
        return
    numbers = held.as_bytes().view(type_of(held.kind)).copy()
    written = np.flatnonzero(numbers != numbers[-1:])  # the last one is the last to be written
    if not len(written):
        return
    apart = np.diff(written) > max(64, len(numbers) // GAP)
    starts, ends = written[np.r_[True, apart]], written[np.r_[apart, True]] + 1
    if len(starts) == 1:
        held.items = extended(Held(held.kind, numbers[: ends[0]].view(np.uint8)), numbers.nbytes)
        return
    for start, end, following in zip(starts, ends, [*starts[1:], len(numbers)], strict=True):
        numbers[end:following] = np.resize(numbers[start:end], following - end)
    held.items = numbers.view(np.uint8)


def extended(held: Held, size: int) -> Bytes:
    """The numbers, repeated to so many bytes: each time larger if they never sink, as where rows begin, and other ones
    if they differ from each other, as keys do."""
    made = held.as_bytes()
    if len(made) >= size or not len(made):
        return made[:size]
    numbers = made.view(type_of(held.kind))
    repeated = np.resize(numbers, -(-size // numbers.itemsize))
    if held.kind.real or len(numbers) < 3:
        return repeated.view(np.uint8)[:size]
    turn = np.arange(len(repeated)) // len(numbers)
    least, most = int(numbers.min()), int(numbers.max())
    if most > least and (numbers[1:] >= numbers[:-1]).all():
        repeated = repeated + (turn * (most - least)).astype(numbers.dtype)
    elif len(np.unique(numbers[:MOST_LOOKED_AT])) == min(len(numbers), MOST_LOOKED_AT):
        span = most - least + 1
        if span >> (held.kind.bits - 2):  # over the whole type
            repeated = repeated ^ (turn * SCRAMBLE).astype(numbers.dtype)
        else:
            repeated = (least + (repeated - least + turn * (span // 7 + 1)) % span).astype(numbers.dtype)
    return repeated.view(np.uint8)[:size]


class Sink(list[Any]):
    """Stands for an array of floating-point numbers that is only written: nothing depends on it."""

    def __setitem__(self, index: Any, value: Any) -> None:
        """Drops the number."""

    def append(self, value: Any) -> None:
        """Drops the number."""


def element_kind(words: Sequence[str]) -> Kind | None:
    """The type of the elements of a declared array, pointer or vector."""
    plain = [w for w in words if w not in ("*", "&", "const", "__restrict__")]
    if "<" in plain:
        plain = plain[plain.index("<") + 1 : -1]
        plain = plain[: plain.index(",")] if "," in plain else plain
    return kind_of(plain)
