"""The formula evaluator agrees with Python's own arithmetic on generated expressions."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from hipsynth.core.expressions import evaluate_expression, parse_expression

NAMES = {"TCC_HIT": 70029.0, "TCC_MISS": 131082.0, "x": 0.5, "zero": 0.0}

leaves = st.one_of(st.sampled_from(sorted(NAMES)), st.integers(0, 10**6).map(str), st.sampled_from(["0.25", "1e3"]))


def combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"{t[0]} {t[1]} {t[2]}"),
        inner.map(lambda t: f"(-{t})"),
        st.tuples(st.sampled_from(["max", "min"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
    )


@given(st.recursive(leaves, combine, max_leaves=12))
def test_same_value_as_python(text: str) -> None:
    try:
        expected: float | None = float(eval(text, {"__builtins__": {}}, {**NAMES, "max": max, "min": min}))
    except (ZeroDivisionError, OverflowError):
        expected = None
    found = evaluate_expression(parse_expression(text), NAMES.get)
    if expected is None or not math.isfinite(expected):
        assert found is None
    else:
        assert found is not None and math.isclose(found, expected, rel_tol=1e-12, abs_tol=1e-12)
