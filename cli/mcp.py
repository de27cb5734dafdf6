"""`synth mcp`: the optimizer's tools for language models."""

from __future__ import annotations

import json
import os
import secrets
import sys
from pathlib import Path

import click

from hipsynth.cli.options import NamedPath, json_option, one_target_options
from hipsynth.cli.output import print_json
from hipsynth.core.errors import UsageError

EPILOG = """\b
Examples:
  synth mcp                                   # a client starts it: docs/how-to/models-with-tools.md
  synth mcp --arch gfx90a --journal work      # keep measurements between sessions
  HIPSYNTH_TOKEN=... synth mcp --http 8765    # at http://127.0.0.1:8765/mcp
  synth mcp --functions > tools.json          # the tools as OpenAI function definitions

Callers name programs that they sent or that a tool made, never files; programs run in the sandbox.
"""
LEAST_TOKEN = 16  # characters


@click.command(epilog=EPILOG)
@one_target_options
@click.option("--flags", default="-O3", show_default=True, help="Compiler flags.")
@click.option("--functions", is_flag=True, help="Only print the tools as OpenAI function definitions.")
@click.option("--http", "port", type=click.IntRange(0, 65535), help="Serve HTTP on loopback at this port; 0: any.")
@click.option("--calls", type=click.IntRange(min=1), help="Most calls in all.  [default: no limit]")
@click.option("--journal", type=NamedPath(file_okay=False, path_type=Path), help="Folder that keeps measurements.")
@json_option
def command(
    arch: str,
    device: str,
    flags: str,
    functions: bool,
    port: int | None,
    calls: int | None,
    journal: Path | None,
    as_json: bool,
) -> None:
    """Offer compile, profile, predict, compare, propose, apply and verify to a language model.

    Speaks the Model Context Protocol on standard input and output, or over HTTP, where each request needs the token in
    the environment variable HIPSYNTH_TOKEN; without one, a new token is printed. --json only describes the tools.
    """
    from hipsynth.tuning.tools import tool_definitions, tool_table
    from hipsynth.tuning.trial import target_of

    if as_json:
        print_json(tool_table())
        return
    if functions:
        click.echo(json.dumps(tool_definitions(), indent=1))
        return
    from hipsynth.toolchain import sandbox

    sandbox.require_sandbox()
    from hipsynth.serving.mcp.server import http_app, serve_stdio
    from hipsynth.serving.mcp.tool_calls import ToolProcess
    from hipsynth.serving.mcp.tool_worker import ToolSettings

    folder = str(journal.absolute()) if journal else ""
    settings = ToolSettings(target_of(arch, flags, device), calls or 0, folder)
    if port is None:
        if sys.stdin.isatty():
            click.echo("waiting for a client on standard input; Ctrl-C ends it", err=True)
        serve_stdio(settings)
        return
    import uvicorn

    from hipsynth.serving.connections import configure_server

    token = os.environ.get("HIPSYNTH_TOKEN") or secrets.token_urlsafe(32)
    if len(token) < LEAST_TOKEN or not token.isascii():
        raise UsageError("HIPSYNTH_TOKEN holds no usable token", remedy=f"at least {LEAST_TOKEN} ASCII characters")
    config = configure_server(http_app(ToolProcess(settings), token), host="127.0.0.1", port=port, log_level="warning")
    listening = config.bind_socket()
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    click.echo(json.dumps({"url": address} | ({} if os.environ.get("HIPSYNTH_TOKEN") else {"token": token})))
    sys.stdout.flush()
    uvicorn.Server(config).run([listening])
