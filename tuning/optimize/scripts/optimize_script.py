"""`synth optimize SCRIPT.py` as a function: a walk uphill over meta-parameters, then over the order of programs."""

from __future__ import annotations

import difflib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason
from hipsynth.profiling.backends.protocol import Target
from hipsynth.source.triton_source import TritonSource, iterate_calls, read_default_arguments, read_triton_source
from hipsynth.tuning.optimize.candidates import LEAST_TUNED_SHARE
from hipsynth.tuning.optimize.confirm import is_certain_gain, ratio_uncertainty
from hipsynth.tuning.optimize.documents import (
    KernelGain,
    SearchEnd,
    SearchStatus,
    SearchStep,
    StepOutcome,
    VerificationCheck,
)
from hipsynth.tuning.optimize.evaluate import (
    EFFORT,
    CandidateMeasurement,
    KernelTime,
    changed_metrics,
    measurement_of_trial,
)
from hipsynth.tuning.optimize.group_order import count_chiplets, list_mappings, worthwhile_kernels
from hipsynth.tuning.optimize.optimize import OptimizeResult, explain_unchanged
from hipsynth.tuning.optimize.scripts.chosen_configuration import (
    AUTOTUNE,
    PinnedScript,
    list_choices,
    offer_configurations,
    pin_choices,
)
from hipsynth.tuning.optimize.scripts.meta_parameters import (
    MetaParameter,
    list_parameters,
    shared_options,
    write_values,
)
from hipsynth.tuning.optimize.scripts.verify_script import ScriptVerifier
from hipsynth.tuning.optimize.search import LEAST_RELATIVE_GAIN
from hipsynth.tuning.optimize.verification.verify import Verification
from hipsynth.tuning.swizzle import script_edits
from hipsynth.tuning.trial import AT_ONCE, Conditions, Trial, map_at_once
from hipsynth.tuning.trial.refusal import KernelRefusal
from hipsynth.tuning.trial.script import ScriptTrials
from hipsynth.tuning.trial.search_clock import LATEST, Clock

START_S = 3.0  # price of a run beside its kernels: Python, PyTorch, Triton's compiler
RUN_TIME_S = 120.0
MOST_EXACT_S = 10.0  # price up to which outputs are compared at the size that is timed
LEAST_UNEVEN = 32  # arguments from here on are sizes, of which uneven ones are tried, too
SWIZZLE, ORDERS = "swizzle", 2


@dataclass(frozen=True)
class ScriptRequest:
    """What to optimize; `sizes`: argument lists of runs whose outputs are compared, () finds them."""

    target: Target
    arguments: tuple[str, ...] = ()
    sizes: tuple[tuple[str, ...], ...] = ()
    budget_s: float = 60.0
    clock_s: float = 0.0


@dataclass(frozen=True)
class ScriptState:
    """A variant that was kept: its values by parameter, and the last step that led to it."""

    text: str
    timed: CandidateMeasurement
    values: Mapping[MetaParameter, int] = field(default_factory=dict)
    step: int = -1


@dataclass(frozen=True)
class ScriptMove:
    """A change of one kernel, and the script after it."""

    kernel: str
    transformation: str
    plan: Mapping[str, int]
    values: Mapping[MetaParameter, int]
    text: str


