"""The formula language: accepted and rejected expressions, and unknown values."""

from __future__ import annotations

import pytest

from hipsynth.core.expressions import FormulaError, evaluate_expression, iterate_names, parse_expression

VALUES = {"A": 6.0, "B": 3.0, "ZERO": 0.0}


def value(text: str) -> float | None:
    return evaluate_expression(parse_expression(text), VALUES.get)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("8 - 2 - 1", 5),
        ("8 / 2 / 2", 2),
        ("-A + 10", 4),
        ("2 * -B", -6),
        ("max(A, B, 1)", 6),
        ("min(A, B) * 1.5e1", 45),
        ("100 - 100 * B / A", 50),
    ],
)
def test_arithmetic(text: str, expected: float) -> None:
    assert value(text) == expected


@pytest.mark.parametrize("text", ["A / ZERO", "MISSING + 1", "max(A, MISSING)", "1e300 * 1e300", "0 * MISSING"])
def test_unknown_inputs_and_zero_divisors_are_not_known(text: str) -> None:
    assert value(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 +",
        "(1",
        "1)",
        "1 2",
        "A B",
        "max()",
        "max(1",
        "pow(2, 3)",
        "A ** 2",
        "A.b",
        "__import__('os')",
        "1 % 2",
        "'x'",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(FormulaError):
        parse_expression(text)


def test_deep_nesting_is_refused_not_a_crash() -> None:
    for text in ("(" * 5000 + "1" + ")" * 5000, "-" * 5000 + "1"):
        with pytest.raises(FormulaError, match="nested"):
            parse_expression(text)


def test_names_are_listed_in_order() -> None:
    assert list(iterate_names(parse_expression("A + max(B, C * A) / -D"))) == ["A", "B", "C", "A", "D"]
