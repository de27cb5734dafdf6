"""`synth verify` as a function: does a changed program do the same as the original?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.profiling.backends.protocol import Target
from hipsynth.tuning.optimize.analysis.kernel_body import uses_atomic_results
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram, read_program
from hipsynth.tuning.optimize.documents import VerificationCheck, VerifyDocument
from hipsynth.tuning.optimize.evaluate import RUN_TIME_S, CandidateMeasurement, Evaluator
from hipsynth.tuning.optimize.transformations.fast_math import ALLOWED_BY
from hipsynth.tuning.optimize.verification.check_sizes import Arguments, candidate_arguments
from hipsynth.tuning.optimize.verification.verify import MOST_EXACT_S, Verification, Verifier
from hipsynth.tuning.trial import BIT_FOR_BIT, Tolerance
from hipsynth.tuning.trial.compare import KINDS, TOLERANCES
from hipsynth.tuning.trial.output_elements import ParameterTypes, reads_other_types, widest_floating
from hipsynth.tuning.trial.run import TRIAL_FILE
from hipsynth.tuning.trial.search_clock import Clock

FAST_TOLERANCE = 1e-3
PATIENT_S = 60.0  # price up to which outputs are compared at the timed size where no search waits
REASON = "sums in another order, or other fused multiply-adds"


@dataclass(frozen=True)
class VerifyRequest:
    """What to verify. `arguments`: of the measured runs; `sizes`: argument lists of the runs whose outputs are
    compared, () finds them; `allow`: "fast-math" for a tolerance to match approximate functions."""

    original: str
    changed: str
    target: Target
    arguments: Arguments = ()
    sizes: Sequence[Arguments] = ()
    allow: frozenset[str] = frozenset()


@dataclass(frozen=True)
class VerifyResult:
    """The checks, and how many times as fast the changed program is. `speedup` is None unless every check passed."""

    verification: Verification
    speedup: float | None

    @property
    def reward(self) -> float:
        """For training: the speed-up of a program that passed every check, 0 of every other."""
        return self.speedup or 0.0

    def document(self, original: Path, changed: Path, arch: str, flags: str) -> VerifyDocument:
        """The document of two files, for `flags` as they were given."""
        speedup = None if self.speedup is None else round(self.speedup, 4)
        checks = tuple(
            replace(check, detail=check.detail.replace(TRIAL_FILE, changed.name)) for check in self.verification.checks
        )
        return VerifyDocument(
            original=str(original),
            changed=str(changed),
            arch=arch,
            flags=flags,
            verified=self.verification.passed,
            checks=checks,
            speedup=speedup,
        )


def verify_change(request: VerifyRequest, on_stage: Callable[[str], None] = lambda _: None) -> VerifyResult:
    """Times both programs, and makes every check until one fails. Whatever the changed program does is a result.
    `on_stage` is told what is done next.

    Raises BadInput for an original without a kernel, that does not run, or that runs at no size in full.
    """
    on_stage("timing the original")
    evaluate = Evaluator(request.target, request.arguments, RUN_TIME_S, None)
    before = evaluate(request.original)
    if not before.ok:
        raise BadInput(
            "the original does not run", cause=f"{before.reason}: {before.message[:1000]}", reason=before.reason
        )
    program = read_program(request.original, request.target.arch, request.target.flags)
    on_stage("running the original at small sizes")
    sizes = request.sizes or candidate_arguments(program.text, request.arguments)
    verifier = prepare_verifier(program, request.target, sizes, request.allow, most_exact_s=PATIENT_S)
    check_comparable("" if verifier.sizes else verifier.why_no_size)
    on_stage("timing the changed program")
    after = evaluate(request.changed)
    if not after.ok:
        cause = f"the changed program fails at the size that is timed: {after.reason}: {after.message[:300]}"
        return VerifyResult(Verification((VerificationCheck("outputs_equal", False, cause),)), None)
    verification = verifier.full(request.changed, (before, after), on_stage)
    return VerifyResult(verification, speedup_of(before, after) if verification.passed else None)


def check_comparable(problem: str) -> None:
    """Raises BadInput if there is a reason why outputs of the original cannot be compared."""
    if problem:
        raise BadInput(problem, remedy="name a small size with --check-args")


def speedup_of(before: CandidateMeasurement, after: CandidateMeasurement) -> float:
    """Duration before by duration after; 1 where nothing was timed."""
    return before.duration_ns / after.duration_ns if after.duration_ns else 1.0


def prepare_verifier(
    program: ParsedProgram,
    target: Target,
    sizes: Sequence[Arguments] = (),
    allow: frozenset[str] = frozenset(),
    clock: Clock | None = None,
    most_exact_s: float = MOST_EXACT_S,
) -> Verifier:
    """A verifier of changes to a program; `sizes`: argument lists of small runs, () finds them."""
    return Verifier(
        program.text,
        target,
        list(sizes) or candidate_arguments(program.text),
        program_tolerance(program, allow),
        clock or Clock(),
        any(uses_atomic_results(program, kernel) for kernel in program.kernels),
        most_exact_s=most_exact_s,
    )


def program_tolerance(program: ParsedProgram, allow: frozenset[str] = frozenset()) -> Tolerance:
    """The tolerance for outputs of each type, by the parameters that they are passed as. Others have that of the widest
    floating-point type that the kernels point to, or that a launch names as an argument of a kernel's template; none if
    they point to integers."""
    types = [parameter.base for kernel in program.kernels for parameter in kernel.parameters]
    types += [launch.template for kernel in program.kernels for launch in kernel.launches]
    kind = KINDS[widest_floating(types)]
    written = {
        kernel.name: tuple(f"{parameter.base}*" if parameter.base else "" for parameter in kernel.parameters)
        for kernel in program.kernels
    }
    types_of_kernels = ParameterTypes(written, plain_chars=not reads_other_types(program.text))
    if not kind:
        return replace(BIT_FOR_BIT, types=types_of_kernels)
    fast = ALLOWED_BY in allow
    least = FAST_TOLERANCE if fast else 0.0
    reason = f"{REASON}; approximate functions" if fast else REASON
    return Tolerance(kind, max(TOLERANCES[kind], least), reason, types_of_kernels, least)