@dataclass
class ScriptSearch:
    """The search for one script."""

    trials: ScriptTrials
    source: TritonSource
    request: ScriptRequest
    verifier: ScriptVerifier
    clock: Clock
    say: Callable[[str], None]
    parameters: dict[str, list[MetaParameter]] = field(default_factory=dict)
    steps: list[SearchStep] = field(default_factory=list)
    spent_s: float = 0.0
    ended: SearchEnd = SearchEnd.NOTHING_LEFT
    exact: bool = False  # a sampled run of the original fails
    _slowest_s: float = 0.0

    def time_script(self, text: str) -> CandidateMeasurement:
        """The measured run of a variant with the arguments that were asked for."""
        return self.run_timed(text)[0]

    def run_timed(self, text: str) -> tuple[CandidateMeasurement, Trial]:
        """As time_script(), with the trial."""
        begin = self.clock.spent_s
        time_s = min(RUN_TIME_S, self.request.clock_s or RUN_TIME_S)
        conditions = Conditions(self.request.arguments, effort=EFFORT, exact=self.exact, time_s=time_s)
        trial = self.trials.run(text, self.request.target, conditions)
        measured = measurement_of_trial(trial)
        self._slowest_s = max(self._slowest_s, self.clock.spent_s - begin)
        return replace(measured, price=measured.price + START_S, arguments=self.request.arguments), trial

    def time_original(self) -> tuple[ScriptState, Trial]:
        """The original, and its run. Raises HipsynthError if it does not run, or launches nothing."""
        timed, trial = self.run_timed(self.trials.text)
        if timed.ok and timed.exit_code:  # its check needs results, which sampling does not compute
            self.exact = True
            timed, trial = self.run_timed(self.trials.text)
        if not timed.ok or timed.exit_code:
            cause = f"{timed.reason or f'exit code {timed.exit_code}'}: {timed.message[:500]}"
            raise BadInput("the script does not run", cause=cause, reason=timed.reason or Reason.EXIT_CODE)
        if not timed.kernels:
            raise BadInput("the script launches no kernel", reason=Reason.NO_DISPATCH)
        self.spent_s += timed.price / AT_ONCE
        return ScriptState(self.trials.text, timed), trial

    def pin_choices(self, trial: Trial) -> PinnedScript:
        """From here on, autotuned kernels have the configuration alone that they chose in a run of the original."""
        choice = pin_choices(self.source, trial.autotunings)
        for step in list_choices(trial.autotunings, trial.kernels):
            self.steps.append(step)
            self.say(_describe_step(step))
        if choice.pinned:
            self.source = read_triton_source(choice.text)
            self.trials = self.verifier.trials = replace(self.trials, text=choice.text)
        return choice

    def run(self, origin: ScriptState) -> list[ScriptState]:
        """What was kept, fastest first, without the original."""
        states, texts = [origin], {origin.text}
        for list_moves in (self._list_values, self._list_orders):
            state = None
            while state is not states[-1] and not self._is_over():
                state = states[-1]
                for batch in _in_batches(move for move in list_moves(state) if move.text not in texts):
                    texts.update(move.text for move in batch)
                    kept_states = self._try_moves(state, batch)
                    if kept_states:
                        states.append(min(kept_states, key=lambda one_state: one_state.timed.duration_ns))
                    if kept_states or self._is_over():
                        break
        return states[:0:-1]

    def verify_gains(
        self, origin: ScriptState, states: Sequence[ScriptState]
    ) -> tuple[ScriptState | None, Verification]:
        """The first of the states that are surely faster which passes every check, with its checks, or None with those
        of the first one. The clock ends this."""
        first = Verification(())
        for state in states:
            if not is_certain_gain(origin.timed, state.timed):
                continue
            verification = self.verifier.full(state.text)
            self.say(f"verified: {verification.failure or 'every check passed'}")
            if verification.passed:
                return state, verification
            first = first if first.checks else verification
            if self.clock.late:
                break
        return None, first

    def _is_over(self) -> bool:
        if self.spent_s >= self.request.budget_s:
            self.ended = SearchEnd.BUDGET
        elif self.clock.over(self._slowest_s):
            self.ended = SearchEnd.CLOCK
        return self.ended != SearchEnd.NOTHING_LEFT

    def _list_values(self, state: ScriptState) -> Iterator[ScriptMove]:
        slow = [
            kernel
            for kernel in state.timed.kernels
            if kernel.duration_ns >= LEAST_TUNED_SHARE * state.timed.duration_ns
        ]
        for kernel in sorted(slow, key=lambda kernel: -kernel.duration_ns):
            has_products = any(
                next(iterate_calls(function.node, "dot"), None) for function in self.source.functions_named(kernel.name)
            )
            for parameter in self.parameters.get(kernel.name, ()):
                now = state.values.get(parameter, parameter.value)
                for value in parameter.other_values(now, has_products):
                    values = {**state.values, parameter: value}
                    values = {key: number for key, number in values.items() if number != key.value}
                    plan = {key.name: number for key, number in values.items() if key.kernel == kernel.name}
                    text = write_values(self.source, values)
                    yield ScriptMove(kernel.name, parameter.name, plan, values, text)

    def _list_orders(self, state: ScriptState) -> Iterator[ScriptMove]:
        source = read_triton_source(state.text)
        chiplets = count_chiplets(self.request.target.device)
        for kernel in worthwhile_kernels(state.timed):
            if chiplets < 2 or script_edits.find_refusal(source, kernel.name) is not None:
                continue
            for mapping in list_mappings(kernel.grid, chiplets)[:ORDERS]:
                text = script_edits.write_mapped(source, {kernel.name: mapping}, {kernel.name: kernel.grid})
                yield ScriptMove(kernel.name, SWIZZLE, {}, state.values, text)

    def _try_moves(self, state: ScriptState, batch: list[ScriptMove]) -> list[ScriptState]:
        timings = map_at_once(lambda move: self._time_move(state, move), batch)
        judged = [self._judge_move(state, move, *timing) for move, timing in zip(batch, timings, strict=True)]
        return [kept_state for kept_state in judged if kept_state is not None]

    def _time_move(self, state: ScriptState, move: ScriptMove) -> tuple[CandidateMeasurement, VerificationCheck | None]:
        timed = self.time_script(move.text)
        is_faster = (
            timed.ok
            and not timed.exit_code
            and timed.duration_ns <= (1 - LEAST_RELATIVE_GAIN) * state.timed.duration_ns
        )
        return timed, self.verifier.quick(move.text) if is_faster else None

    def _judge_move(
        self, state: ScriptState, move: ScriptMove, timed: CandidateMeasurement, check: VerificationCheck | None
    ) -> ScriptState | None:
        self.spent_s += (timed.price + (START_S if check else 0.0)) / AT_ONCE
        outcome, reason = StepOutcome.NOT_FASTER, "not faster"
        if not timed.ok or timed.exit_code:
            outcome = StepOutcome.FAILED
            reason = f"it fails: {timed.reason or f'exit code {timed.exit_code}: {timed.message[:200]}'}"
        elif check is not None:
            outcome = StepOutcome.KEPT if check.passed else StepOutcome.WRONG
            reason = check.detail
        is_kept = outcome == StepOutcome.KEPT
        before, after = _time_of(state.timed, move.kernel), _time_of(timed, move.kernel)
        number = len(self.steps)
        step = SearchStep(
            number, state.step, move.transformation, move.kernel, move.plan, state.timed.duration_ns,
            timed.duration_ns if timed.ok else None, is_kept, reason, outcome,
            changed_metrics(before, after) if before and after else {},
        )  # fmt: skip
        self.steps.append(step)
        self.say(_describe_step(replace(step, after_ns=timed.duration_ns)))
        return ScriptState(move.text, timed, move.values, number) if is_kept else None


