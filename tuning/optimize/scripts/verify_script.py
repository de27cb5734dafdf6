"""Verifies that a changed script leaves what the original does in the tensors that its kernels write."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hipsynth.core.reasons import Reason
from hipsynth.profiling.backends.protocol import Target
from hipsynth.tuning.optimize.documents import VerificationCheck
from hipsynth.tuning.optimize.verification_support import POISON, SEEDS
from hipsynth.tuning.optimize.verify import Verification
from hipsynth.tuning.optimize.verify_change import REASON, TOLERANCES
from hipsynth.tuning.trial import Conditions, Trial, TrialComparison, map_at_once
from hipsynth.tuning.trial.rounding import compare_numbers
from hipsynth.tuning.trial.script import KIND, ScriptTrials

# A printed number that follows from tensors, which may differ in their last bits: a maximum error, a sum.
FRACTION = re.compile(r"[-+ ]?(\d+\.\d*|\.\d+|\d+(?=[eE][-+]?\d))([eE][-+]?\d+)?")
TIME_S = 60.0  # processor time of one exact run
# PyTorch's name of a type -> the name that comparisons have for it, and the relative tolerance.
KINDS = {
    f"{KIND} float32": ("float", TOLERANCES["float"]),
    f"{KIND} float64": ("double", TOLERANCES["double"]),
    f"{KIND} float16": ("half", TOLERANCES["half"]),
    f"{KIND} bfloat16": ("float", 8 * TOLERANCES["half"]),  # it has three bits fewer
}


@dataclass
class ScriptVerifier:
    """Compares variants of a script with the original in runs of every work-group; `sizes`: their arguments, the first
    of which searches use, too."""

    trials: ScriptTrials
    target: Target
    sizes: Sequence[tuple[str, ...]]
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
        comparison = compare_scripts(before, after)
        detail = comparison.reason or (
            "bit for bit" if comparison.exact else f"within {comparison.error:.2g}: {REASON}"
        )
        size = " ".join(conditions.arguments) or "none"
        return VerificationCheck(name, comparison.equal, f"arguments {size}: {detail}", comparison.error)

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
        return Verification((first, *checks))


def compare_scripts(before: Trial, after: Trial) -> TrialComparison:
    """Compares exit codes, what is printed but for fractions, and each tensor within the tolerance of its type."""
    if not after.ok or after.exit_code != before.exit_code:
        why = f"{after.reason}: " if after.reason not in (Reason.NONE, "") else f"exit code {after.exit_code}: "
        return TrialComparison(False, False, reason=f"the changed script fails: {why}{after.message[:300]}")
    if FRACTION.sub("", before.stdout) != FRACTION.sub("", after.stdout):
        return TrialComparison(False, False, reason="it prints something else")
    shapes = [[(output.kind, output.bytes) for output in trial.outputs] for trial in (before, after)]
    if shapes[0] != shapes[1] or not before.outputs:
        return TrialComparison(False, False, reason="its kernels write other tensors")
    worst, exact = 0.0, True
    for number, (ours, theirs) in enumerate(zip(before.outputs, after.outputs, strict=True)):
        if ours.digest == theirs.digest:
            continue
        exact = False
        kind, relative = KINDS.get(ours.kind, ("", 0.0))
        label = f"{ours.kind} {number}"
        if not kind:
            return TrialComparison(False, False, worst, f"{label} differs")
        data = [_read_numbers(ours.kind, (trial.recorded or {})[number]) for trial in (before, after)]
        difference = compare_numbers(data[0], data[1], kind, relative)
        worst = max(worst, difference.error)
        if difference.reason:
            return TrialComparison(False, False, worst, f"{label} {difference.reason}")
    return TrialComparison(True, exact, worst)


def _read_numbers(kind: str, data: bytes) -> bytes:
    """bfloat16 as float32, of which it is the upper half."""
    if kind != f"{KIND} bfloat16":
        return data
    return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).astype(np.uint32).tobytes()
