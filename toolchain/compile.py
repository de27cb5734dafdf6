"""Compiles HIP programs: the device side to a code object with its disassembly, the host side to an executable."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hipsynth.core.errors import BadInput, MissingDependency
from hipsynth.core.files import copy_regular
from hipsynth.core.installation import set_up_by
from hipsynth.core.reasons import Reason
from hipsynth.toolchain import driver, sandbox
from hipsynth.toolchain import flags as flag_parser
from hipsynth.toolchain.builds import load_build, store_build
from hipsynth.toolchain.driver import CompileLimits
from hipsynth.toolchain.elf import kernels_in
from hipsynth.toolchain.locate import Toolchain, check_arch, find_toolchain
from hipsynth.toolchain.translation_unit import CompileJob, check_shown, new_job, object_of, source_sha256

RUNTIME = Path(__file__).resolve().parents[1] / "simulator" / "libhipsynth_hip.so"


@dataclass(frozen=True)
class DeviceBuild:
    """One program compiled for one architecture. Paths are inside the caller's output folder."""

    code_object: Path  # ELF, not bundled
    disassembly: Path  # text of `llvm-objdump -d`
    kernels: tuple[str, ...]  # mangled names, at least one
    arch: str
    flags: str
    key: str  # build cache key: equal keys mean equal machine code
    provenance: Mapping[str, str] = field(default_factory=dict)
    cached: bool = False
    precompiled_header: bool = False
    seconds: float = 0.0


@dataclass(frozen=True)
class HostBuild:
    """A program's host side, linked with the simulator's HIP runtime library."""

    executable: Path
    key: str
    provenance: Mapping[str, str] = field(default_factory=dict)
    cached: bool = False
    seconds: float = 0.0


@dataclass(frozen=True)
class CompiledFiles:
    """What a compile left in its scratch folder, and the user headers that it read."""

    files: Sequence[Path]
    headers: Sequence[Path]
    precompiled_header: bool = False


def compile_once(
    job: CompileJob, targets: Sequence[Path], compile_files: Callable[[Path], CompiledFiles], use_cache: bool = True
) -> CompiledFiles | None:
    """Puts the files of a job to `targets`: stored ones, else those that are compiled now, in a scratch folder that is
    gone afterwards. None if they were stored."""
    if use_cache and load_build(job, targets):
        return None
    began = time.time()
    with sandbox.job_folder() as scratch:
        compiled = compile_files(scratch)
        check_shown(job, compiled.headers)
        if use_cache:
            store_build(job, compiled.files, compiled.headers, began)
        for path, target in zip(compiled.files, targets, strict=True):
            copy_regular(path, target)
    return compiled


def compile_device(
    source: Path,
    arch: str,
    flags: str,
    out_dir: Path,
    *,
    limits: CompileLimits | None = None,
    use_cache: bool = True,
    use_pch: bool = True,
    roots: Iterable[Path] | None = None,
) -> DeviceBuild:
    """Compiles the kernels of `source` for `arch` into OUT_DIR/<stem>.co and OUT_DIR/<stem>.s.

    `flags`: one string, split like a shell does; relative paths in it are resolved against the source's folder, then
    the working folder. `roots`: the folders that the program may include files from, besides the toolchain's (default:
    its own folder and those that its flags name).
    Raises UsageError (unknown arch or flag), CompileFailed with the compiler's diagnostics, BadInput (reason
    "no_kernel") if the file defines no kernel, MissingDependency without a compiler.
    """
    check_arch(arch)
    toolchain, parsed = find_toolchain(), flag_parser.parse_flags(flags)
    arguments = driver.device_arguments(toolchain, arch, parsed)
    job = new_job(toolchain, source, f"device-{arch}", parsed, arguments, limits, roots)
    start = time.monotonic()
    out_dir.mkdir(parents=True, exist_ok=True)
    targets = [out_dir / f"{source.stem}.co", out_dir / f"{source.stem}.s"]

    def build_code(scratch: Path) -> CompiledFiles:
        unit, headers, header = object_of(job, scratch, use_pch)
        return CompiledFiles(link_device(job, [unit], scratch), headers, header)

    compiled = compile_once(job, targets, build_code, use_cache)
    kernels = _require_kernels(source, targets[0])
    code_hash, text_hash = hashlib.sha256(targets[0].read_bytes()).hexdigest(), source_sha256(job.text)
    build_facts = {"arch": arch, "flags": flags, "source_sha256": text_hash, "code_sha256": code_hash}
    provenance = toolchain.provenance() | build_facts
    seconds, header = time.monotonic() - start, compiled is not None and compiled.precompiled_header
    return DeviceBuild(
        targets[0], targets[1], kernels, arch, flags, job.key, provenance, compiled is None, header, seconds
    )


