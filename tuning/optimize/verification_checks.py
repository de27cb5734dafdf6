"""The checks of a full verification after the first comparison; docs/explanation/honest-gains.md explains each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from hipsynth.core.reasons import Reason
from hipsynth.profiling.backends.protocol import Target
from hipsynth.simulator.observation import Family
from hipsynth.tuning.optimize.documents import VerificationCheck
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, original_name
from hipsynth.tuning.optimize.verification_sizes import Arguments
from hipsynth.tuning.trial import Conditions, Trial
from hipsynth.tuning.trial.search_clock import Clock

SEEDS = (11, 12)  # the search itself uses the program's own inputs only
POISON = 0x7FF7A5A5  # a NaN as half, float and double, and no usable index
ON_DEVICE = frozenset({"device_to_device", "fill"})
LEAST_GROWTH = 0.5  # of work from a checked size to the timed one, relative to the original's
NARROW = tuple(f"SQ_INSTS_VALU_MFMA_MOPS_{kind}" for kind in ("F16", "BF16", "I8", "XF32", "F8"))
WORK = {
    "loads": ["TCP_TOTAL_READ"],
    "stores": ["TCP_TOTAL_WRITE"],
    "vector instructions": ["SQ_INSTS_VALU"],
    "LDS instructions": ["SQ_INSTS_LDS"],
}
FAST_MATH = ("-ffast-math", "-ffinite-math-only", "-Ofast")  # with these, compilers assume that there are no infinities
EXACT_ONLY = frozenset({Family.SMALL, Family.INFINITE})


class TrialSource(Protocol):
    """What checks use of a verifier."""

    sizes: Sequence[Arguments]
    target: Target
    clock: Clock
    most_exact_s: float
    joined: dict[str, int]

    def run_conditions(self, size: Arguments) -> Conditions: ...
    def reference_trial(self, conditions: Conditions) -> Trial: ...
    def candidate_trial(self, text: str, conditions: Conditions) -> Trial: ...
    def check_equal(
        self, name: str, text: str, conditions: Conditions, of_candidate: Conditions | None = None
    ) -> VerificationCheck: ...


def _first_size(source: TrialSource) -> Conditions:
    return source.run_conditions(source.sizes[0])


def check_precision(source: TrialSource, text: str) -> VerificationCheck:
    """No arithmetic in a narrower type than the original's."""
    conditions = _first_size(source)
    before, after = source.reference_trial(conditions), source.candidate_trial(text, conditions)
    if _count_operations(after, "F16") > _count_operations(before, "F16"):
        return VerificationCheck("precision", False, "it calculates with halves where the original does not")
    if _count_operations(after, "F64") < 0.5 * _count_operations(before, "F64"):
        return VerificationCheck("precision", False, "it calculates with floats where the original uses doubles")
    if any(_sum_counters(after, [name]) > _sum_counters(before, [name]) for name in NARROW):
        return VerificationCheck("precision", False, "it multiplies matrices in a narrower type than the original")
    return VerificationCheck("precision", True)


def check_stale_reads(source: TrialSource, text: str) -> VerificationCheck:
    """New allocations and the LDS hold NaNs: nothing may be read that was not written."""
    conditions = _watched(source)
    if not source.reference_trial(conditions).ok:
        return VerificationCheck("stale_memory", None, "the original itself reads memory that it has not written")
    return source.check_equal("stale_memory", text, conditions)


def _watched(source: TrialSource) -> Conditions:
    return replace(_first_size(source), poison=POISON, watch=True)


