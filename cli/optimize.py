"""`synth optimize`: rewrites a program to be faster, and verifies that its results are the same."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hipsynth.cli.options import (
    Duration,
    NamedPath,
    check_args_option,
    json_option,
    one_target_options,
    refuse_options,
    typed_options,
)
from hipsynth.cli.output import print_json, say_if_replaced
from hipsynth.cli.programs import define_option, include_option, split_run_arguments
from hipsynth.core.errors import UsageError
from hipsynth.library.arguments import with_defines
from hipsynth.tuning.optimize.documents import SearchStatus

if TYPE_CHECKING:
    from hipsynth.tuning.agent.agent_loop import AgentSettings
    from hipsynth.tuning.optimize.documents import ModelRun
    from hipsynth.tuning.optimize.optimize import OptimizeRequest, OptimizeResult

EPILOG = """\b
Examples:
  synth optimize gemm.hip --arch gfx942
  synth optimize gemm.hip --arch gfx90a --budget 2m --out faster.hip
  synth optimize gemm.hip --check-args 96 --check-args 100 -- 2048
  synth optimize gemm.hip --journal work/gemm
  synth optimize gemm.hip --llm http://127.0.0.1:8080/v1 --model local --trace work/gemm.jsonl
  synth optimize gemm.hip --json
  synth optimize matmul.py --arch gfx942 -- 1024

Every candidate is compiled, executed and timed by the simulator. What is kept is compared with the original at small
sizes, where every work-group runs: its own inputs, inputs drawn again, poisoned memory, other sizes. The patched
program is written to --out, by default NAME.optimized.hip in this folder, and nothing else is changed.

The budget is in seconds at fixed prices, so the same command finds the same program on every machine that keeps up with
them; on a slower one, the answer is there after 1.2 times the budget, or after --clock, and says that the clock ended
the search. The speed-up is also given at other shapes of the problem. With --journal, what was measured is kept in that
folder, and an interrupted search goes on where it was.

In a Python script with Triton kernels, the numbers that set meta-parameters change (blocks, num_warps, num_stages,
waves_per_eu, matrix_instr_nonkdim) where they are written, and the order of programs.

Kernels without main() get one, made from their signatures; the patched program has it, too. Headers that lie beside
FILE or in a folder of -I are found; one that is changed is written into the patched program.

