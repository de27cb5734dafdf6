"""Predicts many variants of one program at once: problem sizes, launch shapes, arguments, flags and devices.

The host code runs once for each command line, launches along the size that varies most are interpolated where that is
checked to be right (profiling.preview.sweep), and the learned correction is asked once.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice

from hipsynth.core.time_limit import OutOfTime, require_time
from hipsynth.profiling.preview.interpret import Code, Interpreter, Preview
from hipsynth.profiling.preview.launch import DeviceLaunch
from hipsynth.profiling.preview.programs import PreviewFailure, failures_of_refused, find_launches, select_launches
from hipsynth.profiling.preview.record import Recording
from hipsynth.profiling.preview.size_rules import record_lines
from hipsynth.profiling.preview.sweep import Line, SweptPreview
from hipsynth.training.analytic.predict import (
    AnalyticPrediction,
    AnalyticPredictor,
    LaunchAssumptions,
    compile_for_preview,
    launches_of,
    unknown_kernel,
)
from hipsynth.training.models.documents import KernelPrediction, VariantDocument

Coordinate = float | str | tuple[int, int, int] | None


@dataclass(frozen=True)
class Variant:
    """One build on one device, with what to assume of its launches."""

    arch: str
    flags: str
    device: str
    question: LaunchAssumptions

    def coordinates(self) -> dict[str, Coordinate]:
        """The numbers in which variants of one build on one device may differ, by name."""
        question = self.question
        grid: Coordinate = question.grid
        if question.grid is not None and question.grid[1:] == (1, 1):
            grid = question.grid[0]
        values_by_name: dict[str, Coordinate] = {"grid": grid, "block": question.block}
        values_by_name |= {f"arg{n}": _parse_number(text) for n, text in enumerate(question.arguments, 1)}
        return values_by_name | {f"value {name}": value for name, value in question.values.items()}


@dataclass(frozen=True)
class VariantPrediction:
    """A variant's prediction; `interpolated`: how many of its kernels were not interpreted themselves."""

    variant: Variant
    prediction: AnalyticPrediction
    interpolated: int

    def document(self) -> VariantDocument:
        """The row of `synth predict --sweep --json` for this variant."""
        question, prediction = self.variant.question, self.prediction
        return VariantDocument(
            arch=prediction.arch,
            device=prediction.device,
            flags=prediction.flags,
            grid=question.grid,
            block=question.block,
            values=question.values,
            arguments=question.arguments,
            duration_ns=prediction.main.duration_ns if prediction.main else None,
            interpolated=self.interpolated,
            kernels=prediction.kernels,
            notes=prediction.notes,
        )


def predict_variants(predictor: AnalyticPredictor, source: str, variants: Sequence[Variant]) -> list[VariantPrediction]:
    """The predictions of the variants of a program, in their order; builds after a limit of time was reached have none,
    and say so. Raises as AnalyticPredictor.predict, and OutOfTime if no build is finished."""
    builds: dict[tuple[str, str, str], list[int]] = {}
    for i, variant in enumerate(variants):
        builds.setdefault((variant.arch, variant.flags, variant.device), []).append(i)
    predictions: dict[int, VariantPrediction] = {}
    with _pause_garbage_collection():
        for build, members in builds.items():
            variants_asked = [variants[i] for i in members]
            try:
                require_time()
                answers = _one_build(predictor, source, build, variants_asked)
            except OutOfTime:
                if not predictions:
                    raise
                answers = [_abstain_variant(predictor, source, variant) for variant in variants_asked]
            predictions |= dict(zip(members, answers, strict=True))
    return [predictions[i] for i in range(len(variants))]


