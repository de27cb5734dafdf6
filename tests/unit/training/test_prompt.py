"""Answers: two number formats, and a reader that says why an answer is not valid."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiling_samples import kernel

from hipsynth.core.errors import UsageError
from hipsynth.profiling import metrics
from hipsynth.training.data.number_formats import format_number
from hipsynth.training.data.prompt import answer_fields, parse_answer, prompt_messages, render_answer

VALUES = {metric: float(kernel().metrics[metric] or 0.0) for metric in metrics.answer_ids()}


@pytest.mark.parametrize(
    ("value", "fixed3", "sig3"),
    [
        (0.459, "0.459", "0.459"),
        (0.5, "0.500", "0.500"),
        (0.0, "0.000", "0.00"),
        (-0.0, "0.000", "0.00"),
        (0.000123456, "0.000", "0.000123"),
        (0.0000123456, "0.000", "1.23e-05"),
        (1.25, "1.250", "1.25"),
        (123.4, "123.400", "123"),
    ],
)
def test_number_formats(value: float, fixed3: str, sig3: str) -> None:
    assert format_number(value, "fixed3") == fixed3
    assert format_number(value, "sig3") == sig3


def test_unknown_format() -> None:
    with pytest.raises(UsageError, match="fixed4"):
        format_number(0.1, "fixed4")


@given(st.dictionaries(st.sampled_from(metrics.answer_ids()), st.floats(0, 1e6), min_size=12))
def test_three_significant_digits_read_back_within_half_a_percent(values: dict[str, float]) -> None:
    found = parse_answer(render_answer(values, "gfx942", "-O3", "sig3"), arch="gfx942", flags="-O3")
    assert found.valid
    for metric, value in values.items():
        assert found.values[metric] == pytest.approx(value, rel=0.0051, abs=1e-300)


def test_an_unknown_value_cannot_be_printed() -> None:
    with pytest.raises(ValueError, match="HBM_GFLOPS"):
        answer_fields({**VALUES, "HBM_GFLOPS": float("nan")}, "gfx90a", "-O3")
    with pytest.raises(KeyError):
        answer_fields({}, "gfx90a", "-O3")


def test_code_with_braces_and_fences_is_unchanged() -> None:
    code = "// {arch} ```json\nint x[] = {1, 2};\n"
    assert prompt_messages(code, "gfx90a", "-O3")[1]["content"].endswith("\n\n" + code)


def changed(**changes: object) -> str:
    fields: dict[str, object] = {**answer_fields(VALUES, "gfx90a", "-O3"), **changes}
    return json.dumps({key: value for key, value in fields.items() if value is not None})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON object"),
        ("I cannot know.", "no JSON object"),
        ("```json\n{\n```", "not JSON"),
        ("```json\n[1]\n```", "not a JSON object"),
        (changed(L1_Cache_Hit_Rate=None), "missing key L1_Cache_Hit_Rate"),
        (changed(L3_Cache="0.1"), "unknown key L3_Cache"),
        (changed(HBM_GFLOPS="fast"), "'fast' is not a number"),
        (changed(HBM_GFLOPS="nan"), "is not a number"),
        (changed(HBM_GFLOPS="1e999"), "is not a number"),
        (changed(HBM_GFLOPS=True), "is not a number"),
        (changed(HBM_GFLOPS=["0.1"]), "is not a number"),
        (changed(architecture="gfx942"), "instead of 'gfx90a'"),
        (changed(compiler_flags="-O2"), "instead of '-O3'"),
        ('{"architecture": "gfx90a", "architecture": "gfx90a"}', "twice"),
        (changed() + " and more", "not JSON"),
        (changed(HBM_GFLOPS=10**400), "is not a number"),
        ('{"architecture": ' + "[" * 100_000, "not JSON"),
    ],
)
def test_an_invalid_answer_says_why(text: str, why: str) -> None:
    found = parse_answer(text, arch="gfx90a", flags="-O3")
    assert not found.valid and why in "; ".join(found.errors)


def test_valid_values_of_an_invalid_answer_are_returned() -> None:
    found = parse_answer(changed(HBM_GFLOPS="?"))
    assert not found.valid and found.values["L1_Cache_Hit_Rate"] == pytest.approx(50.0)
    assert "HBM_GFLOPS" not in found.values


def test_json_numbers_and_objects_without_fence_are_accepted() -> None:
    found = parse_answer("Sure: " + changed(L1_Cache_Hit_Rate=0.25))
    assert found.valid and found.values["L1_Cache_Hit_Rate"] == 25.0
