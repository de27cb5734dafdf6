"""Results per kernel of an open document, read from the documents of `synth predict` and `synth profile`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hipsynth.serving.longest_launches import longest_launches
from hipsynth.serving.lsp.buffer import split_lines
from hipsynth.source.names import base_name, short_name

if TYPE_CHECKING:
    from hipsynth.profiling.reports.documents import LineCost, ProfiledKernel, ProfileResult
    from hipsynth.training.models.documents import KernelPrediction, PredictionResult

MOST_PAIRS = 250_000  # of edited lines that are compared


@dataclass(frozen=True)
class KernelFacts:
    """One kernel, of its longest launch. `how`: "predicted" or "executed". Times in ns, `occupancy` 0..1, which
    `limited_by` limits; `document`: where it is from."""

    name: str
    how: str
    duration_ns: float | None
    interval: tuple[float, float] | None
    bottleneck: str
    occupancy: float | None
    metrics: Mapping[str, float | None]
    document: KernelPrediction | ProfiledKernel
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    note: str = ""
    why: tuple[str, ...] = ()
    limited_by: str = ""
    scratch_bytes: float = 0.0
    qualified: str = ""  # its name with namespaces, without template arguments
    lines: tuple[LineCost, ...] = ()


def predicted_facts(result: PredictionResult) -> dict[str, KernelFacts]:
    """Name -> facts, from one entry of `results` of `synth predict --json`."""
    return _facts_by_name(map(_predicted_kernel, result.kernels))


def _predicted_kernel(kernel: KernelPrediction) -> KernelFacts:
    from hipsynth.profiling.metrics.bottleneck import unit_name

    return KernelFacts(
        name=base_name(kernel.name),
        how="predicted",
        duration_ns=kernel.duration_ns,
        interval=kernel.intervals.get("duration_ns"),
        bottleneck=unit_name(kernel.bottleneck) if kernel.bottleneck else "",
        occupancy=kernel.occupancy,
        metrics=kernel.metrics,
        document=kernel,
        intervals=kernel.intervals,
        note=_prediction_note(kernel),
        why=tuple(filter(None, (kernel.verdict, *kernel.why, kernel.assumed))),
        qualified=_qualified_name(kernel.instance or kernel.name),
    )


def _prediction_note(kernel: KernelPrediction) -> str:
    if kernel.abstained:
        return f"not to be relied on: {kernel.reason}"
    return "launch assumed" if kernel.assumed else ""


def executed_facts(result: ProfileResult) -> dict[str, KernelFacts]:
    """Name -> facts, from one entry of `results` of `synth profile --json`."""
    return _facts_by_name(map(_executed_kernel, result.kernels))


def _executed_kernel(kernel: ProfiledKernel) -> KernelFacts:
    limit = kernel.bottleneck
    room = limit.occupancy if limit else None
    return KernelFacts(
        name=base_name(kernel.name),
        how="executed",
        duration_ns=kernel.duration_ns,
        interval=None,
        bottleneck=limit.name if limit else "",
        occupancy=room.waves_per_simd / room.max_waves_per_simd if room and room.max_waves_per_simd else None,
        metrics=kernel.metrics,
        document=kernel,
        note="scaled up from a part of the grid" if kernel.sampled else "",
        why=(limit.summary,) if limit else (),
        limited_by=room.limited_by if room else "",
        scratch_bytes=kernel.registers.scratch_bytes if kernel.registers else 0.0,
        qualified=_qualified_name(kernel.name),
        lines=kernel.lines or (),
    )


def _qualified_name(name: str) -> str:
    return short_name(name).partition("<")[0].strip()


def _facts_by_name(kernels: Iterable[KernelFacts]) -> dict[str, KernelFacts]:
    """The longest launch by the word at a kernel's definition; it says so if kernels of several namespaces have it."""
    listed = tuple(kernels)
    namesakes: dict[str, set[str]] = {}
    for kernel in listed:
        namesakes.setdefault(kernel.name, set()).add(kernel.qualified)
    longest = longest_launches(listed)
    for name, kernel in longest.items():
        if len(namesakes[name]) > 1:
            note = f"of {kernel.qualified}, the longest of {len(namesakes[name])} kernels of this name"
            longest[name] = replace(kernel, note="; ".join(filter(None, (note, kernel.note))))
    return longest


def _lines_of(text: str) -> list[str]:
    lines = split_lines(text)
    return lines if lines[-1] else lines[:-1]


def line_map(before: str, after: str) -> dict[int, int]:
    """Line of `before` -> line of `after` (from 0), for lines that an edit left as they were.

    Between the equal beginnings and ends of the texts, lines are matched only where that takes no noticeable time.
    """
    old, new = _lines_of(before), _lines_of(after)
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
    lines_after = {at: at for at in range(head)}
    lines_after |= {len(old) - at: len(new) - at for at in range(tail, 0, -1)}
    left, right = (text[head : len(text) - tail] for text in (old, new))
    if len(left) * len(right) <= MOST_PAIRS:
        matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
        for block in matcher.get_matching_blocks():
            lines_after |= {head + block.a + at: head + block.b + at for at in range(block.size)}
    return lines_after