def check_outside_kernels(source: TrialSource, text: str) -> VerificationCheck:
    """The work is done by kernels: not by the host in device memory, nor by more copies and fills on the device."""
    before, after = (trial_of(_watched(source)) for trial_of in _trials_of(source, text))
    if not before.ok:
        return VerificationCheck("outside_kernels", None, "the original itself reads memory that it has not written")
    for count, label in (
        (_host_writes, "the host writes device memory"),
        (_moved_bytes, "copies and fills move more"),
    ):
        if count(after) > count(before):
            return VerificationCheck(
                "outside_kernels", False, f"{label}: {count(after):g} instead of {count(before):g}"
            )
    guarded = replace(_first_size(source), guard=True)
    before, after = (trial_of(guarded) for trial_of in _trials_of(source, text))
    if before.ok and after.reason == Reason.HOST_CRASH:
        return VerificationCheck("outside_kernels", False, "the host reads or writes device memory")
    return VerificationCheck("outside_kernels", True)


def _trials_of(source: TrialSource, text: str) -> tuple[Callable[[Conditions], Trial], Callable[[Conditions], Trial]]:
    return source.reference_trial, lambda conditions: source.candidate_trial(text, conditions)


def check_races(source: TrialSource, text: str) -> VerificationCheck:
    """No two waves use one word, one of them to change it, unless a barrier or atomics put them in order."""
    conditions = replace(_first_size(source), races=True)
    before, after = (_race_of(trial_of(conditions)) for trial_of in _trials_of(source, text))
    if before:
        return VerificationCheck("races", None, f"the original's own waves race: {before}")
    return VerificationCheck("races", not after, after)


def _race_of(trial: Trial) -> str:
    return next((text.removeprefix("race: ") for text in trial.warnings if text.startswith("race: ")), "")


