"""Compiles programs for the simulator: device code for an architecture, host code linked with our runtime library."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hipsynth import toolchain
from hipsynth.core.errors import BadInput
from hipsynth.core.languages import HIP, SUFFIXES, TRITON, SourceLanguage
from hipsynth.core.program import Program, Project
from hipsynth.core.reasons import Reason
from hipsynth.simulator.api import Artefacts, library_path
from hipsynth.simulator.limits import RunLimits
from hipsynth.simulator.scripts.prepare import package_versions, prepare_script
from hipsynth.source.outline import loads_kernels
from hipsynth.toolchain import CompileLimits, legacy_headers
from hipsynth.toolchain.project import CompileUnit, compile_project
from hipsynth.toolchain.translation_unit import read_source, source_sha256

_RELOCATABLE = "-fgpu-rdc"
LEAST_COMPILE_S = 10.0  # the headers alone take seconds on a slow machine


def compile_limits(limits: RunLimits) -> CompileLimits:
    """The limits of a program's compiles: those of its run, but not less time than the headers take."""
    return CompileLimits(time_s=max(LEAST_COMPILE_S, limits.time_s), isolate=limits.isolate)


def build_program(
    program: Program, arch: str, flags: str, folder: Path, limits: CompileLimits | None = None
) -> tuple[Artefacts, dict[str, str]]:
    """Compiles a program from its text or its project's files in `folder`; returns artefacts and provenance.

    A program of a project may have no kernel. Raises CompileFailed, BadInput ("no_kernel", of a text), UsageError (bad
    flags), MissingDependency (no compiler).
    """
    if program.project is None and not program.is_script:
        return build_text(program.text, program.name, arch, flags, folder, limits)
    if program.project is None:
        artefacts = prepare_script(write_text(program.text, program.name, folder, SUFFIXES[TRITON]))
    else:
        artefacts = build_project(program.project, arch, flags, folder, limits)
    digest = hashlib.sha256(program.text.encode()).hexdigest()
    tools = toolchain.find_toolchain().provenance()
    if artefacts.interpreter:
        tools["compiler"] = package_versions()
    return artefacts, tools | {"arch": arch, "flags": flags, "source_sha256": digest}


def build_project(
    project: Project, arch: str, flags: str, folder: Path, limits: CompileLimits | None = None
) -> Artefacts:
    """Compiles each file with its own flags followed by `flags`, and links them. The program may have no kernel.

    `-fgpu-rdc` links the device code of all files. If standard names are undeclared, compiles again with the headers
    that HIP's headers included before release 7. A Python script needs no compiling. Raises the errors
    of build_program.
    """
    return replace(_build_project_files(project, arch, flags, folder, limits), environment=project.environment)


def _build_project_files(
    project: Project, arch: str, flags: str, folder: Path, limits: CompileLimits | None
) -> Artefacts:
    if project.is_script:
        return prepare_script(project.sources[0].path)
    if _RELOCATABLE in (words := shlex.split(flags)):
        project = replace(project, relocatable=True)
        flags = shlex.join(word for word in words if word != _RELOCATABLE)
    first = project.sources[0]
    if (
        len(project.sources) == 1
        and first.language == SourceLanguage.HIP
        and not first.flags
        and not project.relocatable
    ):
        return build_runnable(first.path, arch, flags, folder, limits)

    def build(with_older: bool) -> Artefacts:
        return _build_sources(_add_older_headers(project) if with_older else project, arch, flags, folder, limits)

    return legacy_headers.retry_with_headers(build)


def _with_headers(flags: str) -> str:
    return f"{flags} {legacy_headers.older_flags(SourceLanguage.HIP)}"


def _add_older_headers(project: Project) -> Project:
    return replace(
        project,
        sources=tuple(
            replace(file, flags=f"{file.flags} {legacy_headers.older_flags(file.language)}") for file in project.sources
        ),
    )


def _build_sources(project: Project, arch: str, flags: str, folder: Path, limits: CompileLimits | None) -> Artefacts:
    units = [CompileUnit(file.path, file.language, f"{file.flags} {flags}".strip()) for file in project.sources]
    built = compile_project(
        units,
        arch,
        folder,
        runtime=library_path(),
        relocatable=project.relocatable,
        limits=limits,
        roots=project.roots,
    )
    objdump = toolchain.find_toolchain().objdump
    if not built.devices:
        return Artefacts(built.executable, objdump=objdump)
    return Artefacts(built.executable, *built.devices[0], objdump, built.devices[1:])


def build_text(
    text: str, name: str, arch: str, flags: str, folder: Path, limits: CompileLimits | None = None
) -> tuple[Artefacts, dict[str, str]]:
    """Writes a program's text into `folder` and compiles it there; raises the errors of build_program."""
    return build_file(write_text(text, name, folder), arch, flags, folder, limits)


def write_text(text: str, name: str, folder: Path, suffix: str = SUFFIXES[HIP]) -> Path:
    """Writes a program's text into `folder`, which is made; returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"{name or 'program'}{suffix}"
    source.write_text(text)
    return source


def build_file(
    source: Path, arch: str, flags: str, folder: Path, limits: CompileLimits | None = None
) -> tuple[Artefacts, dict[str, str]]:
    """As build_text, for a source file; quoted includes are searched in its folder. It may have no kernel if its host
    code loads some. If standard names are undeclared, it is compiled again as by build_project()."""

    def build(with_older: bool) -> tuple[Artefacts, dict[str, str]]:
        artefacts, provenance = _build_one(source, arch, _with_headers(flags) if with_older else flags, folder, limits)
        return artefacts, {**provenance, "flags": flags} if with_older else dict(provenance)

    return legacy_headers.retry_with_headers(build)


def _build_one(
    source: Path, arch: str, flags: str, folder: Path, limits: CompileLimits | None
) -> tuple[Artefacts, Mapping[str, str]]:
    try:
        device = toolchain.compile_device(source, arch, flags, folder, limits=limits)
    except BadInput as error:
        if error.reason != Reason.NO_KERNEL or not loads_kernels(text := read_source(source)):
            raise
        identity = {"arch": arch, "flags": flags, "source_sha256": source_sha256(text)}
        return _build_host(source, flags, folder, limits), toolchain.find_toolchain().provenance() | identity
    host = toolchain.compile_host(source, flags, folder, runtime=library_path(), limits=limits)
    artefacts = Artefacts(host.executable, device.code_object, device.disassembly, toolchain.find_toolchain().objdump)
    return artefacts, device.provenance


def build_runnable(source: Path, arch: str, flags: str, folder: Path, limits: CompileLimits | None = None) -> Artefacts:
    """As build_file, but the program may have no kernel, for example if it only queries device properties."""
    try:
        return build_file(source, arch, flags, folder, limits)[0]
    except BadInput as error:
        if error.reason != Reason.NO_KERNEL:
            raise

    def build(with_older: bool) -> Artefacts:
        return _build_host(source, _with_headers(flags) if with_older else flags, folder, limits)

    return legacy_headers.retry_with_headers(build)


def _build_host(source: Path, flags: str, folder: Path, limits: CompileLimits | None) -> Artefacts:
    """The artefacts of a program without device code of its own."""
    host = toolchain.compile_host(source, flags, folder, runtime=library_path(), limits=limits)
    return Artefacts(host.executable, objdump=toolchain.find_toolchain().objdump)
