"""Runs a program as it is, and follows which lines its work-groups use."""

from __future__ import annotations

from dataclasses import dataclass

from hipsynth.core.errors import BadInput
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.reasons import Reason
from hipsynth.core.scratch import scratch_folder
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.backends.sim import measured_kernels
from hipsynth.simulator import api, devices
from hipsynth.simulator.build import build_text, compile_limits
from hipsynth.simulator.limits import RunLimits
from hipsynth.simulator.line_sharing import LineSharing, SharingObservation, read_sharing
from hipsynth.toolchain import sandbox


@dataclass(frozen=True)
class ObservedLaunches:
    """The program's kernels, as profiled, and the lines of the first launch of each kernel and grid."""

    kernels: tuple[KernelRecord, ...]
    launches: tuple[LineSharing, ...]

    def launch_of(self, kernel: KernelRecord) -> LineSharing | None:
        """The largest launch of a kernel."""
        return max(self.launches_of(kernel), key=lambda s: s.groups, default=None)

    def launches_of(self, kernel: KernelRecord) -> list[LineSharing]:
        """The first launch of a kernel with each grid."""
        return [s for s in self.launches if s.symbol == kernel.symbol]


def observe_launches(
    text: str, target: Target, arguments: tuple[str, ...], following: SharingObservation, time_s: float
) -> ObservedLaunches:
    """Compiles and runs a program. Raises CompileFailed, BadInput if it does not run to its end or launches nothing,
    UsageError for an unknown architecture or flag, MissingDependency if nothing can run here."""
    device = devices.load_device(target.device)
    limits = RunLimits(time_s)
    with scratch_folder() as scratch, sandbox.job_folder() as job:
        artefacts, _ = build_text(
            text, "program", target.arch, target.flags, scratch / "build", compile_limits(limits)
        )  # fmt: skip
        folder = job / "run"
        folder.mkdir()
        result = api.run_program(artefacts, device, folder, limits, arguments, observation=following)
        launches = tuple(read_sharing(folder))
    return collect_launches(result, launches, target.arch)


def collect_launches(result: api.RunResult, launches: tuple[LineSharing, ...], arch: str) -> ObservedLaunches:
    """What a run observed. Raises BadInput if it did not run to its end or launched nothing."""
    if result.reason:
        raise BadInput("the program does not run to its end", cause=result.message[:500], reason=result.reason)
    if not result.kernels:
        printed = f"it printed: {result.stdout[:300].strip()}" if result.stdout.strip() else ""
        raise BadInput("the program launched no kernel", cause=printed, reason=Reason.NO_DISPATCH)
    return ObservedLaunches(measured_kernels(result.kernels, arch), launches)
