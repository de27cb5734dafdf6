"""Programs as `synth run` and `synth profile` take them: one file, several, or a folder with its build files."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hipsynth.synth.core.errors import BadInput

if TYPE_CHECKING:
    from hipsynth.synth.core.program import Project

F = TypeVar("F", bound=Callable[..., Any])

_OWN = "synth.program_arguments"
_SOURCES = frozenset({".hip", ".cpp", ".cc", ".cxx", ".c++", ".cu", ".c", ".C"})
_BUILD_FILE = re.compile(r"(?:GNU)?[Mm]akefile.*|CMakeLists\.txt|.*\.(?:mk|make|sh)")
_INCOMPLETE = re.compile(r"undefined symbol|fatal error: .* file not found")
_ACROSS_FILES = re.compile(r"undefined (?:hidden|protected) symbol")
HINT = "is this the whole program? give its other files too, -I FOLDER, or the folder with its Makefile"


class ProgramCommand(click.Command):
    """A verb that keeps the words after `--` apart: they are the program's own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            args, ctx.meta[_OWN] = args[:at], tuple(args[at + 1 :])
        return super().parse_args(ctx, args)


def source_options(function: F) -> F:
    """The options that a compiler has for finding headers and setting macros, and --project."""
    for option in (
        click.option("-D", "defines", multiple=True, metavar="NAME[=VALUE]", help="Define a macro, like a compiler."),
        click.option("-I", "includes", multiple=True, metavar="FOLDER", help="Look for headers there too."),
        click.option(
            "--project", type=click.Path(path_type=Path), help="Folder whose build files say how PATH is built."
        ),
    ):
        function = option(function)
    return function


def with_defines(flags: str, defines: Sequence[str]) -> str:
    return shlex.join([*shlex.split(flags), *(f"-D{text}" for text in defines)]) if defines else flags


def split(words: Sequence[str]) -> tuple[list[Path], tuple[str, ...]]:
    """Paths and the program's arguments: source files lead, every other word and all behind `--` is an argument."""
    paths = [Path(words[0])]
    for word in words[1:]:
        if Path(word).suffix not in _SOURCES or not Path(word).is_file():
            break
        paths.append(Path(word))
    own: tuple[str, ...] = click.get_current_context().meta.get(_OWN, ())
    return paths, (*words[len(paths) :], *own)


def locate(
    paths: Sequence[Path],
    arguments: tuple[str, ...],
    arch: str,
    *,
    includes: Sequence[str] = (),
    project: Path | None = None,
) -> Project:
    """The program in these files, or as the build files of a folder say. Raises BadInput, CompileFailed."""
    from hipsynth.synth.core.program import Project, SourceFile

    if project is None and not paths[0].is_dir():
        for path in paths:
            if path.is_file() and path.suffix not in _SOURCES and _BUILD_FILE.fullmatch(path.name):
                raise BadInput(f"{path}: is no source file", remedy=f"give its folder: {path.parent}")
            if not path.is_file():
                what = "is no file" if path.exists() else "no such file"
                raise BadInput(f"{path}: {what}", remedy="give a HIP source file, or the folder of a program")
        flags = shlex.join(f"-I{Path(folder).resolve()}" for folder in includes)
        files = tuple(SourceFile(path, "c" if path.suffix == ".c" else "hip", flags) for path in paths)
        return Project(files, paths[0].resolve().parent, arguments)
    from hipsynth.profiling.survey.project import find_project

    folder = project or paths[0]
    if not folder.is_dir():
        raise BadInput(f"{folder}: no such folder", remedy="give the folder with the program's build files")
    # It holds headers that configuring writes, so it stays until the verb ends.
    scratch = click.get_current_context().with_resource(tempfile.TemporaryDirectory(prefix="hipsynth-"))
    found = find_project(folder, arch, Path(scratch), paths[0] if project else None)
    return replace(found, arguments=arguments)


def hint(message: str) -> str:
    """What to try when the compiler's words sound as if files were missing."""
    if _ACROSS_FILES.search(message):
        return "device functions and variables of other files want --flags '-O3 -fgpu-rdc', and those files"
    return HINT if _INCOMPLETE.search(message) else ""
