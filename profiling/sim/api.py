"""Runs a compiled HIP program on the simulator: writes its configuration, starts it in the sandbox, reads its results.

The program is linked with libhipsynth_hip.so, which reads the file named by HIPSYNTH_CONFIG and writes one JSON
document (see native/runtime/results.h). Nothing here compiles; hipsynth.profiling.toolchain does.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hipsynth.profiling import sandbox, toolchain
from hipsynth.profiling.devices import DeviceTable
from hipsynth.profiling.sandbox import processes
from hipsynth.profiling.sim.limits import Limits
from hipsynth.synth.core.errors import Missing
from hipsynth.synth.core.kernel_record import KernelRecord, decode

LIBRARY = "libhipsynth_hip.so"
VERSION_FILE = "libhipsynth_hip.version"
STOP_EXIT = 113  # exit status of a program that the simulator stopped; kStopExit of native/runtime/results.h
# Memory for the program's own pages and the simulator's tables, in addition to the device memory limit.
HOST_MEMORY_BYTES = 4 << 30
# The core's reasons that have another name in corpora.
CORE_REASONS = {"time_limit": "timeout", "bad_launch": "bad_code_object", "bad_spec": "bad_configuration"}
# The sandbox's name of an exceeded limit -> our reason.
KILL_REASONS = {
    "memory": "out_of_memory",
    "output": "output_limit",
    "file_size": "output_limit",
    "disk": "output_limit",
    "processes": "forbidden_call",
    "threads": "forbidden_call",
    "forbidden_call": "forbidden_call",
}


@dataclass(frozen=True)
class Artefacts:
    """Compiled files of one program; a program without device code has no code object."""

    executable: Path
    code_object: Path | None = None
    disassembly: Path | None = None
    objdump: Path = Path("llvm-objdump")
    further: tuple[tuple[Path, Path], ...] = ()  # code object and disassembly of the program's other files

    @property
    def modules(self) -> tuple[tuple[Path, Path], ...]:
        """Code object and disassembly of each file with kernels, in the order of their module numbers."""
        if self.code_object is None or self.disassembly is None:
            return ()
        return ((self.code_object, self.disassembly), *self.further)

    def mentions(self, *symbols: bytes) -> bool:
        """True if the executable contains the name of one of these functions."""
        try:
            text = self.executable.read_bytes()
        except OSError:
            return False
        return any(symbol in text for symbol in symbols)


# Fields that are totals over a kernel's dispatches in RunResult, but means per dispatch in a backend's records.
TOTALS = ("duration_ns", "counters", "limits", "work", "traffic")


@dataclass(frozen=True)
class RunResult:
    """Result of one run. `status` "ok" means that the program terminated by itself, with any exit code.

    `reason` of a failure: timeout, instruction_limit, illegal_access, assertion, trap, deadlock, unsupported_opcode,
    bad_code_object, bad_configuration, internal_error, out_of_memory, host_crash, output_limit, forbidden_call.
    Kernel records have no metrics and no source yet, and totals over dispatches instead of means (see TOTALS).
    """

    status: str
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    kernels: tuple[KernelRecord, ...] = ()
    dispatches: tuple[KernelRecord, ...] = ()  # records of the first dispatches, at most kKeptDispatches
    dispatch_count: int = 0
    clock_ns: float = 0.0  # simulated time at the end: dispatches and copies
    warnings: tuple[str, ...] = ()  # errors that hardware would not detect, such as an out-of-bounds access
    wall_s: float = 0.0
    cpu_s: float = 0.0  # processor time; 0 for an attached program
    isolated: bool = False

    @property
    def sampled(self) -> bool:
        """True if some grid was sampled or replayed, so that the program's results are not valid."""
        return any(kernel.sampled for kernel in self.kernels)


def short_name(signature: str) -> str:
    """`void ns::axpy<float>(float, float*)` -> `ns::axpy<float>`: no return type, no parameters."""
    text = signature.removesuffix(" [clone .kd]")
    if text.endswith(")"):
        depth = 0
        for i in range(len(text) - 1, -1, -1):
            depth += {")": 1, "(": -1}.get(text[i], 0)
            if depth == 0:
                text = text[:i]
                break
    depth = 0
    for i in range(len(text) - 1, -1, -1):
        depth += {")": 1, ">": 1, "(": -1, "<": -1}.get(text[i], 0)
        if text[i] == " " and depth == 0:
            return text[i + 1 :]
    return text


