"""Chooses the answer among the programs that a model made: the fastest that passes every check of a search."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import replace

from hipsynth.tuning.optimize.confirm import is_certain_gain, ratio_uncertainty
from hipsynth.tuning.optimize.documents import SearchStatus, SearchStep, StepOutcome
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, changed_metrics
from hipsynth.tuning.optimize.optimize import OptimizeResult
from hipsynth.tuning.optimize.search import LEAST_RELATIVE_GAIN
from hipsynth.tuning.optimize.transformation_plan import PlanValue
from hipsynth.tuning.optimize.verification.verify import Verification
from hipsynth.tuning.tools import ToolSession, Version


def choose_answer(session: ToolSession, refused: dict[str, str], say: Callable[[str], None]) -> OptimizeResult:
    """Measures every program that must behave like v0 and verifies the faster ones, fastest first.

    The checks are those of `synth optimize`, whatever the model said of a program or checked itself.
    """
    original = session.versions["v0"]
    before = session.measure_completed(original)
    # A model that compiles a source anew may forget to say what it replaces: it is checked against the original, too.
    # All are timed with the original's arguments: a model may have compiled some with smaller ones.
    others = (version for version in session.versions.values() if version.text != original.text)
    versions = [replace(version, arguments=original.arguments) for version in others]
    measured = [(version, session.measure(version)) for version in versions]
    faster = [
        (version, measurement)
        for version, measurement in measured
        if measurement.ok and measurement.duration_ns and is_certain_gain(before, measurement)
    ]
    verifier = session.prepare_verifier("v0")
    reasons: dict[str, str] = {}
    passed = Verification((verifier.quick(original.text),))
    best: tuple[Version, CandidateMeasurement] | None = None
    for version, measurement in sorted(faster, key=lambda row: row[1].duration_ns) if verifier.sizes else []:
        checks = verifier.full(version.text, (before, measurement))
        say(f"{version.name} verified: {checks.failure or 'every check passed'}")
        if checks.passed:
            best, passed = (version, measurement), checks
            break
        reasons[version.name] = checks.failure
    steps = _search_steps(session, measured, reasons)
    status, reason = (SearchStatus.IMPROVED, "") if best else (SearchStatus.UNCHANGED, NOTHING_FASTER)
    if not verifier.sizes:
        status, reason = SearchStatus.REFUSED, f"{verifier.why_no_size}; name a size with --check-args"
    text, after = (best[0].text, best[1].duration_ns) if best else (original.text, before.duration_ns)
    lines = difflib.unified_diff(original.text.splitlines(True), text.splitlines(True), "original", "optimized")
    last = [version.name for version, _ in measured].index(best[0].name) if best else -1
    unsure = ratio_uncertainty(before, best[1]) if best else 0.0
    return OptimizeResult(status, reason, before.duration_ns, after, passed, steps, text, "".join(lines),
                     session.seconds, refused, unsure, last)  # fmt: skip


NOTHING_FASTER = "nothing that the model made is faster and correct"


def _search_steps(
    session: ToolSession, measured: list[tuple[Version, CandidateMeasurement]], reasons: dict[str, str]
) -> tuple[SearchStep, ...]:
    """The programs as steps of a search: each changes its parent; -1 is the original."""
    numbers = {version.name: number for number, (version, _) in enumerate(measured)}
    steps = []
    for number, (version, measurement) in enumerate(measured):
        parent = session.versions.get(version.parent, session.versions["v0"])
        before = session.measure(replace(parent, arguments=session.versions["v0"].arguments))
        least_ns = (1 - LEAST_RELATIVE_GAIN) * before.duration_ns
        is_step = measurement.ok and measurement.duration_ns <= least_ns and version.name not in reasons
        if not measurement.ok:
            outcome, reason = StepOutcome.FAILED, f"it fails: {measurement.reason}"
        elif version.name in reasons:
            outcome, reason = StepOutcome.WRONG, reasons[version.name]
        else:
            outcome, reason = (StepOutcome.KEPT, "") if is_step else (StepOutcome.NOT_FASTER, "not faster")
        kernels = [name for name, plan in version.plans.items() if parent.plans.get(name) != plan] or [""]
        a, b = before.of(kernels[0]), measurement.of(kernels[0])
        plan: Mapping[str, PlanValue] = version.plans[kernels[0]].decisions() if kernels[0] else {}
        after = measurement.duration_ns if measurement.ok else None
        changed = changed_metrics(a, b) if a and b else {}
        place = numbers.get(parent.name, -1)
        steps.append(
            SearchStep(
                number,
                place,
                version.made,
                kernels[0],
                plan,
                before.duration_ns,
                after,
                is_step,
                reason,
                outcome,
                changed,
            )
        )
    return tuple(steps)
