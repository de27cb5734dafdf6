"""Builds a program with the first of its plans that works, or reports why none did."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth import toolchain
from hipsynth.core.errors import BadInput, CompileFailed, HipsynthError
from hipsynth.core.files import leads_to_file, leads_to_folder
from hipsynth.core.reasons import Reason
from hipsynth.profiling.survey.build_plan import BuildPlan, SourceUnit, SurveyedProgram
from hipsynth.profiling.survey.libraries import PRESENT, library_of_header, library_of_link
from hipsynth.profiling.survey.sources import own_headers
from hipsynth.simulator import api
from hipsynth.toolchain import CompileLimits, legacy_headers
from hipsynth.toolchain.diagnostics import read_messages
from hipsynth.toolchain.flags import OPENMP
from hipsynth.toolchain.project import CompileUnit, compile_project

DEFAULT_FLAGS = "-O3"
MESSAGE_CHARS = 1500


@dataclass(frozen=True)
class BuildResult:
    """Result of building one plan: `artefacts` on success, else `reason` (an error class) and `message`."""

    plan: BuildPlan
    artefacts: api.Artefacts | None = None
    reason: Reason = Reason.NONE
    message: str = ""
    diagnostics: str = ""
    libraries: tuple[str, ...] = ()  # those that are missing


@dataclass(frozen=True)
class _BuildContext:
    """Target and folder of a build, the folders that it may read, and its limits."""

    arch: str
    folder: Path
    roots: tuple[Path, ...]
    limits: CompileLimits | None


def try_plans(
    program: SurveyedProgram, arch: str, folder: Path, roots: Sequence[Path], limits: CompileLimits | None = None
) -> BuildResult:
    """Tries the program's plans in order and returns the first that builds.

    If all fail, returns the first failure, or the one that names a missing library if there is one.
    `roots`: sources and headers must lie below these folders (or in the toolchain).
    """
    failures: list[BuildResult] = []
    for number, plan in enumerate(program.plans):
        written = folder / f"written{number}"
        where = _BuildContext(arch, folder / f"plan{number}", (*roots, written, own_headers()), limits)
        built = _attempt_build(_with_written(plan, written), where)
        if built.artefacts is not None:
            return built
        failures.append(built)
        if built.reason == Reason.NEEDS_LIBRARY:
            break
    # A guessed plan's errors are not informative if a build file gave another plan.
    relevant = [built for built in failures if built.plan.origin != "guess"] or failures
    chosen = next((built for built in relevant if built.reason == Reason.NEEDS_LIBRARY), failures[0])
    if chosen.reason == Reason.NEEDS_LIBRARY and program.libraries:
        wanted = tuple(program.libraries)
        return replace(chosen, message=f"needs {', '.join(wanted)}: {chosen.message}", libraries=wanted)
    if program.not_configured and all(built.plan.origin == "guess" for built in failures):
        return _without_configuration(chosen, program.not_configured)
    return chosen


def _without_configuration(guess: BuildResult, problem: str) -> BuildResult:
    """The failure of a guessed plan of a program whose CMake project could not be configured.

    What lacks a header or a symbol may do so because nothing was configured. Any other error of the compiler is the
    program's own, and names the cause better than CMake does.
    """
    if guess.reason in (Reason.MISSING_HEADER, Reason.LINK_FAILED):
        return replace(guess, reason=Reason.NOT_CONFIGURED, message=f"{problem}; without CMake: {guess.message}")
    if guess.reason == Reason.COMPILE_FAILED:
        return replace(guess, message=f"{guess.message} ({problem})")
    return guess


def _with_written(plan: BuildPlan, folder: Path) -> BuildPlan:
    """Writes the plan's generated headers (such as config.h) below `folder` and adds matching include folders."""
    for path, text in plan.written:
        place = folder / path.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    units = []
    for unit in plan.units:
        folders = dict.fromkeys([unit.path.parent, *unit.includes, plan.folder])
        further = (folder / place.relative_to("/") for place in folders)
        path = (
            folder / unit.path.relative_to("/")
            if any(unit.path == folders_written for folders_written, _ in plan.written)
            else unit.path
        )
        includes = (*unit.includes, *(place for place in further if leads_to_folder(place)))
        units.append(replace(unit, path=path, includes=includes))
    return replace(plan, units=tuple(units))


def _attempt_build(plan: BuildPlan, where: _BuildContext) -> BuildResult:
    """Compiles the plan; on unknown standard names, retries with the headers that HIP included before release 7."""
    built = _compile_plan(plan, where)
    if built.reason == Reason.COMPILE_FAILED and read_messages(built.diagnostics).unknown_name:
        units = tuple(_with_older_headers(unit) for unit in plan.units)
        again = _compile_plan(replace(plan, units=units), where)
        solved = again.reason != Reason.COMPILE_FAILED or not read_messages(again.diagnostics).unknown_name
        return again if solved else built  # if the retry did not help, the original error is clearer
    return built