def check_repeated_launches(source: TrialSource, text: str) -> VerificationCheck:
    """Launches that write their results anew do so each time: what they wrote is poisoned in between."""
    plain = _first_size(source)
    launched = {kernel.name: 0 for kernel in source.reference_trial(plain).kernels}
    for kernel in source.reference_trial(plain).kernels:
        launched[kernel.name] += kernel.dispatches
    total, rounds = sum(launched.values()), math.gcd(*launched.values())
    after = source.candidate_trial(text, plain)
    launches_made = sum(kernel.dispatches for kernel in after.kernels)
    credited = sum(kernel.dispatches * source.joined.get(original_name(kernel.name), 1) for kernel in after.kernels)
    for times in dict.fromkeys((rounds, total)):
        conditions = replace(plain, poison=POISON, poison_every=total // times)
        if times < 2 or not _same_copies(source, plain, conditions):
            continue
        if credited < times:
            return VerificationCheck(
                "repeated_launches", False, f"it launches fewer kernels: {launches_made} in {times} rounds"
            )
        if launches_made < times or launches_made % times:
            continue
        return source.check_equal(
            "repeated_launches", text, conditions, replace(conditions, poison_every=launches_made // times)
        )
    return VerificationCheck("repeated_launches", None, "no launch of the original repeats an earlier one")


def _same_copies(source: TrialSource, one: Conditions, other: Conditions) -> bool:
    """Whether the original copies the same results to the host under both conditions."""
    before, after = source.reference_trial(one), source.reference_trial(other)
    return after.ok and after.exit_code == before.exit_code and _copies(before) == _copies(after)


def _copies(trial: Trial) -> list[str]:
    """Digests of what a program copied to the host; of what it left in memory, if it copied nothing."""
    copied = [output.digest for output in trial.outputs if output.kind == "copy"]
    return copied or [output.digest for output in trial.outputs]


def check_other_inputs(source: TrialSource, text: str) -> VerificationCheck:
    """Inputs drawn again, as numbers of several families."""
    checked: list[tuple[Family, VerificationCheck]] = []
    failed = False
    for family, conditions in _drawn_inputs(source):
        usable = next((drawn for drawn in conditions if source.reference_trial(drawn).ok), None)
        failed |= usable is None
        plain = source.reference_trial(_first_size(source))
        if usable is None or _copies(source.reference_trial(usable)) == _copies(plain):
            continue
        check = source.check_equal("other_inputs", text, usable)
        if not check.passed:
            return replace(check, detail=f"inputs of the family {family.name.lower()}, {check.detail}")
        checked.append((family, check))
    if checked:
        names = ", ".join(dict.fromkeys(family.name.lower() for family, _ in checked))
        return replace(checked[0][1], detail=f"{checked[0][1].detail}; families: {names}")
    if failed:
        return VerificationCheck("other_inputs", None, "the original fails on inputs that are drawn again")
    return VerificationCheck("other_inputs", None, "no result depends on data that could be drawn again")


def _drawn_inputs(source: TrialSource) -> Iterator[tuple[Family, list[Conditions]]]:
    """Each family with its conditions: first also integers, which may make the original fail, then floating point."""
    plain = _first_size(source)
    fast = any(flag in source.target.flags for flag in FAST_MATH)
    for family in Family:
        if fast and family in EXACT_ONLY:
            continue
        for seed in SEEDS if family == Family.SCALED else (SEEDS[0] + family,):
            drawn = replace(plain, redraw=seed, family=family)
            yield family, [replace(drawn, redraw_integers=True), drawn]


def check_other_sizes(source: TrialSource, text: str) -> VerificationCheck:
    """The outputs at the other sizes."""
    if len(source.sizes) < 2:
        return VerificationCheck("other_sizes", None, "the program takes no size as an argument")
    checks = [source.check_equal("other_sizes", text, source.run_conditions(size)) for size in source.sizes[1:]]
    return next((check for check in checks if not check.passed), checks[0])


def check_timed_size(
    source: TrialSource, text: str, before: CandidateMeasurement, after: CandidateMeasurement
) -> VerificationCheck:
    """Outputs at the timed size; where that takes too long, work must grow from the largest checked size as the
    original's does, and as much must be copied to the host."""
    plain = source.run_conditions(before.arguments)
    full = replace(plain, count=False, time_s=max(plain.time_s, 2 * source.most_exact_s))
    short = max(before.exact_s, after.exact_s) <= source.most_exact_s and not source.clock.late
    if short and source.reference_trial(full).ok:
        outputs = source.reference_trial(full).outputs
        check = source.check_equal("timed_size", text, full)
        if check.passed or all(output.recorded == output.bytes for output in outputs):
            return check
    if before.copied_bytes != after.copied_bytes:
        copied = f"{after.copied_bytes} bytes instead of {before.copied_bytes}"
        return VerificationCheck("timed_size", False, f"at the size that is timed, it copies {copied} to the host")
    conditions = max(
        map(source.run_conditions, source.sizes), key=lambda size: source.reference_trial(size).duration_ns
    )
    for work, names in WORK.items():
        small = [_sum_counters(trial_of(conditions), names) for trial_of in _trials_of(source, text)]
        large = before.counted(names), after.counted(names)
        if min(*small, *large) > 0 and large[1] / large[0] < LEAST_GROWTH * min(1.0, small[1] / small[0]):
            grown = f"{large[1] / small[1]:.3g} times as many, the original {large[0] / small[0]:.3g} times"
            return VerificationCheck("timed_size", False, f"at the size that is timed, it makes {grown} {work}")
    return VerificationCheck("timed_size", True, "work grows as the original's")


CHECKS: tuple[Callable[[TrialSource, str], VerificationCheck], ...] = (
    check_precision,
    check_outside_kernels,
    check_stale_reads,
    check_races,
    check_repeated_launches,
    check_other_inputs,
    check_other_sizes,
)


def _host_writes(trial: Trial) -> float:
    return sum(output.bytes for output in trial.outputs if output.kind == "host_writes")


def _moved_bytes(trial: Trial) -> float:
    """Bytes copied within the device, or filled, by the runtime."""
    return sum(transfer.bytes for transfer in trial.transfers if transfer.kind in ON_DEVICE)


def _count_operations(trial: Trial, kind: str) -> float:
    return _sum_counters(trial, [f"SQ_INSTS_VALU_{operation}_{kind}" for operation in ("ADD", "MUL", "FMA", "TRANS")])


def _sum_counters(trial: Trial, names: Sequence[str]) -> float:
    return sum(kernel.counters.get(name, 0.0) * kernel.dispatches for kernel in trial.kernels for name in names)
