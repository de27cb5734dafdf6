"""Do simulated kernels agree with hardware recordings, and do the published errors match the measured ones?"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import pytest

from hipsynth.profiling.uncertainty import expected_error
from studies.validation import __main__ as command
from studies.validation import summary
from studies.validation.frame import (
    FOLDER,
    ComparisonRow,
    ComparisonTable,
    Study,
    check_mean_error,
    check_median_error,
    check_rank_correlation,
    list_studies,
)

# Published errors may differ from measured ones by this much, in their own unit, before the page must be written anew.
FRESH = 1.0


@functools.cache
def tables(name: str) -> list[ComparisonTable]:
    (study,) = [study for study in list_studies() if study.name == name]
    return list(study.build_tables())


def by_study() -> list[object]:
    marks = {True: (), False: (pytest.mark.full,)}
    return [pytest.param(study, id=study.name, marks=marks[study.quick]) for study in list_studies()]


@pytest.mark.parametrize("study", by_study())
def test_nothing_is_outside_the_allowed_error(study: Study) -> None:
    assert [text for table in tables(study.name) for text in table.find_failures()] == []


@pytest.mark.parametrize("study", by_study())
def test_every_table_asserts_something(study: Study) -> None:
    """A table whose rows are all shown only has a bound for the whole."""
    bare = [t.title for t in tables(study.name) if not t.checks and all(row.allowed is None for row in t.rows)]
    assert not bare


def by_quantity(samples: Iterable[summary.ErrorSample]) -> dict[tuple[str, str, str, str], tuple[float, ...]]:
    """Errors by the key of a sample."""
    return {(s.device, s.quantity, s.unit, s.kernels): s.errors for s in samples}


@pytest.mark.parametrize("study", by_study())
def test_published_errors_match_the_measured_ones(study: Study) -> None:
    now = by_quantity(summary.group_samples(study.name, tables(study.name)))
    then = by_quantity(sample for sample in summary.read_errors() if sample.study == study.name)
    remedy = f"run python -m studies.validation --only {study.name}"
    assert set(now) == set(then), remedy
    for key, errors in now.items():
        assert errors == pytest.approx(then[key], abs=FRESH, rel=0.01), f"{key}: {remedy}"


def test_the_summary_matches_the_measured_errors() -> None:
    samples = summary.read_errors()
    found = summary.aggregate_samples(samples)
    remedy = "run python -m studies.validation --summary"
    assert expected_error.TABLE_PATH.read_text() == summary.render_errors(found), remedy
    page = (command.DOCS / "validation.md").read_text()
    assert page == command.replace_section(page, summary.render_section(samples)), remedy
    assert expected_error.parse_evidence(summary.render_errors(found)) == found


def test_features_of_kernels_without_recorded_times_are_only_counted() -> None:
    [hits] = [sample for sample in summary.read_errors() if sample.study == "xcd"]
    assert hits.quantity == "L2_Cache_Hit_Rate" and hits.features == () and "half precision" in hits.counted


def test_every_study_has_its_page_and_its_recording() -> None:
    assert list_studies()
    for study in list_studies():
        assert (command.DOCS / "validation" / f"{study.name}.md").exists(), study.name
        assert (FOLDER / "recorded" / f"{study.name}.toml").exists(), study.name
        assert study.shows.strip() and study.title


def test_errors_and_checks() -> None:
    rows = [ComparisonRow("x", 100, 110, 20), ComparisonRow("x", 50, 45, 20), ComparisonRow("x", 200, 260, 20)]
    assert [row.error for row in rows] == [10, -10, 30] and [row.is_met for row in rows] == [True, True, False]
    assert ComparisonRow("hit", 40, 41.5, 1.0, points=True).error == 1.5
    assert (
        not ComparisonRow("zero", 0, 1, 5).is_met
        and ComparisonRow("zero", 0, 0, 0).is_met
        and ComparisonRow("shown", 1, 9).is_met
    )
    assert check_median_error(rows, 10).is_met and not check_mean_error(rows, 10).is_met
    assert check_rank_correlation(rows, 1.0).value == pytest.approx(1)
    assert (
        check_rank_correlation(
            [ComparisonRow("x", 1, 3), ComparisonRow("x", 2, 2), ComparisonRow("x", 3, 1)], 0.9
        ).is_met
        is False
    )
    table = ComparisonTable("t", "mi250", "somewhere", tuple(rows), "toy", checks=(check_median_error(rows, 5),))
    assert len(table.find_failures()) == 2 and "median error" in table.find_failures()[1]
