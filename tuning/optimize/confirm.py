"""Times what a search kept once more, where sampling left open which program is the fastest, and at other shapes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hipsynth.profiling.backends.protocol import Target
from hipsynth.tuning.optimize.candidates import SearchState
from hipsynth.tuning.optimize.documents import ShapeSpeedup
from hipsynth.tuning.optimize.evaluate import RUN_TIME_S, CandidateMeasurement, Evaluator
from hipsynth.tuning.optimize.search import LEAST_RELATIVE_GAIN
from hipsynth.tuning.optimize.verification.check_sizes import Arguments, default_words, size_of, with_size
from hipsynth.tuning.optimize.verification.verify import MOST_EXACT_S, Verifier
from hipsynth.tuning.trial import map_at_once
from hipsynth.tuning.trial.search_clock import Clock

SETTLED = 0.05  # relative uncertainty of a speed-up below which runs are not repeated
MOST_RETIMED = 6  # states whose order is open
TIMED, CHECKED, DRAWN = "timed", "checked", "drawn"  # kinds of shapes
MOST_DRAWN = 2
STRETCH = 8  # by which a drawn shape is longer along one axis and shorter along another

Pair = tuple[CandidateMeasurement, CandidateMeasurement]
Measure = Callable[[str], CandidateMeasurement]


@dataclass
class ConfirmedTimings:
    """Times texts with more of their groups than a search, and in full where that is cheap; each text once."""

    target: Target
    arguments: Arguments
    journal: Path | None
    clock: Clock
    precise: Measure = field(init=False)
    exact: Measure = field(init=False)

    def __post_init__(self) -> None:
        evaluator = functools.partial(Evaluator, self.target, self.arguments, RUN_TIME_S, self.journal, self.clock)
        self.precise, self.exact = (
            functools.cache(evaluator(effort=1.0)),
            functools.cache(evaluator(effort=1.0, units=0)),
        )

    def confirm_pair(self, original: str, first: CandidateMeasurement, state: SearchState) -> Pair:
        """The runs of the original and of a state, made once more where sampling left their ratio open."""
        pair = first, state.found
        for measure, most_s in ((self.precise, math.inf), (self.exact, MOST_EXACT_S)):
            settled = ratio_uncertainty(*pair) <= SETTLED or self.clock.late
            if settled or max(timed.exact_s for timed in pair) > most_s:
                return pair
            before, after = map_at_once(measure, (original, state.text))
            pair = (before, after) if before.ok and after.ok else pair
        return pair

    def rank_states(self, states: Sequence[SearchState]) -> list[SearchState]:
        """States by their times; those that may be the fastest are timed once more before."""
        if not states or self.clock.late:
            return list(states)
        least = min(state.found.duration_ns * (1 + state.found.error) for state in states)
        unsure = [state for state in states if state.found.duration_ns * (1 - state.found.error) <= least]
        if len(unsure) < 2 or max(state.found.error for state in unsure) <= SETTLED:
            return list(states)
        unsure = unsure[:MOST_RETIMED]
        again = map_at_once(self.precise, [state.text for state in unsure])
        again_by_id = {id(state): timed for state, timed in zip(unsure, again, strict=True) if timed.ok}
        ranked = [replace(state, found=again_by_id.get(id(state), state.found)) for state in states]
        return sorted(ranked, key=lambda state: state.found.duration_ns)


def ratio_uncertainty(measurement: CandidateMeasurement, other: CandidateMeasurement) -> float:
    """Of the ratio of two durations, relative."""
    return math.hypot(measurement.error, other.error)


def is_certain_gain(before: CandidateMeasurement, after: CandidateMeasurement) -> bool:
    """Whether a program is faster by more than the least gain that counts, and what sampling leaves open."""
    least = 1 + LEAST_RELATIVE_GAIN + ratio_uncertainty(before, after)
    return after.duration_ns * least <= before.duration_ns


def time_checked_shapes(verifier: Verifier, text: str, timed: Pair) -> tuple[ShapeSpeedup, ...]:
    """The speed-up of a verified program at the shape that was asked for, and at those where its outputs were
    compared."""
    shapes = [_shape(timed[0].arguments, TIMED, timed[0].duration_ns, timed[1].duration_ns)]
    for size in verifier.sizes:
        conditions = verifier.run_conditions(size)
        before, after = verifier.reference_trial(conditions), verifier.candidate_trial(text, conditions)
        shapes.append(_shape(size, CHECKED, before.duration_ns, after.duration_ns))
    return tuple(shapes)


def time_drawn_shapes(verifier: Verifier, text: str, timed: Pair, clock: Clock) -> tuple[ShapeSpeedup, ...]:
    """The speed-up of a program at shapes that nothing has seen."""
    shapes = []
    for arguments in draw_shapes(verifier.original, timed[0].arguments):
        if clock.late:
            break
        measure = Evaluator(verifier.target, arguments, RUN_TIME_S, None, clock)
        ran, other = map_at_once(measure, (verifier.original, text))
        if ran.ok and other.ok and ran.exit_code == 0 and other.duration_ns:
            shapes.append(_shape(arguments, DRAWN, ran.duration_ns, other.duration_ns))
    return tuple(shapes)


def join_shapes(checked: Sequence[ShapeSpeedup], drawn: Sequence[ShapeSpeedup]) -> tuple[ShapeSpeedup, ...]:
    """All shapes that were timed, each once: one that was drawn may have been checked, too."""
    sizes = {shape.arguments for shape in drawn}
    return (*(shape for shape in checked if shape.kind != CHECKED or shape.arguments not in sizes), *drawn)


def list_losses(shapes: Sequence[ShapeSpeedup]) -> tuple[ShapeSpeedup, ...]:
    """The shapes at which a program loses, of those that it was not chosen for: drawn ones, and checked ones with
    enough work that it matters."""
    least_ns = max((shape.before_ns for shape in shapes if shape.kind == TIMED), default=math.inf) / STRETCH
    counted = (
        shape for shape in shapes if shape.kind == DRAWN or (shape.kind == CHECKED and shape.before_ns >= least_ns)
    )
    return tuple(shape for shape in counted if shape.speedup < 1 - LEAST_RELATIVE_GAIN)


def _shape(arguments: Arguments, kind: str, before_ns: float, after_ns: float) -> ShapeSpeedup:
    speedup = round(before_ns / after_ns, 4) if after_ns else 1.0
    return ShapeSpeedup(tuple(arguments), kind, before_ns, after_ns, speedup)


def draw_shapes(text: str, arguments: Arguments) -> list[Arguments]:
    """Other shapes for about as much work: longer along one axis and shorter along another; shorter where there is only
    one."""
    words = arguments or default_words(text)
    values = [size_of(word) for word in words]
    large = [place for place, value in enumerate(values) if value >= 16 * STRETCH]
    drawn: list[Arguments] = []
    for place, other in zip(large, large[1:] + large[:1], strict=True):
        changed = dict(enumerate(values))
        changed[place] = values[place] // STRETCH
        if other != place:
            changed[other] = values[other] * STRETCH
        drawn.append(tuple(with_size(word, changed[at]) if values[at] else word for at, word in enumerate(words)))
    return drawn[:MOST_DRAWN]
