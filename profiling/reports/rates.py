"""Achieved rates of the memory levels beside their peaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hipsynth.core.kernel_record import KernelRecord
from hipsynth.profiling.metrics import roofline
from hipsynth.simulator import devices


@dataclass(frozen=True)
class LevelRate:
    """GB/s that a kernel moved at a memory level (None: unknown), and the most that the device can."""

    level: str
    gbps: float | None
    peak: float

    @property
    def share(self) -> float:
        return self.gbps / self.peak if self.gbps and self.peak else 0.0


def level_rates(kernel: KernelRecord, device: str) -> Iterator[LevelRate]:
    """The levels from memory to the LDS; the Infinity Cache where the device has one and the backend reports it."""
    values, peaks = kernel.metrics, {**roofline.device_ceilings(device).bandwidth, **_other_peaks(device)}
    peaks["HBM"] = _memory_peak(kernel, device)
    achieved = {
        **_memory_traffic(kernel, device),
        "L2": values.get("Exact_L2_Bandwidth"),
        "L1": _vl1d_traffic(kernel, device),
        "LDS": values.get("Exact_LDS_Bandwidth"),
    }
    return (LevelRate(level, gbps, peaks[level]) for level, gbps in achieved.items())


def _memory_peak(kernel: KernelRecord, device: str) -> float:
    """GB/s of the HBM for the kernel's mix of reads and writes."""
    read, written = (kernel.metrics.get(name) or 0.0 for name in roofline.LEVELS["HBM"][0])
    if kernel.traffic is not None:
        read, written = kernel.traffic.hbm_read_bytes, kernel.traffic.hbm_write_bytes
    total, peak = read + written, roofline.device_ceilings(device).bandwidth["HBM"]
    return total / roofline.memory_time(read, written, device) if total else peak


def _vl1d_traffic(kernel: KernelRecord, device: str) -> float | None:
    """GB/s of the vL1D as its peak is counted: a look-up moves what the vL1D moves in a cycle. (The paper's metric
    counts 128 B on gfx942, twice that.)"""
    look_ups = kernel.counters.get("TCP_TOTAL_CACHE_ACCESSES")
    width = devices.load_device(device)["vl1d.bytes_per_cycle"]
    return None if look_ups is None else _rate_of(look_ups * float(width), kernel)


def _memory_traffic(kernel: KernelRecord, device: str) -> dict[str, float | None]:
    """GB/s of the HBM, and of the Infinity Cache in front of it if the device has one: what the counters of the fabric
    see. How much of that reaches the HBM is unknown where the backend does not say it."""
    parts = [kernel.metrics.get(name) for name in roofline.LEVELS["HBM"][0]]
    known_parts = [part for part in parts if part is not None]
    fabric = sum(known_parts) if len(known_parts) == len(parts) else None
    beyond = kernel.traffic
    if not devices.load_device(device)["fabric.infinity_cache_gbps"]:
        return {"HBM": fabric}
    if beyond is None:
        return {"HBM": None, "Infinity Cache": fabric}
    return {"HBM": _rate_of(beyond.hbm_read_bytes + beyond.hbm_write_bytes, kernel), "Infinity Cache": fabric}


def _rate_of(size: float, kernel: KernelRecord) -> float | None:
    """GB/s of so many bytes; None for a duration of zero, which a program may have forged."""
    return size / kernel.duration_ns if kernel.duration_ns else None


def _other_peaks(device: str) -> dict[str, float]:
    """Peak GB/s of all LDS together and of the Infinity Cache (0: none)."""
    arch = devices.load_device(device)
    lds = arch["lds.bytes_per_cycle"] * arch["topology.cus"] * arch["clock.core_mhz"] / 1000
    return {"LDS": lds, "Infinity Cache": arch["fabric.infinity_cache_gbps"]}