def library_path() -> Path:
    """Path of the runtime library: next to this module, or of an editable install; raises Missing."""
    override = os.environ.get("HIPSYNTH_RUNTIME")
    folders = [Path(sysconfig.get_path(kind)) / "hipsynth" / "profiling" / "sim" for kind in ("platlib", "purelib")]
    candidates = [folder / LIBRARY for folder in (Path(__file__).parent, *folders)]
    for path in [Path(override)] if override else candidates:
        if path.is_file():
            return path.resolve()
    raise Missing(
        f"{LIBRARY} is not installed",
        cause="the simulator has not been built for this Python",
        remedy="run `make setup`, or name the library by HIPSYNTH_RUNTIME",
    )


def core_version() -> str:
    """Identity of the simulator's sources, written when it was built; raises Missing."""
    path = library_path().with_name(VERSION_FILE)
    try:
        return path.read_text().strip()
    except OSError as error:
        raise Missing(f"{path} cannot be read", cause=str(error), remedy="build the simulator again") from error


def configuration(
    artefacts: Artefacts,
    device: DeviceTable,
    limits: Limits,
    output: Path,
    *,
    count: bool = True,
    counters: bool = True,
) -> str:
    """The text of a run's configuration file."""
    entries: dict[str, object] = {
        "arch": device.arch,
        "title": device.title,
        "objdump": artefacts.objdump,
        "output": output,
        "max_wave_instructions": limits.wave_instructions,
        "memory_bytes": int(device.spec()["hbm.bytes"]),  # untouched pages use no host memory
        "sampling_units": limits.sampling_units,
        "effort": limits.effort,
        "per_kernel": limits.per_kernel,
        "reuse": int(limits.reuse),
        "cpu_seconds": limits.time_s,
        "count": int(count),
        "counters": int(counters),
        "strict_bounds": int(limits.strict_bounds),
    }
    lines = [f"{key} = {value}" for key, value in entries.items()]
    for code_object, disassembly in artefacts.modules:
        lines += [f"code_object = {code_object.resolve()}", f"disassembly = {disassembly.resolve()}"]
    if artefacts.mentions(b"hiprtcCompileProgram"):
        lines += [f"compiler = {word}" for word in toolchain.run_time_compiler(toolchain.find(), device.arch)]
    lines += [f"spec.{key} = {value!r}" for key, value in device.spec().items()]
    return "\n".join(lines) + "\n"


def run_program(
    artefacts: Artefacts,
    device: DeviceTable,
    scratch: Path,
    limits: Limits | None = None,
    args: Sequence[str] = (),
    *,
    count: bool = True,
    counters: bool = True,
    mounts: Mapping[str, Path] | None = None,
    stdin: Path | None = None,
) -> RunResult:
    """Runs the program in the sandbox with `scratch` as its folder; failures of the program are returned as results.

    `count=False` executes kernels without the memory-hierarchy model. `counters=False` records only the duration of
    each launch, which is faster for many short launches. `mounts`: folders visible read-only at other paths. `stdin`:
    a file for standard input. A program that loads or compiles code objects may start the disassembler and compiler.
    Raises Missing if the program cannot be started or the runtime library does not match this version.
    """
    limits = limits or Limits()
    library = library_path()
    output = _prepare(artefacts, device, scratch, limits, count, counters)
    bounds = sandbox.SandboxLimits(
        **sandbox.time_limits(limits.time_s * 1.1 + 1.0),  # the core stops itself first, with a better message
        memory_bytes=limits.memory_bytes + HOST_MEMORY_BYTES,
        output_bytes=limits.output_bytes,
        processes=8 if artefacts.mentions(b"hipModuleLoad", b"hiprtcCompileProgram") else 1,
    )
    files = [artefacts.executable, library, *(path for module in artefacts.modules for path in module)]
    readable = {path.resolve().parent for path in files}
    if artefacts.mentions(b"hiprtcCompileProgram"):
        readable.update(toolchain.find().folders)
    readable.discard(scratch.resolve())
    done = sandbox.run(
        [_as_started(artefacts.executable.resolve(), scratch.resolve()), *args],
        scratch,
        bounds,
        read_only=sorted(readable),
        env=_environment(output, library),
        mounts=mounts,
        stdin=stdin,
        isolate=limits.isolate,
    )
    if done.reason == "not_started":
        raise Missing(f"{artefacts.executable}: cannot be started", cause=done.stderr, remedy="see `synth doctor`")
    _check_fit(library, output, done)
    reason, message = _sandbox_failure(done, limits, bounds)
    return _result(
        output,
        reason,
        message,
        exit_code=done.exit_code,
        stdout=done.stdout,
        stderr=done.stderr,
        wall_s=done.wall_s,
        cpu_s=done.cpu_s,
        isolated=done.isolated,
    )


