"""`synth verify ORIGINAL.py CHANGED.py`: does a changed script with Triton kernels do the same as the original?

A script shares its process with the virtual device, so nothing here stands against one that changes the device itself;
one that speaks of it is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from hipsynth.source.triton_source import read_default_arguments, read_triton_source
from hipsynth.tuning.optimize.documents import VerificationCheck
from hipsynth.tuning.optimize.scripts.optimize_script import (
    ScriptRequest,
    ScriptSearch,
    choose_sizes,
    choose_uneven_sizes,
)
from hipsynth.tuning.optimize.scripts.verify_script import ScriptVerifier
from hipsynth.tuning.optimize.verification.verify import Verification
from hipsynth.tuning.optimize.verification.verify_change import PATIENT_S, VerifyResult, check_comparable, speedup_of
from hipsynth.tuning.trial import Trial
from hipsynth.tuning.trial.script import ScriptTrials
from hipsynth.tuning.trial.search_clock import Clock

_DEVICE_WORDS = re.compile(r"hipsynth|TRITON_LIBHIP_PATH", re.IGNORECASE)
_ALLOCATIONS = re.compile(r"(new_)?empty(_like|_strided)?")  # operators that compute nothing
_MOST_BLOCK = 256  # a larger block than most: sizes that it does not divide are checked, too


def verify_changed_script(
    trials: ScriptTrials, changed: str, request: ScriptRequest, on_stage: Callable[[str], None] = lambda _: None
) -> VerifyResult:
    """Times both scripts, and makes every check until one fails. Whatever the changed script does is a result.

    Raises BadInput for an original that does not run, launches no kernel or fails its own check.
    """
    on_stage("timing the original")
    source = read_triton_source(trials.text)
    verifier = ScriptVerifier(trials, request.target, [request.arguments])
    search = ScriptSearch(trials, source, request, verifier, Clock(), lambda _: None)
    origin, timed_before = search.time_original()
    defaults = read_default_arguments(source)
    verifier.sizes = choose_sizes(request, defaults, origin.timed, _MOST_BLOCK)
    verifier.uneven_sizes = choose_uneven_sizes(request, defaults, origin.timed)
    on_stage("running the original at small sizes")
    check_comparable(verifier.why_unusable())
    if _DEVICE_WORDS.search(changed) and not _DEVICE_WORDS.search(trials.text):
        return _refused("outside_kernels", "the changed script speaks of the virtual device itself")
    on_stage("timing the changed script")
    after, timed_after = search.run_timed(changed)
    if not after.ok or after.exit_code != origin.timed.exit_code:
        failure = after.reason or f"exit code {after.exit_code}"
        detail = f"the changed script fails at the size that is timed: {failure}: {after.message[:300]}"
        return _refused("outputs_equal", detail)
    operators = _check_operators(timed_before, timed_after)
    if not operators.passed:
        return VerifyResult(Verification((operators,)), None)
    on_stage("comparing outputs")
    verification = verifier.full(changed)
    checks = [*verification.checks, operators]
    if verification.passed:
        on_stage("comparing outputs at the size that is timed")
        price = max(origin.timed.exact_s, after.exact_s)
        checks.append(_check_timed_size(verifier, changed, request, timed_after, price))
    verification = Verification(tuple(checks))
    return VerifyResult(verification, speedup_of(origin.timed, after) if verification.passed else None)


def _refused(name: str, detail: str) -> VerifyResult:
    return VerifyResult(Verification((VerificationCheck(name, False, detail),)), None)


def _check_operators(before: Trial, after: Trial) -> VerificationCheck:
    """Whether the changed script leaves no more to PyTorch's operators, which take no time here, than the original."""
    more = Counter(after.host_operators)
    more.subtract(before.host_operators)
    moved = [
        f"{count} x {name}" for name, count in sorted(more.items()) if count > 0 and not _ALLOCATIONS.fullmatch(name)
    ]
    if moved:
        detail = f"PyTorch's operators, which take no time here, are called more often: {', '.join(moved)}"
        return VerificationCheck("outside_kernels", False, detail)
    return VerificationCheck("outside_kernels", True, "PyTorch's operators are called no more often")


def _check_timed_size(
    verifier: ScriptVerifier, changed: str, request: ScriptRequest, timed: Trial, price_s: float
) -> VerificationCheck:
    """The outputs with the arguments that are timed, and whether the run that was timed launched the same."""
    if price_s > PATIENT_S:
        detail = f"comparing outputs at the size that is timed takes about {price_s:.0f} s"
        return VerificationCheck("timed_size", None, detail)
    conditions = replace(verifier.run_conditions(request.arguments), time_s=4 * PATIENT_S)
    check = verifier.check_equal("timed_size", changed, conditions)
    in_full = verifier.candidate_trial(changed, conditions)
    if check.passed and _list_launches(timed) != _list_launches(in_full):
        return VerificationCheck("timed_size", False, "it launches something else where it is timed")
    return check


def _list_launches(trial: Trial) -> list[tuple[object, ...]]:
    return sorted((kernel.name, kernel.grid, kernel.block, kernel.dispatches) for kernel in trial.kernels)
