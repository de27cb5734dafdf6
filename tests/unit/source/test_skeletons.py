"""Skeletons: what two programs may differ in and still count as the same."""

from __future__ import annotations

import pytest

from hipsynth.source.skeletons import control_skeleton, token_skeleton

BASE = """
#include <hip/hip_runtime.h>
// adds
__global__ void add(const float* a, float* b, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float x = a[i] * 2.0f;
    b[i] = x + 1.5e-3f;
  }
}
int main() { add<<<1, 64>>>(nullptr, nullptr, 64); }
"""


@pytest.mark.parametrize(
    ("before", "after", "tokens", "control"),
    [
        ("add", "sum_of", True, True),
        ("2.0f", "17", True, True),
        ("// adds", "/* another } comment; */", True, True),
        ("<<<1, 64>>>(nullptr", "<<<7, 64>>>(0", True, True),  # host code
        ("float x = a[i] * 2.0f;", "float x = a[i] * 2.0f; float y = x * x;", False, True),
        ("b[i] = x + 1.5e-3f;", "b[i] = x + 1.5e-3f; b[i] = x + 2;", False, True),  # a repeat
        ("if (i < n)", "while (i < n)", False, False),
        ("b[i] = x", "b[i] -= x", False, False),
        ("threadIdx.x", "threadIdx.y", False, True),  # in a declaration
    ],
)
def test_what_counts(before: str, after: str, tokens: bool, control: bool) -> None:
    other = BASE.replace(before, after)
    assert other != BASE
    assert (token_skeleton(other) == token_skeleton(BASE)) is tokens
    assert (control_skeleton(other) == control_skeleton(BASE)) is control


def test_swapped_names_are_another_program() -> None:
    assert token_skeleton(BASE) != token_skeleton(BASE.replace("a[i]", "b[i]"))


def test_any_text_has_a_skeleton() -> None:
    for text in ("", "}}} ((", '"unterminated', "/* open", "__global__"):
        assert len(token_skeleton(text)) == len(control_skeleton(text)) == 16


def test_what_stays_open_takes_no_time_without_end() -> None:
    """Comments that are not closed, whose words count, and blank lines before no directive."""
    text = "int a; /* int b;" + " /*" * 100_000
    assert token_skeleton(text) == token_skeleton(text.replace("/*", "/ *"))
    assert token_skeleton("\n" * 200_000 + "int a;") == token_skeleton("int a;")