def _check_fit(library: Path, output: Path, done: sandbox.SandboxResult) -> None:
    """Raises Missing if the library rejects the configuration, because it was built from another version."""
    refusal = re.search(r"^hipsynth: bad_(?:configuration|spec): .*", done.stderr, re.MULTILINE)
    if refusal and done.exit_code == STOP_EXIT and not output.exists():
        what = f"{library} does not fit this version of hipsynth"
        raise Missing(what, cause=refusal[0], remedy="run `make setup`, which builds it again")


def _as_started(executable: Path, folder: Path) -> str:
    """argv[0] as for a user: `./name` if it is in its own folder, since programs derive file names from it."""
    return f"./{executable.name}" if executable.parent == folder else str(executable)


def run_attached(
    artefacts: Artefacts,
    device: DeviceTable,
    scratch: Path,
    limits: Limits | None = None,
    args: Sequence[str] = (),
    *,
    count: bool = True,
    counters: bool = True,
) -> RunResult:
    """Runs a trusted program without a sandbox, with this process's standard streams and working folder.

    Only the limits on time and memory and those of the simulator apply; see run_program for the other parameters.
    `stdout` and `stderr` of the result are empty.
    """
    limits = limits or Limits()
    library = library_path()
    output = _prepare(artefacts, device, scratch, limits, count, counters)
    sys.stdout.flush()
    start = time.monotonic()
    reason = message = ""
    code: int | None = None
    process = subprocess.Popen(
        [str(artefacts.executable.resolve()), *args], env={**os.environ, **_environment(output, library)}
    )
    try:
        reason, message = _watch(process, limits)
        code = process.poll()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if code is not None and code < 0:
        reason, message = "host_crash", f"the program died of {_signal_name(-code)}"
    return _result(output, reason, message, exit_code=code, wall_s=time.monotonic() - start)


def _watch(process: subprocess.Popen[bytes], limits: Limits) -> tuple[str, str]:
    """Waits for the end of an attached program; (reason, message) if it exceeded a limit, else ("", "")."""
    bounds = sandbox.SandboxLimits(**sandbox.time_limits(limits.time_s * 1.1 + 1.0))
    meter = processes.Meter()
    room = limits.memory_bytes + HOST_MEMORY_BYTES
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=processes.SAMPLE_S)
            return "", ""
        meter.sample(processes.descendants(process.pid))
        late = meter.passed(bounds.cpu_s, bounds.idle_s, bounds.wall_s)
        if late:
            return "timeout", _out_of_time(late, limits)
        if processes.resident_bytes(process.pid) > room:
            return "out_of_memory", f"the program and the device memory it touched took more than {room >> 20} MiB"


def _out_of_time(reason: str, limits: Limits) -> str:
    kinds = {"cpu_time": "of processor time", "idle_time": "in which it did nothing"}
    if reason in kinds:
        return f"stopped after {limits.time_s:g} s {kinds[reason]}"
    return f"stopped after {limits.time_s * sandbox.WALL_FACTOR + sandbox.WALL_EXTRA_S:g} s on a busy machine"


def _prepare(
    artefacts: Artefacts, device: DeviceTable, scratch: Path, limits: Limits, count: bool, counters: bool
) -> Path:
    """Writes run.conf into the scratch folder; returns the path for the result document, deleting an old one."""
    output = scratch.resolve() / "run.json"
    output.unlink(missing_ok=True)
    text = configuration(artefacts, device, limits, output, count=count, counters=counters)
    output.with_suffix(".conf").write_text(text)
    return output


