"""`synth optimize` as a function: search, verification of the best, patch and report."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hipsynth.core.reasons import Reason
from hipsynth.profiling.backends.protocol import Target
from hipsynth.training.analytic.predict import AnalyticPredictor, LaunchAssumptions
from hipsynth.tuning.optimize.analysis.analysis_faults import TEXT_ERRORS
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram, read_program
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.candidates import SearchState, launch_blocks
from hipsynth.tuning.optimize.confirm import (
    ConfirmedTimings,
    Pair,
    is_certain_gain,
    join_shapes,
    list_losses,
    ratio_uncertainty,
    time_checked_shapes,
    time_drawn_shapes,
)
from hipsynth.tuning.optimize.documents import (
    KernelGain,
    ModelRun,
    OptimizeDocument,
    SearchEnd,
    SearchStatus,
    SearchStep,
    ShapeSpeedup,
)
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.evaluate import RUN_TIME_S, CandidateMeasurement, Evaluator
from hipsynth.tuning.optimize.search import Search
from hipsynth.tuning.optimize.shape_dispatch import SizeGuard, choose_guard
from hipsynth.tuning.optimize.text_guard import find_changed_kernel
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.verification.check_sizes import Arguments, candidate_arguments
from hipsynth.tuning.optimize.verification.verify import Verification, Verifier
from hipsynth.tuning.optimize.verification.verify_change import prepare_verifier
from hipsynth.tuning.trial.search_clock import LATEST, Clock

UNCHANGED = TransformationPlan()
Gain = tuple[SearchState, Pair, tuple[ShapeSpeedup, ...]]
MOST_LOSING = 8  # programs that are put last because they lose at another shape
_WHY_NOTHING = {
    SearchEnd.BUDGET: "the runs of the original took the whole budget; give a larger one, or smaller sizes",
    SearchEnd.CLOCK: "the machine took the whole budget for the runs of the original",
    SearchEnd.NOTHING_LEFT: "no transformation applies",
}


@dataclass(frozen=True)
class OptimizeRequest:
    """What to optimize. `arguments`: of the measured run; `sizes`: argument lists for verification, () finds them."""

    text: str
    target: Target
    budget_s: float = 60.0
    arguments: Arguments = ()
    sizes: Sequence[Arguments] = ()
    journal: Path | None = None
    clock_s: float = 0.0  # when the answer must be there, on the clock; 0: after LATEST times the budget
    allow: frozenset[str] = frozenset()  # "fast-math": approximate functions, and a tolerance to match


@dataclass(frozen=True)
class OptimizeResult:
    """The answer. `reason`: why its `status` is not IMPROVED."""

    status: SearchStatus
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
    ended: SearchEnd = SearchEnd.NOTHING_LEFT
    late: bool = False  # the clock had run out, which leaves out checks and shapes
    shapes: tuple[ShapeSpeedup, ...] = ()
    guards: Mapping[str, SizeGuard] = field(default_factory=dict)
    language: str = "hip"
    gains: tuple[KernelGain, ...] = ()
    refusals: Mapping[str, Reason] = field(default_factory=dict)  # the codes of `refused`, of scripts
    left_out: Mapping[str, str] = field(default_factory=dict)  # analyses that failed by a fault of theirs -> the error
    limited: Mapping[str, Reason] = field(default_factory=dict)  # kernels for which some changes are not tried -> why

    @property
    def holds(self) -> bool:
        """Whether nothing is lost at other shapes with about as much work."""
        return not self.losses

    @property
    def losses(self) -> tuple[ShapeSpeedup, ...]:
        """The shapes at which the answer is slower than the original."""
        return list_losses(self.shapes)

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
            ended=self.ended,
            late=self.late,
            holds=self.holds,
            shapes=self.shapes,
            dispatch={kernel: guard.condition for kernel, guard in self.guards.items()},
            left_out=self.left_out,
            limited=self.limited,
            llm=llm,
            patched=None if patched is None else str(patched),
            language=self.language,
            gains=self.gains,
            refusals=self.refusals,
        )


def optimize_program(request: OptimizeRequest, say: Callable[[str], None] = lambda line: None) -> OptimizeResult:
    """Searches for a faster program, and verifies the best until one passes every check.

    Raises BadInput for a source without a kernel, HipsynthError (reason of the run)
    for a program that does not run.
    """
    target, clock = request.target, Clock(request.clock_s / LATEST if request.clock_s else request.budget_s)
    program = read_program(request.text, target.arch, target.flags)
    sizes = request.sizes or candidate_arguments(program.text, request.arguments)
    verifier = prepare_verifier(program, target, sizes, request.allow, clock)
    evaluator = Evaluator(target, request.arguments, RUN_TIME_S, request.journal, clock)
    predict = duration_predictor(target, request.arguments)
    search = Search(
        program, evaluator, verifier.quick, predict, request.budget_s, request.allow, say, clock, verifier.joined
    )
    refused = {k.name: k.together or k.fixed for k in program.kernels if not k.independent}
    if not verifier.sizes:
        why = f"{verifier.why_no_size}; name a size with --check-args"
        verification = Verification((verifier.quick(request.text),))
        return _build_result(SearchStatus.REFUSED, why, None, search, verification, request.text, refused)
    states = search.run()
    timings = ConfirmedTimings(target, request.arguments, request.journal, clock)
    failure = ""
    for state, timed, drawn in _list_gains(search, verifier, timings, states):
        verification = _verify_state(verifier, state, timed)
        say(f"verified: {verification.failure or 'every check passed'}")
        if verification.passed:
            shapes = join_shapes(time_checked_shapes(verifier, state.text, timed), drawn)
            reason = "it is slower at another shape: see `shapes`" if list_losses(shapes) else ""
            improved = _build_result(
                SearchStatus.IMPROVED, reason, timed, search, verification, request.text, refused, state
            )
            return replace(improved, shapes=shapes, guards=state.guards)
        failure = failure or verification.failure
        if clock.late:
            break
    verification = Verification((verifier.quick(request.text),))
    first = states[-1].found
    reason = explain_unchanged(search.steps, search.ended, failure, clock.late)
    return _build_result(SearchStatus.UNCHANGED, reason, (first, first), search, verification, request.text, refused)


def explain_unchanged(steps: Sequence[SearchStep], ended: SearchEnd, failure: str, late: bool) -> str:
    """Why a program stays as it is; `failure`: of the fastest one's checks, `late`: whether the clock ended them."""
    if not steps:
        return f"nothing was tried: {_WHY_NOTHING[ended]}"
    faster = sum(step.kept for step in steps)
    if faster and late:
        return f"the clock ended before a faster program was verified ({faster} were found); give it more with --clock"
    if failure:
        return f"what is faster fails a check: {failure}"
    return "nothing that was tried is faster and correct"


