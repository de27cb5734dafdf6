"""Finds the programs of a folder: each file with a main() that uses HIP, with the plans to build it."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hipsynth.core.files import leads_to_file, leads_to_folder
from hipsynth.core.languages import SOURCE_SUFFIXES, SourceLanguage, language_of_file
from hipsynth.core.reasons import Reason
from hipsynth.profiling.survey.build_files.cmake import cmake_plans
from hipsynth.profiling.survey.build_files.commands import parse_compiler, plans_of, simple_commands, steps_of
from hipsynth.profiling.survey.build_files.makefile import make_plans
from hipsynth.profiling.survey.build_files.run_lines import calls_of
from hipsynth.profiling.survey.build_plan import NO_MAIN, BuildPlan, Invocation, SourceUnit, SurveyedProgram
from hipsynth.profiling.survey.libraries import library_of_header
from hipsynth.profiling.survey.sources import (
    CMAKE_FILE,
    Folder,
    is_installed,
    is_makefile,
    read_text,
    scan_folder,
    source_facts,
)

_TRUST = {"make": 0, "cmake": 1, "commands": 2, "script": 3}
_RUN_SCRIPT = re.compile(r"(?:run|test|verify|bench|start)[\w-]*|[\w-]+\.(?:sh|bash|run)", re.IGNORECASE)
_COMMENT_LINE = re.compile(r"^[ \t]*#[^\n]*", re.MULTILINE)
_PLACEHOLDER = re.compile(r"[<>\[\]{}$*|&;`]|\.\.\.")


def find_programs(root: Path, arch: str, shows: Sequence[Path] = ()) -> list[SurveyedProgram]:
    """The programs below `root`, ordered by the path of their main file. Malformed files are skipped, not raised.

    Folders with HIP sources that belong to no program come last (refusal NO_MAIN).

    `shows`: further folders that build files may refer to.
    """
    folder = scan_folder(root)
    useful = {
        place for path in folder.sources if folder.is_hip(path) or folder.is_portable(path) for place in path.parents
    }
    build_files = [path for path in folder.build_files if path.parent in useful]
    lists = [path for path in build_files if path.name == CMAKE_FILE]
    plans_found, problems = _cmake_plans(lists, folder.root, arch, shows)
    for build_file in build_files:
        if build_file.name != CMAKE_FILE:
            plans_found += _plans_of_file(build_file, folder.root, arch, shows)
    plans: dict[Path, list[BuildPlan]] = defaultdict(list)
    for plan in plans_found:
        for main in _main_files(plan, folder.root):
            plans[main].append(plan)
    programs = []
    for path in folder.sources:
        if source_facts(path).has_main:
            program = _build_program(path, folder, plans.get(path, []), problems)
            if program is not None:
                programs.append(program)
    return [*programs, *_folders_without_main(folder, programs, plans_found)]


def _folders_without_main(
    folder: Folder, programs: Sequence[SurveyedProgram], plans: Sequence[BuildPlan]
) -> list[SurveyedProgram]:
    """One entry for each folder with HIP sources that no program is built from or includes."""
    units = {unit.path for program in programs for plan in program.plans for unit in plan.units}
    used = {file for unit in units for file in folder.closure(unit)} | units | {program.main for program in programs}
    first: dict[Path, Path] = {}
    for path in folder.sources:
        if path not in used and folder.is_hip(path) and not source_facts(path).has_main:
            first.setdefault(path.parent, path)
    return [_without_main(path, folder, plans) for path in first.values()]


def _without_main(path: Path, folder: Folder, plans: Sequence[BuildPlan]) -> SurveyedProgram:
    """`path`: the first of the folder's sources."""
    message = "it has HIP sources, and no main() of the surveyed folder uses them"
    named = [unit.path for plan in plans for unit in plan.units if path.parent in (plan.folder, unit.path.parent)]
    outside = [name for name in named if not name.resolve().is_relative_to(folder.root)]
    if outside:
        message += f"; its build files name {outside[0]}: survey a folder that holds both"
    return SurveyedProgram(path.relative_to(folder.root).as_posix(), path, refusal=(NO_MAIN, message))


def _cmake_plans(
    lists: Iterable[Path], root: Path, arch: str, shows: Sequence[Path]
) -> tuple[list[BuildPlan], dict[Path, str]]:
    """The plans of all CMake projects, and folder -> problem of those that cannot be configured.

    A folder is configured by itself only if no project above includes it.
    """
    plans: list[BuildPlan] = []
    problems: dict[Path, str] = {}
    planned_folders: set[Path] = set()  # folders that a project above includes
    stopped: set[Path] = set()
    for listfile in sorted(lists, key=lambda path: len(path.parts)):
        place = listfile.parent
        is_part = any(above in problems for above in place.parents) and not _is_project(listfile, root)
        if place in planned_folders or is_part or not stopped.isdisjoint(place.parents):
            continue
        plans_made = cmake_plans(listfile, root, arch, shows)
        plans += plans_made.plans
        planned_folders |= plans_made.folders
        problems |= {place: plans_made.problem} if plans_made.problem else {}
        stopped |= {place} if plans_made.stopped else set()
    return plans, problems


