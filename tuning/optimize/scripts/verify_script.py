"""Verifies that a changed script leaves what the original does in the tensors that its kernels write."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from hipsynth.core.reasons import Reason
from hipsynth.profiling.backends.protocol import Target
from hipsynth.simulator.observation import Family
from hipsynth.tuning.optimize.documents import VerificationCheck
from hipsynth.tuning.optimize.verification.atomic_sums import NUDGES
from hipsynth.tuning.optimize.verification.check_sizes import Arguments
from hipsynth.tuning.optimize.verification.checks import check_races
from hipsynth.tuning.optimize.verification.repeated_runs import check_repeated_launches
from hipsynth.tuning.optimize.verification.support import POISON, SEEDS, first_size
from hipsynth.tuning.optimize.verification.verify import Verification
from hipsynth.tuning.optimize.verification.verify_change import REASON
from hipsynth.tuning.trial import (
    BIT_FOR_BIT,
    Conditions,
    Tolerance,
    Trial,
    TrialComparison,
    compare_printed,
    describe_other_texts,
    map_at_once,
    same_words,
)
from hipsynth.tuning.trial.compare import TOLERANCES
from hipsynth.tuning.trial.rounding import compare_numbers
from hipsynth.tuning.trial.script import KIND, ScriptTrials
from hipsynth.tuning.trial.trial_cache import TrialCache

TIME_S = 60.0  # processor time of one exact run
MOST_VARIANTS = 2  # whose trials are kept
FAMILIES = (Family.SCALED, Family.LARGE, Family.ZEROS)  # SCALED: as the script draws them
# PyTorch's name of a type -> the name that comparisons have for it, and the relative tolerance.
KINDS = {
    f"{KIND} float32": ("float", TOLERANCES["float"]),
    f"{KIND} float64": ("double", TOLERANCES["double"]),
    f"{KIND} float16": ("half", TOLERANCES["half"]),
    f"{KIND} bfloat16": ("bfloat16", TOLERANCES["bfloat16"]),
}


@dataclass
class ScriptVerifier:
    """Compares variants of a script with the original in runs of every work-group; `sizes`: their arguments, the first
    of which searches use, too; `uneven_sizes`: further ones, of which the first that the original can run counts."""

    trials: ScriptTrials
    target: Target
    sizes: Sequence[Arguments]
    uneven_sizes: Sequence[Arguments] = ()
    further_sizes: Sequence[Arguments] = ()
    joined: dict[str, int] = field(default_factory=dict)  # no kernel is made of several
    _cache: TrialCache = field(init=False)

    def __post_init__(self) -> None:
        self._cache = TrialCache(lambda text, conditions: self.trials.run(text, self.target, conditions), MOST_VARIANTS)

    @property
    def original(self) -> str:
        return self.trials.text

    def run_conditions(self, size: Arguments) -> Conditions:
        """A run of every work-group with these arguments."""
        return Conditions(size, exact=True, count=False, time_s=TIME_S)

    def reference_trial(self, conditions: Conditions) -> Trial:
        return self._cache.get(self.original, conditions)

    def candidate_trial(self, text: str, conditions: Conditions) -> Trial:
        """The trial of a variant. Those of the latest variants are kept."""
        return self._cache.get(text, conditions)

    def run_together(self, wanted: Iterable[tuple[str, Conditions]]) -> list[Trial]:
        """Trials of the script or its variants, some at the same time."""
        return self._cache.run_together(wanted)

    def why_unusable(self) -> str:
        """Why the original itself cannot be compared; "" if it can."""
        trial = self.reference_trial(first_size(self))
        if not trial.ok:
            return f"the script cannot be run in full: {trial.reason}: {trial.message[:300]}"
        if trial.exit_code:
            return f"the script is wrong to begin with: exit code {trial.exit_code}; {trial.message[:300]}"
        return "" if trial.outputs else "no kernel changed a tensor"

    def quick(self, text: str) -> VerificationCheck:
        """The outputs at the first size, with the script's own inputs."""
        return self.check_equal("outputs_equal", text, first_size(self))

    def check_equal(
        self, name: str, text: str, conditions: Conditions, of_candidate: Conditions | None = None
    ) -> VerificationCheck:
        """Whether a variant leaves behind what the original does; None where the original itself fails.
        `of_candidate`: its conditions, if they differ."""
        before = self.reference_trial(conditions)
        if not before.ok or before.exit_code:
            return VerificationCheck(name, None, "the original itself fails then")
        after = self.candidate_trial(text, of_candidate or conditions)
        comparison = compare_scripts(before, after, lambda: self._nudged_trials(conditions))
        detail = comparison.reason or (
            "bit for bit" if comparison.exact else f"within {comparison.error:.2g}: {REASON}"
        )
        size = " ".join(conditions.arguments) or "none"
        return VerificationCheck(name, comparison.equal, f"arguments {size}: {detail}", comparison.error)

    def _nudged_trials(self, conditions: Conditions) -> list[Trial]:
        """The original with tensors whose last bits were moved before its first launch."""
        trials = [self.reference_trial(replace(conditions, nudge=seed)) for seed in NUDGES]
        return [trial for trial in trials if trial.ok]

    def full(self, text: str) -> Verification:
        """All checks; after the first of them, two at a time."""
        first = self.quick(text)
        if not first.passed:
            return Verification((first,))
        plain = first_size(self)
        work: list[Callable[[], VerificationCheck]] = [
            lambda: self._check_other_inputs(text),
            lambda: self.check_equal("stale_memory", text, replace(plain, poison=POISON)),
            lambda: check_races(self, text),
            lambda: self._check_repeated_launches(text),
        ]
        for size in self.sizes[1:]:
            work.append(functools.partial(self.check_equal, "other_sizes", text, replace(plain, arguments=size)))
        return Verification((first, *map_at_once(lambda check: check(), work), *self._check_uneven(text)))

    def _check_other_inputs(self, text: str) -> VerificationCheck:
        """Other numbers of random generators, also as numbers of other families."""
        plain, checks = first_size(self), {}
        distinct = [plain]  # conditions under which the original leaves other results
        for family in FAMILIES:
            drawn = replace(plain, redraw=SEEDS[0], family=family)
            if any(self.reference_trial(other).outputs == self.reference_trial(drawn).outputs for other in distinct):
                continue
            distinct.append(drawn)
            check = self.check_equal("other_inputs", text, drawn)
            if check.passed is False:
                return replace(check, detail=f"inputs of the family {family.name.lower()}, {check.detail}")
            if check.passed:
                checks[family.name.lower()] = check
        if not checks:
            return VerificationCheck("other_inputs", None, "no result depends on a random generator")
        check = next(iter(checks.values()))
        return replace(check, detail=f"{check.detail}; families: {', '.join(checks)}")

    def _check_repeated_launches(self, text: str) -> VerificationCheck:
        if self.reference_trial(first_size(self)).autotunings:
            return VerificationCheck("repeated_launches", None, "the original launches kernels to tune them, too")
        return check_repeated_launches(self, text)

    def _check_uneven(self, text: str) -> list[VerificationCheck]:
        """Sizes that no block divides show masks that are wrong. All at once if the original can be run so, else those
        of each argument alone that can."""
        checks: list[VerificationCheck] = []
        for size in self.uneven_sizes:
            checks.append(self.check_equal("other_sizes", text, self.run_conditions(size)))
            if len(checks) == 1 and checks[0].passed is not None:
                break
        possible = [check for check in checks if check.passed is not None]
        return possible or checks[:1]