def _environment(output: Path, library: Path) -> dict[str, str]:
    made = {
        "HIPSYNTH_CONFIG": str(output.with_suffix(".conf")),
        "LD_LIBRARY_PATH": str(library.parent),
        "TMPDIR": str(output.parent),
    }
    preload = os.environ.get("HIPSYNTH_PRELOAD")  # a sanitized simulator's runtime: see tools/sanitize.py
    if preload:
        options = {key: os.environ[key] for key in ("ASAN_OPTIONS", "UBSAN_OPTIONS") if key in os.environ}
        made |= {"LD_PRELOAD": preload, **options}
    return made


def _signal_name(number: int | None) -> str:
    with contextlib.suppress(ValueError, TypeError):
        return signal.Signals(number or 0).name
    return f"signal {number}"


def _sandbox_failure(done: sandbox.SandboxResult, limits: Limits, bounds: sandbox.SandboxLimits) -> tuple[str, str]:
    """(reason, message) if the sandbox or a signal ended the program, ("", "") if it exited."""
    if done.status == "timeout":
        return "timeout", _out_of_time(done.reason, limits)
    if done.status == "killed":
        return KILL_REASONS.get(done.reason, done.reason), f"stopped by the sandbox: {_did(done.reason, bounds)}"
    if done.reason == "signal":
        return "host_crash", f"the program died of {_signal_name(done.signal)}"
    return "", ""


def _did(reason: str, bounds: sandbox.SandboxLimits) -> str:
    """Describes how the program exceeded the limit `reason`."""
    mib = 20
    return {
        "memory": f"the program and the device memory it touched took more than {bounds.memory_bytes >> mib} MiB",
        "output": f"it printed more than {64 * bounds.output_bytes >> mib} MiB",
        "file_size": f"it wrote more than {bounds.file_bytes >> mib} MiB to one file",
        "disk": f"its files took more than {bounds.scratch_bytes >> mib} MiB",
        "processes": f"it started more than {bounds.processes} processes",
        "threads": f"it started more than {bounds.threads} threads",
        "forbidden_call": "it tried to start a process, or made another system call that is forbidden there",
    }.get(reason, reason.replace("_", " "))


def _record(row: Mapping[str, Any]) -> KernelRecord:
    more = {"name": short_name(row["signature"]), "duration_ns": float(row["duration_ns"])}
    return decode(KernelRecord, {**row, **more})


@dataclass(frozen=True)
class _Document:
    status: str = "ok"
    reason: str = ""
    message: str = ""
    kernels: tuple[KernelRecord, ...] = ()
    dispatches: tuple[KernelRecord, ...] = ()
    dispatch_count: int = 0
    clock_ns: float = 0.0
    warnings: tuple[str, ...] = ()


def _read_document(path: Path) -> _Document:
    """Reads the result document; a missing one (the program never called HIP) is an empty result."""
    try:
        record = json.loads(path.read_text())
    except FileNotFoundError:
        return _Document()
    except (OSError, ValueError) as error:
        return _Document("failed", "host_crash", f"the result document cannot be read: {error}")
    return _Document(
        status=record["status"],
        reason=record["reason"],
        message=record["message"],
        kernels=tuple(_record(row) for row in record["kernels"]),
        dispatches=tuple(_record(row) for row in record["dispatches"]),
        dispatch_count=record["dispatch_count"],
        clock_ns=float(record["clock_ns"]),
        warnings=tuple(record["warnings"]),
    )


def _progress(document: _Document) -> str:
    """Describes the progress of a program that ran out of time."""
    if not document.dispatch_count:
        return ", before any kernel had ended"
    busiest = max(document.kernels, key=lambda kernel: kernel.dispatches)
    most = "" if busiest.dispatches == document.dispatch_count else f", {busiest.dispatches:,} of them"
    return f", after {document.dispatch_count:,} launches{most} of kernel {busiest.name}"


def _result(output: Path, reason: str, message: str, **facts: Any) -> RunResult:
    """Combines the exit of the process with the result document, whose reason takes precedence."""
    document = _read_document(output)
    if document.status != "ok":
        reason, message = CORE_REASONS.get(document.reason, document.reason), document.message
    if reason == "timeout":
        message += _progress(document)
    return RunResult(
        status="failed" if reason else "ok",
        reason=reason,
        message=message,
        kernels=document.kernels,
        dispatches=document.dispatches,
        dispatch_count=document.dispatch_count,
        clock_ns=document.clock_ns,
        warnings=document.warnings,
        **facts,
    )
