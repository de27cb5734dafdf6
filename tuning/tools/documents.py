"""What the tools answer: one dataclass for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hipsynth.core.kernel_record import Dim
from hipsynth.core.reasons import Reason
from hipsynth.profiling.reports.documents import WhatIfCause
from hipsynth.tuning.optimize.transformation_plan import PlanValue
from hipsynth.tuning.swizzle.documents import SwizzledKernel


@dataclass(frozen=True)
class CompiledProgram:
    """The name under which a program is kept, and the program that it must behave like: itself for a new one."""

    program: str
    must_behave_like: str


@dataclass(frozen=True)
class ProgramText:
    """Lines of a program, each behind its number; `lines` in all."""

    program: str
    text: str
    lines: int


@dataclass(frozen=True)
class KernelResources:
    """What one work-item, wave or work-group of a kernel occupies, how many fit on a compute unit at once, what limits
    them, and how much less of it would let more run ("" if nothing does)."""

    name: str
    vgprs_per_lane: int
    agprs_per_lane: int
    sgprs_per_wave: int
    lds_bytes_per_group: int
    scratch_bytes_per_item: int
    groups_per_cu: float
    waves_per_cu: float
    share_of_wave_slots: float
    limited_by: str
    next_step: str


@dataclass(frozen=True)
class ProgramResources:
    """The resources of a program's kernels."""

    kernels: tuple[KernelResources, ...]


@dataclass(frozen=True)
class RemovedCause:
    """A cause of time, and what its removal would save at most, in per cent of the kernel's time. `assumes`: what is
    removed; what several causes are worth does not add up."""

    cause: WhatIfCause
    assumes: str
    worth_percent: float


@dataclass(frozen=True)
class KernelCauses:
    """The causes of a kernel's time that are worth anything, the most first."""

    name: str
    duration_us: float
    causes: tuple[RemovedCause, ...]


@dataclass(frozen=True)
class ProgramCauses:
    """The causes of time of each kernel of a program, the kernels by the time they take."""

    kernels: tuple[KernelCauses, ...]


@dataclass(frozen=True)
class TimedKernel:
    """One kernel of a measured run; `duration_us` is the total over its launches, metrics are means."""

    name: str
    duration_us: float
    launches: int
    limited_by: str
    occupancy_limited_by: str
    grid: Dim
    block: Dim
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class TimedProgram:
    """A measured run, its kernels by the time they take."""

    duration_us: float
    kernels: tuple[TimedKernel, ...]


@dataclass(frozen=True)
class ForecastKernel:
    """A kernel's predicted time; `unsure`: why not to rely on it."""

    name: str
    duration_us: float | None
    limited_by: str
    unsure: str | None = None


@dataclass(frozen=True)
class ForecastProgram:
    """The predicted times of a program's kernels."""

    kernels: tuple[ForecastKernel, ...]


@dataclass(frozen=True)
class ComparedPrograms:
    """How much faster the second program is, and by kernel of the first the metrics and counters that changed, as
    [before, after]."""

    speedup: float | None
    before_us: float
    after_us: float
    changed: Mapping[str, Mapping[str, tuple[float, float]]]


@dataclass(frozen=True)
class HotLine:
    """A source line, and what it costs per launch of its kernel; `share`: of the kernel's time (0..1)."""

    kernel: str
    line: int
    text: str
    share: float
    instructions: int
    bytes: int
    stall_cycles: int


@dataclass(frozen=True)
class HotLines:
    """The source lines that cost most, the most expensive first."""

    lines: tuple[HotLine, ...]


@dataclass(frozen=True)
class ProposedMove:
    """A transformation that can be applied, by its number. `plan`: what it would decide; `why`: the counter that should
    move; `gain`: the speed-up of the whole program that a preview of a few work-groups expects, null if it has none."""

    move: int
    transformation: str
    kernel: str
    plan: Mapping[str, PlanValue]
    why: str
    gain: float | None = None


@dataclass(frozen=True)
class ProposedMoves:
    """What can be done with a program. `limited`: kernels whose work-items cannot be assigned otherwise, and why;
    `left_out`: analyses that failed by a fault of theirs, with the error."""

    moves: tuple[ProposedMove, ...]
    limited: Mapping[str, str] | None = None
    left_out: Mapping[str, str] | None = None


@dataclass(frozen=True)
class ChangedProgram:
    """The name of a changed program, and the change as a unified diff."""

    program: str
    diff: str


@dataclass(frozen=True)
class CheckPassed:
    """One check of a verification; `passed` is null where it says nothing, because of `detail`."""

    check: str
    passed: bool | None
    detail: str


@dataclass(frozen=True)
class VerifiedProgram:
    """Whether a program does the same as the one it replaces, or as another one."""

    passed: bool
    checks: tuple[CheckPassed, ...]


@dataclass(frozen=True, kw_only=True)
class RemappedProgram:
    """What remapping the work-groups gave; `program` and `diff` if the text was changed."""

    program: str | None = None
    diff: str | None = None
    kernels: tuple[SwizzledKernel, ...]


@dataclass(frozen=True)
class ToolFailure:
    """Why a call has no answer."""

    error: Reason
    message: str | None = None
    cause: str | None = None
    remedy: str | None = None


@dataclass(frozen=True)
class ToolFunction:
    """`parameters`: a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, object]


@dataclass(frozen=True)
class ToolDefinition:
    """A tool as an OpenAI function definition; `type` is "function"."""

    type: str
    function: ToolFunction


@dataclass(frozen=True)
class ToolTable:
    """The document of `synth mcp --json`."""

    tools: tuple[ToolDefinition, ...]