def _require_kernels(source: Path, code_object: Path) -> tuple[str, ...]:
    """The symbols of the kernels in a source's code object. Raises BadInput (reason "no_kernel") without any."""
    kernels = kernels_in(code_object)
    if not kernels:
        raise BadInput(
            f"{source}: no kernel in the file",
            cause="the compiler found no __global__ function to emit",
            remedy="templates need an instantiation; host-only programs cannot be profiled",
            reason=Reason.NO_KERNEL,
        )
    return kernels


def compile_host(
    source: Path,
    flags: str,
    out_dir: Path,
    *,
    limits: CompileLimits | None = None,
    runtime: Path | None = None,
    use_cache: bool = True,
    use_pch: bool = True,
    roots: Iterable[Path] | None = None,
) -> HostBuild:
    """Compiles the host side of `source` into the executable OUT_DIR/<stem>.

    Of `flags`, only those that affect preprocessing and language are used (-D, -U, -I, -std, -include), plus -O1. The
    executable is linked with `runtime` (default: the simulator's HIP runtime library) through an rpath.
    Raises the same errors as compile_device.
    """
    parsed = flag_parser.parse_flags(flags)
    toolchain = find_toolchain()
    runtime = runtime or RUNTIME
    if not runtime.exists():
        raise MissingDependency("the HIP runtime library is not built", cause=f"no file {runtime}", remedy=set_up_by())
    arguments = driver.host_arguments(toolchain, parsed, runtime)
    job = new_job(toolchain, source, "host", parsed, arguments, limits, roots)
    start = time.monotonic()
    out_dir.mkdir(parents=True, exist_ok=True)
    target = out_dir / source.stem

    def build_program(scratch: Path) -> CompiledFiles:
        unit, headers, _ = object_of(job, scratch, use_pch)
        linked = scratch / "program"
        words = job.template.linker([str(unit)], str(linked))
        driver.run_tool(job.toolchain, words, scratch, job.limits, str(source), shows=(*job.shows, runtime))
        return CompiledFiles([linked], headers)

    cached = compile_once(job, [target], build_program, use_cache) is None
    target.chmod(0o755)
    provenance = toolchain.provenance() | {"source_sha256": source_sha256(job.text)}
    return HostBuild(target, job.key, provenance, cached, time.monotonic() - start)


def link_device(job: CompileJob, objects: Sequence[Path], scratch: Path) -> list[Path]:
    """Links device objects with the linker arguments of `job`; returns the code object and its disassembly."""
    linked, text = scratch / "kernel.co", scratch / "kernel.s"
    words = job.template.linker([str(path) for path in objects], str(linked))
    driver.run_tool(job.toolchain, words, scratch, job.limits, str(job.source), shows=job.shows)
    driver.run_tool(
        job.toolchain, _disassembly_command(job.toolchain), scratch, job.limits, str(job.source), shows=job.shows
    )
    return [linked, text]


def disassemble(objects: Sequence[bytes], folder: Path, limits: CompileLimits) -> tuple[tuple[Path, Path], ...]:
    """Writes code objects into `folder`, each with its disassembly beside it. Raises the errors of run_tool."""
    toolchain, modules = find_toolchain(), []
    for number, data in enumerate(objects):
        folder.mkdir(parents=True, exist_ok=True)
        code_object, text = folder / f"{number}.co", folder / f"{number}.s"
        code_object.write_bytes(data)
        with sandbox.job_folder() as scratch:
            copy_regular(code_object, scratch / "kernel.co")
            driver.run_tool(toolchain, _disassembly_command(toolchain), scratch, limits, code_object.name)
            copy_regular(scratch / "kernel.s", text)
        modules.append((code_object, text))
    return tuple(modules)


def _disassembly_command(toolchain: Toolchain) -> list[str]:
    return ["/bin/sh", "-c", 'exec "$0" -d kernel.co > kernel.s', str(toolchain.objdump)]