def _with_older_headers(unit: SourceUnit) -> SourceUnit:
    return replace(unit, preludes=(*unit.preludes, *map(Path, legacy_headers.older_headers(unit.language))))


def _compile_plan(plan: BuildPlan, where: _BuildContext) -> BuildResult:
    wanted = [name for name in plan.libraries if not PRESENT.match(name.rpartition("/")[2]) and not _needs_openmp(name)]
    units = [CompileUnit(unit.path, unit.language, unit_flags(unit, plan)) for unit in plan.units]
    try:
        build = compile_project(
            units,
            where.arch,
            where.folder,
            runtime=api.library_path(),
            roots=where.roots,
            relocatable=plan.relocatable,
            limits=where.limits,
        )
        _code_objects(plan, where)
    except CompileFailed as error:
        reason, message = _classify_failure(error, wanted)
        outside = _header_outside(read_messages(error.diagnostics).missing_header, plan, where.roots)
        if outside:
            message = f"{outside} lies outside the surveyed folder: survey the one above"
        return BuildResult(plan, None, reason, message, error.diagnostics[:MESSAGE_CHARS])
    except BadInput as error:
        return BuildResult(plan, None, error.reason, str(error))
    objdump = toolchain.find_toolchain().objdump
    if not build.devices:
        return BuildResult(plan, api.Artefacts(build.executable, objdump=objdump))
    return BuildResult(plan, api.Artefacts(build.executable, *build.devices[0], objdump, build.devices[1:]))


def _header_outside(header: str | None, plan: BuildPlan, roots: Sequence[Path]) -> Path | None:
    """The missing header, if it is in a folder that the build files name but the compiler may not see."""
    named = [place / header for unit in plan.units for place in (unit.path.parent, *unit.includes)] if header else []
    paths = [path.resolve() for path in named if leads_to_file(path)]
    return next((path for path in paths if not any(path.is_relative_to(root.resolve()) for root in roots)), None)


def _code_objects(plan: BuildPlan, where: _BuildContext) -> None:
    """Compiles code objects that the program loads at run time into FOLDER/run, under the names it expects."""
    for number, wanted in enumerate(plan.code_objects):
        unit = wanted.unit
        object_folder = where.folder / f"own{number}"
        compiled = toolchain.compile_device(
            unit.path, where.arch, _allowed_flags(unit.flags()), object_folder, roots=where.roots, limits=where.limits
        )
        if wanted.output.is_relative_to(plan.folder):
            place = where.folder / "run" / wanted.output.relative_to(plan.folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(compiled.code_object, place)


def _needs_openmp(link: str) -> bool:
    library = library_of_link(link)
    return library is not None and library.name == "OpenMP"


def unit_flags(unit: SourceUnit, plan: BuildPlan) -> str:
    """Compiler flags for one file of a plan, as one string quoted for a shell."""
    return _allowed_flags(unit.flags()) + (f" {OPENMP}" if any(map(_needs_openmp, plan.libraries)) else "")


def code_flags(unit: SourceUnit) -> str:
    """The flags of a file that affect its code, without macros and folders, as a label states them."""
    standard = [f"-std={unit.standard}"] if unit.standard else []
    return _allowed_flags(shlex.join([*unit.options, *standard]))


def _allowed_flags(text: str) -> str:
    """The allowed ones of the flags, with -O3 added if no -O level is given."""
    return toolchain.allowed_flags(text if " -O" in f" {text}" else f"{DEFAULT_FLAGS} {text}")


def _classify_failure(error: CompileFailed, wanted: list[str]) -> tuple[Reason, str]:
    messages = read_messages(error.diagnostics)
    if messages.no_textures:
        return Reason.NEEDS_DEVICES, "uses textures, which this architecture does not have"
    header = messages.missing_header
    library = library_of_header(header) if header else None
    if library is not None:
        return Reason.NEEDS_LIBRARY, f"{header} not found ({library.name})"
    if header:
        return Reason.MISSING_HEADER, f"{header} not found"
    if error.reason == Reason.LINK_FAILED:
        for name in [*messages.missing_libraries, *wanted]:
            missing_library = library_of_link(name)
            if missing_library is not None:
                return Reason.NEEDS_LIBRARY, f"needs {missing_library.name} (-l{name})"
        missing = messages.undefined_symbols
        if wanted:
            return Reason.NEEDS_LIBRARY, f"needs {wanted[0]}; undefined: {', '.join(missing[:4])}"
        return Reason.LINK_FAILED, "undefined: " + ", ".join(missing[:6]) if missing else error.cause
    return error.reason, first_error(error)


def first_error(error: HipsynthError) -> str:
    """The first error line of the compiler's diagnostics (at most 300 characters), else the error itself."""
    diagnostics = error.diagnostics if isinstance(error, CompileFailed) else ""
    return next((line[:300] for line in read_messages(diagnostics).lines), str(error)[:300])
