"""Questions about launches: which parameters `--value` may name."""

from __future__ import annotations

import pytest

from hipsynth.core.errors import UsageError
from hipsynth.source.harness import check_argument_names
from hipsynth.source.outline import parameter_names

DECLARED_TWICE = """
__global__ void scale(float*, int);
__global__ void scale(const float* __restrict__ in, int n = 4) { }
"""


def test_names_are_those_of_the_declaration_that_has_them() -> None:
    assert parameter_names(DECLARED_TWICE, "scale") == ("in", "n")
    assert parameter_names("__global__ void none() {}", "none") == ()
    assert parameter_names(DECLARED_TWICE, "other") == ()


def test_a_value_for_a_parameter_that_no_kernel_has_is_refused() -> None:
    check_argument_names(DECLARED_TWICE, ["n"])
    with pytest.raises(UsageError, match="m: no kernel has an argument of this name") as caught:
        check_argument_names(DECLARED_TWICE, ["n", "m"])
    assert "in, n" in caught.value.remedy
