"""The roofline of a device, and the position of a kernel relative to it.

Ceilings come from the architecture tables: bandwidth in GB/s (= bytes/ns), compute in GFLOP/s (= FLOP/ns).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hipsynth.profiling.devices import DeviceTable, load

LANES = 64
# level -> (bandwidth metrics that are summed, intensity metric)
LEVELS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "L1": (("L1_Cache_Bandwidth",), "L1_Cache_Arithmetic_Intensity"),
    "L2": (("L2_Cache_Bandwidth",), "L2_Cache_Arithmetic_Intensity"),
    "HBM": (("L2_Fabric_Read_BW", "L2_Fabric_Write_BW"), "HBM_Arithmetic_Intensity"),
}
THROUGHPUT = "HBM_GFLOPS"


@dataclass(frozen=True)
class Ceilings:
    """Peak rates of a device: GB/s by memory level, GFLOP/s of the vector ALU by number format."""

    device: str
    bandwidth: Mapping[str, float]
    compute: Mapping[str, float]

    @property
    def peak(self) -> float:
        """The highest vector compute ceiling, GFLOP/s."""
        return max(self.compute.values())


@dataclass(frozen=True)
class Point:
    """A kernel at one memory level: intensity in FLOP/B, performance and attainable performance in GFLOP/s."""

    level: str
    intensity: float
    gflops: float
    attainable_gflops: float


@dataclass(frozen=True)
class Position:
    """The roof that a kernel is nearest to ("L1", "L2", "HBM" or "compute"), and the share of it that it reaches.

    `shares` is the utilisation of every ceiling, 0..1 (above 1 if it exceeds the table's value); None: unknown.
    """

    roof: str | None
    share: float | None
    shares: Mapping[str, float | None]
    points: tuple[Point, ...]


def ceilings(device: str) -> Ceilings:
    """The ceilings of a device table; raises UsageError for an unknown device.

    Cache ceilings are width x clock x instances, HBM is the measured read stream, compute counts an FMA as two.
    """
    arch = load(device)
    ghz = arch["clock.core_mhz"] / 1000
    channels = arch["l2.channels"] * arch["topology.xcds"]
    return Ceilings(
        device=device,
        bandwidth={
            "L1": arch["vl1d.bytes_per_cycle"] * arch["topology.cus"] * ghz,
            "L2": arch["l2.bytes_per_cycle_per_channel"] * channels * ghz,
            "HBM": arch["hbm.read_gbps"],
        },
        compute={
            "FP32": _vector_peak(arch, "valu_cycles", "vector_mhz"),
            "FP64": _vector_peak(arch, "f64_cycles", "f64_mhz"),
        },
    )


def _vector_peak(arch: DeviceTable, cycles: str, clock: str) -> float:
    simds = arch["topology.cus"] * arch["topology.simds_per_cu"]
    return 2 * LANES / arch[f"issue.{cycles}"] * simds * arch[f"clock.{clock}"] / 1000


def position(metrics: Mapping[str, float | None], device: str) -> Position:
    """The position of a kernel with these metrics (physical units) on the device's roofline."""
    limits = ceilings(device)
    shares: dict[str, float | None] = {}
    for level, (names, _) in LEVELS.items():
        values = [metrics.get(name) for name in names]
        known = [value for value in values if value is not None]
        shares[level] = sum(known) / limits.bandwidth[level] if len(known) == len(values) else None
    gflops = metrics.get(THROUGHPUT)
    shares["compute"] = gflops / limits.peak if gflops is not None else None
    used = {roof: share for roof, share in shares.items() if share is not None}
    roof = max(used, key=lambda name: used[name]) if used else None
    return Position(roof, used[roof] if roof else None, shares, points(metrics, limits))


def points(metrics: Mapping[str, float | None], limits: Ceilings) -> tuple[Point, ...]:
    """The kernel's points for a plot, one per level whose intensity is known and above zero."""
    gflops = metrics.get(THROUGHPUT)
    found = []
    for level, (_, name) in LEVELS.items():
        intensity = metrics.get(name)
        if gflops is not None and intensity:
            found.append(Point(level, intensity, gflops, attainable(intensity, level, limits)))
    return tuple(found)


def attainable(intensity: float, level: str, limits: Ceilings) -> float:
    """GFLOP/s under the roof of a level at an intensity in FLOP/B."""
    return min(limits.peak, intensity * limits.bandwidth[level])


def ridge(level: str, limits: Ceilings) -> float:
    """The intensity (FLOP/B) above which a level's bandwidth no longer limits performance."""
    return limits.peak / limits.bandwidth[level]


def curve(level: str, limits: Ceilings, intensities: Sequence[float]) -> list[tuple[float, float]]:
    """(intensity, attainable GFLOP/s) along one roof, for a plot with logarithmic axes."""
    return [(intensity, attainable(intensity, level, limits)) for intensity in intensities]


def describe(found: Position) -> str:
    """One line for reports, for instance "nearest to the HBM bandwidth roof, at 84 % of it"."""
    if found.roof is None or found.share is None:
        return "not on the roofline: nothing was counted"
    if found.roof == "compute":
        return f"nearest to the compute roof, at {100 * found.share:.0f} % of it"
    return f"nearest to the {found.roof} bandwidth roof, at {100 * found.share:.0f} % of it"
