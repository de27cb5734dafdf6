"""Programs that build files define, for `synth run FOLDER` and `synth profile FOLDER`: the only one, or all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth.core.errors import BadInput, CompileFailed
from hipsynth.core.files import leads_to_folder
from hipsynth.core.program import Program, ProgramRun, Project, SourceFile, project_program
from hipsynth.core.reasons import Reason
from hipsynth.profiling.survey.build import BuildResult, try_plans, unit_flags
from hipsynth.profiling.survey.build_plan import NO_MAIN, BuildPlan, SurveyedProgram
from hipsynth.profiling.survey.discover import find_programs
from hipsynth.profiling.survey.program_files import digest_program
from hipsynth.profiling.survey.sources import own_headers, scan_folder
from hipsynth.simulator.run_folder import named_files
from hipsynth.toolchain import CompileLimits

CAUSE = "no such file with a main() that uses HIP"


@dataclass(frozen=True)
class FurtherOptions:
    """What a build has besides its build files: folders of headers, which its files may include from, and flags, which
    are no part of the program that is found."""

    includes: tuple[Path, ...] = ()
    flags: tuple[str, ...] = ()


def find_project(
    folder: Path,
    arch: str,
    scratch: Path,
    main: Path | None = None,
    further: FurtherOptions | None = None,
    limits: CompileLimits | None = None,
) -> Project:
    """The program below `folder` whose main() is in `main` (default: the only program), by the first plan that builds
    with the `further` options. Its files may include from `folder` and from those folders, whatever its build files
    name.

    Raises BadInput if there is no such program or more than one, CompileFailed if no plan builds.
    """
    further = further or FurtherOptions()
    shows, options = [place.resolve() for place in further.includes], further.flags
    programs = [program for program in find_programs(folder, arch, shows) if not program.refusal[0]]
    if main is not None:
        programs = [program for program in programs if program.main == main.resolve()]
    if len(programs) != 1:
        raise _not_one(folder, main, programs)
    roots = (folder.resolve(), *shows)
    plans = (_with_includes(plan, roots[1:]) for plan in programs[0].plans)
    chosen = replace(programs[0], plans=tuple(_with_options(plan, options) for plan in plans))
    built = try_plans(chosen, arch, scratch, roots, limits)
    if built.artefacts is None:
        raise _does_not_build(folder, programs[0].id, built, roots)
    return project_of(_without_options(built.plan, len(options)), (*roots, scratch.resolve(), own_headers()))


def _does_not_build(folder: Path, program: str, built: BuildResult, roots: Sequence[Path]) -> CompileFailed:
    """The error with the folders outside `folder` that the build files name, and that the compiler did not see."""
    named = dict.fromkeys(place for unit in built.plan.units for place in unit.includes if leads_to_folder(place))
    hidden = [place for place in named if not any(place.resolve().is_relative_to(root) for root in roots)]
    remedy = "run `synth survey` to see what each program of the folder lacks"
    if hidden and built.reason == Reason.MISSING_HEADER:
        shows = " ".join(f"-I {os.path.relpath(place)}" for place in hidden)
        remedy = f"its build files name folders outside {folder}; let the compiler see them: {shows}"
    cause = built.message.removesuffix(": survey the one above").replace("the surveyed folder", str(folder))
    return CompileFailed(
        f"{folder}: {program} does not build", diagnostics=built.diagnostics, cause=cause, remedy=remedy
    )


def _with_includes(plan: BuildPlan, includes: Sequence[Path]) -> BuildPlan:
    return replace(plan, units=tuple(replace(unit, includes=(*unit.includes, *includes)) for unit in plan.units))


def _with_options(plan: BuildPlan, options: Sequence[str]) -> BuildPlan:
    return replace(plan, units=tuple(replace(unit, options=(*unit.options, *options)) for unit in plan.units))


def _without_options(plan: BuildPlan, number: int) -> BuildPlan:
    """The plan without the last options of each file."""
    units = (replace(unit, options=unit.options[: len(unit.options) - number]) for unit in plan.units)
    return replace(plan, units=tuple(units))


def project_of(plan: BuildPlan, roots: tuple[Path, ...]) -> Project:
    """The sources and flags of a plan in the form that the backends build."""
    sources = tuple(SourceFile(unit.path, unit.language, unit_flags(unit, plan)) for unit in plan.units)
    return Project(sources, plan.folder, relocatable=plan.relocatable, roots=roots)


def _not_one(folder: Path, main: Path | None, programs: list[SurveyedProgram]) -> BadInput:
    if not programs:
        problem = f"{main}: not a HIP program of {folder}" if main else f"{folder}: no HIP program"
        remedy = "give the source files of a program, or the folder that holds them with their build files"
        return BadInput(problem, cause=CAUSE, remedy=remedy, reason=Reason.NO_PROGRAMS)
    names = ", ".join(program.id for program in programs[:5]) + (", ..." if len(programs) > 5 else "")
    return BadInput(
        f"{folder}: {len(programs)} programs: {names}",
        remedy=f"name one: {folder / programs[0].id} --project {folder}",
        reason=Reason.SEVERAL_PROGRAMS,
    )


def is_mixed(folder: Path) -> bool:
    """Whether a folder holds more than programs of one .hip file each: build files, or sources of other names."""
    scanned = scan_folder(folder)
    return bool(scanned.build_files) or any(path.suffix != ".hip" for path in scanned.sources)


def folder_programs(
    folder: Path, arch: str, scratch: Path, on_bad: Callable[[BadInput], None], limits: CompileLimits | None = None
) -> Iterator[Program]:
    """The programs below `folder`, each as its build files build and start it, by the first plan that builds.

    If none builds, the first plan is returned, so that its errors are recorded like those of others. What cannot be a
    program's source goes to `on_bad`. `scratch` keeps generated headers, so it must exist until the programs are built.
    """
    root = folder.resolve()
    scanned = scan_folder(root)
    for number, surveyed in enumerate(find_programs(folder, arch)):
        reason, message = surveyed.refusal
        if reason == NO_MAIN:  # parts of a library, for example
            continue
        if reason:
            on_bad(BadInput(f"{surveyed.id}: {message}", reason=Reason.of(reason)))
            continue
        built = try_plans(surveyed, arch, scratch / f"program{number}", (root,), limits)
        arguments = next((call.arguments for call in built.plan.calls), ())
        project = project_of(built.plan, (root, scratch.resolve(), own_headers()))
        try:
            readable = _own_files(surveyed.id, arguments, built.plan.folder, root)
            digest = digest_program(surveyed, scanned)
            program = project_program(replace(project, arguments=arguments, readable=readable, digest=digest))
        except BadInput as error:
            on_bad(error)
        else:
            yield replace(program, name=Path(surveyed.id).stem, runs=(ProgramRun(arguments),))


def _own_files(program: str, arguments: Sequence[str], folder: Path, root: Path) -> frozenset[Path]:
    """The files that the arguments in a build file name. Raises BadInput (reason "outside") for one outside `root`."""
    named = named_files(arguments, folder)
    outside = sorted(path for path in named if not path.is_relative_to(root))
    if outside:
        raise BadInput(
            f"{program}: its build files start it with {outside[0]}",
            cause=f"the file lies outside {root}; only arguments that you type yourself may name such files",
            remedy="copy the file into the folder, or profile the program by itself: synth profile FOLDER -- ARGUMENTS",
            reason=Reason.OUTSIDE,
        )
    return named
