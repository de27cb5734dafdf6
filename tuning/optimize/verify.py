"""Verifies that a faster program computes the same results; docs/explanation/honest-gains.md explains each check."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hipsynth.profiling.backends.protocol import Target
from hipsynth.simulator import devices
from hipsynth.tuning.optimize.documents import CheckedProgram, VerificationCheck
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, original_name
from hipsynth.tuning.optimize.verification_sizes import Arguments
from hipsynth.tuning.trial import (
    BIT_FOR_BIT,
    Conditions,
    Tolerance,
    Trial,
    compare_trials,
    differing_outputs,
    run_trial,
)
from hipsynth.tuning.trial.search_clock import Clock

RECORD_BYTES = 64 << 20
SEEDS = (11, 12)  # the search itself uses the program's own inputs only
POISON = 0x7FF7A5A5  # a NaN as half, float and double, and no usable index
MOST_SIZES = 3
MOST_CANDIDATES = 4  # whose runs are kept
TIME_S = 20.0  # processor time of one exact run
RUNS, RUNS_PER_SIZE = 8, 2  # of the original and of a candidate in a full verification
ON_DEVICE = frozenset({"device_to_device", "fill"})
MOST_EXACT_S = 5.0  # price up to which outputs are also compared at the timed size
LEAST_GROWTH = 0.25  # of memory accesses from a checked size to the timed one, relative to the original's
NARROW = tuple(f"SQ_INSTS_VALU_MFMA_MOPS_{kind}" for kind in ("F16", "BF16", "I8", "XF32", "F8"))
ACCESSES = {"loads": ["TCP_TOTAL_READ"], "stores": ["TCP_TOTAL_WRITE"]}


@dataclass(frozen=True)
class Verification:
    """All checks of a candidate."""

    checks: tuple[VerificationCheck, ...]

    @property
    def passed(self) -> bool:
        """Nothing failed, and the outputs were compared at least once."""
        results = {check.name: check.passed for check in self.checks}
        return results.get("outputs_equal") is True and False not in results.values()

    @property
    def failure(self) -> str:
        return next((f"{c.name}: {c.detail}" for c in self.checks if c.passed is False), "")

    def document(self) -> CheckedProgram:
        """The checks as JSON documents state them; outputs that were never compared are not equal."""
        passed = {check.name: check.passed for check in self.checks}
        return CheckedProgram(
            outputs_equal=passed.get("outputs_equal", False),
            other_inputs=passed.get("other_inputs"),
            other_sizes=passed.get("other_sizes"),
            timed_size=passed.get("timed_size"),
            precision=passed.get("precision"),
            stale_memory=passed.get("stale_memory"),
            outside_kernels=passed.get("outside_kernels"),
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
    _known: dict[Conditions, Trial] = field(default_factory=dict)
    _orders: dict[Conditions, frozenset[tuple[str, int]]] = field(default_factory=dict)
    _took: tuple[float, float] = (math.inf, 0.0)  # on the clock: the fastest and the slowest run
    _candidates: dict[str, dict[Conditions, Trial]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        usable: list[Arguments] = []
        for size in self.sizes:
            if len(usable) < MOST_SIZES and (not usable or not self.clock.hurry) and self._is_usable(size):
                usable.append(size)
        self.sizes = usable

    def _is_usable(self, size: Arguments) -> bool:
        reference = self._reference_trial(self._run_conditions(size))
        return reference.ok and reference.exit_code == 0 and bool(reference.kernels)

    def _run_conditions(self, size: Arguments) -> Conditions:
        return Conditions(
            size,
            exact=True,
            record_bytes=RECORD_BYTES if self.tolerance.kind or self.ordered_by_atomics else 0,
            time_s=TIME_S,
        )

    def _run_trial(self, text: str, conditions: Conditions) -> Trial:
        begin = self.clock.spent_s
        trial = run_trial(text, self.target, replace(conditions, time_s=self.clock.run_s(conditions.time_s)))
        took = self.clock.spent_s - begin
        self._took = min(took, self._took[0]), max(took, self._took[1])
        runs = RUNS + RUNS_PER_SIZE * len(self.sizes)
        self.clock.reserve_s = runs * self._took[0] + self._took[1]  # the slowest one compiles
        return trial

    def _reference_trial(self, conditions: Conditions) -> Trial:
        if conditions not in self._known:
            self._known[conditions] = self._run_trial(self.original, conditions)
        return self._known[conditions]

    def _candidate_trial(self, text: str, conditions: Conditions) -> Trial:
        """A candidate's run. Those of the latest candidates are kept."""
        candidates = self._candidates.setdefault(text, {})
        for other in list(self._candidates)[:-MOST_CANDIDATES]:
            self._candidates.pop(other, None)  # another thread may have done so
        if conditions not in candidates:
            candidates[conditions] = self._run_trial(text, conditions)
        return candidates[conditions]

    def quick(self, text: str) -> VerificationCheck:
        """The outputs at the first size only, for a search."""
        if not self.sizes:
            return VerificationCheck("outputs_equal", None, "the original runs at no size that can be executed in full")
        return self._check_equal("outputs_equal", text, self._run_conditions(self.sizes[0]))

    def _check_equal(self, name: str, text: str, conditions: Conditions) -> VerificationCheck:
        after = self._candidate_trial(text, conditions)
        comparison = compare_trials(
            self._reference_trial(conditions),
            after,
            self.tolerance,
            texts=not conditions.redraw,
            stands_for=lambda kernel: self.joined.get(original_name(kernel), 1),
            unordered=self._unordered_outputs(conditions),
        )
        size = " ".join(conditions.arguments) or "none"
        reason = comparison.reason or (
            "bit for bit" if comparison.exact else self._why_not_exact(conditions, comparison.error)
        )
        return VerificationCheck(name, comparison.equal, f"arguments {size}: {reason}", comparison.error)

    def _unordered_outputs(self, conditions: Conditions) -> frozenset[tuple[str, int]]:
        """The outputs whose order the original leaves to its atomics: they differ when its groups run in the order of
        another device."""
        if not self.ordered_by_atomics:
            return frozenset()
        if conditions not in self._orders:
            others = [name for name in devices.devices_of(self.target.arch) if name != self.target.device]
            trials = (run_trial(self.original, replace(self.target, device=name), conditions) for name in others[:1])
            self._orders[conditions] = frozenset[tuple[str, int]]().union(
                *(differing_outputs(self._reference_trial(conditions), trial) for trial in trials if trial.ok)
            )
        return self._orders[conditions]

    def _why_not_exact(self, conditions: Conditions, error: float) -> str:
        if self._unordered_outputs(conditions) and not error:
            return "the same words, where the original leaves their order to its atomics"
        return f"within {error:.2g}: {self.tolerance.reason}"

    def full(self, text: str, timed: tuple[CandidateMeasurement, CandidateMeasurement] | None = None) -> Verification:
        """All checks, until the first failure. `timed`: the measured runs of the original and of the candidate."""
        checks = [self.quick(text)]
        for check in (
            self._check_precision,
            self._check_stale_reads,
            self._outside_kernels,
            self._other_inputs,
            self._other_sizes,
        ):
            if checks[-1].passed is False or not self.sizes:
                break
            checks.append(check(text))
        if timed and self.sizes and checks[-1].passed is not False:
            checks.append(self._timed_size(text, *timed))
        return Verification(tuple(checks))

    def _check_precision(self, text: str) -> VerificationCheck:
        """No arithmetic in a narrower type than the original's."""
        conditions = self._run_conditions(self.sizes[0])
        before, after = self._reference_trial(conditions), self._candidate_trial(text, conditions)
        if _count_operations(after, "F16") > _count_operations(before, "F16"):
            return VerificationCheck("precision", False, "it calculates with halves where the original does not")
        if _count_operations(after, "F64") < 0.5 * _count_operations(before, "F64"):
            return VerificationCheck("precision", False, "it calculates with floats where the original uses doubles")
        if any(_sum_counters(after, [name]) > _sum_counters(before, [name]) for name in NARROW):
            return VerificationCheck("precision", False, "it multiplies matrices in a narrower type than the original")
        return VerificationCheck("precision", True)

    def _check_stale_reads(self, text: str) -> VerificationCheck:
        """New allocations hold NaNs: nothing may be read that was not written."""
        conditions = self._watched
        if not self._reference_trial(conditions).ok:
            return VerificationCheck("stale_memory", None, "the original itself reads memory that it has not written")
        return self._check_equal("stale_memory", text, conditions)

    @property
    def _watched(self) -> Conditions:
        return replace(self._run_conditions(self.sizes[0]), poison=POISON, watch=True)

    def _outside_kernels(self, text: str) -> VerificationCheck:
        """The work is done by kernels: not by the host in device memory, nor by more copies and fills on the device."""
        before, after = self._reference_trial(self._watched), self._candidate_trial(text, self._watched)
        if not before.ok:
            return VerificationCheck(
                "outside_kernels", None, "the original itself reads memory that it has not written"
            )
        for count, label in (
            (_host_writes, "the host writes device memory"),
            (_moved_bytes, "copies and fills move more"),
        ):
            if count(after) > count(before):
                return VerificationCheck(
                    "outside_kernels", False, f"{label}: {count(after):g} instead of {count(before):g}"
                )
        return VerificationCheck("outside_kernels", True)

    def _timed_size(self, text: str, before: CandidateMeasurement, after: CandidateMeasurement) -> VerificationCheck:
        """Outputs at the timed size; where that takes too long, memory accesses must grow from the largest checked size
        as the original's do."""
        full = replace(self._run_conditions(before.arguments), count=False)
        short = max(before.exact_s, after.exact_s) <= MOST_EXACT_S and not self.clock.late
        if short and self._reference_trial(full).ok:
            outputs = self._reference_trial(full).outputs
            check = self._check_equal("timed_size", text, full)
            if check.passed or all(output.recorded == output.bytes for output in outputs):
                return check
        conditions = max(
            map(self._run_conditions, self.sizes), key=lambda size: self._reference_trial(size).duration_ns
        )
        for access, names in ACCESSES.items():
            small = (
                _sum_counters(self._reference_trial(conditions), names),
                _sum_counters(self._candidate_trial(text, conditions), names),
            )
            large = before.counted(names), after.counted(names)
            if min(*small, *large) > 0 and large[1] / small[1] < LEAST_GROWTH * large[0] / small[0]:
                grown = f"{large[1] / small[1]:.3g} times as many, the original {large[0] / small[0]:.3g} times"
                return VerificationCheck("timed_size", False, f"at the size that is timed, it makes {grown} {access}")
        return VerificationCheck("timed_size", True, "accesses grow as the original's")

    def _other_inputs(self, text: str) -> VerificationCheck:
        """Inputs drawn again: first also integers, which may make the original fail, then floating point only."""
        plain = self._run_conditions(self.sizes[0])
        last = VerificationCheck(
            "other_inputs", None, "the program copies no data to the device that could be drawn again"
        )
        for integers in (True, False):
            drawn = [replace(plain, redraw=seed, redraw_integers=integers) for seed in SEEDS]
            before = [self._reference_trial(conditions) for conditions in drawn]
            if not all(output.ok for output in before):
                last = VerificationCheck("other_inputs", None, "the original fails on inputs that are drawn again")
            elif any(output.outputs != self._reference_trial(plain).outputs for output in before):
                checks = [self._check_equal("other_inputs", text, conditions) for conditions in drawn]
                return next((output for output in checks if not output.passed), checks[0])
        return last

    def _other_sizes(self, text: str) -> VerificationCheck:
        if len(self.sizes) < 2:
            return VerificationCheck("other_sizes", None, "the program takes no size as an argument")
        checks = [self._check_equal("other_sizes", text, self._run_conditions(size)) for size in self.sizes[1:]]
        return next((check for check in checks if not check.passed), checks[0])


def _host_writes(trial: Trial) -> float:
    return sum(output.bytes for output in trial.outputs if output.kind == "host_writes")


def _moved_bytes(trial: Trial) -> float:
    """Bytes copied within the device, or filled, by the runtime."""
    return sum(transfer.bytes for transfer in trial.transfers if transfer.kind in ON_DEVICE)


def _count_operations(trial: Trial, kind: str) -> float:
    return _sum_counters(trial, [f"SQ_INSTS_VALU_{operation}_{kind}" for operation in ("ADD", "MUL", "FMA", "TRANS")])


def _sum_counters(trial: Trial, names: Sequence[str]) -> float:
    return sum(kernel.counters.get(name, 0.0) * kernel.dispatches for kernel in trial.kernels for name in names)
