"""Which of a run's previewed launches a label is the mean of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason
from hipsynth.profiling.preview.interpret import Code, Preview
from hipsynth.profiling.preview.launch import DeviceLaunch
from hipsynth.profiling.preview.programs import ProgramPreviews
from hipsynth.training.analytic import baseline, examples
from hipsynth.training.analytic.baseline import AnalyticBaseline
from hipsynth.training.analytic.examples import (
    BuildSamples,
    PreviewFeatures,
    job_limit_s,
    launches_of,
    matching_preview,
    mean_quantities,
    previews_of,
)
from hipsynth.training.data.dataset import LabelFacts, LabelledSample


def preview_of(instance: str, duration_ns: float, times: int = 1, groups: int = 1) -> Preview:
    launch = DeviceLaunch(instance, instance, (groups, 1, 1), (64, 1, 1), 0, b"", times=times)
    return Preview(launch, {}, {}, duration_ns, {}, "launch", {}, {}, {}, 0, 1, False, False, instance=instance)


def sample_of(dispatches: int | None) -> LabelledSample:
    facts = LabelFacts(dispatches=dispatches)
    return LabelledSample(
        "id", "lineage", "family", "generated", "text", "gfx942", "-O3", "mi300x", "a", {}, facts=facts
    )


def sample_of_shape(groups: int) -> LabelledSample:
    return replace(sample_of(1), facts=LabelFacts(dispatches=1, grid=(groups, 1, 1), block=(64, 1, 1)))


def test_a_run_without_an_answer_leaves_the_others_of_its_build(monkeypatch: pytest.MonkeyPatch) -> None:
    def preview_program(
        text: str, code: Code, device: str, arguments: tuple[str, ...], project: None
    ) -> ProgramPreviews:
        while arguments == ("long",):
            pass
        if arguments == ("wrong",):
            raise BadInput("no such size", reason=Reason.HOST_CRASH)
        return ProgramPreviews([FIRST], [])

    monkeypatch.setattr(examples, "preview_program", preview_program)
    monkeypatch.setattr(examples, "device_code", lambda *_, **__: Code(b"", "", "-O3"))
    monkeypatch.setattr(examples, "PREDICTION_SECONDS", 0.05)
    sample = replace(sample_of(1), program_text="text")
    build = BuildSamples(tuple(replace(sample, arguments=size) for size in ("8", "long", "wrong", "9")))
    previews = previews_of(build)
    assert [len(each.previews) for each in previews] == [1, 0, 0, 1]
    assert [failure.code for each in previews for failure in each.failures] == [Reason.TIMEOUT, Reason.HOST_CRASH]
    assert job_limit_s([build, BuildSamples((sample,))]) == 4 * job_limit_s([BuildSamples((sample,))])


FIRST, OTHER, LATER = preview_of("a", 10.0, times=4), preview_of("b", 99.0), preview_of("a", 40.0, times=2)


@pytest.mark.parametrize(
    ("dispatches", "times"),
    [(6, [4, 2]), (5, [3, 2]), (3, [2, 1]), (1, [1])],
)
def test_a_label_is_the_mean_of_the_first_launches(dispatches: int, times: list[int]) -> None:
    """A program makes the same launches in each of its rounds."""
    counted = launches_of([FIRST, OTHER, LATER], FIRST, sample_of(dispatches))
    assert [launch is part for (launch, _), part in zip(counted, (FIRST, LATER), strict=False)] == [True] * len(times)
    assert [number for _, number in counted] == times


def test_a_label_of_one_shape_is_the_mean_of_its_launches() -> None:
    wide = preview_of("a", 70.0, times=3, groups=9)
    launches = [FIRST, wide, OTHER, LATER]
    assert launches_of(launches, wide, sample_of(3)) == [(wide, 3)]
    assert launches_of(launches, wide, sample_of(2)) == [(wide, 2)]
    assert launches_of(launches, wide, sample_of(9)) == [(FIRST, 4), (wide, 3), (LATER, 2)]


def test_a_label_of_a_budget_is_of_the_launches_that_were_counted() -> None:
    """The others of its launches have the counters of the last one."""
    sample = replace(sample_of(6), facts=LabelFacts(dispatches=6, reused=4))
    assert launches_of([FIRST, OTHER, LATER], FIRST, sample) == [(FIRST, 1), (LATER, 5)]
    cold, warm, row = preview_of("a", 90.0), preview_of("a", 60.0), preview_of("a", 61.0, times=100)
    row = replace(row, launch=replace(row.launch, in_a_row=99), by_time=(cold, warm))
    for reused, launches in ((16, [(cold, 17)]), (14, [(cold, 1), (warm, 16)])):
        sample = replace(sample_of(17), facts=LabelFacts(dispatches=17, reused=reused))
        assert launches_of([row], row, sample) == launches


@pytest.mark.parametrize("dispatches", [None, 0])
def test_a_label_of_an_unknown_number_of_launches_is_compared_with_the_one_like_it(dispatches: int | None) -> None:
    assert launches_of([FIRST, OTHER, LATER], LATER, sample_of(dispatches)) == [(LATER, 1)]


def test_a_label_of_more_launches_than_are_known_is_the_mean_of_its_shape() -> None:
    wide = preview_of("a", 70.0, times=3, groups=9)
    assert launches_of([FIRST, wide, OTHER, LATER], LATER, sample_of(12)) == [(FIRST, 4), (LATER, 2)]


def test_a_label_of_some_of_the_times_of_a_launch_is_compared_with_these() -> None:
    cold, warm = preview_of("a", 16.0, times=4), preview_of("a", 8.0, times=4)
    repeated = replace(FIRST, by_time=(cold, warm))
    assert launches_of([repeated, LATER], LATER, sample_of(1)) == [(cold, 1)]
    assert launches_of([repeated, LATER], LATER, sample_of(5)) == [(cold, 1), (warm, 2), (LATER, 2)]
    assert launches_of([repeated, LATER], LATER, sample_of(6)) == [(repeated, 4), (LATER, 2)]


def test_a_launch_that_follows_itself_is_made_as_often_before_the_next() -> None:
    again = replace(FIRST, launch=replace(FIRST.launch, in_a_row=3))
    assert launches_of([again, LATER], LATER, sample_of(5)) == [(again, 4), (LATER, 1)]


def test_a_preview_stands_for_launches_without_one() -> None:
    first = replace(FIRST, launch=replace(FIRST.launch, times=1, stands_for=7))
    assert launches_of([first, OTHER, LATER], LATER, sample_of(8)) == [(first, 7), (LATER, 1)]


def test_a_launch_of_another_shape_answers_no_label() -> None:
    narrow, wide = preview_of("a", 10.0, groups=3), preview_of("a", 70.0, groups=9)
    launched = [sample_of_shape(groups) for groups in (9, 5)]
    assert [matching_preview([narrow, wide], sample) for sample in launched] == [wide, None]
    assert matching_preview([narrow, wide], sample_of(1)) is narrow, "the label's shape is not known"


def test_each_launch_counts_as_often_as_it_was_made() -> None:
    assert mean_quantities([FIRST, OTHER, LATER], FIRST, sample_of(6))["duration"] == pytest.approx(20.0)


def test_labels_of_one_kernel_in_two_shapes_have_their_own_previews(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [sample_of_shape(groups) for groups in (48, 1)]

    def preview_each(samples: Sequence[LabelledSample], workers: int, journal: object) -> list[PreviewFeatures | None]:
        return [PreviewFeatures({"groups": float(sample.facts.grid[0])}, {}, "", 0.0) for sample in samples]

    monkeypatch.setattr(baseline, "preview_samples", preview_each)
    scored = AnalyticBaseline(workers=1)
    groups = [preview.features["groups"] for preview in scored.previews(shapes) if preview is not None]
    assert groups == [48.0, 1.0]
    monkeypatch.setattr(baseline, "preview_samples", lambda samples, workers, journal: [None for _ in samples])
    assert scored.previews(shapes[1:])[0] is not None, "it is asked for once"
