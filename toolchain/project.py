"""Compiles programs of several source files: one code object per file with kernels, one executable.

hipcc embeds the code object into the host object; here the host object contains only its number, and the runtime
library looks up the file by that number in the run's configuration (native/runtime/registry.cpp).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.core.files import copy_regular
from hipsynth.core.languages import SourceLanguage
from hipsynth.core.reasons import Reason
from hipsynth.toolchain import driver, sandbox
from hipsynth.toolchain import flags as flag_parser
from hipsynth.toolchain.compile import RUNTIME, CompiledFiles, DeviceBuild, compile_device, compile_once, link_device
from hipsynth.toolchain.driver import CompileLimits
from hipsynth.toolchain.elf import kernels_in
from hipsynth.toolchain.locate import find_toolchain
from hipsynth.toolchain.translation_unit import check_shown, new_job, object_of

MARKER = "hipsynth-code-object {}"  # kNumberMagic of native/runtime/registry.cpp


@dataclass(frozen=True)
class CompileUnit:
    """One source file with its own flags; C++ and C are for the host only.

    `name` distinguishes the files of a program: it becomes part of the symbols of static variables and kernels.
    """

    source: Path
    language: SourceLanguage = SourceLanguage.HIP
    flags: str = ""
    name: str = ""

    @property
    def unit_id_flags(self) -> list[str]:
        return [f"-cuid={self.name}"] if self.name and self.language == SourceLanguage.HIP else []

    @property
    def suffix(self) -> str:
        """The suffix that clang adds to the names of static kernels in linked device code, after a space."""
        digest = hashlib.md5(self.name.encode(), usedforsecurity=False).digest()
        return f" .intern.{int.from_bytes(digest[:8], 'little'):x}" if self.unit_id_flags else ""

    @property
    def device_flags(self) -> str:
        return " ".join([self.flags, *self.unit_id_flags])


@dataclass(frozen=True)
class ProjectBuild:
    """A built program: executable and (code object, disassembly) pairs in the order of their numbers."""

    executable: Path
    devices: tuple[tuple[Path, Path], ...]


def compile_project(
    units: Sequence[CompileUnit],
    arch: str,
    out_dir: Path,
    *,
    libraries: Sequence[str] = (),
    relocatable: bool = False,
    runtime: Path | None = None,
    limits: CompileLimits | None = None,
    roots: Iterable[Path] | None = None,
) -> ProjectBuild:
    """Compiles and links `units` into OUT_DIR/program.

    `libraries`: linker arguments such as -lm. `relocatable`: link the device code of all files into one code object,
    as with -fgpu-rdc. `roots`: folders that included user headers must lie in.
    Raises the same errors as compile_device and compile_host; a failed link is CompileFailed, reason "link_failed".
    """
    limits = limits or CompileLimits()
    if len(units) > 1 or relocatable:
        units = [replace(unit, name=f"unit{number}") for number, unit in enumerate(units)]
    allowed = None if roots is None else tuple(roots)
    out_dir.mkdir(parents=True, exist_ok=True)
    devices: list[tuple[Path, Path]] = []
    objects: list[Path] = []
    if relocatable:
        devices = _linked_device(
            [unit for unit in units if unit.language == SourceLanguage.HIP], arch, out_dir, limits, allowed
        )
    for number, unit in enumerate(units):
        index = 0
        if unit.language == SourceLanguage.HIP and not relocatable:
            build = _build_device(unit, arch, out_dir / f"device{number}", limits, allowed)
            index = len(devices)
            devices += [(build.code_object, build.disassembly)] if build else []
        objects.append(_host_object(unit, index, out_dir / f"unit{number}.o", limits, allowed))
    executable = out_dir / "program"
    openmp = any(flag_parser.OPENMP in flag_parser.parse_flags(unit.flags).host for unit in units)
    _link_program(objects, executable, libraries, runtime or RUNTIME, limits, flag_parser.OPENMP if openmp else "")
    return ProjectBuild(executable, tuple(devices))


def _build_device(
    unit: CompileUnit, arch: str, folder: Path, limits: CompileLimits, roots: Sequence[Path] | None
) -> DeviceBuild | None:
    try:
        return compile_device(unit.source, arch, unit.device_flags, folder, limits=limits, roots=roots)
    except BadInput as error:
        if error.reason != Reason.NO_KERNEL:
            raise
    return None


def _linked_device(
    units: Sequence[CompileUnit], arch: str, folder: Path, limits: CompileLimits, roots: Sequence[Path] | None
) -> list[tuple[Path, Path]]:
    """One code object of all files; an empty list if no file defines a kernel."""
    if not units:
        return []
    toolchain = find_toolchain()
    with sandbox.job_folder() as scratch:
        objects: list[Path] = []
        for number, unit in enumerate(units):
            parsed = flag_parser.parse_flags(unit.device_flags)
            arguments = driver.device_arguments(toolchain, arch, parsed, relocatable=True)
            job = new_job(toolchain, unit.source, f"rdc-{arch}", parsed, arguments, limits, roots)
            place = scratch / str(number)
            place.mkdir()
            built, headers, _ = object_of(job, place, use_pch=False)
            check_shown(job, headers)
            objects.append(built)
        linked, text = link_device(job, objects, scratch)
        if not kernels_in(linked):
            return []
        return [(copy_regular(linked, folder / "linked.co"), copy_regular(text, folder / "linked.s"))]


def _host_object(
    unit: CompileUnit, index: int, target: Path, limits: CompileLimits, roots: Sequence[Path] | None
) -> Path:
    """Compiles the host side of one file to an object file that refers to its code object by number."""
    toolchain, parsed = find_toolchain(), flag_parser.parse_flags(unit.flags)
    arguments = [*driver.host_arguments(toolchain, parsed, None, unit.language), *unit.unit_id_flags]
    marker = target.with_name(f"number{index}")
    marker.write_text(MARKER.format(index) + unit.suffix + "\0")
    side = f"object-{unit.language}-{index}{unit.suffix}"
    job = new_job(toolchain, unit.source, side, parsed, arguments, limits, roots)
    is_hip = unit.language == SourceLanguage.HIP
    if is_hip:
        marker = marker.resolve()
        job = replace(job, extra=("-fcuda-include-gpubinary", str(marker)), shows=(*job.shows, marker))

    def build_object(scratch: Path) -> CompiledFiles:
        built, headers, _ = object_of(job, scratch, use_pch=is_hip)
        return CompiledFiles([built], headers)

    compile_once(job, [target], build_object)
    return target


def _link_program(
    objects: Sequence[Path],
    executable: Path,
    libraries: Sequence[str],
    runtime: Path,
    limits: CompileLimits,
    flags: str,
) -> None:
    toolchain, parsed = find_toolchain(), flag_parser.parse_flags(flags)
    commands = driver.driver_commands(toolchain, driver.host_arguments(toolchain, parsed, runtime), parsed, limits)
    inputs = [path.resolve() for path in objects]
    with sandbox.job_folder() as scratch:
        linked = scratch / executable.name
        command = [*commands.linker([str(path) for path in inputs], str(linked)), *libraries]
        shows = (*inputs, runtime)
        driver.run_tool(toolchain, command, scratch, limits, executable.name, shows=shows, failure=Reason.LINK_FAILED)
        copy_regular(linked, executable)
    executable.chmod(0o755)
