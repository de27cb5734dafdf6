"""The document of `synth swizzle --json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hipsynth.core.kernel_record import Dim
from hipsynth.core.reasons import Reason


@dataclass(frozen=True)
class TriedMapping:
    """One executed mapping. `modelled_misses`: of the L2, relative to the original."""

    mapping: str
    modelled_misses: float
    duration_ns: float
    L2_Cache_Hit_Rate: float
    bottleneck: str


@dataclass(frozen=True)
class HitRateCeiling:
    """The largest L2 hit rate that any mapping can have, in percent; not `exact`: estimated from a sample of lines."""

    L2_Cache_Hit_Rate: float
    exact: bool


class SwizzleStatus(StrEnum):
    """What a search for a mapping of one kernel's work-groups found: CEILING if none gains, REFUSED if it could not
    search."""

    IMPROVED = "improved"
    CEILING = "ceiling"
    REFUSED = "refused"


@dataclass(frozen=True, kw_only=True)
class SwizzledKernel:
    """The result for one kernel. `reason`: why its `status` is not "improved"; `refusal`: its code, where the source
    or what was observed of the kernel says it. `language`: "hip" or "triton"; `meta`: of a
    Triton kernel, what it was specialized for. `bijection`:
    "symbolic" (for every grid), "exhaustive" (for this grid) or "". `before` and `after`: metrics, `duration_ns` and
    `grid`; null if it was not run. `sharing`: which lines work-groups share, {} if they were not followed."""

    name: str
    status: SwizzleStatus
    reason: str
    refusal: Reason
    language: str
    meta: Mapping[str, bool | int | str]
    mapping: str
    bijection: str
    proof: str
    outputs_equal: bool
    before: Mapping[str, float | Dim | None] | None
    after: Mapping[str, float | Dim | None] | None
    speedup: float
    uncertainty: float
    ceiling: HitRateCeiling | None
    sharing: Mapping[str, float | Sequence[int]]
    history: tuple[TriedMapping, ...]
    evaluated: int
    seconds: float


@dataclass(frozen=True)
class SwizzleDocument:
    """The kernels of a program; `checked_with`: arguments of the runs whose outputs were compared; `patched` and
    `patch`: the files that were written."""

    kernels: tuple[SwizzledKernel, ...]
    checked_with: tuple[str, ...]
    patched: str | None
    patch: str | None
