"""Sizes print as the expressions that a person would write, with parentheses only where they matter."""

from __future__ import annotations

import pytest

from hipsynth.synth.generate.extent import Extent, count_groups, cpp, larger_size

n, m = Extent(1000, "n"), Extent(7, "m")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (n, "n"),
        (n * 1, "n"),
        (n + 0, "n"),
        (n // 1, "n"),
        (3 * n, "n * 3"),
        (3 + n, "n + 3"),
        (count_groups(n, 256), "(n + 255) / 256"),
        (count_groups(n, 1), "n"),
        (count_groups(n, m * 64), "(n + (m * 64 - 1)) / (m * 64)"),
        (count_groups(n, 16) * 16, "(n + 15) / 16 * 16"),
        (m * (n // 16), "m * (n / 16)"),
        (n - (m - 1), "n - (m - 1)"),
        (n + (n - m), "n + (n - m)"),
        ((n - 1) * m + 1, "(n - 1) * m + 1"),
        (larger_size(n, m), "n > m ? n : m"),
        (larger_size(n, m + 1) * 4, "(n > m + 1 ? n : m + 1) * 4"),
    ],
)
def test_the_text_of_a_size(size: int, text: str) -> None:
    assert cpp(size) == text


def test_what_is_no_size_is_a_plain_number() -> None:
    for plain in (5 - n, 5000 // n, n % 3, -n, larger_size(3, 4)):
        assert type(plain) is int
    for too_large in (n * n * n * n, n // 2**31, n + 2**31, larger_size(n, 2**31)):
        assert type(too_large) is int
    assert cpp(12) == "12"
