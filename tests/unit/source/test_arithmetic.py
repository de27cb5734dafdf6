"""Arithmetic of C in text: what is read, what it computes, and that what is written again computes the same."""

from __future__ import annotations

import pytest

from hipsynth.source.arithmetic import evaluate_arithmetic, evaluate_integer, parse_arithmetic, read_integer
from hipsynth.source.arithmetic import write_arithmetic as write

NAMES = {"n": 100, "m": -7, "blockIdx.x": 3, "p->rows": 5}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("010", 8), ("0x1F", 31), ("0b101", 5), ("1'000'000", 10**6), ("0xffu", 255), ("4096ULL", 4096),
        ("7llu", 7), ("18446744073709551615", 2**64 - 1), ("18446744073709551616", None), ("9" * 5000, None),
        ("08", None), ("0x", None), ("1.0", None), ("1e6", None), ("n", None), ("", None), ("1ul1", None),
    ],
)  # fmt: skip
def test_integers_are_read_as_c_reads_them(text: str, value: int | None) -> None:
    assert read_integer(text) == value


VALUES = {
    "5/2*-1": -2, "-7 / 2": -3, "7 / -2": -3, "m % 4": -3, "-m % 4": 3, "1 << 20": 1 << 20, "n >> 2 + 1": 12,
    "n & 6 == 6": 0, "(n & 6) == 4": 1, "n - 1 - 2": 97, "n - (1 - 2)": 101, "n / (m + 9) * 2": 100, "~5 & 0xf": 10,
    "!n || n > 3 && m < 0": 1, "n < 50 ? 1 : n < 200 ? 2 : 3": 2, "min(n, std::max(3, 4)) * 2": 8,
    "(unsigned int)n + static_cast<std::size_t>(m) * size_t(2)": 86, "(int)-m": 7, "blockIdx . x * 2": 6, "p->rows": 5,
    "+n": 100, "2 * (int)(n)": 200,
}  # fmt: skip


@pytest.mark.parametrize("text", VALUES)
def test_expressions_compute_what_c_computes(text: str) -> None:
    tree = parse_arithmetic(text)
    assert tree is not None and evaluate_integer(tree, NAMES.get) == VALUES[text]
    again = parse_arithmetic(write(tree))
    assert again is not None and evaluate_integer(again, NAMES.get) == VALUES[text]


def test_written_expressions_have_the_brackets_that_they_need() -> None:
    for text in ("(n + 64 - 1) / 64", "n - (m - 1)", "f(n)[2 * m]", "(n < m ? n : m) * 2", "x[n][m + 1]"):
        tree = parse_arithmetic(text)
        assert tree is None or write(tree) == text
    assert [text for text in ("f(n)[2]", "a[1]") if parse_arithmetic(text) is None] == ["f(n)[2]"]


@pytest.mark.parametrize(
    "text",
    ["1 << 64", "1 << -1", "n >> 1000000000000", "1 / (n - n)", "n % 0", "other", "f(3)", "min(n)", "1.5 & 1", "a[2]",
     "1.5 * 2", "1 << 63 << 62", "sizeof(int)"],
)  # fmt: skip
def test_what_has_no_value_is_said_to(text: str) -> None:
    tree = parse_arithmetic(text)
    assert tree is not None and evaluate_integer(tree, NAMES.get) is None


@pytest.mark.parametrize(
    "text",
    ["", "n +", "(n", "n)", "1 2", "a = 3", "a // b", "n ? 1", '"n"', "x.y.", "(short)n", "static_cast<float>(n)",
     "(unsigned char)n", "- -n", "(" * 5000, "-" * 5000 + "1", "+".join(["1"] * 5000), "0x1.8p3", "9" * 5000],
)  # fmt: skip
def test_other_text_is_not_read(text: str) -> None:
    assert parse_arithmetic(text) is None


def test_real_numbers_have_values_but_no_integer_ones() -> None:
    tree = parse_arithmetic("1.5f * 2 + 1e3 / 8")
    assert evaluate_arithmetic(tree, NAMES.get) == 128.0 and evaluate_integer(tree) is None
