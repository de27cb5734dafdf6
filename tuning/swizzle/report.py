"""A swizzle's result as a JSON document, as text, and as a patch."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from hipsynth.core.documents import document_json
from hipsynth.core.kernel_record import Dim, KernelRecord
from hipsynth.profiling.metrics.bottleneck import unit_name
from hipsynth.tuning.swizzle.documents import (
    HitRateCeiling,
    SwizzledKernel,
    SwizzleDocument,
    SwizzleStatus,
    TriedMapping,
)
from hipsynth.tuning.swizzle.l2_reuse import SharedLines
from hipsynth.tuning.swizzle.search import HIT_RATE, KernelSwizzle, ProgramSwizzle


def swizzle_document(result: ProgramSwizzle, patched: Path | None = None, patch: Path | None = None) -> SwizzleDocument:
    """The document of a program's kernels, and of the files that were written."""
    return SwizzleDocument(
        kernels=tuple(map(kernel_document, result.answers)),
        checked_with=result.checked_with,
        patched=None if patched is None else str(patched),
        patch=None if patch is None else str(patch),
    )


def kernel_document(answer: KernelSwizzle) -> SwizzledKernel:
    """What the document says of one kernel."""
    return SwizzledKernel(
        name=answer.name,
        status=answer.status,
        reason=answer.reason,
        refusal=answer.refusal,
        language=answer.before.language if answer.before else "hip",
        meta=dict(answer.before.meta) if answer.before else {},
        mapping=answer.mapping.label,
        bijection=answer.proof.kind,
        proof=answer.proof.reason,
        outputs_equal=answer.outputs_equal,
        before=_record_figures(answer.before),
        after=_record_figures(answer.after if answer.after else answer.before),
        speedup=_kernel_speedup(answer),
        uncertainty=answer.uncertainty,
        ceiling=None if answer.ceiling is None else HitRateCeiling(answer.ceiling, answer.exact_ceiling),
        sharing=_sharing_figures(answer.sharing),
        history=tuple(
            TriedMapping(tried.mapping.label, tried.misses, tried.duration_ns, tried.hit_rate, tried.bottleneck)
            for tried in answer.history
        ),
        evaluated=answer.evaluated,
        seconds=round(answer.seconds, 2),
    )


def _sharing_figures(sharing: SharedLines | None) -> Mapping[str, float | Sequence[int]]:
    return {} if sharing is None else cast(Mapping[str, float | Sequence[int]], document_json(sharing))


def _record_figures(record: KernelRecord | None) -> dict[str, float | Dim | None] | None:
    if record is None:
        return None
    return {**record.metrics, "duration_ns": record.duration_ns, "grid": record.grid}


def _kernel_speedup(answer: KernelSwizzle) -> float:
    """How many times as fast the kernel is; 1 if nothing was changed."""
    if answer.before is None or answer.after is None or not answer.after.duration_ns:
        return 1.0
    return float((answer.before.duration_ns or 0.0) / answer.after.duration_ns)


def unified_diff(before: str, after: str, name: str) -> str:
    """A unified diff for `patch -p1`, "" if nothing changed."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


def report_text(result: ProgramSwizzle) -> str:
    """For a terminal: a paragraph for each kernel; one for several builds of which the same is to be said."""
    return "\n\n".join(dict.fromkeys(map(_kernel_paragraph, result.answers)))


def _kernel_paragraph(answer: KernelSwizzle) -> str:
    lines = [f"{answer.name}: {answer.status}", f"  {answer.reason}"]
    if answer.status != SwizzleStatus.REFUSED and answer.before and answer.before.meta:
        values = ", ".join(f"{name}={value}" for name, value in answer.before.meta.items())
        lines.append(f"  {answer.before.language:<10} {values}")
    if answer.status == SwizzleStatus.IMPROVED and answer.before and answer.after:
        then, now = answer.before, answer.after
        proof = (
            "for every grid"
            if answer.proof.kind == "symbolic"
            else "for this grid (in others, all groups keep their places)"
        )
        lines += [
            f"  mapping    {answer.mapping.label}",
            f"  proof      a bijection {proof}: {answer.proof.reason}; outputs equal bit for bit",
            f"  duration   {(then.duration_ns or 0) / 1e3:.2f} -> {(now.duration_ns or 0) / 1e3:.2f} us, "
            f"{_kernel_speedup(answer):.3f} times as fast (± {100 * answer.uncertainty:.1f} %)",
            f"  L2 hits    {then.metrics.get(HIT_RATE) or 0:.1f} -> {now.metrics.get(HIT_RATE) or 0:.1f} %",
        ]
    if answer.sharing:
        shared = answer.sharing
        lines.append(
            f"  sharing    {shared.lines:,} lines, {shared.shared_lines:,} of them by several groups, "
            f"{shared.groups_per_line:.1f} groups per line"
        )
    for trial in answer.history:
        lines.append(
            f"  tried      {trial.mapping.label}: {trial.duration_ns / 1e3:.2f} us, {trial.hit_rate:.1f} % hits, "
            f"bound by {unit_name(trial.bottleneck)}; misses modelled x {trial.misses:.2f}"
        )
    return "\n".join(lines)
