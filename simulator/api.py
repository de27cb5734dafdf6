"""Runs a compiled HIP program on the simulator: opens its channel, starts it in the sandbox, reads its results.

The program is linked with libhipsynth_hip.so, which takes its configuration from the channel and leaves one JSON
document there (see native/runtime/results.h). Nothing here compiles; hipsynth.toolchain does.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth import toolchain
from hipsynth.core.errors import MissingDependency
from hipsynth.core.installation import set_up_by
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.simulator import channel, program_results
from hipsynth.simulator.artefacts import Artefacts as Artefacts  # part of this module's interface
from hipsynth.simulator.budget_outcome import describe_uncomputed
from hipsynth.simulator.channel import Channel
from hipsynth.simulator.devices import DeviceTable
from hipsynth.simulator.launch_record import LaunchRecording
from hipsynth.simulator.limits import RunLimits
from hipsynth.simulator.line_sharing import SharingObservation
from hipsynth.simulator.observation import Observation
from hipsynth.simulator.program_results import MalformedDocument
from hipsynth.simulator.run_result import RunResult as RunResult
from hipsynth.toolchain import sandbox
from hipsynth.toolchain.sandbox import processes

LIBRARY = "libhipsynth_hip.so"
VERSION_FILE = "libhipsynth_hip.version"
MOST_ARGUMENT_BYTES = 1 << 17  # MAX_ARG_STRLEN of Linux
FIRST_FD = 3  # the first descriptor that run_sandboxed passes on
# What a job was killed for -> the reason of a failure.
KILL_REASONS = {
    sandbox.JobEnd.MEMORY: Reason.OUT_OF_MEMORY,
    sandbox.JobEnd.OUTPUT: Reason.OUTPUT_LIMIT,
    sandbox.JobEnd.FILE_SIZE: Reason.OUTPUT_LIMIT,
    sandbox.JobEnd.DISK: Reason.OUTPUT_LIMIT,
    sandbox.JobEnd.PROCESSES: Reason.FORBIDDEN_CALL,
    sandbox.JobEnd.THREADS: Reason.FORBIDDEN_CALL,
    sandbox.JobEnd.FORBIDDEN_CALL: Reason.FORBIDDEN_CALL,
    sandbox.JobEnd.MOVED: Reason.FORBIDDEN_CALL,
    sandbox.JobEnd.LOST: Reason.WORKER_DIED,
}


@functools.cache
def _installed_folders() -> tuple[Path, ...]:
    """Where an installation has this package's compiled files."""
    return tuple(Path(sysconfig.get_path(kind)) / "hipsynth" / "simulator" for kind in ("platlib", "purelib"))


def library_path() -> Path:
    """Path of the runtime library: next to this module, or of an editable install; raises MissingDependency."""
    override = os.environ.get("HIPSYNTH_RUNTIME")
    candidates = [folder / LIBRARY for folder in (Path(__file__).parent, *_installed_folders())]
    for path in [Path(override)] if override else candidates:
        if path.is_file():
            return path.resolve()
    raise MissingDependency(
        f"{LIBRARY} is not installed",
        cause="the simulator has not been built for this Python",
        remedy=f"{set_up_by()}, or name the library by HIPSYNTH_RUNTIME",
    )


def core_version() -> str:
    """Identity of the simulator's sources, written when it was built; raises MissingDependency."""
    path = library_path().with_name(VERSION_FILE)
    try:
        return path.read_text().strip()
    except OSError as error:
        raise MissingDependency(
            f"{path} cannot be read", cause=str(error), remedy="build the simulator again"
        ) from error


@dataclass(frozen=True)
class ProgramStreams:
    """Standard input and output of a program. `stdin`: a file or descriptor; `on_output`: called with "out" or "err"
    and each piece of output as it comes; `interactive`: each line is written at once, as to a terminal."""

    stdin: Path | int | None = None
    on_output: Callable[[str, bytes], None] | None = None
    interactive: bool = False


