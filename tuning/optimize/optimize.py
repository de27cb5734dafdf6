"""`synth optimize` as a function: search, verification of the best, patch and report."""

from __future__ import annotations

import difflib
import functools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.errors import HipsynthError
from hipsynth.profiling.backends.protocol import Target
from hipsynth.training.analytic.predict import AnalyticPredictor, LaunchAssumptions
from hipsynth.tuning.optimize.candidates import SearchState
from hipsynth.tuning.optimize.documents import ModelRun, OptimizeDocument, SearchStep
from hipsynth.tuning.optimize.evaluate import RUN_TIME_S, CandidateMeasurement, Evaluator
from hipsynth.tuning.optimize.program_model import read_program
from hipsynth.tuning.optimize.search import AT_ONCE, GAIN, Search
from hipsynth.tuning.optimize.verification_sizes import Arguments
from hipsynth.tuning.optimize.verify import Verification
from hipsynth.tuning.optimize.verify_change import prepare_verifier
from hipsynth.tuning.trial.search_clock import Clock

SETTLED = 0.05  # relative uncertainty of a speed-up below which runs are not repeated


@dataclass(frozen=True)
class OptimizeRequest:
    """What to optimize. `arguments`: of the measured run; `sizes`: argument lists for verification, () finds them."""

    text: str
    target: Target
    budget_s: float = 60.0
    arguments: Arguments = ()
    sizes: Sequence[Arguments] = ()
    journal: Path | None = None
    allow: frozenset[str] = frozenset()  # "fast-math": approximate functions, and a tolerance to match


@dataclass(frozen=True)
class OptimizeResult:
    """The answer. `status`: "improved", "unchanged" (nothing found is faster and correct) or "refused" (`reason`)."""

    status: str
    reason: str
    before_ns: float
    after_ns: float
    verification: Verification
    steps: tuple[SearchStep, ...]
    text: str  # the patched program; the original if nothing was found
    diff: str
    spent_s: float
    refused: dict[str, str]  # kernel -> why its work-items cannot be assigned otherwise
    uncertainty: float = 0.0  # of the speed-up, relative
    step: int = -1  # the last of the steps that led to the result

    @property
    def speedup(self) -> float:
        return self.before_ns / self.after_ns if self.after_ns else 1.0

    def document(
        self, path: Path, arch: str, flags: str, patched: Path | None = None, llm: ModelRun | None = None
    ) -> OptimizeDocument:
        """The document of the program at `path`, for `flags` as they were given; `patched`: where the faster one is."""
        return OptimizeDocument(
            path=str(path),
            arch=arch,
            flags=flags,
            status=self.status,
            reason=self.reason,
            speedup=round(self.speedup, 4),
            uncertainty=round(self.uncertainty, 4),
            before_ns=self.before_ns,
            after_ns=self.after_ns,
            verified=self.verification.document(),
            step=self.step,
            steps=self.steps,
            refused=self.refused,
            budget_spent_s=round(self.spent_s, 2),
            llm=llm,
            patched=None if patched is None else str(patched),
        )


def optimize_program(request: OptimizeRequest, say: Callable[[str], None] = lambda line: None) -> OptimizeResult:
    """Searches for a faster program, and verifies the best until one passes every check.

    Raises BadInput for a source without a kernel, HipsynthError (reason of the run)
    for a program that does not run.
    """
    target, clock = request.target, Clock(request.budget_s)
    program = read_program(request.text, target.arch)
    verifier = prepare_verifier(program, target, request.sizes, request.allow, clock)
    evaluator = Evaluator(target, request.arguments, RUN_TIME_S, request.journal, clock)
    predict = duration_predictor(target, request.arguments)
    search = Search(
        program, evaluator, verifier.quick, predict, request.budget_s, request.allow, say, clock, verifier.joined
    )
    refused = {k.name: k.together or k.fixed for k in program.kernels if not k.independent}
    if not verifier.sizes:
        why = "the original fails, or runs too long in full, at every size that was tried; name one with --check"
        verification = Verification((verifier.quick(request.text),))
        return _build_result("refused", why, None, search, verification, request.text, refused)
    states = search.run()
    precise = functools.cache(Evaluator(target, request.arguments, RUN_TIME_S, request.journal, clock, effort=1.0))
    for state in states[:-1]:
        timed = before, after = (
            (states[-1].found, state.found)
            if clock.late
            else confirm_faster(states[-1].found, state, precise, request.text)
        )
        if after.duration_ns * (1 + GAIN + ratio_uncertainty(before, after)) > before.duration_ns:
            continue
        verification = verifier.full(state.text, timed)
        say(f"verified: {verification.failure or 'every check passed'}")
        if verification.passed:
            return _build_result("improved", "", timed, search, verification, request.text, refused, state)
        if clock.late:
            break
    verification = Verification((verifier.quick(request.text),))
    first = states[-1].found
    reason = "nothing that was tried is faster and correct"
    return _build_result("unchanged", reason, (first, first), search, verification, request.text, refused)


def confirm_faster(
    first: CandidateMeasurement, state: SearchState, precise: Callable[[str], CandidateMeasurement], original: str
) -> tuple[CandidateMeasurement, CandidateMeasurement]:
    """The runs of the original and of a state: made once more, of more groups, where sampling left their ratio open."""
    if ratio_uncertainty(first, state.found) <= SETTLED:
        return first, state.found
    with ThreadPoolExecutor(AT_ONCE) as pool:
        before, after = pool.map(precise, (original, state.text))
    return (before, after) if before.ok and after.ok else (first, state.found)


def _build_result(
    status: str,
    reason: str,
    timed: tuple[CandidateMeasurement, CandidateMeasurement] | None,
    search: Search,
    verification: Verification,
    original: str,
    refused: dict[str, str],
    best: SearchState | None = None,
) -> OptimizeResult:
    before, after = (state.duration_ns for state in timed) if timed else (0.0, 0.0)
    text = best.text if best else original
    lines = difflib.unified_diff(original.splitlines(True), text.splitlines(True), "original", "optimized")
    unsure = ratio_uncertainty(*timed) if timed and best else 0.0
    return OptimizeResult(status, reason, before, after, verification, tuple(search.steps), text, "".join(lines),
                     search.spent_s, refused, unsure, best.step if best else -1)  # fmt: skip


def ratio_uncertainty(measurement: CandidateMeasurement, other: CandidateMeasurement) -> float:
    """Of the ratio of two durations, relative."""
    return math.hypot(measurement.error, other.error)


def duration_predictor(target: Target, arguments: Arguments) -> Callable[[str], float | None]:
    """The shipped predictor of durations; a text that it cannot predict has none."""
    model = AnalyticPredictor.load()

    def predict(text: str) -> float | None:
        try:
            prediction = model.predict(
                text, target.arch, target.flags, target.device, LaunchAssumptions(arguments=arguments)
            )
        except HipsynthError:
            return None
        times = [kernel.duration_ns for kernel in prediction.kernels]
        return sum(t for t in times if t) if times and all(t is not None for t in times) else None

    return predict
