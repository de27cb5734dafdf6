"""Verifies that a changed script leaves what the original does in the tensors that its kernels write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hipsynth.core.reasons import Reason
from hipsynth.profiling.backends.protocol import Target
from hipsynth.tuning.optimize.documents import VerificationCheck
from hipsynth.tuning.optimize.verification.atomic_sums import NUDGES
from hipsynth.tuning.optimize.verification.support import POISON, SEEDS
from hipsynth.tuning.optimize.verification.verify import Verification
from hipsynth.tuning.optimize.verification.verify_change import REASON
from hipsynth.tuning.trial import (
    BIT_FOR_BIT,
    Conditions,
    Tolerance,
    Trial,
    TrialComparison,
    compare_printed,
    map_at_once,
    same_words,
)
from hipsynth.tuning.trial.compare import TOLERANCES
from hipsynth.tuning.trial.rounding import compare_numbers
from hipsynth.tuning.trial.script import KIND, ScriptTrials

TIME_S = 60.0  # processor time of one exact run
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
    sizes: Sequence[tuple[str, ...]]
    uneven_sizes: Sequence[tuple[str, ...]] = ()
    _references: dict[Conditions, Trial] = field(default_factory=dict)
    _last: tuple[str, Conditions, Trial] | None = None  # a variant, and its trial

    def conditions(self) -> Conditions:
        return Conditions(self.sizes[0], exact=True, count=False, time_s=TIME_S)

    def reference_trial(self, conditions: Conditions) -> Trial:
        if conditions not in self._references:
            self._references[conditions] = self.trials.run(self.trials.text, self.target, conditions)
        return self._references[conditions]

    def run_changed(self, text: str, conditions: Conditions) -> Trial:
        """The trial of a variant; the last one is not repeated."""
        last = self._last
        if last is not None and last[:2] == (text, conditions):
            return last[2]
        trial = self.trials.run(text, self.target, conditions)
        self._last = (text, conditions, trial)
        return trial

    def why_unusable(self) -> str:
        """Why the original itself cannot be compared; "" if it can."""
        trial = self.reference_trial(self.conditions())
        if not trial.ok:
            return f"the script cannot be run in full: {trial.reason}: {trial.message[:300]}"
        if trial.exit_code:
            return f"the script is wrong to begin with: exit code {trial.exit_code}; {trial.message[:300]}"
        return "" if trial.outputs else "no kernel changed a tensor"

    def quick(self, text: str) -> VerificationCheck:
        """The outputs at the first size, with the script's own inputs."""
        return self.check_equal("outputs_equal", text, self.conditions())

    def check_equal(self, name: str, text: str, conditions: Conditions) -> VerificationCheck:
        """Whether a variant leaves behind what the original does; None where the original itself fails."""
        before = self.reference_trial(conditions)
        if not before.ok or before.exit_code:
            return VerificationCheck(name, None, "the original itself fails then")
        after = self.run_changed(text, conditions)
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
        plain = self.conditions()
        work = [("other_inputs", replace(plain, redraw=SEEDS[0])), ("stale_memory", replace(plain, poison=POISON))]
        work += [("other_sizes", replace(plain, arguments=size)) for size in self.sizes[1:]]
        checks = map_at_once(lambda row: self.check_equal(row[0], text, row[1]), work)
        redrawn = self.reference_trial(work[0][1])
        if checks[0].passed and redrawn.outputs == self.reference_trial(plain).outputs:
            checks[0] = VerificationCheck("other_inputs", None, "no result depends on a random generator")
        return Verification((first, *checks, *self._check_uneven(text)))

    def _check_uneven(self, text: str) -> list[VerificationCheck]:
        """Sizes that no block divides show masks that are wrong. All at once if the original can be run so, else those
        of each argument alone that can."""
        checks: list[VerificationCheck] = []
        for size in self.uneven_sizes:
            checks.append(self.check_equal("other_sizes", text, replace(self.conditions(), arguments=size)))
            if len(checks) == 1 and checks[0].passed is not None:
                break
        possible = [check for check in checks if check.passed is not None]
        return possible or checks[:1]


def compare_scripts(before: Trial, after: Trial, nudge: Callable[[], Sequence[Trial]] = lambda: ()) -> TrialComparison:
    """Compares exit codes, what is printed, and each tensor within the tolerance of its type. Where tensors differ,
    printed numbers may differ by what the last bits of inputs change in them; `nudge`: the original's trials with
    such inputs."""
    if not after.ok or after.exit_code != before.exit_code:
        why = f"{after.reason}: " if after.reason not in (Reason.NONE, "") else f"exit code {after.exit_code}: "
        return TrialComparison(False, False, reason=f"the changed script fails: {why}{after.message[:300]}")
    shapes = [[(output.kind, output.bytes) for output in trial.outputs] for trial in (before, after)]
    if not same_words(before.stdout, after.stdout):
        return TrialComparison(False, False, reason="it prints something else")
    if shapes[0] != shapes[1] or not before.outputs:
        return TrialComparison(False, False, reason="its kernels write other tensors")
    comparison = _compare_tensors(before, after)
    if not comparison.equal or before.stdout == after.stdout:
        return comparison
    if comparison.exact:
        return TrialComparison(False, False, reason="it prints something else")
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