def run_program(
    artefacts: Artefacts,
    device: DeviceTable,
    scratch: Path,
    limits: RunLimits | None = None,
    args: Sequence[str] = (),
    *,
    mounts: Mapping[str, Path] | None = None,
    streams: ProgramStreams | None = None,
    observation: Observation | SharingObservation | LaunchRecording | None = None,
) -> RunResult:
    """Runs the program in the sandbox with `scratch` as its folder; failures of the program are returned as results.

    `mounts`: folders visible read-only at other paths. `observation`: what to digest and to change; recorded bytes are
    left in `scratch`. A program that loads or compiles code objects may start the disassembler and compiler.
    Raises MissingDependency if the program cannot be isolated (unless `limits.isolate` is False) or started, or if the
    runtime library does not match this version.
    """
    limits, streams = limits or RunLimits(), streams or ProgramStreams()
    if any(len(os.fsencode(word)) >= MOST_ARGUMENT_BYTES for word in args):
        problem = f"an argument has {MOST_ARGUMENT_BYTES} bytes or more, with which Linux starts no program"
        return RunResult(RunStatus.FAILED, Reason.NEEDS_ARGUMENTS, problem)
    library = library_path()
    bounds = _sandbox_limits(artefacts, limits)
    observed = observation.entries(scratch) if observation else ()
    settings = channel.encode_configuration(
        artefacts, device, limits, interactive=streams.interactive, observed=observed
    )
    with channel.open_channel(settings) as results:
        process = sandbox.run_sandboxed(
            [*_as_started(artefacts, scratch.resolve()), *args],
            scratch,
            bounds,
            read_only=_readable_folders(artefacts, library, scratch),
            env={**_cache_places(artefacts), **_program_environment(artefacts, library, scratch, FIRST_FD)},
            mounts=mounts,
            stdin=streams.stdin,
            isolate=limits.isolate,
            fds=(results.fd,),
            on_output=streams.on_output,
        )
        if process.reason == sandbox.JobEnd.NOT_STARTED:
            problem = f"{artefacts.executable}: cannot be started"
            raise MissingDependency(problem, cause=process.stderr, remedy="see `synth doctor`")
        result = _mark_partial(_build_result(results, *_sandbox_failure(process, limits, bounds)))
    _check_fit(result, library, settings)
    return replace(
        result,
        exit_code=process.exit_code,
        stdout=process.stdout,
        stderr=process.stderr,
        wall_s=process.wall_s,
        cpu_s=process.cpu_s,
        isolated=process.isolated,
        output_cut=process.cut,
    )


def _sandbox_limits(artefacts: Artefacts, limits: RunLimits) -> sandbox.SandboxLimits:
    return sandbox.SandboxLimits(
        **sandbox.time_limits(limits.time_s * 1.1 + 1.0),  # the core stops itself first, with a better message
        memory_bytes=limits.memory_bytes,
        output_bytes=limits.output_bytes,
        processes=8 if artefacts.starts_processes else 1,
    )


def _readable_folders(artefacts: Artefacts, library: Path, scratch: Path) -> list[Path]:
    """The folders that the program needs to read besides its own."""
    files = [artefacts.executable, library, *(path for module in artefacts.modules for path in module)]
    folders = {path.resolve().parent for path in files}
    if artefacts.interpreter:
        folders.update(folder.resolve() for folder in artefacts.interpreter.folders)
    if artefacts.mentions(b"hiprtcCompileProgram"):
        folders.update(toolchain.find_toolchain().folders)
    return sorted(folders - {scratch.resolve()})


def _check_fit(result: RunResult, library: Path, settings: bytes) -> None:
    """Raises MissingDependency if the library rejects the configuration, because it was built from another version.

    The library is asked once more, outside the program, which may have forged the rejection.
    """
    refusal = channel.configuration_refusal(library, settings) if result.reason == Reason.BAD_CONFIGURATION else ""
    if refusal:
        problem = f"{library} does not fit this version of hipsynth"
        raise MissingDependency(problem, cause=refusal, remedy=set_up_by())


def _as_started(artefacts: Artefacts, folder: Path) -> list[str]:
    """argv[0] as for a user: `./name` if it is in its own folder, since programs derive file names from it; a script's
    name behind its interpreter."""
    executable = artefacts.executable.resolve()
    in_place = executable.parent == folder
    if artefacts.interpreter:
        return [*artefacts.interpreter.command, executable.name if in_place else str(executable)]
    return [f"./{executable.name}" if in_place else str(executable)]


