"""Questions about launches: which parameters `--value` may name."""

from __future__ import annotations

import pytest

from hipsynth.core.errors import UsageError
from hipsynth.source.outline import parameter_names
from hipsynth.training.analytic.predict import check_values

DECLARED_TWICE = """
__global__ void scale(float*, int);
__global__ void scale(const float* __restrict__ in, int n = 4) { }
"""


def test_names_are_those_of_the_declaration_that_has_them() -> None:
    assert parameter_names(DECLARED_TWICE, "scale") == ("in", "n")
    assert parameter_names("__global__ void none() {}", "none") == ()
    assert parameter_names(DECLARED_TWICE, "other") == ()


def test_a_value_for_a_parameter_that_no_kernel_has_is_refused() -> None:
    check_values(DECLARED_TWICE, ["n"])
    with pytest.raises(UsageError, match="no kernel has a parameter m") as caught:
        check_values(DECLARED_TWICE, ["n", "m"])
    assert "in, n" in caught.value.cause
