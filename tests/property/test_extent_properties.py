"""Does the C++ text of a size compute the same number, without an intermediate overflow?"""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from hipsynth.synth.generate import ir
from hipsynth.synth.generate.extent import Extent, count_groups, cpp, larger_size
from hipsynth.synth.generate.types import I32

NAMES = ("n", "rows", "k")


class Cpp:
    """Evaluates an int expression by the rules of C++; every intermediate value must fit an int."""

    def __init__(self, text: str, values: dict[str, int]) -> None:
        self.words = [*re.findall(r"\w+|[-+*/()>?:]", text), ""]
        self.values = values

    def take(self, *allowed: str) -> str:
        return self.words.pop(0) if self.words[0] in allowed else ""

    def conditional(self) -> int:
        left = self.sum()
        if not self.take(">"):
            return left
        holds = left > self.sum()
        assert self.take("?")
        first = self.conditional()
        assert self.take(":")
        second = self.conditional()
        return first if holds else second

    def sum(self) -> int:
        total = self.product()
        while op := self.take("+", "-"):
            term = self.product()
            total = fits(total + term if op == "+" else total - term)
        return total

    def product(self) -> int:
        total = self.atom()
        while op := self.take("*", "/"):
            factor = self.atom()
            total = fits(total * factor if op == "*" else total // factor)
        return total

    def atom(self) -> int:
        if self.take("("):
            inner = self.conditional()
            assert self.take(")")
            return inner
        word = self.words.pop(0)
        return int(word) if word.isdigit() else self.values[word]


def evaluate(text: str, values: dict[str, int]) -> int:
    reader = Cpp(text, values)
    result = reader.conditional()
    assert reader.words == [""], f"{text}: cannot be read to its end"
    return result


def fits(value: int) -> int:
    assert I32.lo <= value <= I32.hi
    return value


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, dict[str, int]]:
    """A size that is computed from others as families do, never negative, and the arguments."""
    values = {name: draw(st.integers(1, 1 << 20)) for name in NAMES}
    pool: list[int] = [Extent(value, name) for name, value in values.items()]
    pool += draw(st.lists(st.integers(0, 5000), min_size=1, max_size=3))
    for _ in range(draw(st.integers(1, 5))):
        left, right = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        match draw(st.sampled_from("*+-/gm")):
            case "*":
                made = left * right
            case "+":
                made = left + right
            case "-":
                made = left - right if left >= right else left
            case "/":
                made = left // max(1, right) if right else left
            case "g":
                made = count_groups(left, right) if right else left
            case _:
                made = larger_size(left, right)
        pool.append(made)
    return pool[-1], values


@settings(max_examples=300, deadline=None, derandomize=True)
@given(sizes())
def test_the_host_computes_the_same_number(drawn: tuple[int, dict[str, int]]) -> None:
    size, values = drawn
    assert evaluate(cpp(size), values) == size


@settings(max_examples=100, deadline=None, derandomize=True)
@given(sizes())
def test_a_kernel_sees_the_same_number(drawn: tuple[int, dict[str, int]]) -> None:
    """A size lifted into a kernel is an exact value: its range is one number."""
    size, _ = drawn
    if isinstance(size, Extent):
        value = ir.lift(size, I32)
        assert value.dtype is I32 and (value.lo, value.hi) == (size, size) and value.uniform
