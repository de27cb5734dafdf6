"""Subscripts of work-groups: which elements they are, and what is not known."""

from __future__ import annotations

import pytest

from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.kernel_fusion.group_places import covers_elements, keeps_apart, parse_subscript

OWN = "blockIdx.x*blockDim.x+threadIdx.x"


def test_groups_keep_to_elements_of_their_own() -> None:
    trees = [parse_subscript(OWN), parse_subscript("(blockIdx.x*blockDim.x+threadIdx.x)^1")]
    assert keeps_apart(trees, 64, {}) == 64 and covers_elements(trees, 64, {}, 64)
    assert keeps_apart([parse_subscript("blockIdx.x*n+threadIdx.x%n")], 64, {"n": 16}) == 16
    assert keeps_apart([parse_subscript(f"({OWN})/2*2+1")], 64, {}) == 64
    assert keeps_apart([parse_subscript("threadIdx.x")], 64, {}) == 0


@pytest.mark.parametrize("name", ["lane", "group", "lanes"])
def test_parameters_of_any_name_are_no_coordinates(name: str) -> None:
    with pytest.raises(NotUnderstood):
        keeps_apart([parse_subscript(f"blockIdx.x*64+{name}")], 64, {})


@pytest.mark.parametrize(
    "text",
    ["18446744073709551615+threadIdx.x", "threadIdx.x+n", "threadIdx.x%0", "threadIdx.x&&1", "f(threadIdx.x)"],
)
def test_subscripts_of_no_known_place_are_refused(text: str) -> None:
    with pytest.raises(NotUnderstood):
        keeps_apart([parse_subscript(text)], 64, {"n": 1 << 64})


@pytest.mark.parametrize("text", ["", None, "(threadIdx.x-1)/2", "threadIdx.x<<2", "threadIdx.x+", "(" * 5000])
def test_subscripts_of_another_form_are_refused(text: str | None) -> None:
    with pytest.raises(NotUnderstood):
        parse_subscript(text)
