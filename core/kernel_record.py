"""KernelRecord: the measurements of one kernel, as backends return them, reports show them and the corpus stores them.

simulator/native/core/record.h repeats the names of the members that the simulator fills. The JSON form and the
corpus columns are derived from these dataclasses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

Dim = tuple[int, int, int]  # along x, y and z


@dataclass(frozen=True)
class MeasurementSource:
    """The backend that measured a kernel."""

    backend: str = ""
    version: str = ""
    duration_from: str = ""  # kind of profiler file with the duration, for backends that read several kinds

    @property
    def kind(self) -> Literal["executed", "predicted", "measured"]:
        """What its figures are: of an execution in the simulator, of a preview without one, or of hardware."""
        return {"sim": "executed", "preview": "predicted"}.get(self.backend, "measured")  # type: ignore[return-value]


@dataclass(frozen=True)
class Registers:
    """Resources of a kernel: VGPRs and AGPRs per lane, SGPRs per wave, LDS per work-group, scratch per work-item."""

    vgprs: float
    agprs: float
    sgprs: float
    lds_bytes: float
    scratch_bytes: float


SEGMENT_BYTES = 64  # of a look-up of the vL1D, and of a request to the L2


class Limiter(StrEnum):
    """What limits how many waves fit on a CU, as documents spell it (kLimiterNames of the core's dispatch.h).
    GROUP_SIZE: whole work-groups leave wave slots free."""

    LDS = "LDS"
    SGPRS = "SGPRs"
    VGPRS = "VGPRs"
    WAVE_SLOTS = "wave slots"
    WORK_GROUPS = "work-groups"
    GROUP_SIZE = "the work-group's size"


@dataclass(frozen=True)
class Occupancy:
    """Work-groups and waves that fit on one CU at once, and the resource that limits them. `peak_waves`, unlike the
    others, is of the whole device: the most waves that were resident at once in the simulation."""

    groups_per_cu: float
    waves_per_cu: float
    fraction: float  # of the device's wave slots
    peak_waves: float
    limited_by: str  # a Limiter


@dataclass(frozen=True)
class TimingBounds:
    """The terms of the timing model from which the duration is computed."""

    bottleneck: str  # the largest of the bounds
    wave_cycles: float  # lifetime of an average wave that runs alone on the device
    bounds: Mapping[str, float]  # unit -> ns that this unit alone would need


@dataclass(frozen=True)
class Work:
    """Work done by a dispatch: the input of the timing model (simulator/native/timing/work.h)."""

    groups: float = 0
    waves_per_group: float = 0
    groups_per_cu: float = 0
    waves: float = 0
    working_groups: float = 0
    working_waves: float = 0
    # Wave instructions by execution unit.
    valu_full: float = 0
    valu_packed: float = 0
    valu_trans: float = 0
    valu_f64: float = 0
    valu_int64_mul: float = 0
    mfma_cycles: float = 0
    salu: float = 0
    smem: float = 0
    vmem: float = 0
    lds: float = 0
    flow: float = 0
    jumps: float = 0
    lds_cycles: float = 0
    # Serialized memory round trips that waves waited for, by the deepest level reached.
    store_waits: float = 0
    l1_waits: float = 0
    l2_waits: float = 0
    infinity_waits: float = 0
    hbm_waits: float = 0
    scalar_hit_waits: float = 0
    scalar_l2_waits: float = 0
    scalar_infinity_waits: float = 0
    scalar_hbm_waits: float = 0
    lds_waits: float = 0
    barriers: float = 0
    store_tails: float = 0
    barrier_cycles: float = 0
    # Requests and bytes.
    l1_cycles_busiest_cu: float = 0
    l2_requests_busiest_channel: float = 0
    l2_turns_busiest_channel: float = 0
    atomics_busiest_line: float = 0
    fabric_read_bytes: float = 0
    fabric_write_bytes: float = 0
    hbm_read_bytes: float = 0
    hbm_write_bytes: float = 0
    flushed_bytes: float = 0
    left_bytes: float = 0


@dataclass(frozen=True)
class Traffic:
    """Traffic behind the L2: bytes moved by the HBM, and Infinity Cache hits."""

    hbm_read_bytes: float
    hbm_write_bytes: float
    infinity_hits: float


@dataclass(frozen=True)
class Sampling:
    """How many of the work-groups were simulated, over all dispatches.

    "exact": all of them. "replayed": the trace of a few recorded work-groups was replayed for all. "sampled": counters
    and duration are scaled up from some of them, which ran, or for which the trace of a few was replayed. Only exact
    dispatches compute results.
    """

    strategy: Literal["exact", "replayed", "sampled"] = "exact"
    groups_simulated: int = 0
    groups_recorded: int = 0  # work-groups whose trace was replayed
    # Counter, or "Duration" -> expected relative error of scaling up (two standard deviations).
    error: Mapping[str, float] = field(default_factory=dict)
    reused: int = 0  # dispatches whose counters and duration were taken from an earlier one


@dataclass(frozen=True)
class KernelRecord:
    """One kernel of one run. Amounts (duration, counters, limits, work, traffic) are means per dispatch.

    Parts that a backend cannot measure are None. Grid and block are those of the first dispatch.
    """

    name: str  # without return type and parameters
    dispatches: int
    grid: Dim  # work-groups
    block: Dim  # work-items
    duration_ns: float
    counters: Mapping[str, float]  # hardware names
    metrics: Mapping[str, float | None] = field(default_factory=dict)  # see profiling/metrics/metrics.toml
    source: MeasurementSource = field(default_factory=MeasurementSource)
    symbol: str = ""  # in the code object
    signature: str = ""  # demangled
    same_shape: bool = True  # all dispatches have this grid, block and LDS
    registers: Registers | None = None
    occupancy: Occupancy | None = None
    limits: TimingBounds | None = None
    work: Work | None = None
    traffic: Traffic | None = None
    sampling: Sampling | None = None
    language: str = ""  # "triton", or "" for HIP
    meta: Mapping[str, bool | int | str] = field(default_factory=dict)  # what a Triton kernel was specialized for

    @property
    def sampled(self) -> bool:
        """True if some work-groups were not executed, so that results in memory are not valid."""
        return self.sampling is not None and self.sampling.strategy != "exact"

    @property
    def error_estimate(self) -> Mapping[str, float]:
        """Counter, or "Duration" -> expected relative error of scaling up; empty if the whole grid ran."""
        return self.sampling.error if self.sampling is not None else {}
