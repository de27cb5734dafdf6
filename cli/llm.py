"""`synth llm`: programs written by a language model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hipsynth.cli.options import (
    FiniteRange,
    NamedPath,
    json_option,
    one_target_options,
    timeout_option,
    workers_option,
)
from hipsynth.cli.output import Progress, count_text, print_json
from hipsynth.core.errors import PartialFailure, UsageError

if TYPE_CHECKING:
    from hipsynth.synth.llm.collect import CollectionReport

FLAGS = "-O3"
TEMPERATURES = (0.2, 0.7, 1.0)


@click.command(
    epilog="""\b
Examples:
  synth llm --url http://127.0.0.1:8080/v1 --model local --out written
  synth llm --url https://api.openai.com/v1 --model NAME --api-key-env OPENAI_API_KEY \\
      --count 200 --rate 60 --price-in 0.15 --price-out 0.60 --out written
  synth llm --url http://127.0.0.1:8080/v1 --model local --problem saxpy --level tiled --out written --json
  synth profile written --out corpus
"""
)
@click.option("--url", "--endpoint", "url", required=True, help="Base URL of an OpenAI-compatible server.")
@click.option("--model", required=True, help="The model's name at that server.")
@click.option("--api-key-env", metavar="NAME", help="Environment variable with the API key.  [default: no key]")
@click.option("--out", type=NamedPath(file_okay=False, path_type=Path), required=True, help="Folder to write.")
@click.option(
    "--count",
    type=click.IntRange(1, 1_000_000),
    help="How many answers to ask for.  [default: each problem, level and temperature once]",
)
@click.option("--problem", "problems", multiple=True, help="Only this problem; repeatable.")
@click.option("--level", "levels", multiple=True, help="Only this optimisation level; repeatable.")
@click.option(
    "--temperature",
    "temperatures",
    type=FiniteRange(0, 2),
    multiple=True,
    default=TEMPERATURES,
    show_default=True,
    help="Sampling temperature; repeatable.",
)
@click.option(
    "--prompts",
    type=NamedPath(file_okay=False, exists=True, path_type=Path),
    help="Folder with other prompts.  [default: templates/llm]",
)
@click.option("--max-tokens", type=click.IntRange(1), default=4096, show_default=True, help="Most tokens of an answer.")
@click.option("--seed", type=click.IntRange(min=0), help="Ask the server for reproducible answers.")
@click.option("--at-once", type=click.IntRange(1, 256), default=4, show_default=True, help="Requests at a time.")
@click.option("--rate", type=FiniteRange(min=0), default=0.0, show_default="no limit", help="Requests per minute.")
@click.option("--retries", type=click.IntRange(0, 20), default=4, show_default=True, help="Repetitions of a request.")
@click.option("--wait", type=FiniteRange(0.1, 3600), default=300.0, show_default=True, help="Seconds for an answer.")
@click.option("--price-in", type=FiniteRange(min=0), default=0.0, help="Dollars per million tokens read.")
@click.option("--price-out", type=FiniteRange(min=0), default=0.0, help="Dollars per million tokens written.")
@one_target_options
@workers_option
@timeout_option
@json_option
def command(
    url: str,
    model: str,
    api_key_env: str | None,
    out: Path,
    count: int | None,
    problems: tuple[str, ...],
    levels: tuple[str, ...],
    temperatures: tuple[float, ...],
    prompts: Path | None,
    max_tokens: int,
    seed: int | None,
    at_once: int,
    rate: float,
    retries: int,
    wait: float,
    price_in: float,
    price_out: float,
    arch: str,
    device: str,
    workers: int,
    timeout: float,
    as_json: bool,
) -> int:
    """Ask a language model for programs, and keep those that work.

    Each problem is asked for at each optimisation level and temperature. Programs are compiled, run and profiled in the
    sandbox; those that do not compile, run, end with exit code 0 or launch a kernel are excluded and counted by reason.
    OUT holds the programs, all answers (answers.jsonl), the exclusions (excluded.jsonl) and report.json. After an
    interruption, run the same command again to continue; nothing is asked twice.
    """
    from hipsynth.profiling.matrix.targets import select_targets
    from hipsynth.simulator.limits import RunLimits
    from hipsynth.synth.llm.ask import RequestPolicy
    from hipsynth.synth.llm.collect import Prices, collect_programs
    from hipsynth.synth.llm.endpoint import Client
    from hipsynth.synth.llm.prompts import TEMPLATES, choose_rows, load_prompts, plan_requests

    (target,), _ = select_targets((arch,), (FLAGS,), (device,) if device else ())
    loaded = load_prompts(prompts or TEMPLATES)
    chosen = choose_rows(loaded, problems, levels)
    wanted = plan_requests(loaded, chosen, temperatures, model, count, most_tokens=max_tokens, seed=seed)
    client = Client(url, api_key(api_key_env, os.environ), wait)
    asking = Progress("ask", len(wanted))
    bars = [asking]

    def start_judging(total: int) -> Callable[[str], None]:
        asking.close()
        bars.append(Progress("try", total))
        return bars[-1].step

    report = collect_programs(
        wanted, client, out, target, RunLimits(time_s=timeout), manner=RequestPolicy(at_once, rate, retries),
        prices=Prices(price_in, price_out), workers=workers, on_answer=asking.step, start_judging=start_judging,
    )  # fmt: skip
    bars[-1].close()
    if as_json:
        print_json(report)
    else:
        _print_report(report)
    return PartialFailure.exit_code if report.failed or not report.programs else 0


def api_key(name: str | None, environment: Mapping[str, str]) -> str:
    """The key in the environment variable `name`, empty if no variable is named. Raises UsageError if it is not set."""
    if name is None:
        return ""
    if not (key := environment.get(name, "").strip()):
        raise UsageError(f"the environment variable {name} is not set", remedy=f"export {name}=KEY")
    return key


def _print_report(report: CollectionReport) -> None:
    answers = f"{report.answered} answers ({report.reused} kept from before)"
    click.echo(f"{count_text(report.programs, 'program')} in {report.out} of {answers}")
    for label, counts in (("excluded", report.excluded), ("no answer", report.failed)):
        for reason, number in counts.items():
            example = report.examples.get(reason, "").partition("\n")[0]
            click.echo(f"  {label}: {reason:16} {number}" + (f", e.g. {example}" if example else ""))
    if report.stopped:
        click.echo(f"asking ended early: {report.stopped}; run the same command again to go on", err=True)
    tokens = report.tokens
    unstated = f", {tokens['unstated']} answers without counts" if tokens["unstated"] else ""
    click.echo(f"tokens: {tokens['read']} read, {tokens['written']} written{unstated}; cost ${report.cost_usd:.4f}")