def _describe_step(step: SearchStep) -> str:
    values = ", ".join(f"{name}={value}" for name, value in step.plan.items())
    time = f"{step.after_ns / 1e3:.1f} us" if step.after_ns else "-"
    why = "kept" if step.kept and step.transformation != AUTOTUNE else step.reason
    chosen = "chosen; " if step.kept and step.transformation == AUTOTUNE else ""
    return f"{step.transformation} on {step.kernel} ({values}): {time}  {chosen}{why}"


def _in_batches(moves: Iterator[ScriptMove]) -> Iterator[list[ScriptMove]]:
    while batch := list(itertools.islice(moves, AT_ONCE)):
        yield batch


def _time_of(timed: CandidateMeasurement, kernel: str) -> KernelTime | None:
    named = [one_time for one_time in timed.kernels if one_time.name == kernel]
    return max(named, key=lambda one_time: one_time.duration_ns, default=None)


def optimize_script(
    trials: ScriptTrials, request: ScriptRequest, say: Callable[[str], None] = lambda line: None
) -> OptimizeResult:
    """Searches for faster meta-parameters of a script's kernels, and verifies the best until one passes every check.

    Raises BadInput for a script that does not run, or launches no kernel.
    """
    clock = Clock(request.clock_s / LATEST if request.clock_s else request.budget_s)
    source = read_triton_source(trials.text)
    verifier = ScriptVerifier(trials, request.target, [request.arguments])
    search = ScriptSearch(trials, source, request, verifier, clock, say)
    origin, trial = search.time_original()
    choice = search.pin_choices(trial)
    if choice.pinned:
        origin, trial = search.time_original()
    refusals = dict[str, KernelRefusal]()
    for name in dict.fromkeys(kernel.name for kernel in origin.timed.kernels):
        search.parameters[name], refusal = _parameters_of(search.source, name, trial)
        if refusal is not None:
            refusals[name] = choice.refusals.get(name, refusal)
    block = max((row.value for rows in search.parameters.values() for row in rows if row.is_block), default=1)
    defaults = read_default_arguments(source)
    verifier.sizes = choose_sizes(request, defaults, origin.timed, block)
    verifier.uneven_sizes = choose_uneven_sizes(request, defaults, origin.timed)
    unusable = verifier.why_unusable()
    result = functools.partial(_build_result, search, source, choice, refusals, origin)
    if unusable or not any(search.parameters.values()):
        reason = unusable or "; ".join(f"{name}: {refusal.text}" for name, refusal in refusals.items())
        return result(SearchStatus.REFUSED, reason, origin, Verification(()))
    best, verification = search.verify_gains(origin, search.run(origin))
    if best is not None:
        return result(SearchStatus.IMPROVED, "", best, verification)
    steps = [step for step in search.steps if step.transformation != AUTOTUNE]
    reason = explain_unchanged(steps, search.ended, verification.failure, clock.late)
    return result(SearchStatus.UNCHANGED, reason, origin, Verification(()))


