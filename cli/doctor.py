"""`synth doctor`: what is installed, what is missing, and what does not work without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from hipsynth.cli.options import json_option
from hipsynth.cli.output import print_json
from hipsynth.core.errors import MissingDependency

if TYPE_CHECKING:
    from hipsynth.cli.doctor_checks import Component

EPILOG = """\b
Examples:
  synth doctor
  synth doctor --check
  synth doctor --json
"""


@click.command(epilog=EPILOG)
@click.option("--check", is_flag=True, help="Also compile a kernel with each header family (a few seconds).")
@json_option
def command(check: bool, as_json: bool) -> int:
    """List every component with its version, and what does not work without the missing ones.

    Exits with 4 if a component that the default workflow requires is missing.
    """
    from hipsynth.cli import doctor_checks

    components = doctor_checks.examine_components(compile_headers=check)
    lacking = doctor_checks.missing_required(components)
    if as_json:
        print_json(doctor_checks.DoctorDocument(not lacking, tuple(components)))
    else:
        _print_table(components)
        click.echo()
        if lacking:
            click.echo(f"{len(lacking)} required part(s) missing: " + ", ".join(part.name for part in lacking))
        else:
            click.echo("everything that the default path needs is there")
    return MissingDependency.exit_code if lacking else 0


def _print_table(components: Sequence[Component]) -> None:
    from hipsynth.cli.doctor_checks import ComponentStatus

    marks = {ComponentStatus.OK: "ok", ComponentStatus.MISSING: "--", ComponentStatus.BROKEN: "!!"}
    group = ""
    for part in components:
        if part.group != group:
            group = part.group
            click.echo(group)
        click.echo(f"  {marks[part.status]}  {part.name:<20} {part.version}".rstrip())
        if part.status != ComponentStatus.OK:
            click.echo(f"      {part.status}: {part.cost}")
            click.echo(f"      try: {part.remedy}")