def run_attached(
    artefacts: Artefacts,
    device: DeviceTable,
    scratch: Path,
    limits: RunLimits | None = None,
    args: Sequence[str] = (),
    *,
    observation: Observation | None = None,
) -> RunResult:
    """Runs a trusted program without a sandbox, with this process's standard streams and working folder.

    Only the limits on time and memory and those of the simulator apply; see run_program for the other parameters.
    `stdout` and `stderr` of the result are empty.
    """
    limits = limits or RunLimits()
    library = library_path()
    observed = observation.entries(scratch) if observation else ()
    settings = channel.encode_configuration(artefacts, device, limits, observed=observed)
    sys.stdout.flush()
    start = time.monotonic()
    reason, message = Reason.NONE, ""
    code: int | None = None
    with channel.open_channel(settings) as results:
        environment = {**os.environ, **_program_environment(artefacts, library, scratch, results.fd)}
        interpreter = artefacts.interpreter.command if artefacts.interpreter else ()
        command = [*interpreter, str(artefacts.executable.resolve()), *args]
        process = subprocess.Popen(command, env=environment, pass_fds=(results.fd,))
        try:
            reason, message = _watch_process(process, limits)
            code = process.poll()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if code is not None and code < 0:
            reason, message = Reason.HOST_CRASH, f"the program died of {_signal_name(-code)}"
        result = _build_result(results, reason, message)
    _check_fit(result, library, settings)
    return replace(result, exit_code=code, wall_s=time.monotonic() - start)


def _watch_process(process: subprocess.Popen[bytes], limits: RunLimits) -> tuple[Reason, str]:
    """Waits for the end of an attached program; (reason, message) if it exceeded a limit, else Reason.NONE and ""."""
    bounds = sandbox.SandboxLimits(**sandbox.time_limits(limits.time_s * 1.1 + 1.0))
    meter = processes.ProcessTimeMeter()
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=processes.SAMPLE_S)
            return Reason.NONE, ""
        pids = processes.living_descendants(process.pid)
        meter.sample(pids)
        late = meter.exceeded_limit(bounds.cpu_s, bounds.idle_s, bounds.wall_s)
        if late:
            return Reason.TIMEOUT, _out_of_time(late, limits)
        if sum(map(processes.resident_bytes, pids)) > limits.memory_bytes:
            return Reason.OUT_OF_MEMORY, _too_much(limits.memory_bytes)


def _out_of_time(reason: sandbox.JobEnd, limits: RunLimits) -> str:
    kinds = {
        sandbox.JobEnd.CPU_TIME: "of processor time",
        sandbox.JobEnd.IDLE_TIME: "in which it did nothing",
    }
    if reason in kinds:
        return f"stopped after {limits.time_s:g} s {kinds[reason]}"
    return f"stopped after {limits.time_s * sandbox.WALL_FACTOR + sandbox.WALL_EXTRA_S:g} s on a busy machine"


def _program_environment(artefacts: Artefacts, library: Path, scratch: Path, channel_fd: int) -> dict[str, str]:
    given_by_interpreter = dict(artefacts.interpreter.environment if artefacts.interpreter else ())
    folders = [*filter(None, [given_by_interpreter.get("LD_LIBRARY_PATH")]), str(library.parent)]
    environment = {
        **given_by_interpreter,
        **dict(artefacts.environment),
        channel.VARIABLE: str(channel_fd),
        "LD_LIBRARY_PATH": ":".join(folders),
        "TMPDIR": str(scratch.resolve()),
    }
    preload = os.environ.get("HIPSYNTH_PRELOAD")  # a sanitized simulator's runtime: see tools/sanitize.py
    if preload:
        options = {key: os.environ[key] for key in ("ASAN_OPTIONS", "UBSAN_OPTIONS") if key in os.environ}
        environment |= {"LD_PRELOAD": preload, **options}
    return environment


def _cache_places(artefacts: Artefacts) -> dict[str, str]:
    """Where a script's caches lie in the sandbox."""
    return dict(artefacts.interpreter.places if artefacts.interpreter else ())


def _signal_name(number: int | None) -> str:
    with contextlib.suppress(ValueError, TypeError):
        return signal.Signals(number or 0).name
    return f"signal {number}"


