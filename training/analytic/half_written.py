"""Predictions of code that does not compile: of its completion, else of the text that compiled last, else of its words.

All three are guesses at what the author means; the result says which one it is. Intervals of a completion and of words
are as wide as such answers were wrong (half_written.toml, `python -m studies.half_written`; text_model.py). Those of
the text that compiled last are of that text, and say nothing of what changed since.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth.core.cache import cache_dir
from hipsynth.core.errors import BadInput, CompileFailed, MissingDependency
from hipsynth.core.files import write_whole
from hipsynth.core.installation import set_up_by
from hipsynth.core.reasons import Reason
from hipsynth.core.tables import read_table
from hipsynth.profiling.metrics import is_hit_rate, roofline
from hipsynth.profiling.metrics.uncertainty import WIDEST
from hipsynth.profiling.preview.completed import CompletedProgram, complete_program
from hipsynth.source.outline import outline_kernels
from hipsynth.toolchain.diagnostics import read_compiler_errors
from hipsynth.training.analytic.model import DURATION
from hipsynth.training.analytic.predict import AnalyticPredictor, LaunchAssumptions
from hipsynth.training.analytic.text_model import TEXT_MODEL, TextModel
from hipsynth.training.models.documents import KernelPrediction, PredictionResult

WIDTHS = Path(__file__).with_name("half_written.toml")
COMPLETED = "it does not compile: the prediction is of this text with a guessed completion"
DELETED = "it does not compile: the prediction is of this text without the statements that do not"
LAST_COMPILED = "it does not compile: the prediction is of the text that compiled last"
TEXT = "it does not compile: the prediction is from its words alone"
MOST_KEPT_BYTES = 1 << 20


def predict_half_written(
    source: str,
    target: tuple[str, str, str],
    question: LaunchAssumptions,
    predictor: AnalyticPredictor,
    failure: CompileFailed,
    last_compiled: str = "",
) -> PredictionResult:
    """The prediction of a text that clang rejected with `failure`, for (arch, flags, device). Raises OutOfTime, and
    `failure` for a text without a kernel, such as host code that loads its kernels."""
    arch, flags, device = target
    start = time.monotonic()
    messages = _first_error(failure)
    completed = complete_program(source, arch, flags, failure, question.project)
    if completed is not None:
        result = predictor.predict_code(completed.text, completed.code, device, flags, question, start).document()
        return _widen(
            replace(result, source="completed", notes=(_completion_note(completed), *messages, *result.notes))
        )
    if last_compiled and last_compiled != source:
        try:
            result = predictor.predict(last_compiled, arch, flags, device, question).document()
            return replace(result, source="last_compiled", notes=(LAST_COMPILED, *messages, *result.notes))
        except BadInput:
            pass  # it compiled for another target
    if not outline_kernels(source):
        raise failure
    return _read_words(source, target, messages, start)


def _completion_note(completed: CompletedProgram) -> str:
    return DELETED if completed.deleted else COMPLETED


def _first_error(failure: CompileFailed) -> tuple[str, ...]:
    """What the compiler says first."""
    errors = read_compiler_errors(failure.diagnostics)
    return (f"the compiler, line {errors[0].line}: {errors[0].message}",) if errors else ()


# --- intervals


@dataclass(frozen=True)
class WidthTable:
    """The content of half_written.toml. `completed`: value -> half the width of its interval, in natural logarithms,
    for hit rates in points."""

    completed: Mapping[str, float]


@functools.cache
def _load_widths() -> Mapping[str, float]:
    return read_table(WIDTHS, WidthTable).completed


def _widen(result: PredictionResult) -> PredictionResult:
    """The result with intervals that hold what a completion may get wrong, too."""
    return replace(result, kernels=tuple(map(_widen_kernel, result.kernels)))


def _widen_kernel(kernel: KernelPrediction) -> KernelPrediction:
    values: Mapping[str, float | None] = {**kernel.metrics, DURATION: kernel.duration_ns}
    intervals = dict(kernel.intervals)
    for name, width in _load_widths().items():
        value = values.get(name)
        if value is None:
            continue
        low, high = intervals.get(name, (value, value))
        if is_hit_rate(name):
            intervals[name] = max(0.0, min(low, value - width)), min(100.0, max(high, value + width))
        else:
            intervals[name] = min(low, value * math.exp(-width)), max(high, value * math.exp(width))
    return replace(kernel, intervals=_without_points(intervals))


def _without_points(intervals: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """The intervals that have a width: a factor says nothing of a value that is 0, where a statement may be missing."""
    return {name: (low, high) for name, (low, high) in intervals.items() if low < high}


# --- the text that compiled last


def _place_of(path: Path) -> Path:
    return cache_dir() / "last-compiled" / hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]


def keep_compiled_text(path: Path, text: str) -> None:
    """Keeps a text that compiled, for predictions of the same file while it does not. A failure is no error."""
    place = _place_of(path)
    with contextlib.suppress(OSError, BadInput):
        if len(text) <= MOST_KEPT_BYTES and not (place.exists() and place.read_text(errors="replace") == text):
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, text)


def compiled_text_of(path: Path) -> str:
    """The text of a file when it compiled last, "" if it is not known."""
    place = _place_of(path)
    return place.read_text(errors="replace") if place.is_file() else ""


# --- words alone


@functools.cache
def _text_model() -> TextModel:
    if not TEXT_MODEL.exists():
        raise MissingDependency(f"{TEXT_MODEL}: no model there", remedy=set_up_by())
    return TextModel.load()


def _read_words(source: str, target: tuple[str, str, str], messages: tuple[str, ...], start: float) -> PredictionResult:
    arch, flags, device = target
    kernels = tuple(
        _read_kernel(source, target, name) for name in {kernel.name: kernel for kernel in outline_kernels(source)}
    )
    longest = max(kernels, key=lambda kernel: kernel.duration_ns or 0.0)
    metrics = {name: value for name, value in longest.metrics.items() if value is not None}
    return PredictionResult(
        arch=arch,
        flags=flags,
        device=device,
        model=str(TEXT_MODEL),
        metrics=metrics,
        roofline=roofline.locate_kernel(metrics, device),
        seconds=round(time.monotonic() - start, 4),
        notes=(TEXT, *messages),
        kernels=kernels,
        plot=roofline.plot_kernels(device, [kernel.plotted() for kernel in kernels]),
        source="text",
    )


def _read_kernel(source: str, target: tuple[str, str, str], name: str) -> KernelPrediction:
    kernel = next(outline for outline in outline_kernels(source) if outline.name == name)
    answer = _text_model().predict(source, kernel, *target)
    low, high = answer.intervals.get(DURATION, (answer.duration_ns, answer.duration_ns))
    width = math.log(high / low) / 2 if low > 0 else math.inf
    unsure = width > WIDEST
    return KernelPrediction(
        name=name,
        metrics=answer.metrics,
        duration_ns=answer.duration_ns,
        intervals=_without_points(answer.intervals),
        abstained=unsure,
        reason=f"read from words alone, the duration is uncertain by a factor of {math.exp(width):.1f}"
        if unsure
        else "",
        reason_code=Reason.UNCERTAIN if unsure else Reason.NONE,
        grid=None,
        block=None,
        occupancy=None,
    )
