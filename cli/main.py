"""The `synth` command: a lazy group, so that `synth --help` imports no verb."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import click

from hipsynth.cli import terminal
from hipsynth.cli.exit_codes import exit_code_rows
from hipsynth.cli.usage_errors import usage_error
from hipsynth.core import stop_signal
from hipsynth.core.documents import to_json
from hipsynth.core.errors import (
    BadInput,
    ErrorDocument,
    HipsynthError,
    UsageError,
    is_disk_full,
    locate_defect,
    suggest_name,
)
from hipsynth.core.installation import explain_import
from hipsynth.core.reasons import Reason

# Groups of verbs, in the order in which users meet them: verb -> one-line help; it lives in cli/<verb>.py as `command`.
VERB_GROUPS = {
    "Kernels and programs": {
        "profile": "Compile for each arch and flag set, execute, count; one program or a corpus.",
        "predict": "Predict the metrics and durations of a program's kernels.",
        "compare": "Compare two programs, profiles, revisions, flag sets or devices.",
        "optimize": "Search for a faster program, and verify that it does the same.",
        "swizzle": "Remap work-groups to a GPU's chiplets, with a proof.",
        "verify": "Check that a changed program does the same as the original.",
        "run": "Run an unmodified HIP program on the CPU.",
        "survey": "Report which HIP programs of a folder compile, run and pass here.",
    },
    "Editors, servers, agents": {
        "serve": "Serve predictions and profiles over HTTP, and the workbench page.",
        "lsp": "Show predictions and profiles of HIP kernels in an editor (LSP).",
        "mcp": "Offer the optimizer's tools to language models (MCP).",
    },
    "Programs and corpora for training": {
        "generate": "Make HIP programs from the grammar.",
        "llm": "Ask a language model for programs; keep those that work.",
        "augment": "Rename and flatten programs; copies keep the lineage.",
        "stats": "Count and describe the contents of a corpus.",
        "export": "Write training samples from a corpus.",
        "traces": "Write training samples of optimizing with tools.",
        "release": "Make, extend and check a release: a corpus as a dataset.",
        "report": "Write an HTML report of a corpus and its model.",
    },
    "Models": {
        "train": "Fine-tune a causal language model on a corpus.",
        "evaluate": "Score a model and baselines.",
    },
    "Installation": {
        "doctor": "List what is installed, what is missing, and what that affects.",
    },
}
# verb -> the options that name where it keeps finished work, and goes on when the same command is given again.
RESUMED_BY = {
    **dict.fromkeys(("profile", "survey", "generate", "llm", "augment", "traces", "train", "evaluate"), ("--out",)),
    "optimize": ("--journal", "--llm"),
    "release": ("--out",),
}
VERBS = {verb: summary for group in VERB_GROUPS.values() for verb, summary in group.items()}

BAR_VERBS = frozenset({"train", "evaluate", "predict"})  # their libraries draw progress bars on stderr


class ReaderLeft(Exception):
    """The reader of our output closed the pipe, for example `| head`. No OSError: those of pipes end click itself."""


@contextlib.contextmanager
def raise_reader_left() -> Iterator[None]:
    """Raises ReaderLeft for a closed pipe."""
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderLeft from error


class LazyGroup(click.Group):
    """Lists verbs from the table; imports a verb's module only when it is called."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with raise_reader_left():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """What the verb returns. Raises ReaderLeft where click would end with the exit code of a bug."""
        with raise_reader_left():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's command, imported only now, so that `--help` of all verbs loads nothing heavy. Raises
        UsageError for another name, with a verb that is near it."""
        if cmd_name not in VERBS:
            raise UsageError(f"no such verb: {cmd_name}", cause=suggest_name(cmd_name, VERBS), remedy="synth --help")
        command = importlib.import_module(f"hipsynth.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, VERBS))
        for title, group in VERB_GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(verb.ljust(width), summary) for verb, summary in group.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl(list(exit_code_rows()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="hipsynth")
def cli() -> None:
    """Profile, predict and improve GPU kernels without a GPU: the AMD machine code runs on the CPU,
    and what the hardware counts is counted.

    \b
    Examples:
      synth profile kernel.hip --arch gfx942
      synth profile matmul.py                         # a Python script with Triton kernels
      synth predict kernel.hip --why
      synth optimize kernel.hip --out faster.hip
      synth generate --count 100 --out programs
      synth profile programs --out corpus
    """


def main(argv: list[str] | None = None) -> None:
    """Entry point: the only place that prints errors and exits."""
    if argv is None:
        speak_utf8()
    args = sys.argv[1:] if argv is None else argv
    with contextlib.suppress(ValueError):  # signal handlers can only be set in the main thread
        signal.signal(signal.SIGTERM, handle_sigterm)
    terminal.prepare_streams(bars=bool(BAR_VERBS.intersection(args[:1])))
    try:
        code = cli.main(args=args, prog_name="synth", standalone_mode=False)
        sys.stdout.flush()
    except HipsynthError as error:
        exit_with_error(args, error)
    except click.exceptions.Abort:
        exit_interrupted(args)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()  # the help
        sys.exit(error.exit_code)
    except click.ClickException as error:
        exit_with_error(args, usage_error(error))
    except (BrokenPipeError, ReaderLeft):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        exit_with_error(args, unusable_file_error(error))
    except Exception as error:
        if isinstance(error, ImportError) and (missing := explain_import(error)):
            exit_with_error(args, missing)
        if os.environ.get("HIPSYNTH_TRACEBACK"):
            traceback.print_exc()
        exit_with_error(args, InternalError(error))
    sys.exit(code if isinstance(code, int) else 0)


def speak_utf8() -> None:
    """Starts this process again in Python's UTF-8 mode where the locale has another encoding: sources are UTF-8."""
    if sys.getfilesystemencoding().lower() != "utf-8":
        command = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONUTF8": "1"})


