"""Program arguments and compiler options of verbs that take a program: files, or a folder with build files."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from hipsynth.cli.options import NamedPath
from hipsynth.cli.output import print_remark
from hipsynth.core.errors import UsageError
from hipsynth.core.files import leads_to_file
from hipsynth.core.languages import SOURCE_SUFFIXES
from hipsynth.library.arguments import list_environment
from hipsynth.library.programs import check_hip_only, has_script_suffix

F = TypeVar("F", bound=Callable[..., Any])

_OWN = "synth.program_arguments"
HINT = "is this the whole program? give its other files too, -I FOLDER, or the folder with its Makefile"
_CUDA_HEADER = re.compile(
    r"cuda|cu(?:blas|fft|rand|sparse|solver|dnn)|device_launch_parameters\.h|nvtx|thrust/system/cuda"
)


class ProgramCommand(click.Command):
    """A verb that separates the arguments after `--`, which are passed to the program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keeps what follows `--` as the program's own arguments, and warn of options of synth among them."""
        if "--" in args:
            at = args.index("--")
            args, ctx.meta[_OWN] = args[:at], tuple(args[at + 1 :])
            for word in sorted(_options_of(self, ctx).intersection(text.split("=")[0] for text in ctx.meta[_OWN])):
                click.echo(f"warning: {word} after -- goes to the program; options of synth go before it", err=True)
        return super().parse_args(ctx, args)


def _options_of(command: click.Command, ctx: click.Context) -> set[str]:
    """The long options of a verb: a program's own are often short ones, which mean something else there."""
    return {name for option in command.get_params(ctx) for name in option.opts if name.startswith("--")}


include_option = click.option("-I", "includes", multiple=True, metavar="FOLDER", help="Look for headers there too.")


environment_option = click.option(
    "--env", "environment", multiple=True, metavar="NAME[=VALUE]",
    help="Set a variable of the program's environment; without a value, as it is here.",
)  # fmt: skip


def read_environment(words: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The variables that --env sets. Raises UsageError for one that is not set here, or that cannot be set."""
    variables, set_here = dict[str, str](), dict(os.environ)
    for word in words:
        name, equals, value = word.partition("=")
        if name and not equals and name not in set_here:
            raise UsageError(f"--env {name}: is not set here", remedy=f"--env {name}=VALUE")
        variables[name] = value if equals else set_here.get(name, "")
    return list_environment("--env", variables)


define_option = click.option(
    "-D", "defines", multiple=True, metavar="NAME[=VALUE]", help="Define a macro, like a compiler."
)


def source_options(function: F) -> F:
    """The options -I and -D, as of a compiler, and --project."""
    for option in (
        define_option,
        include_option,
        click.option(
            "--project", type=NamedPath(path_type=Path), help="Folder whose build files define how PATH is built."
        ),
    ):
        function = option(function)
    return function


def note_no_level(flags: Sequence[str]) -> None:
    """Says of --flags without an -O level that nothing is optimized; build files and tags (@...) may have one."""
    from hipsynth.toolchain.flags import split_flags

    for text in flags:
        words = split_flags(text)
        if not any(word.startswith(("-O", "@")) for word in words):
            without = f"--flags={shlex.quote(text)} has no -O level"
            print_remark(f"{without}: compiled without optimization, as by a compiler; add -O3")


def split_run_arguments(option: str, text: str) -> tuple[str, ...]:
    """The words of an option's value, as a shell splits them. Raises UsageError for an open quote."""
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
        if has_script_suffix(paths[0]) or Path(word).suffix not in SOURCE_SUFFIXES or not leads_to_file(word):
            break
        paths.append(Path(word))
    options: tuple[str, ...] = click.get_current_context().meta.get(_OWN, ())
    return paths, (*argv[len(paths) :], *options)


def check_script_options(path: Path, flags: str, defines: Sequence[str], hip_only: Mapping[str, bool]) -> None:
    """Raises UsageError if an option is for HIP programs and the program is a Python script. `hip_only`: option ->
    whether it was given."""
    check_hip_only(path, {"--flags": bool(flags), "-D": bool(defines), **hip_only})


def missing_file_hint(diagnostics: str) -> str:
    """A suggestion if a compiler's messages indicate that files are missing, else ""."""
    from hipsynth.toolchain.diagnostics import read_messages

    messages = read_messages(diagnostics)
    if messages.across_files:
        return "device functions and variables of other files want --flags '-O3 -fgpu-rdc', and those files"
    if _CUDA_HEADER.match(messages.missing_header):
        return "this is a CUDA source: translate it first, with hipify-perl or hipify-clang"
    if messages.missing_header.startswith("hip/"):
        return f"{messages.missing_header} is not among the HIP headers that come with hipsynth: -I FOLDER with one"
    if messages.undefined_symbols == ("main",):
        return f"{HINT}; synth profile and synth predict launch kernels without main()"
    return HINT if messages.incomplete else ""
