"""Runs cc1 and the linker directly; the clang driver is queried (-###) only once per set of flags."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core import time_limit
from hipsynth.core.cache import cache_dir
from hipsynth.core.errors import BadInput, CompileFailed, HipsynthError, MissingDependency, UsageError
from hipsynth.core.files import leads_to_folder, write_whole
from hipsynth.core.installation import install_packages
from hipsynth.core.languages import SourceLanguage
from hipsynth.core.reasons import Reason
from hipsynth.toolchain import sandbox
from hipsynth.toolchain.diagnostics import read_messages
from hipsynth.toolchain.flags import Flags, parse_flags
from hipsynth.toolchain.locate import Toolchain

# Macros that older clang predefined and newer clang does not; older programs need them.
COMPATIBILITY = ("-D__AMDGCN_WAVEFRONT_SIZE=64", "-D__AMDGCN_WAVEFRONT_SIZE__=64")
# Pre-C99 constructs that other C compilers accept with a warning.
LENIENT = [
    f"-Wno-error={name}"
    for name in (
        "implicit-function-declaration",
        "implicit-int",
        "int-conversion",
        "incompatible-pointer-types",
        "incompatible-function-pointer-types",
        "return-type",
    )
]
IDLE_S = 20.0  # compilers do not wait for anything but the disk
_UNIT, _OUTPUT = "unit.hip", "unit.out"


@dataclass(frozen=True)
class CompileLimits:
    """Limits on one run of the compiler or linker. `time_s`: processor time. `isolate=False`: outside the sandbox."""

    time_s: float = 120.0
    memory_bytes: int = 4 << 30
    file_bytes: int = 512 << 20
    isolate: bool = True


@dataclass(frozen=True)
class DriverCommands:
    """The driver's commands: arguments of cc1 and the linker with placeholders {input}, {object}, {output}."""

    cc1: tuple[str, ...]
    link: tuple[str, ...]

    def compiler(self, source: str, output: str) -> list[str]:
        """The cc1 command that compiles `source` to the object file `output`."""
        return [{"{input}": source, "{object}": output}.get(word, word) for word in self.cc1]

    def linker(self, objects: Sequence[str], output: str) -> list[str]:
        """The command that links `objects` to `output`."""
        argv: list[str] = []
        for argument in self.link:
            argv += list(objects) if argument == "{object}" else [output if argument == "{output}" else argument]
        return argv


def device_arguments(toolchain: Toolchain, arch: str, flags: Flags, *, relocatable: bool = False) -> list[str]:
    """Driver arguments of a device-only compile; `relocatable`: to bitcode for linking with that of other files."""
    argv = ["-x", "hip", f"--offload-arch={arch}", "--cuda-device-only", "--no-gpu-bundle-output"]
    argv += ["-fgpu-rdc"] if relocatable else []
    return [*argv, *_common_arguments(toolchain), "-mprintf-kind=buffered", *flags.device]


def host_arguments(
    toolchain: Toolchain, flags: Flags, runtime: Path | None, language: SourceLanguage = SourceLanguage.HIP
) -> list[str]:
    """Driver arguments of a host-only compile and link against the runtime library. C++ and C see the HIP API but no
    kernels."""
    further = ["--cuda-host-only"] if language == SourceLanguage.HIP else ["-D__HIP_PLATFORM_AMD__=1"]
    side = ["-x", language.value, *further, *(LENIENT if language == SourceLanguage.C else [])]
    argv = [*side, *_common_arguments(toolchain), "-O1", "-fuse-ld=lld", "-nogpulib", *flags.host]
    if runtime is not None:
        argv += ["-no-hip-rt", f"-Wl,-rpath,{runtime.parent}", "-Xlinker", str(runtime)]
    return argv


def run_time_compiler(toolchain: Toolchain, arch: str) -> list[str]:
    """The compiler command for programs that compile kernels at run time (hiprtc), without input and output."""
    argv = [str(toolchain.clang), *device_arguments(toolchain, arch, parse_flags("-O3"))]
    for folder in toolchain.folders:  # the sandbox mounts resolved paths, not symbolic links
        argv = [argument.replace(str(folder), str(folder.resolve())) for argument in argv]
    return argv


