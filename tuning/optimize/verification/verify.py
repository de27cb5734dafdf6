"""Verifies that a faster program computes the same results; docs/explanation/honest-gains.md explains each check."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from hipsynth.core.reasons import Reason
from hipsynth.profiling.backends.protocol import Target
from hipsynth.simulator import devices
from hipsynth.tuning.optimize.documents import CheckedProgram, VerificationCheck
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.verification.atomic_sums import FURTHER_NUDGES, compare_exact_sums, nudged_trials
from hipsynth.tuning.optimize.verification.check_sizes import Arguments
from hipsynth.tuning.optimize.verification.checks import CHECKS
from hipsynth.tuning.optimize.verification.timed_size import check_timed_size
from hipsynth.tuning.trial import (
    AT_ONCE,
    BIT_FOR_BIT,
    Conditions,
    Tolerance,
    Trial,
    TrialCache,
    UnorderedOutputs,
    compare_printed,
    compare_trials,
    differing_outputs,
    find_unordered,
    replace_printed_times,
    run_trial,
    same_allocations,
    same_words,
)
from hipsynth.tuning.trial.output_elements import list_elements, list_inputs, may_hold_halves
from hipsynth.tuning.trial.search_clock import LEAST_RUN_S, Clock
from hipsynth.tuning.trial.source_constants import sets_constants

RECORD_BYTES = 64 << 20
MOST_SIZES = 3
MANY_CHIPLETS = "gfx942", "mi300x"  # which gives its work-groups to eight of them by turns
MOST_CANDIDATES = 4  # whose runs are kept
TIME_S = 20.0  # processor time of one exact run
TWICE = 2.0  # times as long as the original took: what a candidate gets at least
AS_LONG = 5.0  # times as long: what a run gets when the clock has run out, so that no answer is lost
FIRST_SIZE, OTHER_SIZE = 1 / 3, 1 / 20  # of a budget: processor time that trying the original at a size may take
# Runs of the original and of a candidate that a search keeps time for, AT_ONCE of them together.
RUNS, RUNS_PER_SIZE = 90, 2
FURTHER_SHARE = 0.05  # of MOST_EXACT_S, up to which other checks are also made at the timed size
MOST_EXACT_S = 5.0  # price up to which outputs are also compared at the timed size


@dataclass(frozen=True)
class Verification:
    """All checks of a candidate."""

    checks: tuple[VerificationCheck, ...]

    @property
    def passed(self) -> bool:
        """Nothing failed, and the outputs were compared at least once."""
        results = self._join_results()
        return results.get("outputs_equal") is True and False not in results.values()

    def _join_results(self) -> dict[str, bool | None]:
        """The result of each name of a check, of which a script has several, one for each size: a failure counts."""
        results: dict[str, list[bool]] = {check.name: [] for check in self.checks}
        for check in self.checks:
            if check.passed is not None:
                results[check.name].append(check.passed)
        return {name: all(passed) if passed else None for name, passed in results.items()}

    @property
    def failure(self) -> str:
        return next((f"{c.name}: {c.detail}" for c in self.checks if c.passed is False), "")

    def document(self) -> CheckedProgram:
        """The checks as JSON documents state them; outputs that were never compared are not equal."""
        passed = self._join_results()
        return CheckedProgram(
            outputs_equal=passed.get("outputs_equal", False),
            other_inputs=passed.get("other_inputs"),
            other_sizes=passed.get("other_sizes"),
            timed_size=passed.get("timed_size"),
            precision=passed.get("precision"),
            stale_memory=passed.get("stale_memory"),
            outside_kernels=passed.get("outside_kernels"),
            races=passed.get("races"),
            repeated_launches=passed.get("repeated_launches"),
            repeated_calls=passed.get("repeated_calls"),
            moved_memory=passed.get("moved_memory"),
            waiting=passed.get("waiting"),
            checks=self.checks,
        )


@dataclass
class Verifier:
    """Compares candidates with the original at small sizes, where every work-group is executed.

    Raises nothing: a size at which the original fails, or runs too long, is not used.
    """

    original: str
    target: Target
    sizes: Sequence[Arguments]
    tolerance: Tolerance = BIT_FOR_BIT
    clock: Clock = field(default_factory=Clock)
    ordered_by_atomics: bool = False  # the original uses results of atomics
    joined: dict[str, int] = field(default_factory=dict)  # kernels made of several -> of how many
    launches_nothing: bool = field(default=False, init=False)  # at a size that was tried
    timed: tuple[CandidateMeasurement, CandidateMeasurement] | None = field(default=None, init=False)
    _unusable: list[str] = field(default_factory=list, init=False)  # sizes, each with the reason
    most_exact_s: float = MOST_EXACT_S
    _orders: dict[Conditions, UnorderedOutputs] = field(default_factory=dict)
    _took: tuple[float, float] = (math.inf, 0.0)  # on the clock: the fastest and the slowest run
    _original_s: float = 0.0  # processor time of the original's slowest run
    _trials: TrialCache = field(init=False)

    def __post_init__(self) -> None:
        self._trials = TrialCache(self._run_trial, MOST_CANDIDATES)
        usable: list[Arguments] = []
        too_large: list[Arguments] = []  # for their outputs to be kept, so that every difference is one too many
        for size in self.sizes:
            share = OTHER_SIZE if usable or too_large else FIRST_SIZE
            if len(usable) < MOST_SIZES and (not usable or not self.clock.hurry) and self.try_size(size, share):
                (usable if self.keeps_outputs(size) else too_large).append(size)
        self.sizes = usable or too_large[:MOST_SIZES]

    def keeps_outputs(self, size: Arguments) -> bool:
        """Whether all that the original leaves at a size is kept, as far as numbers are compared."""
        conditions = self.run_conditions(size)
        outputs = self.reference_trial(conditions).outputs if conditions.record_bytes else ()
        return all(output.recorded == output.bytes for output in outputs if output.kind != "host_writes")

    @property
    def further_sizes(self) -> Sequence[Arguments]:
        """Sizes at which checks that depend on what is executed are made, too: the second one, beside the first or odd
        where that is even, and the timed one where it costs little; none where the clock has run out."""
        if self.clock.late:
            return ()
        further = list(self.sizes[1:2])
        if self.timed and max(run.exact_s for run in self.timed) <= FURTHER_SHARE * self.most_exact_s:
            further += [size for size in (self.timed[0].arguments,) if size not in self.sizes[:2]]
        return further

    @property
    def why_no_size(self) -> str:
        """Why the original can be compared at no size."""
        if self.launches_nothing:
            return "the original launches no kernel"
        return "executed in full, the original fails at each size that was tried: " + "; ".join(self._unusable)

    def try_size(self, size: Arguments, share: float = OTHER_SIZE, most_s: float = math.inf) -> bool:
        """Whether the original runs at a size and is right there, within `share` of the budget and `most_s`: at a size
        that it is not made for, it may run without end."""
        conditions = self.run_conditions(size)
        time_s = min(conditions.time_s, max(LEAST_RUN_S, share * self.clock.budget_s), most_s)
        trial = self._run_trial(self.original, replace(conditions, time_s=time_s))
        if trial.ok:
            self._trials.put(self.original, conditions, trial)
        if trial.ok and trial.exit_code == 0:
            self.launches_nothing |= not trial.kernels
            return bool(trial.kernels)
        why = f"exit code {trial.exit_code}" if trial.ok else f"{trial.reason}: {trial.message}"
        self._unusable.append(f"{' '.join(size) or 'no arguments'} ({why.splitlines()[0]})")
        return False

    def run_conditions(self, size: Arguments) -> Conditions:
        """An exact run at one size, with bytes of results recorded where results may differ within a tolerance."""
        return Conditions(
            size,
            exact=True,
            record_bytes=RECORD_BYTES if self.tolerance.kind or self.ordered_by_atomics else 0,
            time_s=TIME_S,
        )

    def _run_trial(self, text: str, conditions: Conditions, target: Target | None = None) -> Trial:
        """A run on the verifier's target, or on another one."""
        conditions = self._with_elements(conditions)
        begin, most_s = self.clock.spent_s, conditions.time_s
        if text != self.original:  # which may take nearly as much as that
            most_s = max(most_s, TWICE * self._original_s)
        time_s = max(self.clock.run_s(most_s), min(most_s, AS_LONG * self._original_s))
        trial = run_trial(text, target or self.target, replace(conditions, time_s=time_s))
        if trial.ok and text == self.original:
            self._original_s = max(self._original_s, trial.cpu_s)
        if trial.reason == Reason.TIMEOUT:  # this says nothing about other runs
            return trial
        took = self.clock.spent_s - begin
        self._took = min(took - trial.build_s, self._took[0]), max(took, self._took[1])
        runs = (RUNS + RUNS_PER_SIZE * len(self.sizes)) / AT_ONCE
        builds = 1 + sum(sets_constants(size) for size in self.sizes) / AT_ONCE
        self.clock.reserve_s = runs * self._took[0] + builds * self._took[1]  # the slowest one compiles
        return trial

    def _with_elements(self, conditions: Conditions) -> Conditions:
        """The conditions with what the original's allocations hold, where their inputs are changed."""
        if not (conditions.redraw or conditions.nudge):
            return conditions
        plain = replace(self.run_conditions(conditions.arguments), count=conditions.count, time_s=conditions.time_s)
        reference = self.reference_trial(plain)
        types = self.tolerance.types
        conditions = replace(conditions, halves=may_hold_halves(self.original))
        if not reference.ok or not types:
            return conditions
        elements, inputs = list_elements(reference.outputs, types), list_inputs(reference.outputs, types)
        return replace(conditions, elements=elements, inputs=inputs)

    def reference_trial(self, conditions: Conditions) -> Trial:
        return self._trials.get(self.original, conditions)

    def candidate_trial(self, text: str, conditions: Conditions) -> Trial:
        """A candidate's run. Those of the latest candidates are kept."""
        return self._trials.get(text, conditions)

    def run_together(self, wanted: Iterable[tuple[str, Conditions]]) -> list[Trial]:
        """Runs of texts under their conditions, some at the same time; kept like those of single ones."""
        return self._trials.run_together(wanted)

    def run_once(self, text: str, conditions: Conditions) -> Trial:
        """A run that is not kept."""
        return self._run_trial(text, conditions)

    def quick(self, text: str) -> VerificationCheck:
        """The outputs at the first size only, for a search."""
        if not self.sizes:
            return VerificationCheck("outputs_equal", None, "the original runs at no size that can be executed in full")
        return self.check_equal("outputs_equal", text, self.run_conditions(self.sizes[0]))

    def check_equal(
        self, name: str, text: str, conditions: Conditions, of_candidate: Conditions | None = None
    ) -> VerificationCheck:
        """Whether a candidate leaves behind what the original does; `of_candidate`: its conditions, if they differ."""
        before, after = self.run_together([(self.original, conditions), (text, of_candidate or conditions)])
        after = self._ignore_times(before, after, conditions)
        compare = functools.partial(
            compare_trials,
            before,
            after,
            self.tolerance,
            texts=not conditions.redraw,
            more_allocations=conditions.calls == 1,
            unordered=self._unordered_outputs(conditions),
        )
        comparison = compare()
        why = self.tolerance.reason
        are_numbers = comparison.equal or comparison.error > 0  # that differ, and nothing else does
        if self.tolerance.kind and before.ok and after.ok and are_numbers and not comparison.exact:
            unordered = self._unordered_outputs(conditions)
            exact = compare_exact_sums(self, text, conditions, of_candidate or conditions, unordered)
            why = why if exact is None else "sums by atomics, no further from exact ones than the original's"
            if exact is None:
                nudged = nudged_trials(self, conditions)
                comparison = compare(nudged=nudged)
                if not comparison.equal and nudged:
                    comparison = compare(nudged=[*nudged, *nudged_trials(self, conditions, FURTHER_NUDGES)])
            elif exact.equal and not conditions.redraw and before.texts != after.texts:
                comparison = compare_printed(before, after, self.tolerance, nudged_trials(self, conditions), exact)
            else:
                comparison = exact
        size = " ".join(conditions.arguments) or "none"
        reason = comparison.reason or (
            "bit for bit" if comparison.exact else self._why_not_exact(conditions, comparison.error, why)
        )
        if comparison.equal and not same_allocations(before, after):
            reason += (
                "; only what is copied to the host, or written through the same parameters: it allocates otherwise"
            )
        return VerificationCheck(name, comparison.equal, f"arguments {size}: {reason}", comparison.error)

    def _ignore_times(self, before: Trial, after: Trial, conditions: Conditions) -> Trial:
        """A candidate's run with the times that the original's prints or writes; with its stderr, if the original's own
        runs print something else there."""
        if not before.ok or not after.ok or before.texts == after.texts or conditions.redraw:
            return after
        retimed = self.reference_trial(replace(conditions, count=not conditions.count))  # a run of its own
        if not retimed.ok:
            return after
        stderr = before.stderr
        if same_words(before.stderr, retimed.stderr):
            stderr = replace_printed_times(before.stderr, after.stderr, retimed.stderr)
        return replace(
            after,
            stdout=replace_printed_times(before.stdout, after.stdout, retimed.stdout),
            stderr=stderr,
            written=replace_printed_times(before.written, after.written, retimed.written),
        )

    def _unordered_outputs(self, conditions: Conditions) -> UnorderedOutputs:
        """The outputs that the original leaves to the order of its atomics: they differ when its groups run in another
        order."""
        if not self.ordered_by_atomics:
            return UnorderedOutputs()
        if conditions not in self._orders:
            self._orders[conditions] = self._find_unordered(conditions)
        return self._orders[conditions]

    def _find_unordered(self, conditions: Conditions) -> UnorderedOutputs:
        """By runs in the orders of another device, which may have the same one, and of plain execution or the timing
        model, whichever is not the usual one; where they differ, also in that of eight chiplets."""
        reference, types = self.reference_trial(conditions), self.tolerance.types
        others = [name for name in devices.devices_of(self.target.arch) if name != self.target.device]
        trials = [
            *(self._run_trial(self.original, conditions, replace(self.target, device=name)) for name in others[:1]),
            self.reference_trial(replace(conditions, count=not conditions.count)),
        ]
        trials.sort(key=lambda trial: len(differing_outputs(reference, trial)), reverse=True)
        names = differing_outputs(reference, trials[0])
        if not names:
            return UnorderedOutputs()
        arch, device = MANY_CHIPLETS
        if self.target.device != device:
            trials.append(self._run_trial(self.original, conditions, replace(self.target, arch=arch, device=device)))
        return find_unordered(reference, trials[0], types, names, [trial for trial in trials[1:] if trial.ok])

    def _why_not_exact(self, conditions: Conditions, error: float, why: str) -> str:
        if self._unordered_outputs(conditions).names and not error:
            return "the same words, where the original leaves their order to its atomics"
        return f"within {error:.2g}: {why}"

    def full(
        self,
        text: str,
        timed: tuple[CandidateMeasurement, CandidateMeasurement] | None = None,
        on_stage: Callable[[str], None] = lambda _: None,
    ) -> Verification:
        """All checks, until the first failure. `timed`: the measured runs of the original and of the candidate;
        `on_stage`: told what is checked next."""
        on_stage("comparing outputs")
        self.timed = timed
        checks = [self.quick(text)]
        for check in (check_timed_size, *CHECKS) if timed else CHECKS:
            if checks[-1].passed is False or not self.sizes:
                break
            on_stage(check.__name__.replace("check_", "checking ").replace("_", " "))
            checks.append(check(self, text))
        return Verification(tuple(checks))
