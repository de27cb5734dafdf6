"""One trial: a program's text, compiled for a target and run in the sandbox under stated conditions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hipsynth.core.errors import BadInput, CompileFailed
from hipsynth.core.files import read_program_file
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.core.scratch import scratch_folder
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.backends.sim import measured_kernels
from hipsynth.simulator import api, devices
from hipsynth.simulator.autotunings import Autotuning
from hipsynth.simulator.build import build_text, compile_limits
from hipsynth.simulator.limits import SAMPLING_UNITS, RunLimits
from hipsynth.simulator.observation import RECORD_FILE, MemoryChanges, Observation, Output
from hipsynth.simulator.transfers import Transfer
from hipsynth.toolchain import check_flags, sandbox
from hipsynth.tuning.trial.repeated_main import repeat_main
from hipsynth.tuning.trial.source_constants import apply_settings
from hipsynth.tuning.trial.written_files import describe_written_files

OUTPUT_BYTES = 1 << 20  # of stdout
AS_INSTRUCTIONS = "-munsafe-fp-atomics"  # additions by atomics are instructions, not loops of compare-and-swap


def target_of(arch: str, flags: str = "-O3", device: str = "") -> Target:
    """A target for trials; `device` "" is the architecture's default. Raises UsageError for what is not known."""
    return Target(arch, check_flags(flags), devices.device_of(arch, device).name)


@dataclass(frozen=True)
class Conditions(MemoryChanges):
    """How a trial runs: the program's `arguments`, and what is changed and observed.

    Some of the `arguments` may set constants of the source (ConstantSetting). `exact`: every work-group runs, so that
    results are valid; otherwise large grids are sampled, for their times. `effort` multiplies the work that sampling a
    large grid may take, `units` is how many pieces of it are counted. `time_s` is processor time. `count=False` leaves
    out caches and counters, for outputs alone; then `one_in` and `which` choose windows of work-groups. `calls`: how
    often main() is called, 1 or 2.
    """

    arguments: tuple[str, ...] = ()
    exact: bool = False
    effort: float = 1.0
    units: int = SAMPLING_UNITS
    time_s: float = 60.0
    count: bool = True
    calls: int = 1

    def limits(self) -> RunLimits:
        """Limits of the run. Launches that look for races are never replayed from equal ones."""
        units = 0 if self.exact else self.units
        return RunLimits(
            self.time_s,
            output_bytes=OUTPUT_BYTES,
            sampling_units=units,
            effort=self.effort,
            reuse=not self.races,  # every launch is to be executed
            caches=self.count,
        )

    def observation(self) -> Observation | None:
        """Digests cost time in proportion to the memory, and those of a sampled run mean nothing."""
        if not (self.exact or self.redraw or self.poison or self.watch or self.guard or self.races):
            return None
        return Observation.with_changes(self, outputs=self.exact)


@dataclass(frozen=True)
class Trial:
    """Result of a trial. `status`: "ok" if the program ended by itself, with any exit code, else "failed" with a reason
    of api.RunResult or of a failed compile. `written`: describe_written_files() of an exact run of a HIP program.
    `kernels` have metrics and means per dispatch; `outputs` are digests, in the order of events, and `recorded` the
    bytes of those that were kept, by their position in `outputs`.
    """

    status: RunStatus
    reason: Reason = Reason.NONE
    message: str = ""
    exit_code: int | None = None
    stdout: str = ""
    written: str = ""
    kernels: tuple[KernelRecord, ...] = ()
    outputs: tuple[Output, ...] = ()
    recorded: Mapping[int, bytes] | None = None
    races: tuple[str, ...] = ()  # where they were looked for
    unfenced: tuple[str, ...] = ()  # likewise: accesses that atomics put in order, but no fence makes visible
    sampled: bool = False
    cpu_s: float = 0.0
    transfers: tuple[Transfer, ...] = ()
    autotunings: tuple[Autotuning, ...] = ()  # of a script
    host_operators: Mapping[str, int] = field(default_factory=dict)  # of PyTorch, on the CPU
    build_s: float = 0.0  # on the clock: what compiling it took; next to nothing the next time
    stderr: str = ""  # of an exact run of a HIP program, without what the simulator wrote there
    shapes: tuple[KernelRecord, ...] = ()  # the same launches by grid and block; () if each kernel has one shape

    @property
    def ok(self) -> bool:
        return self.status == RunStatus.OK

    @property
    def texts(self) -> str:
        """What the program printed, also to stderr, then what it wrote."""
        return self.stdout + self.stderr + self.written

    @property
    def duration_ns(self) -> float:
        """Time in kernels: the sum over all dispatches."""
        return sum(kernel.duration_ns * kernel.dispatches for kernel in self.kernels)


