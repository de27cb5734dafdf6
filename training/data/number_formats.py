"""How numbers are written in answers: one row of FORMATS each, with the automaton of the texts that it prints."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hipsynth.core.errors import UsageError

FIGURES, NONZERO = "0123456789", "123456789"
# state -> (characters, next state); reading starts at "start".
Automaton = dict[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Format:
    """A number format: `written` prints a value, `read` reads a text of `pattern`.

    `automaton` accepts exactly the texts of values of 0 and more, as all metrics are; they end in a state of `final`.
    `width` is the length of every text, 0 if they differ.
    """

    written: Callable[[float], str]
    read: Callable[[str], float]
    pattern: str
    automaton: Automaton
    final: frozenset[str]
    width: int = 0


def _exponent_first(value: float) -> str:
    """The magnitude comes first, so that a wrong last figure costs little: 0.0459 is "-2459"."""
    if value < 0:
        raise ValueError(f"{value}: exp3 has no negative numbers")
    mantissa, exponent = f"{value:.2e}".split("e")
    power = int(exponent)
    if value == 0 or power < -9:
        return "-0000"
    if power > 9:
        return "+9999"
    return f"{'+' if power >= 0 else '-'}{abs(power)}{mantissa.replace('.', '')}"


def _read_exponent_first(text: str) -> float:
    power = int(text[:2])
    return int(text[2:]) * 10.0 ** (power - 2)


PLAIN = r"-?\d+(\.\d*)?([eE][-+]?\d+)?"
FORMATS: Mapping[str, Format] = {
    # Three decimals: 0.459, 12.345
    "fixed3": Format(
        lambda value: f"{value + 0.0:.3f}",
        float,
        PLAIN,
        {
            "start": (("0", "int2"), (NONZERO, "int1")),
            "int1": ((".", "d1"), (FIGURES, "int2")),
            "int2": ((".", "d1"),),
            "d1": ((FIGURES, "d2"),),
            "d2": ((FIGURES, "d3"),),
            "d3": ((FIGURES, "end"),),
            "end": (),
        },
        frozenset({"end"}),
    ),
    # Three significant digits: 0.459, 0.0500, 0.000123, 1.23e-05, 2.31, 12.3, 123, and 0.00 for zero
    "sig3": Format(
        lambda value: f"{value + 0.0:#.3g}".removesuffix("."),
        float,
        PLAIN,
        {
            "start": (("0", "zero"), (NONZERO, "int1")),
            "zero": ((".", "0."),),
            "0.": (("0", "0.0"), (NONZERO, "s1")),
            "0.0": (("0", "0.00"), (NONZERO, "s1")),
            "0.00": (("0", "0.000"), (NONZERO, "s1")),
            "0.000": ((NONZERO, "s1"),),
            "s1": ((FIGURES, "s2"),),
            "s2": ((FIGURES, "end"),),
            "int1": ((".", "f1"), (FIGURES, "int2")),
            "f1": ((FIGURES, "f2"),),
            "f2": ((FIGURES, "f3"),),
            "f3": (("e", "exp"),),
            "exp": (("-", "exp-"),),
            "exp-": (("0", "exp-0"), (NONZERO, "exp-d")),
            "exp-0": (("56789", "end"),),
            "exp-d": ((FIGURES, "end"),),
            "int2": ((".", "g1"), (FIGURES, "int3")),
            "g1": ((FIGURES, "end"),),
            "int3": (),
            "end": (),
        },
        frozenset({"end", "0.00", "f3", "int3"}),
    ),
    # Sign of the exponent, exponent, three digits: "-1459" is 4.59e-1, "+2100" is 100, "-0000" is 0; 1e-9 to 9.99e9
    "exp3": Format(
        _exponent_first,
        _read_exponent_first,
        r"[+-]\d{4}",
        {
            "start": (("+", "plus"), ("-", "minus")),
            "plus": ((FIGURES, "m1"),),
            "minus": ((NONZERO, "m1"), ("0", "nil")),
            "nil": (("0", "nil2"),),
            "nil2": (("0", "nil3"),),
            "nil3": (("0", "end"),),
            "m1": ((NONZERO, "m2"),),
            "m2": ((FIGURES, "m3"),),
            "m3": ((FIGURES, "end"),),
            "end": (),
        },
        frozenset({"end"}),
        width=5,
    ),
}
DIGITS = tuple(FORMATS)


def number_format(digits: str) -> Format:
    """A row of FORMATS; raises UsageError for an unknown name."""
    if digits not in FORMATS:
        raise UsageError(f"no number format {digits!r}", remedy=f"one of: {', '.join(DIGITS)}")
    return FORMATS[digits]


def format_number(value: float, digits: str) -> str:
    """A normalised value as printed in an answer: "0.459" (fixed3), "0.000123" or "1.23e-05" (sig3), "-1459" (exp3).

    Raises UsageError for an unknown format, ValueError for a value that the format cannot write.
    """
    return number_format(digits).written(value)


def read_number(text: str, digits: str) -> float | None:
    """The number that a text in a format stands for, or None if it is not one."""
    form = number_format(digits)
    return form.read(text) if re.fullmatch(form.pattern, text) else None


def word_automaton(choices: Sequence[str]) -> tuple[Automaton, frozenset[str]]:
    """The automaton that accepts exactly the given words (its states are their beginnings), and its final states."""
    heads = sorted({word[:n] for word in choices for n in range(len(word) + 1)})
    arcs: Automaton = {
        head or "start": tuple((longer[-1], longer) for longer in heads if longer and longer[:-1] == head)
        for head in heads
    }
    return arcs, frozenset(choices)
