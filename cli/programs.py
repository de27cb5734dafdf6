"""Program arguments of `synth run` and `synth profile`: one file, several files, or a folder with build files."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hipsynth.cli.options import NamedPath
from hipsynth.core.errors import BadInput, UsageError
from hipsynth.core.reasons import Reason

if TYPE_CHECKING:
    from hipsynth.core.program import Project
    from hipsynth.toolchain import CompileLimits

F = TypeVar("F", bound=Callable[..., Any])

_OWN = "synth.program_arguments"
_SOURCES = frozenset({".hip", ".cpp", ".cc", ".cxx", ".c++", ".cu", ".c", ".C"})
_LANGUAGES = {".c": "c", ".py": "python"}  # of the other suffixes: hip
_BUILD_FILE = re.compile(r"(?:GNU)?[Mm]akefile.*|CMakeLists\.txt|.*\.(?:mk|make|sh)")
HINT = "is this the whole program? give its other files too, -I FOLDER, or the folder with its Makefile"


class ProgramCommand(click.Command):
    """A verb that separates the arguments after `--`, which are passed to the program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            args, ctx.meta[_OWN] = args[:at], tuple(args[at + 1 :])
            for word in sorted(_options_of(self, ctx).intersection(text.split("=")[0] for text in ctx.meta[_OWN])):
                click.echo(f"warning: {word} behind -- goes to the program; options of synth go before it", err=True)
        return super().parse_args(ctx, args)


def _options_of(command: click.Command, ctx: click.Context) -> set[str]:
    """The long options of a verb: a program's own are often short ones, which mean something else there."""
    return {name for option in command.get_params(ctx) for name in option.opts if name.startswith("--")}


def source_options(function: F) -> F:
    """The options -I and -D, as of a compiler, and --project."""
    for option in (
        click.option("-D", "defines", multiple=True, metavar="NAME[=VALUE]", help="Define a macro, like a compiler."),
        click.option("-I", "includes", multiple=True, metavar="FOLDER", help="Look for headers there too."),
        click.option(
            "--project", type=NamedPath(path_type=Path), help="Folder whose build files define how PATH is built."
        ),
    ):
        function = option(function)
    return function


def with_defines(flags: str, defines: Sequence[str]) -> str:
    return shlex.join([*shlex.split(flags), *(f"-D{text}" for text in defines)]) if defines else flags


def read_source(path: Path) -> str:
    """The text of one HIP file. Raises BadInput if it cannot be read or is not UTF-8."""
    from hipsynth.core.files import SOURCE_BYTES, read_regular

    try:
        return read_regular(path, SOURCE_BYTES).decode()
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{path}: is not UTF-8", cause=str(error), remedy="give a HIP source file", reason=Reason.NOT_UTF8
        ) from None


def split_run_arguments(option: str, text: str) -> tuple[str, ...]:
    """The arguments of one run, as a shell splits them. Raises UsageError for an open quote."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: {error}", remedy="close the quotes") from None


def split_argv(argv: Sequence[str]) -> tuple[list[Path], tuple[str, ...]]:
    """(paths, program arguments): leading source files are paths, everything after them is passed to the program."""
    if not argv[0]:
        raise UsageError("the first argument is empty", remedy="give a HIP source file, or the folder of a program")
    paths = [Path(argv[0])]
    for word in argv[1:]:
        if is_script(paths[0]) or Path(word).suffix not in _SOURCES or not os.path.isfile(word):  # noqa: PTH113 - false for long texts
            break
        paths.append(Path(word))
    options: tuple[str, ...] = click.get_current_context().meta.get(_OWN, ())
    return paths, (*argv[len(paths) :], *options)


def is_script(path: Path) -> bool:
    """Whether a path is that of a Python script."""
    return path.suffix == ".py"


def check_script_options(path: Path, flags: str, defines: Sequence[str], hip_only: Mapping[str, bool]) -> None:
    """Raises UsageError if an option is for HIP programs and the program is a Python script. `hip_only`: option ->
    whether it was given."""
    options = {"--flags": bool(flags), "-D": bool(defines), **hip_only}
    wrong = [option for option, is_given in options.items() if is_given]
    if is_script(path) and wrong:
        problem = f"{' and '.join(wrong)}: only for HIP programs, not for a Python script"
        raise UsageError(problem, remedy="set compile options where the script launches its kernels")


def locate_program(
    paths: Sequence[Path],
    arguments: tuple[str, ...],
    arch: str,
    *,
    includes: Sequence[str] = (),
    project: Path | None = None,
    limits: CompileLimits | None = None,
) -> Project:
    """The program in these files, or as defined by the build files of a folder; it may read the files that `arguments`,
    which the user typed, name. Raises BadInput, CompileFailed."""
    from hipsynth.core.program import Project, SourceFile
    from hipsynth.simulator.run_folder import named_files

    readable = named_files(arguments, Path.cwd())
    if project is None and not paths[0].is_dir():
        for path in paths:
            if path.is_file() and path.suffix not in _SOURCES and _BUILD_FILE.fullmatch(path.name):
                raise BadInput(f"{path}: is no source file", remedy=f"give its folder: {path.parent}")
            if not path.is_file():
                problem = "is no file" if path.exists() else "no such file"
                raise BadInput(f"{path}: {problem}", remedy="give a HIP source file, or the folder of a program")
        if is_script(paths[0]) and includes:
            raise UsageError("-I is for HIP programs", remedy="a script imports what lies in its own folder")
        flags = shlex.join(f"-I{Path(folder).resolve()}" for folder in includes)
        files = tuple(SourceFile(path, _LANGUAGES.get(path.suffix, "hip"), flags) for path in paths)
        return Project(files, paths[0].resolve().parent, arguments, readable)
    from hipsynth.core.scratch import scratch_folder
    from hipsynth.profiling.survey.project import find_project

    folder = project or paths[0]
    if not folder.is_dir():
        raise BadInput(f"{folder}: no such folder", remedy="give the folder with the program's build files")
    # Contains headers generated by configuration, so it must exist until the verb ends.
    scratch = click.get_current_context().with_resource(scratch_folder())
    include_paths = [Path(place) for place in includes]
    program = find_project(folder, arch, scratch, paths[0] if project else None, include_paths, limits)
    return replace(program, arguments=arguments, readable=readable)


def missing_file_hint(diagnostics: str) -> str:
    """A suggestion if a compiler's messages indicate that files are missing, else ""."""
    from hipsynth.toolchain.diagnostics import read_messages

    messages = read_messages(diagnostics)
    if messages.across_files:
        return "device functions and variables of other files want --flags '-O3 -fgpu-rdc', and those files"
    return HINT if messages.incomplete else ""
