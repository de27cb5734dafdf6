"""The base programs of `synth augment`: of a corpus, in files, or as the build files of a folder define them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hipsynth.core.errors import BadInput, UsageError
from hipsynth.core.program import INDEX
from hipsynth.core.reasons import Reason
from hipsynth.core.scratch import scratch_folder
from hipsynth.source.parse import Diagnostic
from hipsynth.synth.frontend.augment import find_items, lies_in_output
from hipsynth.synth.frontend.make_copies import AugmentInput
from hipsynth.synth.frontend.pass_input import BuildConfiguration, CompileSettings

if TYPE_CHECKING:
    from hipsynth.profiling.survey.build_plan import BuildPlan, SourceUnit, SurveyedProgram

ARCH = "gfx90a"  # for which build files are read


def find_bases(
    path: Path, project: Path | None, includes: Sequence[Path], defines: Sequence[str]
) -> tuple[list[AugmentInput], tuple[Path, ...]]:
    """The base programs at `path`, and further folders with headers of theirs that build files generate.

    With `project`, `path` is a program of that folder. `includes` and `defines` hold for all programs, as -I and -D.
    Raises BadInput like `find_items`, UsageError for options that cannot apply.
    """
    settings = CompileSettings(tuple(defines), includes=tuple(includes))
    if (path / INDEX).is_file():
        if defines or project is not None:
            raise UsageError(f"{path}: its programs are complete: -D and --project are for source files")
        return find_items(path), ()
    folder = project or path
    if project is not None and not project.is_dir():
        raise BadInput(f"{project}: no such folder", remedy="give the folder with the program's build files")
    if not folder.is_dir() or not _has_build_files(folder):
        if project is not None:
            raise BadInput(
                f"{project}: no build files", remedy="give the folder that holds the Makefile or CMakeLists.txt"
            )
        return [_with_settings(item, settings) for item in find_items(path)], ()
    scratch = click.get_current_context().with_resource(scratch_folder())
    items = _inputs_of_builds(folder, scratch, settings)
    if project is not None:
        items = [item for item in items if item.files and item.files[-1] == path.resolve()]
    if not items:
        raise BadInput(
            f"{path}: no programs", cause="its build files define none with this main()", reason=Reason.NO_PROGRAMS
        )
    return items, (scratch,) if any(scratch.iterdir()) else ()


def _has_build_files(folder: Path) -> bool:
    from hipsynth.profiling.survey.sources import scan_folder

    return bool(scan_folder(folder).build_files)


def _with_settings(item: AugmentInput, settings: CompileSettings) -> AugmentInput:
    if item.program is not None or not (settings.defines or settings.includes):
        return item
    return replace(item, builds=(BuildConfiguration(item.files, (settings,) * len(item.files)),))


def _inputs_of_builds(folder: Path, scratch: Path, settings: CompileSettings) -> list[AugmentInput]:
    """The programs of a folder as its build files define them, then the sources with kernels that no program uses."""
    from hipsynth.profiling.survey.build_plan import NO_MAIN
    from hipsynth.profiling.survey.discover import find_programs

    items, used = [], set()
    root = folder.resolve()
    for program in find_programs(folder, ARCH, [place.resolve() for place in settings.includes]):
        if program.refusal[0] == NO_MAIN or lies_in_output(program.main, root):
            continue
        items.append(_input_of_program(program, root, scratch, settings))
        used |= {unit.path for plan in program.plans for unit in plan.units}
    rest = find_items(folder) if any(path.suffix == ".hip" for path in folder.rglob("*.hip")) else []
    loose = [item for item in rest if not {path.resolve() for path in item.files} & used]
    return [*items, *(_with_settings(item, settings) for item in loose)]


def _input_of_program(program: SurveyedProgram, root: Path, scratch: Path, settings: CompileSettings) -> AugmentInput:
    if program.refusal[0]:
        return AugmentInput(program.id, files=(program.main,), root=root, problem=Diagnostic(*program.refusal))
    builds = tuple(
        _build_configuration(plan, program.main, scratch / str(n), settings) for n, plan in enumerate(program.plans)
    )
    return AugmentInput(program.id, files=builds[0].files, root=root, builds=builds)


def _build_configuration(plan: BuildPlan, main: Path, scratch: Path, settings: CompileSettings) -> BuildConfiguration:
    """A plan's files with the main file last; headers that configuring generates are written below `scratch`."""
    for path, text in plan.written:
        place = scratch / path.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    units = sorted(plan.units, key=lambda unit: unit.path == main)
    return BuildConfiguration(
        tuple(unit.path for unit in units), tuple(_compile_settings(unit, plan, scratch, settings) for unit in units)
    )


def _compile_settings(unit: SourceUnit, plan: BuildPlan, scratch: Path, settings: CompileSettings) -> CompileSettings:
    named = dict.fromkeys([unit.path.parent, *unit.includes, plan.folder])
    written = [place for folder in named if (place := scratch / folder.relative_to("/")).is_dir()]
    return CompileSettings(
        (*unit.defines, *settings.defines),
        unit.undefines,
        tuple(dict.fromkeys((*settings.includes, *unit.includes, *written))),
        unit.preludes,
        unit.standard,
    )