def _parameters_of(source: TritonSource, name: str, trial: Trial) -> tuple[list[MetaParameter], KernelRefusal | None]:
    functions = source.functions_named(name)
    if len(functions) != 1:
        text = "several functions have its name" if functions else "the script does not define it"
        return [], KernelRefusal(Reason.UNSUPPORTED if functions else Reason.NOT_IN_SCRIPT, text)
    return list_parameters(source, functions[0], shared_options(trial.kernels, name))


def choose_sizes(
    request: ScriptRequest, defaults: tuple[str, ...], timed: CandidateMeasurement, block: int
) -> list[tuple[str, ...]]:
    """Arguments of the runs whose outputs are compared: those asked for; else the timed ones, halved until a run in
    full is short, the next smaller ones, and odd multiples of the largest `block` of the original, which it divides and
    a larger one does not."""
    if request.sizes:
        return list(request.sizes)
    size = _shrink_size(request, defaults, timed)
    first = size if request.arguments or size != defaults else ()
    others = [other for other in (_halve_sizes(size), _odd_multiples(size, block)) if other != size]
    return list(dict.fromkeys([first, *others]))


def choose_uneven_sizes(
    request: ScriptRequest, defaults: tuple[str, ...], timed: CandidateMeasurement
) -> list[tuple[str, ...]]:
    """Arguments that no block divides, if no sizes were asked for: all of them uneven, then each alone, since a script
    may need some that are multiples of a block."""
    if request.sizes:
        return []
    size = _shrink_size(request, defaults, timed)
    uneven = [str((int(word) - int(word) // 16) | 1) if _is_large(word) else word for word in size]
    alone = [(*size[:at], word, *size[at + 1 :]) for at, word in enumerate(uneven) if word != size[at]]
    return list(dict.fromkeys([tuple(uneven), *alone])) if alone else []


def _is_large(word: str) -> bool:
    return word.isdecimal() and int(word) >= LEAST_UNEVEN


def _shrink_size(request: ScriptRequest, defaults: tuple[str, ...], timed: CandidateMeasurement) -> tuple[str, ...]:
    """The timed arguments, halved until a run in full is short."""
    size, price = request.arguments or defaults, timed.exact_s
    while price > MOST_EXACT_S and (smaller := _halve_sizes(size)) != size:
        price /= 4
        size = smaller
    return size


def _halve_sizes(size: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(int(word) // 2) if word.isdecimal() and int(word) >= 128 else word for word in size)


def _odd_multiples(size: tuple[str, ...], block: int) -> tuple[str, ...]:
    return tuple(
        str(((int(word) // block - 1) | 1) * block) if word.isdecimal() and int(word) >= 2 * block else word
        for word in size
    )


def _build_result(
    search: ScriptSearch, source: TritonSource, choice: PinnedScript, refusals: Mapping[str, KernelRefusal],
    origin: ScriptState, status: SearchStatus, reason: str, best: ScriptState, verification: Verification,
) -> OptimizeResult:  # fmt: skip
    before, after = origin.timed, best.timed
    text = offer_configurations(source, choice, best.text) if best is not origin else source.text
    lines = difflib.unified_diff(source.text.splitlines(True), text.splitlines(True), "original", "optimized")
    gains = tuple(
        KernelGain(
            kernel.name, kernel.dispatches, kernel.duration_ns, other.duration_ns,
            round(kernel.duration_ns / other.duration_ns, 4) if other.duration_ns else 1.0,
            round(kernel.duration_ns / before.duration_ns, 4),
        )
        for kernel in before.kernels if (other := _time_of(after, kernel.name)) is not None
    )  # fmt: skip
    unsure = ratio_uncertainty(before, after) if best is not origin else 0.0
    return OptimizeResult(
        status, reason, before.duration_ns, after.duration_ns, verification, tuple(search.steps), text,
        "".join(lines), search.spent_s, {name: refusal.text for name, refusal in refusals.items()}, unsure, best.step,
        search.ended, search.clock.late, language="triton",
        gains=gains if status == SearchStatus.IMPROVED else (),
        refusals={name: refusal.code for name, refusal in refusals.items()},
    )  # fmt: skip
