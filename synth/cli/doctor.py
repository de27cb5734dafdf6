"""`synth doctor`: what is installed, what is missing, and what that costs."""

from __future__ import annotations

from dataclasses import asdict

import click

from synth.cli.common import json_option, print_json

EXIT_MISSING = 4


@click.command()
@click.option("--check", is_flag=True, help="Also compile a kernel with each header family (a few seconds).")
@json_option
@click.pass_context
def command(context: click.Context, check: bool, as_json: bool) -> None:
    """List every component, its version, and what each missing one costs.

    Exits with 4 when something that the default path needs is missing.

    \b
    Examples:
      synth doctor
      synth doctor --check
      synth doctor --json
    """
    from profiling import health

    components = health.examine(compile_headers=check)
    lacking = health.missing_required(components)
    if as_json:
        print_json({"ok": not lacking, "components": [asdict(component) for component in components]})
    else:
        _print_table(components)
        click.echo()
        if lacking:
            click.echo(f"{len(lacking)} required part(s) missing: " + ", ".join(part.name for part in lacking))
        else:
            click.echo("everything that the default path needs is there")
    if lacking:
        context.exit(EXIT_MISSING)


def _print_table(components: list) -> None:  # type: ignore[type-arg]
    group = ""
    for part in components:
        if part.group != group:
            group = part.group
            click.echo(click.style(group, bold=True))
        mark = {"ok": "ok", "missing": "--", "broken": "!!"}[part.status]
        color = "green" if part.status == "ok" else "red" if part.required else "yellow"
        click.echo(f"  {click.style(mark, fg=color)}  {part.name:<20} {part.version}".rstrip())
        if part.status != "ok":
            click.echo(f"      {part.status}: {part.cost}")
            click.echo(f"      try: {part.remedy}")
