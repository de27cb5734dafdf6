"""The twelve metrics as formulas over eight quantities. These are predicted, so that metrics agree with each other."""

from __future__ import annotations

from collections.abc import Mapping

from hipsynth.simulator.devices import device_of

Metrics = Mapping[str, float | None]
Quantities = dict[str, float]

# Per launch: nanoseconds, floating-point operations, vL1D look-ups, requests from vL1D to L2, requests at the L2, its
# misses, and bytes read and written over the fabric.
NAMES = ("duration", "flops", "lookups", "l1_requests", "l2_requests", "l2_misses", "fabric_read", "fabric_write")
L1_BYTES, L2_BYTES = 64, 128  # of a look-up or request in intensities, and of a request in the L2 bandwidth


def look_up_bytes(arch: str) -> float:
    """Bytes of a look-up in the vL1D bandwidth (profiling/metrics/metrics.toml)."""
    return device_of(arch)["vl1d.line_bytes"]


def metric_quantities(metrics: Metrics, duration_ns: float, arch: str) -> Quantities:
    """The quantities behind the metrics of a kernel (physical units). A metric that is not known counts as 0."""

    def value(name: str) -> float:
        return metrics.get(name) or 0.0

    lookups = value("L1_Cache_Bandwidth") * duration_ns / look_up_bytes(arch)
    requests = value("L2_Cache_Bandwidth") * duration_ns / L2_BYTES
    hit, l2_hit = metrics.get("L1_Cache_Hit_Rate"), metrics.get("L2_Cache_Hit_Rate")
    return {
        "duration": duration_ns,
        "flops": value("HBM_GFLOPS") * duration_ns,
        "lookups": lookups,
        "l1_requests": 0.0 if hit is None else lookups * (1 - hit / 100),
        "l2_requests": requests,
        "l2_misses": 0.0 if l2_hit is None else requests * (1 - l2_hit / 100),
        "fabric_read": value("L2_Fabric_Read_BW") * duration_ns,
        "fabric_write": value("L2_Fabric_Write_BW") * duration_ns,
    }


def metrics_of(q: Mapping[str, float], arch: str) -> dict[str, float | None]:
    """The twelve metrics in physical units; None where a formula divides by zero."""
    time, flops, lookups, requests = q["duration"], q["flops"], q["lookups"], q["l1_requests"]
    moved = q["fabric_read"] + q["fabric_write"]
    speed = _ratio_or_none(flops, time)
    return {
        "L1_Cache_Hit_Rate": _hit_percent(requests, lookups),
        "L2_Cache_Hit_Rate": _hit_percent(q["l2_misses"], q["l2_requests"]),
        "L1_Cache_Bandwidth": _ratio_or_none(lookups * look_up_bytes(arch), time),
        "L2_Cache_Bandwidth": _ratio_or_none(q["l2_requests"] * L2_BYTES, time),
        "L2_Fabric_Read_BW": _ratio_or_none(q["fabric_read"], time),
        "L2_Fabric_Write_BW": _ratio_or_none(q["fabric_write"], time),
        "L1_Cache_Arithmetic_Intensity": _ratio_or_none(flops, lookups * L1_BYTES),
        "L2_Cache_Arithmetic_Intensity": _ratio_or_none(flops, requests * L1_BYTES),
        "HBM_Arithmetic_Intensity": _ratio_or_none(flops, moved),
        "L1_Cache_GFLOPS": speed,
        "L2_Cache_GFLOPS": speed,
        "HBM_GFLOPS": speed,
    }


def _ratio_or_none(a: float, b: float) -> float | None:
    return a / b if b > 0 else None


def _hit_percent(missed: float, of: float) -> float | None:
    return max(0.0, 100 - 100 * missed / of) if of > 0 else None
