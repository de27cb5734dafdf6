"""Where a program is: one file, several files, or a folder with build files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.errors import BadInput, UsageError
from hipsynth.core.languages import SOURCE_SUFFIXES, language_of_file
from hipsynth.core.reasons import Reason

if TYPE_CHECKING:
    from hipsynth.core.program import Project
    from hipsynth.core.scratch import KeepFolder
    from hipsynth.toolchain import CompileLimits

_BUILD_FILE = re.compile(r"(?:GNU)?[Mm]akefile.*|CMakeLists\.txt|.*\.(?:mk|make|sh)")


def read_source(path: Path) -> str:
    """The text of one HIP file. Raises BadInput if it cannot be read or is not UTF-8."""
    from hipsynth.core.program import read_text

    return read_text(path, "give a HIP source file")


def read_nonempty(path: Path) -> str:
    """As read_source. Raises BadInput for an empty file, too: as a candidate that is a wrong answer, as a program to
    change it is a mistake."""
    text = read_source(path)
    if not text.strip():
        raise _empty_file(path)
    return text


def _empty_file(path: Path) -> BadInput:
    kind = "a Python script with Triton kernels" if has_script_suffix(path) else "a HIP source file"
    return BadInput(f"{path}: the file is empty", remedy=f"give {kind}", reason=Reason.EMPTY_FILE)


def check_has_kernel(path: Path, text: str) -> None:
    """Raises BadInput, which names the file, for a HIP source without a kernel, unless it loads some when it runs."""
    from hipsynth.source.outline import kernel_names, loads_kernels

    if not kernel_names(text) and not loads_kernels(text):
        cause = "no __global__ function" if text.strip() else "the file is empty"
        raise BadInput(f"{path}: no kernel in the file", cause=cause, reason=Reason.NO_KERNEL)


def check_keeps_program(path: Path, program: Path, includes: Sequence[str] = ()) -> None:
    """Raises UsageError if a file that is to be written is a program itself, or a file that it includes. `includes`:
    folders with headers of the program, beside its own."""
    from hipsynth.source.own_headers import list_headers

    if not (path.exists() and program.is_file()):
        return
    folders = [Path(folder) for folder in includes]
    headers = [] if has_script_suffix(program) else list_headers(read_source(program), program.parent, folders)
    kinds = {"the program itself": [program], "a file that the program includes": headers}
    for kind, files in kinds.items():
        if any(path.samefile(each) for each in files):
            raise UsageError(f"{path}: {kind}", cause="it would be overwritten", remedy="choose another --out")


def has_script_suffix(path: Path) -> bool:
    """Whether a path is that of a Python script."""
    return path.suffix == ".py"


def check_hip_only(path: Path, options: Mapping[str, bool]) -> None:
    """Raises UsageError if an option that is for HIP programs was given and the program is a Python script. `options`:
    name -> whether it was given."""
    from hipsynth.core.languages import refuse_hip_options

    if has_script_suffix(path):
        refuse_hip_options(options)


def _check_source_files(paths: Sequence[Path]) -> None:
    """Raises BadInput for what is no source file, and for a program that is one empty file."""
    for path in paths:
        if path.is_file() and path.suffix not in SOURCE_SUFFIXES and _BUILD_FILE.fullmatch(path.name):
            raise BadInput(f"{path}: is no source file", remedy=f"give its folder: {path.parent}")
        if not path.is_file():
            problem = "is no file" if path.exists() else "no such file"
            raise BadInput(f"{path}: {problem}", remedy="give a HIP source file, or the folder of a program")
    if len(paths) == 1 and not paths[0].stat().st_size:
        raise _empty_file(paths[0])


def locate_program(
    paths: Sequence[Path],
    arguments: tuple[str, ...],
    arch: str,
    keep: KeepFolder,
    *,
    includes: Sequence[str] = (),
    project: Path | None = None,
    limits: CompileLimits | None = None,
    flags: str = "",
) -> Project:
    """The program in these files, or as defined by the build files of a folder, which must build with `flags`; it may
    read the files that `arguments`, which the user typed, name. `keep` enters the scratch folders that it needs. Raises
    BadInput, CompileFailed."""
    from hipsynth.core.program import Project, SourceFile
    from hipsynth.simulator.run_folder import named_files

    readable = named_files(arguments, Path.cwd())
    if project is None and not paths[0].is_dir():
        _check_source_files(paths)
        if has_script_suffix(paths[0]) and includes:
            raise UsageError("-I is for HIP programs", remedy="a script imports what lies in its own folder")
        shows = shlex.join(f"-I{Path(folder).resolve()}" for folder in includes)
        files = tuple(SourceFile(path, language_of_file(path), shows) for path in paths)
        return Project(files, paths[0].resolve().parent, arguments, readable)
    from hipsynth.core.scratch import scratch_folder
    from hipsynth.profiling.survey.project import FurtherOptions, find_project
    from hipsynth.toolchain.flags import split_flags

    folder = project or paths[0]
    if not folder.is_dir():
        raise BadInput(f"{folder}: no such folder", remedy="give the folder with the program's build files")
    scratch = keep(scratch_folder())  # headers that the build files generate
    further = FurtherOptions(tuple(map(Path, includes)), tuple(split_flags(flags)))
    program = find_project(folder, arch, scratch, paths[0] if project else None, further, limits)
    return replace(program, arguments=arguments, readable=readable)
