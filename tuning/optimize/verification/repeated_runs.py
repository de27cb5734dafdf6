"""Checks of what a program does when it is called again, with other inputs and in other memory."""

from __future__ import annotations

import math
from dataclasses import replace

from hipsynth.tuning.optimize.documents import VerificationCheck
from hipsynth.tuning.optimize.evaluate import original_name
from hipsynth.tuning.optimize.verification.support import (
    POISON,
    SEEDS,
    OutputSource,
    TrialSource,
    copies_of,
    first_size,
    makes_same_copies,
    run_both,
    seed_of,
)
from hipsynth.tuning.trial import Conditions, Trial, differing_outputs, same_allocations


def check_repeated_launches(source: OutputSource, text: str) -> VerificationCheck:
    """Launches that write their results anew do so each time: what they wrote is poisoned in between, and then also
    their inputs are other ones."""
    plain = first_size(source)
    launched = {kernel.name: 0 for kernel in source.reference_trial(plain).kernels}
    for kernel in source.reference_trial(plain).kernels:
        launched[kernel.name] += kernel.dispatches
    total, rounds = sum(launched.values()), math.gcd(*launched.values())
    after = source.candidate_trial(text, plain)
    launches_made = sum(kernel.dispatches for kernel in after.kernels)
    credited = sum(kernel.dispatches * source.joined.get(original_name(kernel.name), 1) for kernel in after.kernels)
    for times in dict.fromkeys((rounds, total)):
        conditions = replace(plain, poison=POISON, poison_every=total // times)
        if times < 2 or not makes_same_copies(source, plain, conditions):
            continue
        if credited < times:
            return VerificationCheck(
                "repeated_launches", False, f"it launches fewer kernels: {launches_made} in {times} rounds"
            )
        if launches_made < times:
            continue
        changed = replace(conditions, poison_every=launches_made // times, poison_from=launches_made % times)
        return _check_rounds(source, text, conditions, changed)
    return VerificationCheck("repeated_launches", None, "no launch of the original repeats an earlier one")


def _check_rounds(
    source: OutputSource, text: str, conditions: Conditions, of_candidate: Conditions
) -> VerificationCheck:
    """`of_candidate`: with the rounds of the changed program, before which it may make other launches."""
    check = source.check_equal("repeated_launches", text, conditions, of_candidate)
    drawn = replace(conditions, redraw=SEEDS[0])
    if not check.passed or not source.reference_trial(drawn).ok:
        return check
    other = source.check_equal("repeated_launches", text, drawn, replace(of_candidate, redraw=drawn.redraw))
    return check if other.passed else replace(other, detail=f"inputs drawn again between launches, {other.detail}")


def check_repeated_calls(source: TrialSource, text: str) -> VerificationCheck:
    """A second call of main() in the same process, with other inputs: nothing may be left over from the first one."""
    name = "repeated_calls"
    once = first_size(source)
    plain = replace(once, calls=2, poison=POISON, record_bytes=2 * once.record_bytes)
    first, changed = run_both(source, text, plain)
    if not first.ok:
        return VerificationCheck(name, None, "the original cannot be called twice, or reads what it has not written")
    drawn = replace(plain, redraw=SEEDS[1])
    inputs = _count_inputs(first), _count_inputs(changed)
    for conditions in (plain, drawn):
        before, after = run_both(source, text, conditions)
        if conditions.redraw and (inputs[0] != inputs[1] or not before.ok):
            continue
        copies = any(output.kind == "copy" for output in before.outputs)
        if after.ok and not copies and not same_allocations(before, after, more=False):
            return VerificationCheck(name, None, "it allocates memory otherwise, and nothing is copied to the host")
        check = source.check_equal(name, text, conditions)
        if not check.passed:
            return replace(check, detail=f"main() called twice, {check.detail}")
    return check


def _count_inputs(trial: Trial) -> int:
    return sum(transfer.kind == "host_to_device" for transfer in trial.transfers)


def check_moved_memory(source: TrialSource, text: str) -> VerificationCheck:
    """Every allocation lies elsewhere, with other neighbours, at places that nobody can know."""
    name, plain = "moved_memory", first_size(source)
    conditions = replace(plain, scatter=seed_of(source.original + text))
    before, after = run_both(source, text, conditions)
    usual = source.reference_trial(plain)
    if not before.ok or copies_of(before) != copies_of(usual):
        return VerificationCheck(name, None, "the original's own results depend on where memory lies")
    if not differing_outputs(usual, before):
        return source.check_equal(name, text, plain, conditions)
    if after.ok and not same_allocations(before, after, more=False):
        return VerificationCheck(name, None, "device memory holds addresses, and the allocations are others")
    return source.check_equal(name, text, conditions)