def _is_project(listfile: Path, root: Path) -> bool:
    return "cmake_minimum_required" in read_text(listfile, root).lower()


def _plans_of_file(build_file: Path, root: Path, arch: str, shows: Sequence[Path]) -> list[BuildPlan]:
    if is_makefile(build_file.name):
        return make_plans(build_file, root, arch, shows)
    if build_file.suffix == ".sh":
        return _script_plans(build_file)
    return _command_plans(build_file)


def _script_plans(path: Path) -> list[BuildPlan]:
    """Plans from the compiler calls in a shell script, as far as they can be parsed without running it."""
    steps = steps_of(simple_commands(read_text(path), path.parent))
    buildable = [step for step in steps if all(leads_to_file(unit.path) for unit in step.units)]
    return [plan for plan in plans_of(buildable, path.parent, "script") if "$" not in plan.name]


def _command_plans(path: Path) -> list[BuildPlan]:
    """Plans from compile_commands.json: it has no link steps, so each file with a main() is linked with all others."""
    try:
        calls = [_read_call(entry) for entry in json.loads(read_text(path))]
        steps = [parse_compiler(words, place) for words, place in calls if words]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
    for step in steps:
        step.links = any(source_facts(unit.path).has_main for unit in step.units)
    units = [unit for step in steps for unit in step.units if not source_facts(unit.path).has_main]
    plans = plans_of(steps, path.parent, "commands")
    return [replace(plan, units=(*plan.units, *units)) for plan in plans]


def _read_call(entry: dict[str, object]) -> tuple[list[str], Path]:
    """The words and the folder of a compiler call. Raises ValueError, or what wrong types do, for a malformed one."""
    command = entry.get("command", "")
    words = entry.get("arguments") or shlex.split(command if isinstance(command, str) else "")
    folder = entry["directory"]
    if not isinstance(words, list) or not isinstance(folder, str):
        raise TypeError("arguments are a list, a directory is a text")
    if b"\0" in os.fsencode("".join([folder, *words])):
        raise ValueError("no path has this character")
    return words, Path(folder)


def _main_files(plan: BuildPlan, root: Path) -> list[Path]:
    """The files of a plan with a main(); those that it names outside the surveyed folder are not read."""
    program_paths = [unit.path for unit in plan.units if unit.path.resolve().is_relative_to(root)]
    return [path for path in program_paths if source_facts(path).has_main]


def _build_program(
    path: Path, folder: Folder, plans: list[BuildPlan], problems: Mapping[Path, str]
) -> SurveyedProgram | None:
    name = path.relative_to(folder.root).as_posix()
    units = {
        path,
        *(unit.path for plan in plans for unit in plan.units),
        *_companion_sources(path, folder, _candidate_parts(folder)),
    }
    if not any(folder.is_hip(unit) or folder.is_portable(unit) for unit in units):
        if folder.is_cuda(path):
            return SurveyedProgram(
                name, path, refusal=(Reason.CUDA_SOURCE, "CUDA source: it uses no HIP header or call")
            )
        return None
    ordered = sorted(plans, key=lambda plan: (_TRUST[plan.origin], -len(plan.folder.parts)))
    distinct = [_complete_plan(plan, folder) for plan in _distinct_plans([*ordered, *_guess_plans(path, folder)])]
    names = {plan.name for plan in distinct} | {path.stem}
    return SurveyedProgram(
        name,
        path,
        tuple(distinct),
        calls=_documented_calls(path, folder, names),
        reads_arguments=source_facts(path).reads_arguments,
        libraries=_external_libraries(distinct, folder),
        not_configured=next((problems[place] for place in path.parents if place in problems), ""),
    )


def _external_libraries(plans: list[BuildPlan], folder: Folder) -> tuple[str, ...]:
    """External libraries whose headers the first plan includes and this folder lacks, GPU libraries first."""
    wanted: dict[str, bool] = {}
    for unit in plans[0].units:
        for file in folder.closure(unit.path):
            for _, name in source_facts(file).includes:
                library = library_of_header(name)
                if library is not None and folder.find_header(file, name) is None and not is_installed(name):
                    wanted[library.name] = library.gpu
    return tuple(sorted(wanted, key=lambda name: (not wanted[name], name)))