def unusable_file_error(error: OSError) -> BadInput:
    """The typed error for an error of the operating system."""
    if is_disk_full(error):
        remedy = "free some space; TMPDIR names another folder for temporary files"
        return BadInput("there is no space left for a file", cause=str(error), remedy=remedy, reason=Reason.DISK_FULL)
    return BadInput(
        f"{error.filename or 'a file or folder'} cannot be used",
        cause=error.strerror or str(error),
        remedy="check its path and rights; TMPDIR names the folder for temporary files",
    )


class InternalError(HipsynthError):
    """A bug in hipsynth (exit 1)."""

    reason = Reason.INTERNAL_ERROR

    def __init__(self, error: Exception) -> None:
        file, line = locate_defect(error)
        super().__init__(
            f"hipsynth itself failed: {type(error).__name__}: {error}",
            cause=f"a defect, seen at {file}:{line}",
            remedy="report it with the output that HIPSYNTH_TRACEBACK=1 adds",
        )


def wants_json(args: list[str]) -> bool:
    """True if --json is among the arguments before `--`; those after it belong to the program."""
    return "--json" in (args[: args.index("--")] if "--" in args else args)


def print_error(error: HipsynthError) -> None:
    """Prints the error as the JSON document that `--json` promises (docs/reference/schema/error.json), on standard
    output."""
    click.echo(json.dumps(to_json(ErrorDocument.of(error))))


def exit_with_error(args: list[str], error: HipsynthError) -> None:
    """Prints an error on stderr, with --json also as JSON on stdout, and exits with its code."""
    click.echo(terminal.printable_text(f"error: {error.describe()}"), err=True)
    try:
        if wants_json(args):
            print_error(error)
        sys.stdout.flush()
    except OSError:  # stdout cannot be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(error.exit_code)


def handle_sigterm(number: int, _frame: object) -> None:
    """SIGTERM acts like Ctrl-C: running work is stopped, finished work is kept."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stop_signal.remember_signal(number)
    raise KeyboardInterrupt


def exit_interrupted(args: list[str]) -> None:
    """Reports Ctrl-C or SIGTERM and exits with the shell's code for the signal (128 + its number)."""
    remedy = "run the same command again to go on" if keeps_finished_work(args) else ""
    if wants_json(args):
        print_error(HipsynthError("interrupted", remedy=remedy, reason=Reason.INTERRUPTED))
    click.echo(f"interrupted; finished work is kept: {remedy}" if remedy else "interrupted", err=True)
    sys.exit(stop_signal.exit_code())


def keeps_finished_work(args: list[str]) -> bool:
    """Whether the command goes on where it was when it is given again."""
    options = {word.partition("=")[0] for word in args[1:]}
    return bool(args) and not options.isdisjoint(RESUMED_BY.get(args[0], ()))


if __name__ == "__main__":
    main()
