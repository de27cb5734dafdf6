"""The only source of randomness: every draw is an integer that is recorded and can be replayed.

A program is a function of its choice sequence. Program `i` of seed `S` draws from its own random stream, seeded by a
hash of (S, i, attempt), so its bytes depend neither on the number of workers nor on the machine.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import TypeVar

from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason

T = TypeVar("T")
MASK64 = (1 << 64) - 1


@lru_cache(maxsize=4096)
def _running_sums(weights: tuple[float, ...]) -> list[float]:
    """The sums of the first 1, 2, ... weights. Raises ValueError unless they are >= 0 and their sum is > 0."""
    sums = list(accumulate(weights))
    if not sums or sums[-1] <= 0 or min(weights) < 0:
        raise ValueError(f"unusable weights {list(weights)}")
    return sums


class ReplayError(BadInput):
    """A recorded choice sequence does not match the draws of the program's family."""

    reason = Reason.REPLAY


class Stream:
    """The SplitMix64 generator seeded by a hash of `key`: the same numbers on every machine and Python version."""

    def __init__(self, *key: int | str) -> None:
        digest = hashlib.blake2b("/".join(map(str, key)).encode(), digest_size=8).digest()
        self.state = int.from_bytes(digest, "little")

    def next(self) -> int:
        """The next 64 bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK64
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
        return z ^ (z >> 31)

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound), bound < 2^32, by a 32-bit multiply-shift; its bias is below bound / 2^32.

        It takes the upper half of `next`, which is written out here: a program makes hundreds of draws.
        """
        self.state = z = (self.state + 0x9E3779B97F4A7C15) & MASK64
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
        return (((z ^ (z >> 31)) >> 32) * bound) >> 32


class Choices:
    """Draws from a stream, or replays a recorded sequence; `recorded` holds all draws so far.

    When replaying, every method raises ReplayError if the recorded choice is missing or out of range.
    """

    def __init__(self, stream: Stream | None = None, replay: Sequence[int] | None = None) -> None:
        if (stream is None) == (replay is None):
            raise ValueError("give either a stream or a recorded sequence")
        self._stream = stream
        self._replay = None if replay is None else iter(replay)
        self._drawn: list[int] = []

    @property
    def recorded(self) -> tuple[int, ...]:
        return tuple(self._drawn)

    def integer(self, lo: int, hi: int) -> int:
        """A uniform integer in [lo, hi]."""
        if lo > hi:
            raise ValueError(f"empty range [{lo}, {hi}]")
        if self._stream is not None:
            value = lo + self._stream.below(hi - lo + 1)
        else:
            value = self._next_recorded()
            if not lo <= value <= hi:
                raise ReplayError(f"recorded choice {len(self._drawn)} is {value}, outside [{lo}, {hi}]")
        self._drawn.append(value)
        return value

    def weighted(self, weights: Sequence[float]) -> int:
        """An index with probability proportional to its weight; weights are >= 0 and at least one is > 0."""
        sums = _running_sums(tuple(weights))
        if self._stream is None:
            value = self._next_recorded()
            if not 0 <= value < len(weights) or weights[value] <= 0:
                raise ReplayError(f"recorded choice {len(self._drawn)} is {value}: no such alternative")
        else:
            value = bisect_right(sums, self._stream.below(1 << 31) / (1 << 31) * sums[-1])
        self._drawn.append(value)
        return value

    def pick(self, items: Sequence[T]) -> T:
        """One of the items, uniformly."""
        return items[self.integer(0, len(items) - 1)]

    def flag(self, percent: int) -> bool:
        """True with the given probability in percent."""
        return self.integer(0, 99) < percent

    def finish(self) -> None:
        """Raises ReplayError if recorded choices are left over."""
        if self._replay is not None and next(self._replay, None) is not None:
            raise ReplayError("the recorded choice sequence is longer than the program needs")

    def _next_recorded(self) -> int:
        assert self._replay is not None
        value = next(self._replay, None)
        if value is None:
            raise ReplayError(f"the recorded choice sequence ends after {len(self._drawn)} choices")
        return value
