"""The next step of a kernel's occupancy: how much less of what limits it another work-group would need."""

from __future__ import annotations

from dataclasses import replace

from hipsynth.core.kernel_record import KernelRecord, Limiter
from hipsynth.profiling.metrics.bottleneck import simd_occupancy
from hipsynth.profiling.metrics.occupancy_limits import OccupancyLimits, occupancy_limits
from hipsynth.simulator import devices


def next_occupancy_step(kernel: KernelRecord, device: str) -> str:
    """What would let more waves run at once: "80 VGPRs, 4 fewer, would allow 6 waves/SIMD"; "" if that is not known."""
    room, limits = simd_occupancy(kernel, device), occupancy_limits(kernel, devices.load_device(device))
    if room is None or limits is None or kernel.occupancy is None:
        return ""
    if room.waves >= room.most:
        return "all wave slots can be taken"
    if room.limited_by == Limiter.GROUP_SIZE:
        return "work-groups of fewer waves would fill the last wave slots"
    if room.limited_by not in (Limiter.VGPRS, Limiter.LDS):
        return ""
    return _describe_step(
        limits, int(kernel.occupancy.groups_per_cu) + 1, bool(kernel.registers and kernel.registers.agprs)
    )


def _describe_step(limits: OccupancyLimits, groups: int, uses_agprs: bool) -> str:
    """What must become less for so many work-groups per CU; "" if that cannot be reached."""
    vgprs, lds = limits.vgprs_for(groups), limits.lds_for(groups)
    if groups > limits.most_groups or vgprs == 0:
        return ""
    changes = []
    if limits.vgprs > vgprs:
        kind = "VGPRs and AGPRs together" if uses_agprs else "VGPRs"
        changes.append(f"{vgprs} {kind}, {limits.vgprs - vgprs} fewer")
    if limits.lds_bytes > lds:
        changes.append(f"{lds:,} B of LDS per group, {limits.lds_bytes - lds:,} fewer")
    if not changes:
        return ""
    if limits.vgprs <= vgprs:
        return f"{changes[0]}, would allow {groups} work-groups/CU"
    by_lds = groups if limits.lds_bytes > lds else limits.groups_by_lds()
    fitting = min(replace(limits, vgprs=vgprs).groups_by_vgprs(), by_lds, limits.most_groups)
    waves = fitting * limits.waves_per_group / limits.simds
    return f"{', and '.join(changes)}, would allow {waves:g} waves/SIMD"