def _verify_state(verifier: Verifier, state: SearchState, timed: Pair) -> Verification:
    """All checks of a program; at small sizes also of the kernels that it launches for large ones alone."""
    if state.unguarded:
        everywhere = verifier.full(state.unguarded)
        if not everywhere.passed:
            return everywhere
    return verifier.full(state.text, timed)


def _list_gains(
    search: Search, verifier: Verifier, timings: ConfirmedTimings, states: Sequence[SearchState]
) -> Iterator[Gain]:
    """The states that are faster than the original, which is the last one, each with both timed runs and its speed-up
    at drawn shapes: the fastest first, but behind them those that lose at a drawn shape. Where a size tells where they
    lose, a program that keeps the original there stands in for them."""
    losing: list[Gain] = []
    for state in timings.rank_states(states[:-1]):
        timed = timings.confirm_pair(verifier.original, states[-1].found, state)
        if not is_certain_gain(*timed):
            continue
        gain = state, timed, time_drawn_shapes(verifier, state.text, timed, timings.clock)
        if list_losses(gain[2]) and not timings.clock.late:
            gain = _guard_sizes(search, verifier, timings, states[-1], gain) or gain
        if list_losses(gain[2]) and len(losing) < MOST_LOSING and not timings.clock.late:
            losing.append(gain)
        else:
            yield gain
    yield from losing