def _sandbox_failure(
    process: sandbox.SandboxResult, limits: RunLimits, bounds: sandbox.SandboxLimits
) -> tuple[Reason, str]:
    """(reason, message) if the sandbox or a signal ended the program, Reason.NONE and "" if it exited."""
    if process.status == sandbox.JobStatus.TIMEOUT:
        return Reason.TIMEOUT, _out_of_time(process.reason, limits)
    if process.reason == sandbox.JobEnd.INTERRUPTED:
        return Reason.INTERRUPTED, "stopped"
    if process.status == sandbox.JobStatus.KILLED:
        return KILL_REASONS[process.reason], f"stopped by the sandbox: {_describe_limit(process.reason, bounds)}"
    if process.reason == sandbox.JobEnd.SIGNAL:
        return Reason.HOST_CRASH, f"the program died of {_signal_name(process.signal)}"
    return Reason.NONE, ""


def _too_much(room: int) -> str:
    exceeded = "its own memory, the device memory it touched and the simulator's tables"
    return f"{exceeded} took more than the limit of {room >> 20} MiB"


def _describe_limit(reason: sandbox.JobEnd, bounds: sandbox.SandboxLimits) -> str:
    """Describes how the program exceeded the limit `reason`."""
    mib = 20
    return {
        sandbox.JobEnd.MEMORY: _too_much(bounds.memory_bytes),
        sandbox.JobEnd.OUTPUT: f"it printed more than {sandbox.OUTPUT_FACTOR * bounds.output_bytes >> mib} MiB",
        sandbox.JobEnd.FILE_SIZE: f"it wrote more than {bounds.file_bytes >> mib} MiB to one file",
        sandbox.JobEnd.DISK: f"its files took more than {bounds.scratch_bytes >> mib} MiB",
        sandbox.JobEnd.PROCESSES: f"it started more than {bounds.processes} processes",
        sandbox.JobEnd.THREADS: f"it started more than {bounds.threads} threads",
        sandbox.JobEnd.MOVED: "it put something else in the place of its folder",
        sandbox.JobEnd.LOST: "something outside ended the sandbox, such as a machine that ran out of memory",
        sandbox.JobEnd.FORBIDDEN_CALL: "it tried to start a process, or made another forbidden system call",
    }.get(reason, reason.replace("_", " "))


def _describe_progress(document: RunResult) -> str:
    """Describes the progress of a program that ran out of time or was interrupted."""
    if not document.kernels:
        return ", before any kernel had ended"
    busiest = max(document.kernels, key=lambda kernel: kernel.dispatches)
    most = "" if busiest.dispatches == document.dispatch_count else f", {busiest.dispatches:,} of them"
    launches = "launch" if document.dispatch_count == 1 else "launches"
    return f", after {document.dispatch_count:,} {launches}{most} of kernel {busiest.name}"


# Failures that launches which were not executed may cause: what they would have computed is used.
_CONSEQUENCES = frozenset({Reason.TIMEOUT, Reason.HOST_CRASH})


def _mark_partial(result: RunResult) -> RunResult:
    """A run that ended because nothing new was launched is partial; within a budget, also one that ended at its time
    limit, or after launches that were not executed."""
    if result.reason == Reason.SETTLED:
        return replace(result, status=RunStatus.PARTIAL)
    was_stopped = bool(result.kernels) and (
        result.reason == Reason.TIMEOUT or (result.reason in _CONSEQUENCES and result.sampled)
    )
    if not result.spending or not was_stopped:
        return result
    message = "; ".join(filter(None, (result.message, describe_uncomputed(result.spending))))
    return replace(result, status=RunStatus.PARTIAL, reason=Reason.BUDGET, message=message)


def _build_result(results: Channel, reason: Reason, message: str) -> RunResult:
    """Combines the exit of the process with the result document, whose reason takes precedence.

    A missing document (the program never called HIP) is an empty result.
    """
    try:
        data = results.document()
        document = RunResult(RunStatus.OK) if data is None else program_results.parse_document(data)
    except MalformedDocument as error:
        return RunResult(RunStatus.FAILED, Reason.BAD_RESULT, f"the program left a result that cannot be used: {error}")
    if document.status != RunStatus.OK:
        reason, message = document.reason, document.message
    if reason in (Reason.TIMEOUT, Reason.INTERRUPTED):
        message += _describe_progress(document)
    return replace(document, status=RunStatus.FAILED if reason else RunStatus.OK, reason=reason, message=message)
