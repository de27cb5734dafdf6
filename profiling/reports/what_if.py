"""What removing a cause is worth at most: the timing model again on a kernel's counted work, without that cause.

Each row of WHAT_IFS changes the work, or the constants of the device, as no optimisation can do better. What a real
one gains by removing the cause is at most what the row promises, as far as the timing model is right; units that work
at the same time hide each other, so what rows are worth does not add up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from hipsynth.core.kernel_record import SEGMENT_BYTES, KernelRecord, Work
from hipsynth.profiling.backends.protocol import TargetResult
from hipsynth.profiling.reports.documents import WhatIf, WhatIfCause
from hipsynth.profiling.reports.numbers import format_quantity
from hipsynth.simulator import devices
from hipsynth.simulator.native_core import native_core

Spec: TypeAlias = Mapping[str, float]
Removal: TypeAlias = Callable[[KernelRecord, Work, Spec], tuple[Work, Spec]]
LEAST_WORTH = 0.5  # per cent of the duration; less is listed as nothing
LEGEND = "Units work at the same time and hide each other: what several causes are worth does not add up."


def _conflicts_free(kernel: KernelRecord, work: Work, spec: Spec) -> tuple[Work, Spec]:
    conflicts = kernel.counters.get("SQ_LDS_BANK_CONFLICT", 0.0)
    return replace(work, lds_cycles=max(0.0, work.lds_cycles - conflicts)), spec


def _perfect_coalescing(kernel: KernelRecord, work: Work, spec: Spec) -> tuple[Work, Spec]:
    """Look-ups, L2 requests and fetched bytes in proportion to what lanes request."""
    count = kernel.counters.get
    read, written = count("EXACT_READ_BYTES", 0.0), count("EXACT_WRITE_BYTES", 0.0)
    look_ups = _shrink_to((read + written) / SEGMENT_BYTES, count("TCP_TOTAL_CACHE_ACCESSES", 0.0))
    reads, writes = (_shrink_to(*pair) for pair in ((read, work.fabric_read_bytes), (written, work.fabric_write_bytes)))
    changed = replace(
        work,
        l1_cycles_busiest_cu=work.l1_cycles_busiest_cu * look_ups,
        l2_requests_busiest_channel=work.l2_requests_busiest_channel * look_ups,
        l2_turns_busiest_channel=work.l2_turns_busiest_channel * look_ups,
        fabric_read_bytes=work.fabric_read_bytes * reads,
        hbm_read_bytes=work.hbm_read_bytes * reads,
        fabric_write_bytes=work.fabric_write_bytes * writes,
        hbm_write_bytes=work.hbm_write_bytes * writes,
        flushed_bytes=work.flushed_bytes * writes,
        left_bytes=work.left_bytes * writes,
    )
    return changed, spec


def _shrink_to(needed: float, counted: float) -> float:
    """The factor from what was counted to what is needed, at most 1."""
    return min(1.0, max(0.0, needed) / counted) if counted > 0 else 1.0


def _infinite_l2(kernel: KernelRecord, work: Work, spec: Spec) -> tuple[Work, Spec]:
    """Nothing passes the fabric; loads wait for the L2."""
    changed = replace(
        _without(work, "fabric_read_bytes fabric_write_bytes hbm_read_bytes hbm_write_bytes flushed_bytes left_bytes"),
        l2_waits=work.l2_waits + work.infinity_waits + work.hbm_waits,
        infinity_waits=0.0,
        hbm_waits=0.0,
        scalar_l2_waits=work.scalar_l2_waits + work.scalar_infinity_waits + work.scalar_hbm_waits,
        scalar_infinity_waits=0.0,
        scalar_hbm_waits=0.0,
    )
    return changed, spec


def _infinite_vl1d(kernel: KernelRecord, work: Work, spec: Spec) -> tuple[Work, Spec]:
    """Every load is answered by the vL1D: as if all reuse were found near the CU."""
    changed, _ = _infinite_l2(kernel, work, spec)
    changed = replace(changed, l1_waits=work.l1_waits + changed.l2_waits, l2_waits=0.0)
    return _without(changed, "l2_requests_busiest_channel l2_turns_busiest_channel atomics_busiest_line"), spec


def _atomics_free(kernel: KernelRecord, work: Work, spec: Spec) -> tuple[Work, Spec]:
    """Neither a turn of their line, nor a request to the L2, nor a look-up."""
    count = kernel.counters.get
    atomics, requests = count("TCC_ATOMIC", 0.0), count("TCC_REQ", 0.0)
    look_ups = count("TCP_TOTAL_CACHE_ACCESSES", 0.0)
    changed = replace(
        work,
        atomics_busiest_line=0.0,
        l2_requests_busiest_channel=work.l2_requests_busiest_channel * _shrink_to(requests - atomics, requests),
        l2_turns_busiest_channel=work.l2_turns_busiest_channel * _shrink_to(requests - atomics, requests),
        l1_cycles_busiest_cu=work.l1_cycles_busiest_cu * _shrink_to(look_ups - atomics, look_ups),
    )
    return changed, spec


def _twice_the_waves(kernel: KernelRecord, work: Work, spec: Spec) -> tuple[Work, Spec]:
    """Twice as many work-groups on a CU, as far as it has wave slots."""
    slots = spec["topology.simds_per_cu"] * spec["topology.waves_per_simd"]
    most = max(work.groups_per_cu, slots // max(1.0, work.waves_per_group))
    return replace(work, groups_per_cu=min(2 * work.groups_per_cu, most)), spec


def _without(work: Work, names: str) -> Work:
    return replace(work, **dict.fromkeys(names.split(), 0.0))


def _removing(names: str, constants: str = "") -> Removal:
    """Sets members of the work, and constants of the device, to zero."""
    return lambda _, work, spec: (_without(work, names), {**spec, **dict.fromkeys(constants.split(), 0.0)})


_MEMORY_WAITS = (
    "store_waits l1_waits l2_waits infinity_waits hbm_waits scalar_hit_waits scalar_l2_waits scalar_infinity_waits "
    "scalar_hbm_waits store_tails"
)
_MEMORY = (
    "l1_cycles_busiest_cu l2_requests_busiest_channel l2_turns_busiest_channel atomics_busiest_line fabric_read_bytes "
    "fabric_write_bytes hbm_read_bytes hbm_write_bytes flushed_bytes left_bytes"
)
_LATENCY = "l2.store_latency_cycles hbm.translation_ns hbm.latency_cycles fabric.infinity_cache_latency_cycles"
WHAT_IFS: Mapping[WhatIfCause, tuple[str, Removal]] = {
    WhatIfCause.MEMORY: (
        "global memory answered at once, at no cost",
        _removing(f"{_MEMORY} {_MEMORY_WAITS}", _LATENCY),
    ),
    WhatIfCause.COALESCING: ("every look-up, request and fetched byte used by lanes", _perfect_coalescing),
    WhatIfCause.L1_MISSES: ("every load answered by the vL1D", _infinite_vl1d),
    WhatIfCause.L2_MISSES: ("an infinite L2: no traffic behind it", _infinite_l2),
    WhatIfCause.LATENCY: (
        "every wait for memory and LDS over at once",
        _removing(f"{_MEMORY_WAITS} lds_waits", _LATENCY),
    ),
    WhatIfCause.OCCUPANCY: ("twice the waves on each CU, as far as it has slots", _twice_the_waves),
    WhatIfCause.LDS_CONFLICTS: ("LDS accesses without bank conflicts", _conflicts_free),
    WhatIfCause.LDS: ("LDS accesses at no cost", _removing("lds lds_cycles lds_waits")),
    WhatIfCause.ATOMICS: ("global atomics at no cost", _atomics_free),
    WhatIfCause.BARRIERS: ("no waiting at barriers", _removing("barriers barrier_cycles")),
    WhatIfCause.BRANCHES: ("no branches", _removing("flow jumps")),
    WhatIfCause.VECTOR_ALU: (
        "vector arithmetic at no cost",
        _removing("valu_full valu_packed valu_trans valu_f64 valu_int64_mul"),
    ),
    WhatIfCause.MATRIX_CORES: ("matrix instructions at no cost", _removing("mfma_cycles")),
    WhatIfCause.SCALAR_UNIT: ("scalar instructions at no cost", _removing("salu smem")),
    WhatIfCause.WAVE_LAUNCH: (
        "waves and groups start at no cost",
        _removing(
            "",
            "issue.dispatch_cycles issue.group_dispatch_cycles issue.wave_start_cycles issue.wave_launch_cycles",
        ),
    ),
    WhatIfCause.LAUNCH_OVERHEAD: (
        "no launch overhead, as if fused with another kernel",
        _removing("", "issue.launch_ns"),
    ),
}


def duration_without(kernel: KernelRecord, device: str, causes: Collection[WhatIfCause]) -> float:
    """The kernel's duration in ns if these causes were removed together, never more than it is. The kernel must have
    been simulated."""
    assert kernel.work is not None
    spec = devices.load_device(device).spec()
    base = native_core().estimate(spec, vars(kernel.work))["duration_ns"]
    work: Work = kernel.work
    changed: Spec = spec
    for cause in causes:
        work, changed = WHAT_IFS[cause][1](kernel, work, changed)
    return kernel.duration_ns * min(1.0, native_core().estimate(changed, vars(work))["duration_ns"] / base)


def answer_what_if(kernel: KernelRecord, device: str) -> tuple[WhatIf, ...] | None:
    """What removing each cause is worth at most, the most first; None for kernels that were not simulated."""
    if kernel.work is None or kernel.source.kind != "executed" or not kernel.duration_ns > 0:
        return None
    rows = []
    for cause, (title, _) in WHAT_IFS.items():
        duration = duration_without(kernel, device, [cause])
        rows.append(
            WhatIf(cause, title, duration, kernel.duration_ns - duration, 100 - 100 * duration / kernel.duration_ns)
        )
    return tuple(sorted(rows, key=lambda row: -row.worth_percent))


def what_if_listing(results: Sequence[TargetResult]) -> str:
    """The answers for all kernels of all targets as text."""
    lines: list[str] = []
    for result in results:
        for kernel in result.launches:
            if rows := answer_what_if(kernel, result.device):
                lines += ["", f"{kernel.name}  what removing a cause is worth at most, {result.arch} ({result.device})"]
                lines += _answer_lines(rows)
    return "\n".join([*lines, "", LEGEND]).strip("\n")


def _answer_lines(rows: Sequence[WhatIf]) -> Iterator[str]:
    listed = [row for row in rows if row.worth_percent >= LEAST_WORTH]
    for row in listed:
        duration = format_quantity(row.duration_ns, "ns")
        yield f"  {row.worth_percent:5.1f} %  to {duration:>9}  {_cause_name(row):<16} {row.title}"
    if left := [_cause_name(row) for row in rows if row not in listed]:
        yield f"  nothing: {', '.join(left)}"


def _cause_name(row: WhatIf) -> str:
    return row.cause.replace("_", " ")