With --llm, a language model drives the tools of `synth mcp` instead; what it finds is verified in the same way. Its run
is kept in --trace, and the same command goes on with it.
"""
ANSWER_S = 300.0  # of one answer
DEFAULT_FLAGS = "-O3"
MODEL_OPTIONS = "--api-key-env", "--calls", "--tokens"  # besides --model and --trace
MODEL_S = 900.0  # of a model's run, where --clock is not given


@click.command(epilog=EPILOG)
@click.argument("file", type=NamedPath(path_type=Path), metavar="FILE")
@click.argument("arguments", nargs=-1, metavar="[-- ARGS...]")
@one_target_options
@click.option("--flags", default=DEFAULT_FLAGS, show_default=True, help="Compiler flags.")
@include_option
@define_option
@click.option(
    "--budget", type=Duration(1.0, 24 * 3600.0), default=60.0, show_default="60s", metavar="30s|2m",
    help="Work of the search, in seconds at fixed prices.",
)  # fmt: skip
@click.option(
    "--clock", type=Duration(1.0, 24 * 3600.0), default=0.0, metavar="30s|2m",
    show_default=f"1.2 times the budget; with --llm, {MODEL_S / 60:.0f}m",
    help="Longest time on the clock: of the search, or of the model's run.",
)  # fmt: skip
@check_args_option("Arguments of a small run to verify; repeatable.")
@click.option(
    "--allow", "allowed", multiple=True, type=click.Choice(["fast-math"]), help="Changes of results; repeatable."
)
@click.option("--llm", "url", metavar="URL", help="Base URL of an OpenAI-compatible server whose model is to optimize.")
@click.option("--model", default="", help="The model's name at that server.")
@click.option("--api-key-env", metavar="NAME", help="Environment variable with the API key.  [default: no key]")
@click.option(
    "--trace",
    type=NamedPath(dir_okay=False, path_type=Path),
    help="Where the model's run is kept.  [default: NAME.trace.jsonl]",
)
@click.option("--calls", type=click.IntRange(1, 10_000), default=40, show_default=True, help="Most calls of tools.")
@click.option(
    "--tokens", type=click.IntRange(1), default=200_000, show_default=True, help="Most tokens that the model may use."
)
@click.option("--journal", type=NamedPath(file_okay=False, path_type=Path), help="Folder that keeps measurements.")
@click.option("--out", type=NamedPath(dir_okay=False, path_type=Path), help="Where to write the patched program.")
@json_option
def command(
    file: Path,
    arguments: tuple[str, ...],
    arch: str,
    device: str,
    flags: str,
    includes: tuple[str, ...],
    defines: tuple[str, ...],
    budget: float,
    clock: float,
    check_args: tuple[str, ...],
    allowed: tuple[str, ...],
    url: str | None,
    model: str,
    api_key_env: str | None,
    trace: Path | None,
    calls: int,
    tokens: int,
    journal: Path | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Search for source changes that make a HIP program's kernels faster, and verify them.

    ARGS after `--` are the program's arguments in the runs that are timed.
    """
    from hipsynth.library.harness import name_messages, read_runnable
    from hipsynth.library.optimize import choose_output, search_script
    from hipsynth.library.programs import check_hip_only, has_script_suffix
    from hipsynth.toolchain import sandbox
    from hipsynth.tuning.optimize.optimize import OptimizeRequest, optimize_program
    from hipsynth.tuning.optimize.scripts.optimize_script import ScriptRequest
    from hipsynth.tuning.trial import target_of

    sandbox.require_sandbox()
    say_if_replaced(choose_output(file, out, includes))
    has_flags, flags = flags != DEFAULT_FLAGS, with_defines(flags, defines)
    target, sizes = target_of(arch, flags, device), [split_run_arguments("--check-args", check) for check in check_args]
    say: Callable[[str], None] = (lambda line: None) if as_json else click.echo
    if has_script_suffix(file):
        options = {"--flags": has_flags, "--allow": bool(allowed), "--llm": url is not None,
                   "--journal": journal is not None, "--trace": trace is not None, "--model": bool(model),
                   **dict.fromkeys(typed_options(*MODEL_OPTIONS), True), "-I": bool(includes),
                   "-D": bool(defines)}  # fmt: skip
        check_hip_only(file, options)
        question = ScriptRequest(target, arguments, tuple(sizes), budget, clock)
        return print_answer(search_script(file, question, say), file, (arch, ""), out, as_json)
    if url is None:
        if model or trace:
            raise UsageError("--model and --trace belong to --llm", remedy="give --llm URL, too")
        refuse_options(MODEL_OPTIONS, "belongs to --llm", "give --llm URL, too")
    text, notes = read_runnable(file, target, includes)
    for note in notes:
        click.echo(f"note: {note}", err=True)
    request = OptimizeRequest(text, target, budget, arguments, sizes, journal, clock, frozenset(allowed))
    about = None
    if url is None:
        with name_messages(file, text):
            outcome = optimize_program(request, say)
    else:
        from hipsynth.tuning.agent.agent_loop import AgentSettings

        manner = AgentSettings(model, calls, tokens, clock or MODEL_S)
        where = trace or Path(f"{file.stem}.trace.jsonl")
        with name_messages(file, text):
            outcome, about = drive_model(request, url, api_key_env, manner, where, say)
    return print_answer(outcome, file, (arch, flags), out, as_json, about)


def print_answer(
    outcome: OptimizeResult,
    file: Path,
    target: tuple[str, str],
    out: Path | None,
    as_json: bool,
    about: ModelRun | None = None,
) -> int:
    """Writes a faster program and prints the answer; `target`: architecture and flags, `about`: the model's run.
    Returns the exit code."""
    from hipsynth.core.errors import BadInput
    from hipsynth.library.optimize import diff_files, write_optimized
    from hipsynth.tuning.optimize.document_text import optimization_text

    patched = write_optimized(outcome, file, out)
    difference = diff_files(file, patched) if patched else ""
    document = outcome.document(file, *target, patched, about)
    if as_json:
        print_json(document)
    else:
        click.echo(optimization_text(document, difference))
        if about:
            click.echo(f"the model's run: {about.ended}, {about.calls} calls, {about.failed_calls} failed")
    return BadInput.exit_code if outcome.status == SearchStatus.REFUSED else 0


def drive_model(
    request: OptimizeRequest,
    url: str,
    key_env: str | None,
    manner: AgentSettings,
    trace: Path,
    say: Callable[[str], None],
) -> tuple[OptimizeResult, ModelRun]:
    """Lets a language model drive the tools; returns its verified result and the resources that the run used."""
    from hipsynth.cli.llm import api_key
    from hipsynth.synth.llm.endpoint import Client
    from hipsynth.tuning.agent.agent_loop import drive_model

    if not manner.model:
        raise UsageError("--llm needs a model", remedy="--model NAME, as the server calls it")
    outcome = drive_model(request, Client(url, api_key(key_env, os.environ), ANSWER_S), manner, trace, say)
    return outcome.found, outcome.document(manner.model, trace)
