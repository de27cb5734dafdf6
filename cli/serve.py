"""`synth serve`: predictions and profiles over HTTP on this machine, and the workbench page."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hipsynth.cli.options import FiniteRange, NamedPath, json_option, workers_option
from hipsynth.core.errors import BadInput

if TYPE_CHECKING:
    from hipsynth.serving.lifecycle import Address

EPILOG = """\b
Examples:
  synth serve --open                       # the workbench in the browser
  synth serve --port 0 --json              # for other programs: {"url", "token"} on one line once it listens
  synth serve --model out/model            # also answers /v1/chat/completions

The server listens on loopback only, and every request but /healthz needs the token of the printed link. From another
machine: ssh -L 8765:127.0.0.1:8765 HOST. It ends at Ctrl-C or SIGTERM.
"""


@click.command(epilog=EPILOG)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="TCP port; 0 picks a free one."
)
@click.option("--open", "open_page", is_flag=True, help="Open the workbench in the browser.")
@click.option("--model", type=NamedPath(file_okay=False, path_type=Path), help="Folder of a trained language model.")
@workers_option
@click.option(
    "--timeout",
    type=FiniteRange(min=0.1, max=86400),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="The most processor time of an executed program.",
)
@click.option("--quiet", is_flag=True, help="No access log on stderr.")
@json_option
def command(
    port: int, open_page: bool, model: Path | None, workers: int, timeout: float, quiet: bool, as_json: bool
) -> None:
    """Serve predictions, profiles and comparisons over HTTP, and the workbench page.

    Predictions are made in --workers processes, programs are executed in one more. With --json the document is
    {"url", "token"}, on one line, once the server listens.
    """
    if model is not None:
        from hipsynth.training.models.model_record import model_record

        if model_record(model) is None:
            raise BadInput(f"{model}: no finished model there", remedy="run `synth train`, or drop --model")
    from hipsynth.serving.lifecycle import log_to_stderr, serve_until_stopped
    from hipsynth.serving.limits import ServerSettings

    if not quiet:
        log_to_stderr()

    def say(address: Address) -> None:
        if as_json:
            click.echo(json.dumps({"url": address.url, "token": address.token}))
        else:
            click.echo(f"The workbench: {address.link}\nEnd with Ctrl-C.")
        if open_page:
            webbrowser.open(address.link)

    serve_until_stopped(port, ServerSettings(predictors=workers, execute_s=timeout, model=model), say)
