"""`synth profile FOLDER --out CORPUS`: measures a folder of programs into a corpus."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hipsynth.cli.output import Progress, count_text, print_json
from hipsynth.core.errors import BadInput, PartialFailure
from hipsynth.core.reasons import Reason

if TYPE_CHECKING:
    from hipsynth.core.program import Program
    from hipsynth.profiling.backends.protocol import Target
    from hipsynth.profiling.matrix.collect import FailedItem, MatrixOptions, MatrixSummary
    from hipsynth.simulator.limits import RunLimits


MOST_NAMED = 8  # failed items of one reason


def profile_folder(
    path: Path,
    out: Path,
    wanted: Sequence[Target],
    excluded: Sequence[tuple[Target, str]],
    how: MatrixOptions,
    as_json: bool,
) -> int:
    """Measures a folder of programs into the corpus `out`, and prints a summary; returns the exit code.

    `excluded`: targets that are left out, and why. Raises BadInput if there are no programs."""
    from hipsynth.profiling.matrix.collect import ExcludedTarget, collect_matrix
    from hipsynth.synth.generate.problem_sizes import expected_output

    bars: list[Progress] = []
    unreadable: list[BadInput] = []

    def start(total: int) -> Callable[[str], None]:
        bars.append(Progress("profile", total))
        return bars[-1].step

    try:
        below = _programs_below(path, next((target.arch for target in wanted), ""), unreadable.append, how.limits)
        programs = (replace(program, oracle=expected_output) for program in below)
        summary = collect_matrix(programs, wanted, out, how, start)
    except BadInput as error:
        raise (unreadable[0] if error.reason == Reason.NO_PROGRAMS and unreadable else error) from None
    finally:
        for bar in bars:
            bar.close()
    summary.note_unreadable(unreadable)
    summary.excluded = [ExcludedTarget(cell.arch, cell.flags, cell.device, why) for cell, why in excluded]
    if as_json:
        print_json(summary)
    else:
        _print_summary(out, summary)
    return PartialFailure.exit_code if summary.failures else 0


def _programs_below(path: Path, arch: str, on_bad: Callable[[BadInput], None], limits: RunLimits) -> Iterator[Program]:
    """The programs of a folder: those of its index, else those that its build files define, else each *.hip file; and
    each Python file with Triton kernels."""
    from hipsynth.core.program import INDEX, iter_programs, iter_scripts
    from hipsynth.core.scratch import scratch_folder
    from hipsynth.profiling.survey.project import folder_programs, is_mixed
    from hipsynth.simulator.build import compile_limits

    if not arch or (path / INDEX).exists() or not is_mixed(path):
        return iter_programs(path, on_bad, scripts=True)
    scratch = click.get_current_context().with_resource(scratch_folder())
    of_build_files = folder_programs(path, arch, scratch, on_bad, compile_limits(limits))
    return itertools.chain(of_build_files, iter_scripts(path))


def _print_summary(out: Path, summary: MatrixSummary) -> None:
    items = f"{count_text(summary.programs, 'program')} x {count_text(summary.targets, 'target')}"
    failed = sum(summary.failed.values())
    click.echo(f"{out}: {items}: {summary.measured} measured, {summary.already_done} done before, {failed} failed")
    for row in summary.excluded:
        click.echo(f"  excluded {row.arch} {row.flags}: {row.reason}")
    for note in summary.notes:
        click.echo(f"note: {note}", err=True)
    for part in summary.repaired:
        click.echo(f"  dropped the damaged {part}")
    for reason, count in summary.failed.items():
        failures = [item for item in summary.failures if item.reason == reason]
        click.echo(f"  {count} x {reason}: {', '.join(map(_name_failed_item, failures[:MOST_NAMED]))}"
                   + (", ..." if count > MOST_NAMED else ""))  # fmt: skip
        for line in _choose_lines(failures[0]):
            click.echo(f"    {line}", err=True)


def _choose_lines(item: FailedItem) -> list[str]:
    """The lines of a failure's message that say most: the first one, and the compiler's first error."""
    lines = item.message.splitlines()
    if not item.program:
        return lines
    errors = [line for line in lines[1:] if "error:" in line]
    return [*lines[:1], *errors[:1]] or ["--retry-failed tries them again"]


def _name_failed_item(item: FailedItem) -> str:
    """Names the failed item; a program that could not be read has no target."""
    return f"{item.name or item.program} on {item.arch} {item.flags}" if item.program else item.name