def _distinct_plans(plans: Iterable[BuildPlan]) -> list[BuildPlan]:
    distinct: dict[object, BuildPlan] = {}
    for plan in plans:
        distinct.setdefault(tuple((unit.path, unit.flags()) for unit in plan.units), plan)
    return list(distinct.values())


def _guess_plans(path: Path, folder: Folder) -> list[BuildPlan]:
    """Guessed plans: the main file alone; with sources named like its headers; with all sources of its folder."""
    alone = SourceUnit(path, language_of_file(path))
    threads = any(name == "omp.h" for file in folder.closure(path) for _, name in source_facts(file).includes)
    libraries = ("omp",) if threads else ()
    plans = [BuildPlan(path.stem, (alone,), path.parent, "guess", libraries)]
    usable = _candidate_parts(folder)
    for others in (
        _companion_sources(path, folder, usable),
        [other for other in usable if other.parent == path.parent],
    ):
        units = [SourceUnit(other, language_of_file(other)) for other in others]
        if units:
            plans.append(BuildPlan(path.stem, (alone, *units), path.parent, "guess", libraries))
    return plans


def _candidate_parts(folder: Folder) -> list[Path]:
    """The sources without a main() that may belong to a HIP program."""
    return [
        other
        for other in folder.sources
        if not source_facts(other).has_main and not (folder.is_cuda(other) and not folder.is_hip(other))
    ]


def _companion_sources(path: Path, folder: Folder, usable: list[Path]) -> list[Path]:
    """Sources beside an included header with the same stem (x.cpp for x.h), transitively."""
    by_place = {(other.parent, other.name.split(".")[0]): other for other in usable}
    companions: list[Path] = []
    queue = [path]
    while queue:
        for header in folder.closure(queue.pop()):
            companion = by_place.get((header.parent, header.name.split(".")[0]))
            if companion is not None and companion != header and companion not in companions:
                companions.append(companion)
                queue.append(companion)
    return companions


def _complete_plan(plan: BuildPlan, folder: Folder) -> BuildPlan:
    """The plan with include folders added for headers found in this tree, and C++ files with kernels set to HIP."""
    units = []
    for unit in plan.units:
        language = unit.language
        if language == SourceLanguage.CPP and source_facts(unit.path).has_kernel:
            language = SourceLanguage.HIP
        present = [place for place in unit.includes if leads_to_folder(place) or _plan_holds(place, plan)]
        further = [place for place in folder.include_folders(unit.path) if place not in present]
        units.append(replace(unit, language=language, includes=(*present, *further)))
    return replace(plan, units=tuple(units))


def _plan_holds(place: Path, plan: BuildPlan) -> bool:
    return any(path.is_relative_to(place) for path, _ in plan.written)


def _is_compile_command(words: tuple[str, ...]) -> bool:
    """Whether the arguments look like those of a compile command and not of a run."""
    return any(Path(word).suffix in SOURCE_SUFFIXES or word.startswith(("-I", "-L", "-l")) for word in words)


def _split_words(text: str) -> tuple[str, ...]:
    """Splits text like a shell, without its comment; empty on a syntax error."""
    try:
        return tuple(shlex.split(text, comments=True))
    except ValueError:
        return ()


def _documented_calls(path: Path, folder: Folder, names: set[str]) -> tuple[Invocation, ...]:
    """Run lines such as `./name 1024` from scripts and READMEs in the program's folder and above (at most 3)."""
    invocations: list[Invocation] = []
    pattern = re.compile(
        r"(?:^|[\s`$>])\./(?:[\w.-]+/)*(" + "|".join(map(re.escape, sorted(names))) + r")((?:[ \t]+[^\s`]+)+)"
    )
    for place in (path.parent, *path.parent.parents):
        if not place.is_relative_to(folder.root):
            break
        scripts = [file for file in sorted(place.iterdir()) if _RUN_SCRIPT.fullmatch(file.name) and leads_to_file(file)]
        for file in scripts[:4]:
            calls = calls_of(_COMMENT_LINE.sub("", read_text(file, folder.root)), place, sorted(names), folder.root)
            invocations += [call for _, call in calls if call.arguments or call.stdin]
        for file in sorted(place.glob("README*"))[:4]:
            words = [_split_words(match.group(2)) for match in pattern.finditer(read_text(file, folder.root))]
            invocations += [Invocation(line) for line in words if line and not any(map(_PLACEHOLDER.search, line))]
    plausible = [call for call in invocations if len(call.arguments) < 20 and not _is_compile_command(call.arguments)]
    return tuple(dict.fromkeys(plausible))[:3]