def _guard_sizes(
    search: Search, verifier: Verifier, timings: ConfirmedTimings, origin: SearchState, gain: Gain
) -> Gain | None:
    """The program that launches the original kernel for sizes at which the changed one loses; None if it loses, too."""
    state, timed, drawn = gain
    shape = ShapeSpeedup(timed[0].arguments, "timed", 0.0, 0.0, timed[0].duration_ns / timed[1].duration_ns)
    try:
        text, guards = _write_guarded(search.program, origin, state, (shape, *drawn))
    except NotUnderstood:
        return None
    guarded = replace(state, text=text, found=search.evaluator(text), guards=guards, unguarded=state.text)
    if not guarded.found.ok:
        return None
    again = timings.confirm_pair(verifier.original, origin.found, guarded)
    shapes = time_drawn_shapes(verifier, text, again, timings.clock)
    return None if list_losses(shapes) or not shapes else (guarded, again, shapes)


def _write_guarded(
    program: ParsedProgram, origin: SearchState, state: SearchState, shapes: Sequence[ShapeSpeedup]
) -> tuple[str, dict[str, SizeGuard]]:
    """The program of a state with the original kernels for the sizes at which it loses, and their guards. Raises
    NotUnderstood where no size tells, or source text of more than one kernel is changed."""
    planned = [kernel for kernel in program.kernels if state.plans.get(kernel.name, UNCHANGED) != UNCHANGED]
    blocks = launch_blocks(program, origin.found)
    if planned and emit_program(program, state.plans, blocks) == state.text:
        guards = {kernel.name: _require_guard(program, kernel, shapes) for kernel in planned}
        return emit_program(program, state.plans, blocks, guards), guards
    changed = find_changed_kernel(program, read_program(state.text, program.arch, program.flags))
    guard = _require_guard(program, changed.kernel, shapes)
    return changed.write_guarded(program, guard), {changed.kernel.name: guard}


def _require_guard(program: ParsedProgram, kernel: KernelDefinition, shapes: Sequence[ShapeSpeedup]) -> SizeGuard:
    guard = choose_guard(program, kernel, shapes)
    if guard is None:
        raise NotUnderstood("no size separates where the changed kernel gains from where it loses")
    return guard


def _build_result(
    status: SearchStatus,
    reason: str,
    timed: tuple[CandidateMeasurement, CandidateMeasurement] | None,
    search: Search,
    verification: Verification,
    original: str,
    refused: dict[str, str],
    best: SearchState | None = None,
) -> OptimizeResult:
    before, after = (state.duration_ns for state in timed) if timed else (0.0, 0.0)
    limited = _list_limited(search.program, timed[0]) if timed else {}
    text = best.text if best else original
    lines = difflib.unified_diff(original.splitlines(True), text.splitlines(True), "original", "optimized")
    unsure = ratio_uncertainty(*timed) if timed and best else 0.0
    return OptimizeResult(status, reason, before, after, verification, tuple(search.steps), text, "".join(lines),
                     search.spent_s, refused, unsure, best.step if best else -1, search.ended,
                     search.clock.late, left_out=search.faults.failed, limited=limited)  # fmt: skip


def _list_limited(program: ParsedProgram, first: CandidateMeasurement) -> dict[str, Reason]:
    """The kernels for which changes that need one grid, or a name of their own, are not tried, and why."""
    runs = {kernel.name: first.of(kernel.name) for kernel in program.kernels}
    overloaded = {k.name: Reason.OVERLOADED for k in program.kernels if k.is_overloaded(program.kernels)}
    several = {name: Reason.SEVERAL_SHAPES for name, run in runs.items() if run is not None and not run.same_shape}
    return several | overloaded


def duration_predictor(target: Target, arguments: Arguments) -> Callable[[str], float | None]:
    """The shipped predictor of durations; a text that it cannot predict has none."""
    model = AnalyticPredictor.load()
    question = LaunchAssumptions(arguments=arguments, other_data=False)

    def predict(text: str) -> float | None:
        try:
            prediction = model.predict(text, target.arch, target.flags, target.device, question)
        except TEXT_ERRORS:
            return None
        times = [
            kernel.launches * kernel.duration_ns for kernel in prediction.kernels if kernel.duration_ns is not None
        ]
        return sum(times) if times and len(times) == len(prediction.kernels) else None

    return predict