def compare_scripts(before: Trial, after: Trial, nudge: Callable[[], Sequence[Trial]] = lambda: ()) -> TrialComparison:
    """Compares exit codes, texts that are printed or written to files, and each tensor within its type's tolerance.
    Where tensors differ, numbers in texts may differ by what the last bits of inputs change in them; `nudge`: the
    original's trials with such inputs."""
    if not after.ok or after.exit_code != before.exit_code:
        why = f"{after.reason}: " if after.reason not in (Reason.NONE, "") else f"exit code {after.exit_code}: "
        return TrialComparison(False, False, reason=f"the changed script fails: {why}{after.message[:300]}")
    shapes = [[(output.kind, output.bytes) for output in trial.outputs] for trial in (before, after)]
    if not same_words(before.texts, after.texts):
        return TrialComparison(False, False, reason=describe_other_texts(before, after))
    if shapes[0] != shapes[1] or not before.outputs:
        return TrialComparison(False, False, reason="its kernels write other tensors")
    comparison = _compare_tensors(before, after)
    if not comparison.equal or before.texts == after.texts:
        return comparison
    if comparison.exact:
        return TrialComparison(False, False, reason=describe_other_texts(before, after))
    return compare_printed(before, after, _find_tolerance(before, after), nudge(), comparison)


def _compare_tensors(before: Trial, after: Trial) -> TrialComparison:
    worst, exact = 0.0, True
    for number, (ours, theirs) in enumerate(zip(before.outputs, after.outputs, strict=True)):
        if ours.digest == theirs.digest:
            continue
        exact = False
        kind, relative = KINDS.get(ours.kind, ("", 0.0))
        label = f"{ours.kind} {number}"
        if not kind:
            return TrialComparison(False, False, worst, f"{label} differs")
        data = [(trial.recorded or {})[number] for trial in (before, after)]
        difference = compare_numbers(data[0], data[1], kind, relative)
        worst = max(worst, difference.error)
        if difference.reason:
            return TrialComparison(False, False, worst, f"{label} {difference.reason}")
    return TrialComparison(True, exact, worst)


def _find_tolerance(before: Trial, after: Trial) -> Tolerance:
    """For printed numbers: that of the tensors that differ, the widest."""
    pairs = zip(before.outputs, after.outputs, strict=True)
    kinds = [ours.kind for ours, theirs in pairs if ours.digest != theirs.digest and ours.kind in KINDS]
    if not kinds:
        return BIT_FOR_BIT
    widest = max(kinds, key=lambda kind: KINDS[kind][1])
    kind, relative = KINDS[widest]
    return Tolerance(kind, relative, REASON)
