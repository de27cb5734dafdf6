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

from hipsynth.core.time_limit import OutOfTime, require_time
from hipsynth.profiling.preview.interpret import Interpreter, Preview
from hipsynth.profiling.preview.launch import DeviceLaunch
from hipsynth.profiling.preview.programs import MOST_PREVIEWS, PreviewFailure, find_launches
from hipsynth.profiling.preview.record import Recording
from hipsynth.profiling.preview.size_rules import record_lines
from hipsynth.profiling.preview.sweep import Line, SweptPreview
from hipsynth.simulator.devices import load_device
from hipsynth.training.analytic.features import launch_features, preview_quantities
from hipsynth.training.analytic.predict import (
    AnalyticPrediction,
    AnalyticPredictor,
    LaunchAssumptions,
    compile_for_preview,
    describe_kernel,
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
        """What may differ between variants of one build on one device."""
        asked = self.question
        grid: Coordinate = asked.grid
        if asked.grid is not None and asked.grid[1:] == (1, 1):
            grid = asked.grid[0]
        found: dict[str, Coordinate] = {"grid": grid, "block": asked.block}
        found |= {f"arg{n}": _parse_number(text) for n, text in enumerate(asked.arguments, 1)}
        return found | {f"value {name}": value for name, value in asked.values.items()}


@dataclass(frozen=True)
class VariantPrediction:
    """A variant's prediction; `interpolated`: how many of its kernels were not interpreted themselves."""

    variant: Variant
    prediction: AnalyticPrediction
    interpolated: int

    def document(self) -> VariantDocument:
        asked, found = self.variant.question, self.prediction
        return VariantDocument(
            arch=found.arch,
            device=found.device,
            flags=found.flags,
            grid=asked.grid,
            block=asked.block,
            values=asked.values,
            arguments=asked.arguments,
            duration_ns=found.main.duration_ns if found.main else None,
            interpolated=self.interpolated,
            kernels=found.kernels,
            notes=found.notes,
        )


def predict_variants(predictor: AnalyticPredictor, source: str, variants: Sequence[Variant]) -> list[VariantPrediction]:
    """The predictions of the variants of a program, in their order; builds after a limit of time was reached have none,
    and say so. Raises as AnalyticPredictor.predict, and OutOfTime if no build is finished."""
    builds: dict[tuple[str, str, str], list[int]] = {}
    for i, variant in enumerate(variants):
        builds.setdefault((variant.arch, variant.flags, variant.device), []).append(i)
    found: dict[int, VariantPrediction] = {}
    with _pause_garbage_collection():
        for build, members in builds.items():
            asked = [variants[i] for i in members]
            try:
                require_time()
                answers = _one_build(predictor, source, build, asked)
            except OutOfTime:
                if not found:
                    raise
                answers = [_abstain_variant(predictor, source, variant) for variant in asked]
            found |= dict(zip(members, answers, strict=True))
    return [found[i] for i in range(len(variants))]


def _abstain_variant(predictor: AnalyticPredictor, source: str, variant: Variant) -> VariantPrediction:
    return VariantPrediction(variant, predictor.unanswered(source, variant.arch, variant.flags, variant.device), 0)


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
    code, chosen = compile_for_preview(source, arch, flags, device)
    interpreter = Interpreter(code, chosen)
    recordings = _recordings(source, interpreter, [variant.question for variant in variants])
    asked = [launches_of(source, interpreter, v.question, recordings[v.question.arguments]) for v in variants]
    swept = _sweep_launches(interpreter, variants, [launches[:MOST_PREVIEWS] for launches, _ in asked])
    kernels = _predict_kernels(predictor, chosen.name, swept)
    seconds = (time.monotonic() - start) / len(variants)
    answers = []
    for variant, found, one, (_, notes) in zip(variants, kernels, swept, asked, strict=True):
        made = AnalyticPrediction(arch, flags, chosen.name, found, seconds, str(predictor.path), tuple(notes))
        answers.append(VariantPrediction(variant, made, sum(not launch.interpreted for _, launch in one)))
    return answers


def _recordings(
    source: str, interpreter: Interpreter, questions: Sequence[LaunchAssumptions]
) -> dict[tuple[str, ...], Recording]:
    """What the program's runs record, by command line; the questions differ in nothing else that matters to it."""
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
    for i, (place, made) in enumerate(zip(coordinates, launches, strict=True)):
        number = place.get(axis)
        on_line = isinstance(number, int | float)
        rest = tuple(sorted((name, str(value)) for name, value in place.items() if name != axis or not on_line))
        for k, launch in enumerate(made):
            key = rest, k, launch.symbol, launch.block, launch.dynamic_lds, len(launch.pointers)
            lines.setdefault(key, []).append((float(number) if isinstance(number, int | float) else 0.0, i, k))
    found: dict[tuple[int, int], SweptPreview] = {}
    for members in lines.values():
        members.sort()
        line = Line(interpreter, [number for number, _, _ in members], [launches[i][k] for _, i, k in members])
        found |= {(i, k): one for (_, i, k), one in zip(members, line.previews(), strict=True)}
    return [[(launch, found[i, k]) for k, launch in enumerate(made)] for i, made in enumerate(launches)]


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
    arch = load_device(device).arch
    seen = [one.preview for launches in swept for _, one in launches if isinstance(one.preview, Preview)]
    rows, quantities = [launch_features(p, device) for p in seen], [preview_quantities(p, arch) for p in seen]
    fixed = iter(predictor.model.predict(rows, quantities, [arch] * len(seen)))
    found = []
    for launches in swept:
        made = [one.preview for _, one in launches]
        good = [(p, next(fixed)) for p in made if isinstance(p, Preview)]
        answered = [describe_kernel(p, c.metrics, c.duration_ns, c.intervals) for p, c in good]
        found.append((*answered, *(unknown_kernel(one) for one in made if isinstance(one, PreviewFailure))))
    return found


def _parse_number(text: str) -> int | str:
    return int(text) if text.isdecimal() else text
