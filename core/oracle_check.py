"""Compares the output of a run with the expected output of its program."""

from __future__ import annotations

import math

from hipsynth.core.program import Expected


def describe_mismatch(expected: Expected, exit_code: int | None, stdout: str) -> str:
    """Describes the first difference between a run and the expected output; "" if they match.

    Lines are compared word by word. Two words that are both numbers may differ by `atol + rtol * |expected|`; NaN
    equals NaN. Extra lines are a difference, unless no lines are expected at all.
    """
    if exit_code != expected.exit_code:
        return f"exit code {exit_code} instead of {expected.exit_code}"
    printed = stdout.splitlines()
    for number, line in enumerate(expected.lines, 1):
        if number > len(printed):
            return f"line {number} is missing: {line!r} was expected"
        if not _same_line(line, printed[number - 1], expected):
            return f"line {number} is {printed[number - 1]!r} instead of {line!r}"
    if expected.lines and len(printed) > len(expected.lines):
        return f"line {len(expected.lines) + 1} was not expected: {printed[len(expected.lines)]!r}"
    return ""


def _same_line(wanted: str, got: str, expected: Expected) -> bool:
    wanted_words, got_words = wanted.split(), got.split()
    if len(wanted_words) != len(got_words):
        return False
    return all(_same_word(a, b, expected) for a, b in zip(wanted_words, got_words, strict=True))


def _same_word(wanted: str, got: str, expected: Expected) -> bool:
    if wanted == got:
        return True
    try:
        a, b = float(wanted), float(got)
    except ValueError:
        return False
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    if math.isinf(a) or math.isinf(b):
        return a == b
    return abs(a - b) <= expected.atol + expected.rtol * abs(a)