def _abstain_variant(predictor: AnalyticPredictor, source: str, variant: Variant) -> VariantPrediction:
    return VariantPrediction(
        variant, predictor.timed_out_answer(source, variant.arch, variant.flags, variant.device), 0
    )


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Without looking for cycles of garbage: answers have none, and the search takes a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _one_build(
    predictor: AnalyticPredictor, source: str, build: tuple[str, str, str], variants: Sequence[Variant]
) -> list[VariantPrediction]:
    start = time.monotonic()
    arch, flags, device = build
    code, chosen = compile_for_preview(source, arch, flags, device, variants[0].question.project)
    interpreter = Interpreter(code, chosen)
    recordings = _recordings(source, interpreter, [variant.question for variant in variants])
    assumed = [launches_of(source, interpreter, v.question, recordings[v.question.arguments]) for v in variants]
    swept = _sweep_launches(interpreter, variants, [select_launches(launches) for launches, _ in assumed])
    kernels = _predict_kernels(predictor, chosen.name, swept)
    refused = {line: _refused_kernels(recording, code) for line, recording in recordings.items()}
    seconds = (time.monotonic() - start) / len(variants)
    answers = []
    for variant, kernel_predictions, swept_kernels, (_, notes) in zip(variants, kernels, swept, assumed, strict=True):
        all_kernels = (*kernel_predictions, *refused[variant.question.arguments])
        prediction = predictor.describe_program(all_kernels, notes, chosen.name, flags, seconds)
        answers.append(
            VariantPrediction(variant, prediction, sum(not launch.interpreted for _, launch in swept_kernels))
        )
    return answers


def _refused_kernels(recording: Recording, code: Code) -> tuple[KernelPrediction, ...]:
    """Abstentions for the kernels that the device does not start as the host code launches them."""
    return tuple(map(unknown_kernel, failures_of_refused(recording, code)))


def _recordings(
    source: str, interpreter: Interpreter, questions: Sequence[LaunchAssumptions]
) -> dict[tuple[str, ...], Recording]:
    """The recorded launches by command line, the only part of the questions that they depend on."""
    first = questions[0]

    def record(line: tuple[str, ...]) -> Recording:
        return find_launches(source, interpreter, line, first.host, first.project)

    return record_lines(record, [question.arguments for question in questions])


def _sweep_launches(
    interpreter: Interpreter, variants: Sequence[Variant], launches: Sequence[Sequence[DeviceLaunch]]
) -> list[list[tuple[DeviceLaunch, SweptPreview]]]:
    """The preview of each launch of each variant. A line is what differs in the number that varies most alone."""
    coordinates = [variant.coordinates() for variant in variants]
    axis = _widest_coordinate(coordinates)
    lines: dict[Hashable, list[tuple[float, int, int]]] = {}
    for i, (place, launch_list) in enumerate(zip(coordinates, launches, strict=True)):
        number = place.get(axis)
        on_line = isinstance(number, int | float)
        rest = tuple(sorted((name, str(value)) for name, value in place.items() if name != axis or not on_line))
        for k, launch in enumerate(launch_list):
            key = rest, k, launch.symbol, launch.block, launch.dynamic_lds, len(launch.pointers)
            lines.setdefault(key, []).append((float(number) if isinstance(number, int | float) else 0.0, i, k))
    swept: dict[tuple[int, int], SweptPreview] = {}
    for members in lines.values():
        members.sort()
        line = Line(interpreter, [number for number, _, _ in members], [launches[i][k] for _, i, k in members])
        swept |= {(i, k): preview for (_, i, k), preview in zip(members, line.previews(), strict=True)}
    return [[(launch, swept[i, k]) for k, launch in enumerate(launch_list)] for i, launch_list in enumerate(launches)]


def _widest_coordinate(coordinates: Sequence[Mapping[str, Coordinate]]) -> str:
    """The coordinate with the most different numbers."""
    numbers: dict[str, set[float]] = {}
    for place in coordinates:
        for name, value in place.items():
            if isinstance(value, int | float):
                numbers.setdefault(name, set()).add(value)
    return max(sorted(numbers), key=lambda name: len(numbers[name]), default="")


def _predict_kernels(
    predictor: AnalyticPredictor, device: str, swept: Sequence[Sequence[tuple[DeviceLaunch, SweptPreview]]]
) -> list[tuple[KernelPrediction, ...]]:
    """The kernels of each variant, those without a preview last; the correction is asked for all at once."""
    previews_swept = [[p.preview for _, p in launches if isinstance(p.preview, Preview)] for launches in swept]
    corrected = iter(predictor.correct_previews(list(chain.from_iterable(previews_swept)), device))
    return [
        (
            *islice(corrected, len(previews)),
            *(unknown_kernel(p.preview) for _, p in launches if isinstance(p.preview, PreviewFailure)),
        )
        for launches, previews in zip(swept, previews_swept, strict=True)
    ]


def _parse_number(text: str) -> int | str:
    return int(text) if text.isdecimal() else text