def _common_arguments(toolchain: Toolchain) -> list[str]:
    # `x.template f(y)` without template arguments is an error by default only since clang 19.
    argv = [
        "-w",
        "-Wno-missing-template-arg-list-after-template-kw",
        "-fuse-cuid=none",
        f"--rocm-path={toolchain.root}",
        "-fdebug-compilation-dir=.",
    ]
    return [*argv, "-fcoverage-compilation-dir=.", *COMPATIBILITY, *toolchain.include_flags]


def driver_commands(
    toolchain: Toolchain, arguments: Sequence[str], flags: Flags, limits: CompileLimits | None = None
) -> DriverCommands:
    """The cc1 and linker commands for driver `arguments`, from the driver's `-###` output (cached on disk while the
    folders that they name are there, such as those of a release of GCC).

    Raises UsageError (reason "bad_flag") with the compiler's message for an unknown flag, MissingDependency if the
    compiler does not run.
    """
    key = hashlib.sha256(json.dumps([1, toolchain.identity, str(toolchain.clang), *arguments]).encode()).hexdigest()[
        :24
    ]
    path = cache_dir() / "commands" / f"{key}.json"
    try:
        stored = json.loads(path.read_text())
        if all(map(leads_to_folder, stored["folders"])):
            return DriverCommands(tuple(stored["cc1"]), tuple(stored["link"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    commands = _ask_driver(toolchain, arguments, flags, limits or CompileLimits())
    with contextlib.suppress(BadInput):  # failing to cache is no error
        folders = _named_folders(commands)
        write_whole(path, json.dumps({"cc1": commands.cc1, "link": commands.link, "folders": folders}))
    return commands


def _named_folders(commands: DriverCommands) -> list[str]:
    words = (word.removeprefix("-L") for word in (*commands.cc1, *commands.link))
    return [word for word in dict.fromkeys(words) if word.startswith("/") and leads_to_folder(word)]


def _ask_driver(toolchain: Toolchain, arguments: Sequence[str], flags: Flags, limits: CompileLimits) -> DriverCommands:
    with sandbox.job_folder() as folder:
        (folder / _UNIT).touch()
        command = [str(toolchain.clang), "-###", *arguments, _UNIT, "-o", _OUTPUT]
        result = _start_compiler(toolchain, command, folder, limits, ())
    if result.reason == sandbox.JobEnd.NOT_STARTED:
        raise MissingDependency(
            f"{toolchain.clang} does not run",
            cause=result.stderr,
            remedy=install_packages("clang-22", "lld-22", "llvm-22"),
        )
    errors = read_messages(result.stderr).errors
    if errors or result.status != sandbox.JobStatus.OK:
        messages = "; ".join(errors) or result.stderr.strip()[-300:]
        raise UsageError(
            f"the compiler does not accept the flags {flags.text!r}",
            cause=messages,
            remedy="remove the flag named in the message",
            reason=Reason.BAD_FLAG,
        )
    commands = [shlex.split(line) for line in result.stderr.splitlines() if line.startswith(' "')]
    if len(commands) != 2 or commands[0][1] != "-cc1":
        raise MissingDependency("unexpected output of the compiler driver (-###)", cause=result.stderr.strip()[-300:])
    return _generalise_commands(*commands)


def _generalise_commands(cc1: list[str], link: list[str]) -> DriverCommands:
    """Replaces input, object and output paths by placeholders; drops options with temporary paths."""
    out = cc1.index("-o")
    temporary = cc1[out + 1]
    cc1 = ["{object}" if word == temporary else "{input}" if word == _UNIT else word for word in cc1]
    main = cc1.index("-main-file-name") + 1
    cc1[main] = _UNIT
    if "-dumpdir" in cc1:
        at = cc1.index("-dumpdir")
        del cc1[at : at + 2]
    link = ["{object}" if word == temporary else "{output}" if word == _OUTPUT else word for word in link]
    return DriverCommands(tuple(cc1), tuple(link))


def run_tool(
    toolchain: Toolchain,
    command: Sequence[str],
    folder: Path,
    limits: CompileLimits,
    activity: str,
    *,
    shows: Iterable[Path] = (),
    failure: Reason = Reason.COMPILE_FAILED,
) -> str:
    """Runs one of the toolchain's programs in the sandbox, in `folder`, and returns its stderr.

    It sees the toolchain, the header tree and `shows`, and writes to `folder` only (see sandbox.job_folder). `activity`
    names the input in messages. Raises CompileFailed with the diagnostics if it fails (reason `failure`) or exceeds a
    limit, MissingDependency if it cannot be started.
    """
    result = _start_compiler(toolchain, command, folder, limits, shows)
    if result.status == sandbox.JobStatus.OK:
        return result.stderr
    if result.reason == sandbox.JobEnd.NOT_STARTED:
        raise MissingDependency(
            f"{command[0]} does not run", cause=result.stderr, remedy=install_packages("clang-22", "lld-22", "llvm-22")
        )
    if result.reason == sandbox.JobEnd.INTERRUPTED:
        raise HipsynthError(f"{activity}: interrupted", reason=Reason.INTERRUPTED)
    if result.reason == sandbox.JobEnd.LOST:  # says nothing about the program
        raise HipsynthError(f"{activity}: something outside ended the compiler's sandbox", reason=Reason.WORKER_DIED)
    if result.reason != sandbox.JobEnd.EXIT_CODE:
        raise _stopped_error(result, limits, activity)
    messages = _compiler_messages(result)
    read = read_messages(messages)
    verb = "link" if failure == Reason.LINK_FAILED else "compile"
    error = CompileFailed(f"{activity} does not {verb}", diagnostics=messages, cause=next(iter(read.lines), "")[:300])
    error.reason = Reason.DISK_FULL if read.disk_full else failure
    raise error


def _start_compiler(
    toolchain: Toolchain, command: Sequence[str], folder: Path, limits: CompileLimits, shows: Iterable[Path]
) -> sandbox.SandboxResult:
    seconds = min(limits.time_s, time_limit.seconds_left())
    bounds = sandbox.SandboxLimits(
        cpu_s=seconds,
        idle_s=IDLE_S,
        wall_s=sandbox.time_limits(seconds)["wall_s"],
        memory_bytes=limits.memory_bytes,
        file_bytes=limits.file_bytes,
        scratch_bytes=4 * limits.file_bytes,
        output_bytes=256 << 10,
    )
    folders = [*toolchain.folders, precompiled_folder(), *shows]
    # Commands name the toolchain's folders as they were found, possibly through symbolic links.
    names = {str(path): path for path in folders if path != path.resolve()}
    # A crash would start llvm-symbolizer, which a job may not.
    environment = {"TMPDIR": str(folder), "LLVM_DISABLE_SYMBOLIZATION": "1"}
    process = sandbox.run_sandboxed(
        command, folder, bounds, read_only=folders, env=environment, mounts=names, isolate=limits.isolate
    )
    time_limit.charge_seconds(process.cpu_s if process.reason != sandbox.JobEnd.CPU_TIME else seconds)
    return process


def precompiled_folder() -> Path:
    """The cache's folder of precompiled headers; sandboxes of every user of this machine may read it."""
    folder = cache_dir() / "pch"
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
    return folder


def _stopped_error(result: sandbox.SandboxResult, limits: CompileLimits, activity: str) -> CompileFailed:
    """The error for a compiler that crashed or exceeded a limit."""
    reasons = {
        sandbox.JobEnd.CPU_TIME: (f"it took more than {limits.time_s:g} s of processor time", "raise --timeout"),
        sandbox.JobEnd.IDLE_TIME: (
            f"it waited for {IDLE_S:g} s, for example for input from a pipe",
            "include only regular files",
        ),
        sandbox.JobEnd.MEMORY: (f"it took more than {limits.memory_bytes >> 20} MiB of memory", "split the file"),
        sandbox.JobEnd.SIGNAL: (
            f"it crashed (signal {result.signal}), as on expressions that are nested too deeply",
            "simplify the source, or try other flags",
        ),
    }
    cause, remedy = reasons.get(result.reason, (f"it exceeded its limit on {result.reason}", ""))
    messages = _compiler_messages(result)[-4000:]
    return CompileFailed(f"{activity}: the compiler was stopped", diagnostics=messages, cause=cause, remedy=remedy)


def _compiler_messages(result: sandbox.SandboxResult) -> str:
    """What the compiler printed, without the stack of a crash, and with a last line if it was cut."""
    lines = result.stderr.partition("PLEASE submit a bug report")[0].splitlines()
    return "\n".join([*lines, *(["(the compiler's further messages were cut)"] if result.cut else [])])
