"""ROCm's own profiler as a backend: runs rocprofv3 on an AMD GPU, or reads the folders it wrote elsewhere."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from hipsynth.core.errors import BadInput, CompileFailed, MissingDependency
from hipsynth.core.expressions import iterate_names
from hipsynth.core.languages import HIP
from hipsynth.core.program import Program
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling import metrics
from hipsynth.profiling.backends.protocol import Availability, Target, TargetResult, failed_result
from hipsynth.profiling.backends.recorded import capture_name
from hipsynth.profiling.backends.rocprof_csv import read_folder
from hipsynth.simulator.limits import RunLimits

# Counters of one hardware block that fit into one pass (MI200 and MI300 counter slots per block).
SLOTS = {"SQ": 8, "TCP": 4, "TCC": 4}
_INSTANCED = ("TCP_", "TCC_")


def needed_counters(arch: str) -> list[str]:
    """Hardware counters used by the metric formulas of an architecture, with `_sum` if they have several instances."""
    table = metrics.metric_table()
    rows = [*table.expressions.values(), *table.metrics.values()]
    used = {name for row in rows for name in iterate_names(row.formula[arch]) if name in table.counters}
    hardware = sorted(name for name in used | {"SQ_WAVES"} if name.split("_")[0] in SLOTS)
    return [name + "_sum" if name.startswith(_INSTANCED) else name for name in hardware]


def counter_passes(counters: Sequence[str]) -> list[list[str]]:
    """Distributes the counters over as few passes as the counter slots of each block allow."""
    passes: dict[int, list[str]] = defaultdict(list)
    used: dict[str, int] = defaultdict(int)
    for counter in counters:
        block = counter.split("_")[0]
        passes[used[block] // SLOTS[block]].append(counter)
        used[block] += 1
    return [passes[index] for index in sorted(passes)]


class RocprofBackend:
    """`rocprof` runs programs on this machine's GPU; `rocprof:FOLDER` reads FOLDER/<capture name>/**.csv.

    Capture names are those of the recorded backend without ".json": program id, arch, device and a hash of the flags,
    and of the arguments if there are any.
    Programs run on the host without a sandbox, so programs written by a language model are rejected.
    """

    name = "rocprof"

    def __init__(self, path: str | Path | None = None) -> None:
        self.folder = None if path is None else Path(path)

    def version(self) -> str:
        """The profiler's version; for a folder, a hash of its files."""
        if self.folder is None:
            return _tool_version()
        digest = hashlib.sha256()
        for path in sorted(self.folder.rglob("*.csv")):
            name = str(path.relative_to(self.folder)).encode()
            digest.update(name + b"\0" + hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()[:12]

    def available(self) -> Availability:
        """With a folder: whether it exists. Else: whether rocprofv3, hipcc and an AMD GPU are here."""
        if self.folder is not None:
            exists = self.folder.is_dir()
            remedy = "" if exists else "give the folder that holds the profiler's output"
            detail = f"profiler output in {self.folder}" if exists else f"no folder {self.folder}"
            return Availability(exists, detail, remedy)
        missing = [tool for tool in ("rocprofv3", "hipcc") if shutil.which(tool) is None]
        if missing:
            return Availability(False, f"not found: {', '.join(missing)}", "install ROCm, or use --backend sim")
        here = _gpu_archs()
        detail = f"rocprofv3 {_tool_version()}, GPUs: {', '.join(here) or 'none'}"
        return Availability(
            bool(here), detail, "" if here else "run on a machine with an AMD GPU, or use --backend sim"
        )

    def supports(self, target: Target) -> bool:
        if self.folder is not None:
            return any(self.folder.glob(_folder_name("*", target) + "*"))
        return target.arch in _gpu_archs()

    def environment(self, target: Target, language: str = HIP) -> dict[str, str]:
        """Versions that affect results; ROCm's compiler includes its headers."""
        if self.folder is not None:
            return {"compiler": "", "headers": ""}
        version = _first_line(["hipcc", "--version"])
        return {"compiler": version, "headers": version}

    def profile(self, program: Program, target: Target, scratch: Path, limits: RunLimits) -> TargetResult:
        """Profiles one program. Raises BadInput, CompileFailed or MissingDependency; a failure on the GPU is a failed
        result."""
        if self.folder is not None:
            folder = self.folder / _folder_name(program.id, target, program.arguments)
            if not folder.is_dir():
                return failed_result(target, Reason.NOT_RECORDED, f"no folder {folder.name}")
            kernels = read_folder(folder, target.arch, self.version())
            return TargetResult(target.arch, target.flags, target.device, RunStatus.OK, kernels=kernels)
        several = program.project is not None and len(program.project.sources) > 1
        if program.is_script or several:
            what_it_is = "a Python script" if program.is_script else "a program of several files"
            why = f"{what_it_is}: profile it with rocprofv3 itself, and give the folder of what that writes"
            return failed_result(target, Reason.UNSUPPORTED, why)
        if program.origin == "llm":
            return failed_result(
                target, Reason.UNTRUSTED, "programs written by a language model run only in the simulator"
            )
        if target.arch not in _gpu_archs():
            raise MissingDependency(
                f"no {target.arch} GPU on this machine", remedy="choose another --arch, or --backend sim"
            )
        binary = _compile_program(program, target, scratch, limits)
        return self._run_passes([str(binary), *program.arguments], target, scratch, limits)

    def _run_passes(self, program: Sequence[str], target: Target, scratch: Path, limits: RunLimits) -> TargetResult:
        """Runs the program once per pass, and once without counters to measure undisturbed times."""
        out = scratch / "profile"
        stdout, exit_code = "", None
        runs = [["--kernel-trace"]] + [["--pmc", *group] for group in counter_passes(needed_counters(target.arch))]
        for index, options in enumerate(runs):
            where = ["--output-format", "csv", "-d", str(out / f"pass_{index}"), "-o", "out"]
            command = ["rocprofv3", *options, *where, "--", *program]
            try:
                process = _run_group(command, limits.time_s, scratch)
            except subprocess.TimeoutExpired:
                return failed_result(target, Reason.TIMEOUT, f"no end within {limits.time_s:g} s")
            if index == 0:
                stdout, exit_code = process.stdout[: limits.output_bytes], process.returncode
            elif process.returncode != exit_code:
                ended = f"pass {index} over {', '.join(options[1:])} ended with {process.returncode}"
                why = f"{ended}, the program without counters with {exit_code}: {process.stderr[-400:].strip()}"
                return failed_result(target, Reason.EXIT_CODE, why)
        if not list(out.rglob("*.csv")):
            return failed_result(target, Reason.NO_KERNEL, "the profiler wrote no kernel data")
        kernels = read_folder(out, target.arch, self.version())
        provenance = {"profiler": f"rocprofv3 {_tool_version()}", **self.environment(target)}
        return TargetResult(
            target.arch,
            target.flags,
            target.device,
            RunStatus.OK,
            exit_code=exit_code,
            stdout=stdout,
            kernels=kernels,
            provenance=provenance,
        )


def _compile_program(program: Program, target: Target, scratch: Path, limits: RunLimits) -> Path:
    source, binary = scratch / "program.hip", scratch / "program"
    flags = shlex.split(target.flags)
    if program.project is None:
        source.write_text(program.text)
    else:  # in its folder, where its headers are
        source = program.project.sources[0].path
        flags += shlex.split(program.project.sources[0].flags)
    command = ["hipcc", f"--offload-arch={target.arch}", *flags, str(source), "-o", str(binary)]
    try:
        process = _run_group(command, limits.time_s)
    except subprocess.TimeoutExpired as error:
        raise BadInput("the compiler did not end", cause=f"limit {limits.time_s:g} s", reason=Reason.TIMEOUT) from error
    if process.returncode != 0:
        raise CompileFailed(f"hipcc refused the program for {target.arch}", diagnostics=process.stderr[-4000:])
    return binary


def _run_group(command: Sequence[str], time_s: float, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command in `folder`. Where it takes too long (TimeoutExpired) or is interrupted, all that it started ends,
    too: the program that a profiler runs would hold its output open."""
    with subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=time_s)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def _folder_name(program_id: str, target: Target, arguments: Sequence[str] = ()) -> str:
    return capture_name(program_id, target, arguments).removesuffix(".json")


@functools.cache
def _tool_version() -> str:
    return _first_line(["rocprofv3", "--version"]).removeprefix("version:").strip()


@functools.cache
def _gpu_archs() -> tuple[str, ...]:
    """Architectures of this machine's GPUs, as listed by ROCm's agent enumerator."""
    lines = _command_output(["rocm_agent_enumerator"]).split()
    return tuple(sorted({line for line in lines if line.startswith("gfx") and line != "gfx000"}))


def _first_line(command: list[str]) -> str:
    lines = _command_output(command).strip().splitlines()
    return lines[0].strip() if lines else ""


def _command_output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