TRIAL_FILE = "build/program.hip"  # what messages of the compiler call the text of a trial


def run_trial(text: str, target: Target, conditions: Conditions | None = None) -> Trial:
    """Compiles and runs a program; its failures are results.

    Raises UsageError for a flag that is not allowed, MissingDependency if nothing can be compiled or run here.
    """
    conditions = conditions or Conditions()
    device, limits = devices.load_device(target.device), conditions.limits()
    try:
        text, arguments = _prepare_text(text, conditions)
    except ValueError as error:
        return Trial(RunStatus.FAILED, Reason.UNSUPPORTED, str(error))
    with scratch_folder() as scratch, sandbox.job_folder() as job:
        built, began = scratch / "build", time.monotonic()
        try:
            flags = f"{target.flags} {AS_INSTRUCTIONS}" if conditions.exact_sums else target.flags
            artefacts, _ = build_text(text, "program", target.arch, flags, built, compile_limits(limits))
        except (CompileFailed, BadInput) as error:
            return Trial(RunStatus.FAILED, error.reason, error.describe().replace(f"{scratch}/", ""))
        build_s = time.monotonic() - began
        folder = job / "run"
        folder.mkdir()
        result = api.run_program(artefacts, device, folder, limits, arguments, observation=conditions.observation())
        recorded = _recorded_bytes(result.outputs, folder) if conditions.record_bytes else None
        written = describe_written_files(folder) if conditions.exact else ""
    message = result.message.replace(str(job), "<scratch>")
    return Trial(
        result.status, result.reason, message, result.exit_code, result.stdout, written,
        measured_kernels(result.kernels, target.arch), result.outputs, recorded, result.races, result.unfenced,
        result.sampled, result.cpu_s, result.transfers, build_s=build_s, shapes=result.shapes,
        stderr=_own_lines(result.stderr.replace(str(job), "<scratch>")) if conditions.exact else "",
    )  # fmt: skip


def _own_lines(stderr: str) -> str:
    """What a program wrote to stderr, without lines of the simulator."""
    return "".join(line for line in stderr.splitlines(keepends=True) if not line.startswith("hipsynth: "))


def _prepare_text(text: str, conditions: Conditions) -> tuple[str, tuple[str, ...]]:
    """(What is compiled, the program's own arguments). Raises ValueError if the text has no main() or constant that the
    conditions change."""
    if conditions.calls > 1:
        text = repeat_main(text)
        if not text:
            raise ValueError("main() was not found, so it cannot be called twice")
    return apply_settings(text, conditions.arguments)


def _recorded_bytes(outputs: tuple[Output, ...], folder: Path) -> dict[int, bytes]:
    """The recorded bytes of each output that was kept in full. The program may have damaged the file: then none."""
    total = sum(output.recorded for output in outputs)
    try:
        data = read_program_file(folder, RECORD_FILE, total) if total else b""
    except BadInput:
        return {}
    recorded, at = {}, 0
    for number, output in enumerate(outputs):
        if output.recorded == output.bytes and at + output.bytes <= len(data):
            recorded[number] = data[at : at + output.bytes]
        at += output.recorded
    return recorded
