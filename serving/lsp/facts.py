"""What is known of each kernel of a document, from the documents of `synth predict` and `synth profile`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hipsynth.source.names import base_name

MOST_PAIRS = 250_000  # of edited lines that are compared


@dataclass(frozen=True)
class KernelFacts:
    """One kernel, of its longest launch. `how`: "predicted" or "executed". Times in ns, `occupancy` 0..1."""

    name: str
    how: str
    duration_ns: float | None
    interval: tuple[float, float] | None
    bottleneck: str
    occupancy: float | None
    metrics: Mapping[str, float | None]
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    note: str = ""
    document: Mapping[str, Any] = field(default_factory=dict)


def predicted(document: Mapping[str, Any]) -> dict[str, KernelFacts]:
    """Name -> facts, from one entry of `results` of `synth predict --json`."""
    return _longest(_predicted(kernel) for kernel in document.get("kernels", ()))


def _predicted(kernel: Mapping[str, Any]) -> KernelFacts:
    from hipsynth.profiling.metrics.bottleneck import unit_name

    intervals = {name: (low, high) for name, (low, high) in kernel["intervals"].items()}
    note = f"not to be relied on: {kernel['reason']}" if kernel["abstained"] else ""
    return KernelFacts(
        base_name(kernel["name"]),
        "predicted",
        kernel["duration_ns"],
        intervals.get("duration_ns"),
        unit_name(kernel["bottleneck"]) if kernel["bottleneck"] else "",
        kernel["occupancy"],
        kernel["metrics"],
        intervals,
        note,
        kernel,
    )


def executed(document: Mapping[str, Any]) -> dict[str, KernelFacts]:
    """Name -> facts, from one entry of `results` of `synth profile --json`."""
    return _longest(_executed(kernel) for kernel in document.get("kernels", ()))


def _executed(kernel: Mapping[str, Any]) -> KernelFacts:
    limit = kernel["bottleneck"] or {}
    room = limit.get("occupancy") or {}
    most = room.get("max_waves_per_simd")
    return KernelFacts(
        base_name(kernel["name"]),
        "executed",
        kernel["duration_ns"],
        None,
        limit.get("name", ""),
        room["waves_per_simd"] / most if most else None,
        kernel["metrics"],
        note="scaled up from a part of the grid" if kernel["sampled"] else "",
        document=kernel,
    )


def _longest(kernels: Any) -> dict[str, KernelFacts]:
    found: dict[str, KernelFacts] = {}
    for kernel in kernels:
        known = found.get(kernel.name)
        if known is None or (kernel.duration_ns or 0) > (known.duration_ns or 0):
            found[kernel.name] = kernel
    return found


def line_map(before: str, after: str) -> dict[int, int]:
    """Line of `before` -> line of `after` (from 0), for lines that an edit left as they were.

    Between the equal beginnings and ends of the texts, lines are matched only where that takes no noticeable time.
    """
    old, new = before.splitlines(), after.splitlines()
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
    found = {at: at for at in range(head)}
    found |= {len(old) - at: len(new) - at for at in range(tail, 0, -1)}
    left, right = (text[head : len(text) - tail] for text in (old, new))
    if len(left) * len(right) <= MOST_PAIRS:
        matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
        for block in matcher.get_matching_blocks():
            found |= {head + block.a + at: head + block.b + at for at in range(block.size)}
    return found
