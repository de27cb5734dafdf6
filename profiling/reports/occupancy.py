"""The next step of a kernel's occupancy: how much less of the limiting resource another wave, or work-group, needs."""

from __future__ import annotations

import math

from hipsynth.core.kernel_record import KernelRecord, Limiter
from hipsynth.profiling.metrics.bottleneck import simd_occupancy
from hipsynth.simulator import devices


def next_occupancy_step(kernel: KernelRecord, device: str) -> str:
    """What would let more waves run at once: "80 VGPRs, 4 fewer, would allow 6 waves/SIMD"; "" if that is not known."""
    room, registers = simd_occupancy(kernel, device), kernel.registers
    if room is None or registers is None or kernel.occupancy is None:
        return ""
    table = devices.load_device(device)
    if room.waves >= room.most:
        return "all wave slots can be taken"
    if room.limited_by == Limiter.VGPRS:
        granule, rows = int(table["topology.vgpr_granule"]), int(table["topology.vgprs_per_simd"])
        used = int(registers.vgprs + registers.agprs)
        waves = rows // (math.ceil(used / granule) * granule) + 1
        allowed = rows // waves // granule * granule
        kind = "VGPRs and AGPRs together" if registers.agprs else "VGPRs"
        return f"{allowed} {kind}, {used - allowed} fewer, would allow {waves} waves/SIMD"
    if room.limited_by == Limiter.LDS and registers.lds_bytes:
        groups, step = int(kernel.occupancy.groups_per_cu) + 1, int(table["lds.allocation_granule"])
        allowed = int(table["lds.bytes_per_cu"]) // groups // step * step
        fewer = int(registers.lds_bytes) - allowed
        return f"{allowed:,} B of LDS per group, {fewer:,} fewer, would allow {groups} work-groups/CU"
    if room.limited_by == Limiter.GROUP_SIZE:
        return "work-groups of fewer waves would fill the last wave slots"
    return ""
