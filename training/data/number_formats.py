"""How numbers are written in answers: one row of FORMATS each, with the automaton of the texts that it prints."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hipsynth.core.errors import UsageError, suggest_name

FIGURES, NONZERO = "0123456789", "123456789"
START = "start"
# state -> (characters, next state); reading starts at START.
Automaton = dict[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Format:
    """A number format: `written` prints a value, `read` reads a text of `pattern`.

    `automaton` accepts exactly the texts of 0 and of positive values with at most two (fixed3) or three (sig3) digits
    before the point, and at least 1e-99 (sig3), as metrics are as shares of their range, and times in ms; they end in a
    state of `final`. What `written` prints of other values, such as 1.23e+03, no model can answer.
    """

    written: Callable[[float], str]
    read: Callable[[str], float]
    pattern: str
    automaton: Automaton
    final: frozenset[str]


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
}
DIGITS = tuple(FORMATS)


def number_format(digits: str) -> Format:
    """A row of FORMATS; raises UsageError for an unknown name."""
    if digits not in FORMATS:
        raise UsageError(
            f"no number format {digits!r}", cause=suggest_name(digits, DIGITS), remedy=f"one of: {', '.join(DIGITS)}"
        )
    return FORMATS[digits]


def format_number(value: float, digits: str) -> str:
    """A normalised value as printed in an answer: "0.459" (fixed3), "0.000123" or "1.23e-05" (sig3).

    Raises UsageError for an unknown format, ValueError for a value that the format cannot write.
    """
    return number_format(digits).written(value)


def read_number(text: str, digits: str) -> float | None:
    """The number that a text in a format stands for, or None if it is not one."""
    form = number_format(digits)
    return form.read(text) if re.fullmatch(form.pattern, text) else None
