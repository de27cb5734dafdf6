"""How many work-groups of a kernel the registers, the LDS and the wave slots of a CU admit, and which of them limits.

The registers are those that the kernel uses. What is allocated may be more: where the LDS limits occupancy already,
the compiler gives a kernel of known group size all registers that this leaves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hipsynth.core.kernel_record import KernelRecord, Limiter
from hipsynth.simulator.devices import DeviceTable, architecture_fact


@dataclass(frozen=True)
class OccupancyLimits:
    """What one work-group takes of a CU, and what the CU has. `vgprs`: VGPRs and AGPRs together, per lane."""

    vgprs: int
    lds_bytes: int
    waves_per_group: int
    simds: int
    slots: int  # waves per SIMD
    vgpr_rows: int  # per SIMD
    vgpr_granule: int
    lds_per_cu: int
    lds_granule: int
    most_groups: int  # work-groups per CU

    def groups_by_vgprs(self) -> int:
        """Work-groups per CU that the registers and the wave slots admit."""
        allocated = max(1, math.ceil(self.vgprs / self.vgpr_granule)) * self.vgpr_granule
        return min(self.slots, self.vgpr_rows // allocated) * self.simds // self.waves_per_group

    def groups_by_lds(self) -> int:
        """Work-groups per CU that the LDS admits; the most there can be for a kernel without LDS."""
        if not self.lds_bytes:
            return self.most_groups
        return self.lds_per_cu // (math.ceil(self.lds_bytes / self.lds_granule) * self.lds_granule)

    def vgprs_for(self, groups: int) -> int:
        """The most registers with which so many work-groups fit on a CU; 0 if none would do."""
        waves = math.ceil(groups * self.waves_per_group / self.simds)
        return 0 if waves > self.slots else self.vgpr_rows // waves // self.vgpr_granule * self.vgpr_granule

    def lds_for(self, groups: int) -> int:
        """The most bytes of LDS per work-group with which so many fit on a CU."""
        return self.lds_per_cu // groups // self.lds_granule * self.lds_granule


def waves_per_group(kernel: KernelRecord, arch: str) -> int:
    """Waves of a work-group of a kernel. Raises UsageError for an unknown architecture."""
    return math.ceil(math.prod(kernel.block) / int(architecture_fact(arch, "wave_lanes")))


def occupancy_limits(kernel: KernelRecord, table: DeviceTable) -> OccupancyLimits | None:
    """The limits of a kernel on a device; None if its registers are not known."""
    if kernel.registers is None:
        return None
    return OccupancyLimits(
        vgprs=int(kernel.registers.vgprs + kernel.registers.agprs),
        lds_bytes=int(kernel.registers.lds_bytes),
        waves_per_group=max(1, waves_per_group(kernel, table.arch)),
        simds=int(table["topology.simds_per_cu"]),
        slots=int(table["topology.waves_per_simd"]),
        vgpr_rows=int(table["topology.vgprs_per_simd"]),
        vgpr_granule=int(table["topology.vgpr_granule"]),
        lds_per_cu=int(table["lds.bytes_per_cu"]),
        lds_granule=int(table["lds.allocation_granule"]),
        most_groups=int(table["topology.workgroups_per_cu"]),
    )


def limiting_resource(kernel: KernelRecord, table: DeviceTable) -> str:
    """The Limiter of a kernel whose occupancy is known: the LDS where the registers that it uses would admit more."""
    assert kernel.occupancy is not None
    limits, groups = occupancy_limits(kernel, table), kernel.occupancy.groups_per_cu
    if kernel.occupancy.limited_by != Limiter.VGPRS or limits is None or limits.groups_by_vgprs() <= groups:
        return kernel.occupancy.limited_by
    return Limiter.LDS if limits.groups_by_lds() <= groups else kernel.occupancy.limited_by
