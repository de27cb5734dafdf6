"""Features of a previewed launch for the learned correction."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hipsynth.profiling.preview.interpret import Preview
from hipsynth.simulator.devices import load_device
from hipsynth.training.analytic.quantities import NAMES, Quantities, metric_quantities

# Facts of the device that a correction may depend on, so that it can be asked about devices it never saw.
DEVICE = ("topology.cus", "topology.xcds", "l2.bytes", "l2.channels", "clock.core_mhz", "hbm.gbps")


def preview_quantities(preview: Preview, arch: str) -> Quantities:
    """The eight quantities that corrections are learned for, of an uncorrected preview."""
    return metric_quantities(preview.metrics, preview.duration_ns, arch)


def launch_features(preview: Preview, device: str) -> dict[str, float]:
    """Feature name -> value. Sizes are logarithms, the rest are ratios of what the preview counted."""
    table = load_device(device)
    spec = table.spec()
    quantities = preview_quantities(preview, table.arch)
    groups, block = math.prod(preview.launch.grid), math.prod(preview.launch.block)
    items = max(1.0, float(groups * block))
    slots = spec["topology.cus"] * max(1.0, float(preview.occupancy["groups_per_cu"]))
    l2 = spec["l2.bytes"] * spec["topology.xcds"]
    infinity = spec.get("fabric.infinity_cache_bytes", 0.0)
    values = {f"q_{name}": _safe_log2(quantities[name] / items) for name in NAMES}
    values |= {f"b_{name}": bound / max(preview.duration_ns, 1.0) for name, bound in preview.bounds.items()}
    values |= {f"d_{key}": spec.get(key, 0.0) for key in DEVICE}
    values |= {
        "l1_miss": _safe_ratio(quantities["l1_requests"], quantities["lookups"]),
        "l2_miss": _safe_ratio(quantities["l2_misses"], quantities["l2_requests"]),
        "duration": _safe_log2(preview.duration_ns),
        "groups": _safe_log2(groups),
        "block": _safe_log2(block),
        "rounds": _safe_log2(groups / slots),
        "run_share": preview.groups_run / max(1, groups),
        "buffers": _safe_log2(preview.buffer_bytes),
        "buffers_l2": _safe_log2((preview.buffer_bytes + 1) / l2),
        "missed_l2": _safe_log2((quantities["l2_misses"] * spec["l2.line_bytes"] + 1) / l2),
        "missed_buffers": _safe_log2((quantities["fabric_read"] + 1) / (preview.buffer_bytes + 1)),
        "infinity": _safe_log2((preview.buffer_bytes + 1) / infinity) if infinity else 0.0,
        "occupancy": float(preview.occupancy["fraction"]),
        "groups_per_cu": float(preview.occupancy["groups_per_cu"]),
        "vgprs": float(preview.registers["vgprs"]),
        "lds": _safe_log2(preview.registers["lds_bytes"]),
        "by_data": float(preview.by_data),
        "atomics": _safe_log2(preview.counters.get("TCC_ATOMIC", 0.0) / items),
        "barriers": _safe_log2(preview.work.get("barriers", 0.0) / items),
        "guessed": float(preview.guessed),
        "sensitivity": preview.sensitivity,
        "sampling_error": math.log1p(preview.sampling_error),
    }
    return values


def _safe_log2(value: float) -> float:
    return math.log2(value) if value > 0 else -40.0


def _safe_ratio(part: float, total: float) -> float:
    return part / total if total > 0 else -1.0


def feature_vector(columns: Mapping[str, int], values: Mapping[str, float]) -> list[float]:
    """A row of the trees' table: the values in their columns, NaN in all others."""
    vector = [math.nan] * len(columns)
    for name, value in values.items():
        if name in columns:
            vector[columns[name]] = value
    return vector
