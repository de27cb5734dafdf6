"""Describes what limits a kernel, from its occupancy and the time that each unit alone would need.

Both come from the simulator (`limits` and `occupancy` of KernelRecord). Units work at the same time: a share is the
part of the duration that a unit alone would need, and shares need not add up to one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hipsynth.core.kernel_record import KernelRecord, Limiter
from hipsynth.profiling.metrics.occupancy_limits import limiting_resource, waves_per_group
from hipsynth.simulator import devices

# Display names of the timing model's units; others are shown by their identifier.
UNITS: Mapping[str, str] = {
    "hbm": "HBM bandwidth",
    "fabric": "fabric bandwidth",
    "infinity": "Infinity Cache bandwidth",
    "l2": "L2 request rate",
    "vl1d": "vL1D throughput",
    "lds": "LDS throughput",
    "valu": "vector ALU",
    "mfma": "matrix cores",
    "salu": "scalar unit",
    "issue": "instruction issue",
    "latency": "exposed latency",
    "atomics": "atomics on the same line",
    "dispatch": "wave launch rate",
    "launch": "launch overhead",
    "ramp": "ramps at both ends",
    "write_back": "write-back at the end",
}
# Source of latency -> (members of Work that count the waits, device-table constant with the cycles per wait).
WAITS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "HBM": (("hbm_waits", "scalar_hbm_waits"), "hbm.latency_cycles"),
    "the Infinity Cache": (("infinity_waits", "scalar_infinity_waits"), "fabric.infinity_cache_latency_cycles"),
    "the L2": (("l2_waits", "scalar_l2_waits"), "l2.latency_cycles"),
    "the vL1D": (("l1_waits",), "vl1d.latency_cycles"),
    "scalar loads": (("scalar_hit_waits",), "issue.smem_latency_cycles"),
    "stores": (("store_waits", "store_tails"), "l2.store_latency_cycles"),
    "the LDS": (("lds_waits",), "issue.lds_latency_cycles"),
}
ISSUE_AND_START_UP = "issue and start-up"
LEAST_CLOSE_SHARE = 0.85  # bounds of at least this share of the largest are reported as too close to tell apart
LEAST_LATENCY_SHARE = 0.2  # of the duration: shorter exposed latency is not split, and less than it is no part
MINOR = 0.05  # bounds below this share of the duration are not reported
WEAK = 0.5  # if the largest bound is below this share of the duration, no single unit limits the kernel


def unit_name(unit: str) -> str:
    """The display name of a unit of the timing model."""
    return UNITS.get(unit, unit.replace("_", " "))


@dataclass(frozen=True)
class Bound:
    """One unit: the time in ns that it alone needs, and the ratio of that time to the duration (0..1)."""

    unit: str
    ns: float
    share: float

    @property
    def name(self) -> str:
        return unit_name(self.unit)

    def __str__(self) -> str:
        return f"{self.name} {100 * self.share:.0f} %"


@dataclass(frozen=True)
class SimdOccupancy:
    """Resident waves per SIMD: possible for this kernel, maximum of the device, and reached by the grid."""

    waves: float
    most: float
    limited_by: str  # the limiting resource, "" if there is none
    filled: float  # mean waves per SIMD that the whole grid could keep resident at once
    groups: int  # work-groups of the grid
    cus: float  # of the device

    @property
    def cus_used(self) -> float:
        """Share (0..1) of the CUs that get a work-group."""
        return min(1.0, self.groups / self.cus)

    def __str__(self) -> str:
        text = f"occupancy {self.waves:g} of {self.most:g} waves/SIMD"
        if self.limited_by:
            text += f", limited by {self.limited_by}"
        if self.cus_used < 1:
            text += f"; the grid reaches only {self.groups:,} of {self.cus:,.0f} CUs"
        elif self.filled < self.waves:
            text += f"; the grid fills {self.filled:.1f} of them"
        return text


@dataclass(frozen=True)
class OccupancyFigures:
    """Waves per SIMD: possible for this kernel, most of the device, and reached by its grid. `limited_by`: the limiting
    resource, "" if there is none. `cus_used`: the share (0..1) of the CUs that get a work-group."""

    waves_per_simd: float
    max_waves_per_simd: float
    limited_by: str
    filled_waves_per_simd: float
    cus_used: float


@dataclass(frozen=True)
class Bottleneck:
    """What limits a kernel, as documents say it: the unit with the largest bound, those `close` to it, all bounds,
    largest first, the parts of the exposed latency (source -> share of an average wave's lifetime), and a sentence."""

    unit: str
    name: str
    share: float
    close: tuple[str, ...]
    summary: str
    latency: Mapping[str, float]
    bounds: tuple[Bound, ...]
    occupancy: OccupancyFigures | None


def rank_bounds(kernel: KernelRecord) -> list[Bound]:
    """All bounds of a simulated kernel, largest first; empty for a kernel measured on hardware."""
    if kernel.limits is None or not kernel.duration_ns:  # a program may have forged a duration of zero
        return []
    return rank_times(kernel.limits.bounds, kernel.duration_ns)


def rank_times(times: Mapping[str, float], duration_ns: float) -> list[Bound]:
    """The bounds of a kernel from the time in ns that each unit alone needs, largest first."""
    rows = [Bound(unit, ns, ns / duration_ns) for unit, ns in times.items()]
    return sorted(rows, key=lambda bound: (-bound.ns, bound.unit))


def latency_breakdown(kernel: KernelRecord, device: str) -> list[tuple[str, float]]:
    """Breakdown of an average wave's lifetime as (name, share), largest first; empty if unknown."""
    work = kernel.work
    cycles = kernel.limits.wave_cycles * work.waves if kernel.limits and work else 0
    if not cycles:
        return []
    constants = devices.load_device(device).constants
    breakdown: dict[str, float] = {}
    for name, (keys, constant) in WAITS.items():
        cost = constants[constant].value if constant in constants else 0.0
        breakdown[name] = cost * sum(getattr(work, key) for key in keys) / cycles
    breakdown[ISSUE_AND_START_UP] = max(0.0, 1 - sum(breakdown.values()))
    return sorted(((name, share) for name, share in breakdown.items() if share > 0), key=lambda pair: -pair[1])


def summarise_bounds(bounds: list[Bound], waits: Sequence[tuple[str, float]] = ()) -> str:
    """One sentence for reports; "" without bounds. `waits` (see `latency_breakdown`) breaks down the exposed
    latency."""
    if not bounds:
        return ""
    first, *rest = bounds
    rest = [bound for bound in rest if bound.share >= MINOR]
    close = [bound for bound in rest if bound.share >= LEAST_CLOSE_SHARE * first.share]
    after = [bound for bound in rest if bound not in close][:2]
    listed = [first, *close, *after]
    if first.share < WEAK:
        listed = [first, *rest][:4]
        text = f"no single limit: {', '.join(map(str, listed))} of the duration"
    else:
        text = f"bound by {first.name}: {100 * first.share:.0f} % of the duration"
        if close:
            names = " and ".join(f"{bound.name} ({100 * bound.share:.0f} %)" for bound in [first, *close])
            text = f"bound by {names}, too close to tell apart"
        text += f"; then {', '.join(map(str, after))}" if after else ""
    sources = [f"{name} {100 * share:.0f} %" for name, share in waits if share >= LEAST_LATENCY_SHARE]
    if sources and any(bound.unit == "latency" and bound.share >= LEAST_LATENCY_SHARE for bound in listed):
        text += f"; latency of {', '.join(sources)}"
    return text


def simd_occupancy(kernel: KernelRecord, device: str) -> SimdOccupancy | None:
    """The kernel's occupancy on a device; None if the backend does not report it."""
    if kernel.occupancy is None:
        return None
    arch = devices.load_device(device)
    simds, cus = arch["topology.simds_per_cu"], arch["topology.cus"]
    most = arch["topology.waves_per_simd"]
    groups = math.prod(kernel.grid)
    waves = kernel.occupancy.waves_per_cu / simds
    limited_by = limiting_resource(kernel, arch) if waves < most else ""
    if limited_by == Limiter.WAVE_SLOTS:
        limited_by = Limiter.GROUP_SIZE
    offered = groups * waves_per_group(kernel, arch.arch) / (cus * simds)
    return SimdOccupancy(waves, most, limited_by, min(waves, offered), groups, cus)


def describe_bottleneck(kernel: KernelRecord, device: str) -> Bottleneck | None:
    """What limits a kernel; None for one measured on hardware."""
    bounds = rank_bounds(kernel)
    if not bounds:
        return None
    room, waits = simd_occupancy(kernel, device), latency_breakdown(kernel, device)
    return Bottleneck(
        unit=bounds[0].unit,
        name=bounds[0].name,
        share=bounds[0].share,
        close=tuple(bound.unit for bound in bounds[1:] if bound.share >= LEAST_CLOSE_SHARE * bounds[0].share),
        summary=summarise_bounds(bounds, waits),
        latency=dict(waits),
        bounds=tuple(bounds),
        occupancy=None
        if room is None
        else OccupancyFigures(room.waves, room.most, room.limited_by, room.filled, room.cus_used),
    )
