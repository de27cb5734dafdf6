"""Writes docs/reference/cli.md from the commands themselves: `python -m hipsynth.cli.reference [--check]`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from hipsynth.cli.exit_codes import OTHERWISE, exit_code_rows
from hipsynth.cli.main import VERBS, cli
from hipsynth.core.cache import REPOSITORY

PAGE = REPOSITORY / "docs" / "reference" / "cli.md"
INTRODUCTION = """# Command line

Generated from the commands by `python -m hipsynth.cli.reference`; do not edit. `synth VERB --help` shows
examples.

With `--json`, every verb prints exactly one JSON document on stdout; only variants of `predict` (`--sweep`,
`--variants`) are a document a line. An error is a document with the keys `error`, `message`, `cause`, `remedy`, and
`diagnostics` if a compiler gave them. `synth profile` prints its own document even where every target failed: a
failed result has `status`, `reason`, `message`, `remedy`, and the compiler's `diagnostics`. Progress is shown on
stderr: on a terminal at once, else a line a minute. Write values that begin with a dash as `--flags=-O3`.

`synth predict` answers code that does not compile, with exit code 0: `source` says what the figures are of
(`completed`, `last_compiled` or `text`; else `program`), and the first notes what the compiler says.

"""


def render_page() -> str:
    """The page as Markdown."""
    return INTRODUCTION + "\n".join(_page_lines()) + "\n"


def _page_lines() -> Iterator[str]:
    yield from ("| exit code | meaning |", "|---|---|")
    yield from (f"| {code} | {meaning} |" for code, meaning in exit_code_rows())
    yield from ("", OTHERWISE)
    context = click.Context(cli)
    for verb, summary in VERBS.items():
        command = cli.get_command(context, verb)
        assert command is not None
        yield from ("", f"## synth {verb}", "", summary)
        if not isinstance(command, click.Group):
            yield from _option_lines(verb, command, context)
            continue
        for name, part in command.commands.items():
            yield from ("", f"### synth {verb} {name}", "", part.get_short_help_str(200))
            yield from _option_lines(f"{verb} {name}", part, context)


def _option_lines(verb: str, command: click.Command, context: click.Context) -> Iterator[str]:
    """How a command is called, and the table of its options."""
    arguments = [p.make_metavar(context) for p in command.params if isinstance(p, click.Argument)]
    yield from ("", f"    {' '.join(['synth', verb, '[OPTIONS]', *arguments])}")
    yield from ("", "| option | meaning | default |", "|---|---|---|")
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    yield from (_option_row(option, context) for option in options)


def _option_row(option: click.Option, context: click.Context) -> str:
    names = ", ".join(option.opts) + "".join(f"/{name}" for name in option.secondary_opts)
    metavar = option.make_metavar(context)
    value = "" if option.is_flag else f" {'N' if metavar.endswith(' RANGE') else metavar}"
    meaning, _, stated = (option.help or "").partition("[default: ")
    cells = (f"`{names}{value}`", meaning, stated.rstrip("]") or _default_text(option))
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def _default_text(option: click.Option) -> str:
    if option.required:
        return "required"
    if isinstance(option.show_default, str):
        return option.show_default
    if option.is_flag or option.default in (None, "", ()) or not option.show_default:
        return ""
    return str(option.default)


def main(arguments: list[str]) -> int:
    """Writes the page; with --check only compares it, and returns 1 if it is stale."""
    if "--check" in arguments:
        fresh = PAGE.exists() and PAGE.read_text() == render_page()
        print("fresh" if fresh else f"{PAGE} is stale: run python -m hipsynth.cli.reference")
        return 0 if fresh else 1
    PAGE.write_text(render_page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
