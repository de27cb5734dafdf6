"""The roofline of a device, and the position of a kernel relative to it.

Ceilings come from the architecture tables: bandwidth in GB/s (= bytes/ns), compute in GFLOP/s (= FLOP/ns).
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hipsynth.profiling.metrics.definitions import compute_metrics
from hipsynth.simulator.devices import DeviceTable, architecture_fact, list_architectures, load_device

# level -> (bandwidth metrics that are summed, intensity metric)
LEVELS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "L1": (("L1_Cache_Bandwidth",), "L1_Cache_Arithmetic_Intensity"),
    "L2": (("L2_Cache_Bandwidth",), "L2_Cache_Arithmetic_Intensity"),
    "HBM": (("L2_Fabric_Read_BW", "L2_Fabric_Write_BW"), "HBM_Arithmetic_Intensity"),
}
THROUGHPUT = "HBM_GFLOPS"
LOOK_UP_BYTES = {"gfx90a": 64, "gfx942": 128, "gfx950": 128}  # that the bandwidth counts for a look-up of the vL1D
OPERATIONS = "flops"  # the expression of metrics.toml that THROUGHPUT and the intensities divide
MOPS = "SQ_INSTS_VALU_MFMA_MOPS_"
MOPS_OPERATIONS = 512  # that a MOPS counter counts as one
UNCOUNTED_FORMATS = ("XF32", "F8", "F6F4")  # endings of the MOPS counters that OPERATIONS leaves out
MOST_SHARE = 1.05  # of a roof that a table's ceiling allows for; no executed label of the release is above 1
MATRIX_TABLE = Path(__file__).resolve().parents[2] / "simulator" / "isa" / "mfma.toml"  # shapes and cycles
MATRIX_NAMES = {"f64": "FP64", "f32": "FP32", "xf32": "TF32", "f16": "FP16", "bf16": "BF16", "fp8": "FP8"}
MX_NAMES = {"cycles": "FP8", "narrow_cycles": "FP6, FP4"}  # of instructions whose formats are modifiers
# Ending of a MOPS counter -> number format.
MOPS_FORMATS = {
    **{kind.upper().replace("FP8", "F8"): name for kind, name in MATRIX_NAMES.items()},
    "F6F4": MX_NAMES["narrow_cycles"],
}


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
class RooflinePoint:
    """A kernel at one memory level: intensity in FLOP/B, performance and attainable performance in GFLOP/s. At "L1",
    bytes are those that the vL1D moves (on gfx942 and gfx950 the metric of its bandwidth counts twice as many)."""

    level: str
    intensity: float
    gflops: float
    attainable: float


@dataclass(frozen=True)
class RooflinePosition:
    """The roof that a kernel is nearest to ("L1", "L2", "HBM" or "compute"), and the share of it that it reaches.

    `shares` is the utilisation of every ceiling, 0..1 (above 1 if it exceeds the table's value); None: unknown.
    """

    roof: str | None
    share: float | None
    shares: Mapping[str, float | None]
    points: tuple[RooflinePoint, ...]


def device_ceilings(device: str) -> Ceilings:
    """The ceilings of a device table; raises UsageError for an unknown device.

    Cache ceilings are width x clock x instances, HBM is the measured read stream, compute counts an FMA as two.
    """
    arch = load_device(device)
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
    lanes = int(architecture_fact(arch.arch, "wave_lanes"))
    return 2 * lanes / arch[f"issue.{cycles}"] * simds * arch[f"clock.{clock}"] / 1000


def packed_peak(device: str) -> float:
    """GFLOP/s of vector instructions that compute two numbers a lane: packed FP32 and FP16."""
    return 2 * _vector_peak(load_device(device), "valu_cycles", "packed_mhz")


def locate_kernel(
    metrics: Mapping[str, float | None], device: str, counters: Mapping[str, float] | None = None
) -> RooflinePosition:
    """The position of a kernel with these metrics (physical units) on the device's roofline; its counters, where they
    are known, tell whether the compute roof is that of the matrix units."""
    limits = device_ceilings(device)
    shares: dict[str, float | None] = {}
    for level, (names, _) in LEVELS.items():
        values = [metrics.get(name) for name in names]
        measured = [value for value in values if value is not None]
        shares[level] = sum(measured) / limits.bandwidth[level] if len(measured) == len(values) else None
    if shares["L1"] is not None:
        shares["L1"] /= _vl1d_overcount(device)
    shares["HBM"] = _memory_share(metrics, device)
    counts = counters or {}
    gflops = count_all_operations(metrics, device, counts).get(THROUGHPUT)
    peak = compute_peak(gflops or 0.0, device, counts)
    shares["compute"] = gflops / peak if gflops is not None else None
    used = {roof: share for roof, share in shares.items() if share is not None}
    roof = max(used, key=lambda name: used[name]) if used else None
    return RooflinePosition(roof, used[roof] if roof else None, shares, roofline_points(metrics, limits, counts))


def _vl1d_overcount(device: str) -> float:
    """How many times the bytes that the vL1D moves the metric of its bandwidth counts on a device."""
    arch = load_device(device)
    return LOOK_UP_BYTES[arch.arch] / arch["vl1d.bytes_per_cycle"]


def _memory_share(metrics: Mapping[str, float | None], device: str) -> float | None:
    """The share (0..1) of the time that the memory needs for what is read and written; None if one is unknown."""
    read, written = (metrics.get(name) for name in LEVELS["HBM"][0])
    if read is None or written is None:
        return None
    return memory_time(read, written, device)


def memory_time(read_bytes: float, written_bytes: float, device: str) -> float:
    """The ns that the HBM alone needs for these bytes (of bytes per ns, the share of the time)."""
    arch = load_device(device)
    return read_bytes / arch["hbm.read_gbps"] + written_bytes / arch["hbm.write_gbps"]


def matrix_format(counters: Mapping[str, float]) -> str:
    """The number format of most operations of the matrix units, as in `matrix_peaks`; "" if there are none."""
    counts = {kind: counters.get(f"{MOPS}{suffix}", 0.0) for suffix, kind in MOPS_FORMATS.items()}
    kind = max(counts, key=lambda name: counts[name])
    return f"{kind} matrix" if counts[kind] else ""


def count_all_operations(
    metrics: Mapping[str, float | None], device: str, counters: Mapping[str, float]
) -> Mapping[str, float | None]:
    """The metrics with the matrix operations of UNCOUNTED_FORMATS in their throughput and intensities: AMD's formulas
    leave these out, and so would a point beside the roof of that format. None where nothing else was counted."""
    uncounted = MOPS_OPERATIONS * sum(counters.get(f"{MOPS}{suffix}", 0.0) for suffix in UNCOUNTED_FORMATS)
    if not uncounted:
        return metrics
    counted = compute_metrics(counters, 1.0, load_device(device).arch, (OPERATIONS,))[OPERATIONS]
    scale = 1 + uncounted / counted if counted else None
    scaled = {THROUGHPUT, *(intensity for _, intensity in LEVELS.values())}
    return {
        name: value if name not in scaled else None if value is None or scale is None else value * scale
        for name, value in metrics.items()
    }


def compute_peak(gflops: float, device: str, counters: Mapping[str, float]) -> float:
    """The compute roof of a kernel in GFLOP/s: that of the matrix units' format if its counters tell of one, or their
    highest if it computes faster than vector units can; else that of the vector units."""
    peaks = matrix_peaks(device)
    if kind := matrix_format(counters):
        return peaks.get(kind) or max(peaks.values())
    vector = device_ceilings(device).peak
    return max(peaks.values()) if gflops > MOST_SHARE * vector else vector


def find_impossible_level(position: RooflinePosition, device: str) -> str:
    """The memory level, "L2" or "HBM", of which a kernel would use more than there is; "" if none.

    "HBM" includes the Infinity Cache where there is one. The vL1D and the compute roof are not judged: lanes may
    share a line, and matrix instructions have roofs of their own.
    """
    arch = load_device(device)
    behind = max(1.0, arch.spec().get("fabric.infinity_cache_gbps", 0.0) / arch["hbm.read_gbps"])
    for level, most in (("L2", 1.0), ("HBM", behind)):
        share = position.shares.get(level)
        if share is not None and share > MOST_SHARE * most:
            return level
    return ""


def roofline_points(
    metrics: Mapping[str, float | None], limits: Ceilings, counters: Mapping[str, float]
) -> tuple[RooflinePoint, ...]:
    """The kernel's points for a plot, one per level whose intensity is known and above zero; `counters`: those that
    compute_peak() takes."""
    values = count_all_operations(metrics, limits.device, counters)
    gflops = values.get(THROUGHPUT)
    points = []
    for level, (_, name) in LEVELS.items():
        intensity = values.get(name)
        if gflops is not None and intensity:
            peak = compute_peak(gflops, limits.device, counters)
            attainable = min(peak, intensity * limits.bandwidth[level])
            points.append(RooflinePoint(level, intensity, gflops, attainable))
    return tuple(points)


def attainable_gflops(intensity: float, level: str, limits: Ceilings) -> float:
    """GFLOP/s of the vector units under the roof of a level at an intensity in FLOP/B."""
    return min(limits.peak, intensity * limits.bandwidth[level])


def ridge_intensity(level: str, limits: Ceilings) -> float:
    """The intensity (FLOP/B) above which a level's bandwidth no longer limits performance."""
    return limits.peak / limits.bandwidth[level]


def describe_position(position: RooflinePosition) -> str:
    """One line for reports, for instance "nearest to the HBM bandwidth roof, at 84 % of it"."""
    if position.roof is None or position.share is None:
        return "not on the roofline: nothing was counted"
    if position.roof == "compute":
        return f"nearest to the compute roof, at {100 * position.share:.0f} % of it"
    return f"nearest to the {position.roof} bandwidth roof, at {100 * position.share:.0f} % of it"


@dataclass(frozen=True)
class PlottedKernel:
    """A kernel to plot: `series` tells apart versions or devices, `kind` is "predicted", "executed" or "measured".

    `low` and `high` are the ends of its performance's interval in GFLOP/s, if there is one; `counters`, where they are
    known, tell of matrix units.
    """

    name: str
    metrics: Mapping[str, float | None]
    kind: str = "executed"
    series: str = ""
    low: float | None = None
    high: float | None = None
    counters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Bandwidth:
    """The bandwidth of a memory level in GB/s."""

    level: str
    gbps: float


@dataclass(frozen=True)
class ComputePeak:
    """The peak rate of a number format on one kind of unit, in GFLOP/s."""

    name: str
    gflops: float


@dataclass(frozen=True)
class Axes:
    """The decades (powers of ten) that both axes reach from and to."""

    intensity: tuple[int, int]
    gflops: tuple[int, int]


@dataclass(frozen=True)
class PlottedPoint:
    """A kernel at one memory level; `low` and `high`: the ends of its performance's interval, where there is one."""

    name: str
    series: str
    kind: str
    low: float | None
    high: float | None
    level: str
    intensity: float
    gflops: float
    attainable: float


@dataclass(frozen=True)
class RooflinePlot:
    """What a plot of kernels on a device shows: the input of profiling/reports/web/roofline.js.

    `axes` follow from the device alone, so that plots can be compared. `unplotted` names the kernels without
    floating-point work, which have no intensity.
    """

    device: str
    title: str
    bandwidths: tuple[Bandwidth, ...]
    peaks: tuple[ComputePeak, ...]
    axes: Axes
    points: tuple[PlottedPoint, ...]
    unplotted: tuple[str, ...]


def plot_kernels(device: str, kernels: Sequence[PlottedKernel]) -> RooflinePlot:
    """The roofline of a device with these kernels; raises UsageError for an unknown device."""
    limits = device_ceilings(device)
    peaks = _merge_equal_peaks({f"{name} vector": rate for name, rate in limits.compute.items()}) | _merge_equal_peaks(
        matrix_peaks(device)
    )
    highest = math.ceil(math.log10(max(peaks.values())))
    leftmost = math.floor(math.log10(limits.peak / limits.bandwidth["L1"])) - 2
    rightmost = math.ceil(math.log10(max(peaks.values()) / limits.bandwidth["HBM"]))
    plotted = tuple(row for kernel in kernels for row in _plotted_points(kernel, limits))
    plotted_keys = {(row.name, row.series, row.kind) for row in plotted}
    return RooflinePlot(
        device=device,
        title=load_device(device).title,
        bandwidths=_list_roofs(device, limits),
        peaks=tuple(ComputePeak(name, rate) for name, rate in sorted(peaks.items(), key=lambda item: -item[1])),
        axes=Axes((leftmost, rightmost), (highest - 7, highest)),
        points=plotted,
        unplotted=tuple(dict.fromkeys(k.name for k in kernels if (k.name, k.series, k.kind) not in plotted_keys)),
    )


def _list_roofs(device: str, limits: Ceilings) -> tuple[Bandwidth, ...]:
    """The memory levels' roofs, the fastest first, with that of the Infinity Cache where the device has one."""
    rates = {**limits.bandwidth, "Infinity Cache": load_device(device)["fabric.infinity_cache_gbps"]}
    return tuple(Bandwidth(level, rate) for level, rate in sorted(rates.items(), key=lambda row: -row[1]) if rate)


def _plotted_points(kernel: PlottedKernel, limits: Ceilings) -> list[PlottedPoint]:
    facts = kernel.name, kernel.series, kernel.kind, kernel.low, kernel.high
    points = [point for point in roofline_points(kernel.metrics, limits, kernel.counters) if point.gflops > 0]
    return [PlottedPoint(*facts, point.level, point.intensity, point.gflops, point.attainable) for point in points]


def matrix_peaks(device: str) -> dict[str, float]:
    """GFLOP/s of the matrix units by number format of their inputs: the fastest instruction on every SIMD, at the clock
    that matrix instructions allow."""
    arch = load_device(device)
    simds = arch["topology.cus"] * arch["topology.simds_per_cu"] * arch["clock.matrix_mhz"] / 1000
    return {f"{name} matrix": simds * rate for name, rate in _matrix_rates(arch.arch).items()}


@functools.cache
def _matrix_rates(arch: str) -> dict[str, float]:
    """Floating-point operations per cycle of one matrix unit, by number format."""
    table = tomllib.loads(MATRIX_TABLE.read_text())
    column = list_architectures().index(arch)
    listed = [(MATRIX_NAMES.get(row["types"][0]), row["shape"], row["cycles"]) for row in table["mfma"].values()]
    listed += [(name, row["shape"], row[key]) for row in table["mx"].values() for key, name in MX_NAMES.items()]
    rates: dict[str, float] = {}
    for name, shape, cycles in listed:
        if name and cycles[column]:
            rates[name] = max(rates.get(name, 0.0), 2 * math.prod(shape) / cycles[column])
    return rates


def _merge_equal_peaks(peaks: Mapping[str, float]) -> dict[str, float]:
    """The peaks, with formats of equal rate merged: "FP64, FP32 vector"."""
    by_rate: dict[float, list[str]] = {}
    for name, rate in peaks.items():
        by_rate.setdefault(rate, []).append(name)
    merged = {}
    for rate, names in by_rate.items():
        unit = names[0].rpartition(" ")[2]
        merged[", ".join(name.removesuffix(f" {unit}") for name in names) + f" {unit}"] = rate
    return merged
