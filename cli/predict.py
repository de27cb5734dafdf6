"""`synth predict`: predict the metrics of every kernel of a HIP file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hipsynth.cli.options import (
    NamedPath,
    ShapeType,
    arch_option,
    device_option,
    json_option,
    parse_values,
    timeout_of,
)
from hipsynth.cli.output import StatusLine, print_json
from hipsynth.cli.programs import ProgramCommand, define_option, include_option, note_no_level, split_argv
from hipsynth.core.documents import to_json
from hipsynth.core.errors import BadInput, CompileFailed, PartialFailure, UsageError
from hipsynth.library.arguments import with_defines

if TYPE_CHECKING:
    from hipsynth.core.program import Program
    from hipsynth.training.analytic.batch import Variant
    from hipsynth.training.analytic.predict import AnalyticPredictor, LaunchAssumptions
    from hipsynth.training.models.documents import (
        FailedExecution,
        KernelPrediction,
        PredictDocument,
        PredictionResult,
        SimulatedKernel,
    )
_PROGRAM_WORD = re.compile(r"arg\d+")
EPILOG = """\b
Examples:
  synth predict kernel.hip --arch gfx942 --flags "-O3 -ffast-math"
  synth predict gemm.hip --check -- 4096
  synth predict kernel.hip --grid 4096 --block 256 --value n=1048576
  synth predict kernel.hip --sweep arg1=1024:1048576:2 --sweep block=64,128,256
  synth predict kernel.hip --arch gfx90a --arch gfx942 --model out/model --json
  synth predict kernel.hip --arch gfx942 --tools
  synth predict matmul.py --arch gfx942 -- 4096

Code that does not compile is answered too: the first note says so, and what the figures are of.

Exit codes: 0 ok, 2 usage, 3 bad input or no answer, 4 toolchain missing, 5 a kernel has no answer. Figures that are
marked "not reliable" are an answer (`abstained` in JSON); --defer executes the program where there are such.
"""


DEFAULT_FLAGS = ("-O3",)


@click.command(cls=ProgramCommand, epilog=EPILOG)
@click.argument("file", type=NamedPath(readable=False, path_type=Path))
@click.argument("arguments", nargs=-1, metavar="[-- ARGS...]")
@arch_option()
@device_option
@click.option(
    "--flags", multiple=True, default=DEFAULT_FLAGS, show_default="-O3", help="Compiler flags, quoted; repeatable."
)
@define_option
@include_option
@click.option("--grid", type=ShapeType(), help="Work-groups of each launch, in place of the host code's.")
@click.option("--block", type=ShapeType(), help="Work-items of a work-group, in place of the host code's.")
@click.option(
    "--value", "values", multiple=True, metavar="NAME=N", help="An argument of the kernels, by name; repeatable."
)
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="NAME=RANGE",
    help="Predict every combination of values: START:STOP:FACTOR, START:STOP:+STEP or a list (of shapes: 64,16x16). "
    "NAME is grid, block, arg1 (the first word of ARGS) or an argument of the kernels; repeatable.",
)
@click.option(
    "--variants", "listed", type=NamedPath(path_type=Path), help="Predict the variants of a file of JSON lines."
)
@click.option("--why", is_flag=True, help="Show the facts behind each prediction.")
@click.option("--check", is_flag=True, help="Also execute the program in the simulator, and show both.")
@click.option("--defer", is_flag=True, help="Execute the program where the prediction is unsure.")
@click.option("--model", type=NamedPath(path_type=Path), help="Model folder.  [default: the shipped predictor]")
@click.option("--tools", is_flag=True, help="Ask the shipped language model, which decides what to preview or execute.")
@timeout_of("Seconds of processor time for all predictions together, compilers included.")
@json_option
def command(
    file: Path,
    arguments: tuple[str, ...],
    archs: tuple[str, ...],
    devices: tuple[str, ...],
    flags: tuple[str, ...],
    defines: tuple[str, ...],
    includes: tuple[str, ...],
    grid: tuple[int, int, int] | None,
    block: tuple[int, int, int] | None,
    values: tuple[str, ...],
    sweeps: tuple[str, ...],
    listed: Path | None,
    why: bool,
    check: bool,
    defer: bool,
    model: Path | None,
    tools: bool,
    timeout: float,
    as_json: bool,
) -> int:
    """Predict the metrics of the kernels in FILE without executing them as a whole.

    The default predictor compiles the program, runs its host code to learn the launches, interprets a sample of
    work-groups, and corrects the result by what labels taught. A language model (`--model`) reads the source alone, or
    calls tools where it was trained to. ARGS after `--` are the program's command line. FILE is a single source
    file. Of a Python script, the Triton kernels that it launches are predicted.
    """
    from hipsynth.core.time_limit import processor_time_limit
    from hipsynth.library.predict import open_analytic, predict_completed, read_question
    from hipsynth.profiling.matrix.targets import resolve_devices
    from hipsynth.source.harness import HOW_TO_CHOOSE, lacks_main
    from hipsynth.training.analytic.predict import LaunchAssumptions, is_analytic
    from hipsynth.training.models.model_record import check_model_path

    check_model_path(model)
    if tools and model is not None:
        raise UsageError("--tools asks the shipped model", remedy="drop --tools, or --model")
    hip_only = {"--grid": grid, "--block": block, "--value": values, "--sweep": sweeps, "--variants": listed,
                "-D": defines, "-I": includes}  # fmt: skip
    is_text_model = tools or (model is not None and not is_analytic(model))
    check_hip_options(file, flags, hip_only, is_text_model)
    arguments = split_arguments(file, arguments)
    model = _shipped_agent() if tools else model
    program, question = read_question(file, arguments, grid, block, parse_values(values), includes)
    targets = resolve_devices(archs, devices)
    flags = _check_builds(flags, defines)
    questions = [(arch, flag_text, device) for arch, device in targets for flag_text in flags]
    check_swept_names(program.text, question, sweeps)
    if lacks_main(program.text) and not (is_text_model or arguments or grid or block or values or sweeps or listed):
        click.echo(f"note: {HOW_TO_CHOOSE}", err=True)
    if sweeps or listed is not None:
        if check or defer or why or (model is not None and not is_analytic(model)) or (sweeps and listed is not None):
            raise UsageError("variants are predicted by the default predictor alone", remedy="drop the other options")
        variants = _list_variants(questions, question, sweeps, listed, defines)
        with processor_time_limit(timeout):
            try:
                return _predict_variants(program, variants, open_analytic(model), as_json)
            except CompileFailed as failure:
                raise failure.name_source(file.name) from None
    if model is not None and not is_analytic(model):
        if check or defer or why or question != LaunchAssumptions(project=question.project):
            raise UsageError("a language model decides itself what it looks at", remedy="drop the other options")
        with processor_time_limit(timeout):
            return _source_model(program, file, questions, model, as_json)
    predictor = open_analytic(model)
    execute = "always" if check else "unsure" if defer else "never"
    with StatusLine(f"predicting {file.name}"):
        document = predict_completed(program, str(file), questions, question, predictor, execute, timeout)
    return _print_answers(document, why, as_json)


def split_arguments(file: Path, words: Sequence[str]) -> tuple[str, ...]:
    """The program's arguments: the words behind the file, and those behind `--`. Raises UsageError for further source
    files, which are no arguments."""
    (_, *others), arguments = split_argv((str(file), *words))
    if others:
        problem = f"{others[0]}: synth predict takes one file, {file}"
        raise UsageError(problem, remedy="predict each file by itself; words for the program go after --")
    return arguments


def check_swept_names(text: str, question: LaunchAssumptions, sweeps: Sequence[str]) -> None:
    """Raises UsageError for values, and for names of sweeps, that no kernel has as an argument; the words of the
    command line (`arg1`) may be swept if a main() reads them."""
    from hipsynth.source.harness import check_argument_names, lacks_main

    swept = {sweep.partition("=")[0].strip() for sweep in sweeps} - {"grid", "block"}
    if sweeps and lacks_main(text):
        if question.arguments:
            problem = "variants of kernels without main() take no arguments after --"
            raise UsageError(problem, remedy="name them: --value n=4096")
        check_argument_names(text, [*question.values, *swept])
    check_argument_names(text, [*question.values, *(name for name in swept if not _PROGRAM_WORD.fullmatch(name))])


def _print_answers(document: PredictDocument, why: bool, as_json: bool) -> int:
    if as_json:
        print_json(document)
    else:
        click.echo("\n\n".join(prediction_text(result, why) for result in document.results))
    return report_unanswered([(result.kernels, result.executed or ()) for result in document.results])


def report_unanswered(
    answers: Sequence[tuple[Sequence[KernelPrediction], Sequence[SimulatedKernel | FailedExecution]]],
) -> int:
    """Says on stderr how many kernels have no answer, of several (predictions, what was executed). Returns the exit
    code: 0 if all have one and what was to be executed was, 3 if no kernel has one, else 5. A prediction that abstains
    but has figures, marked as such, is an answer."""
    from hipsynth.training.analytic.prediction_text import find_unanswered
    from hipsynth.training.models.documents import FailedExecution

    kernels = [kernel for predicted, _ in answers for kernel in predicted]
    unanswered = [kernel for predicted, executed in answers for kernel in find_unanswered(predicted, executed)]
    is_failed = any(isinstance(row, FailedExecution) for _, executed in answers for row in executed)
    if len(unanswered) == len(kernels):
        click.echo("error: no kernel has an answer; above it says why", err=True)
        return BadInput.exit_code
    if unanswered:
        click.echo(f"partial: {len(unanswered)} of {len(kernels)} kernels have no answer", err=True)
    return PartialFailure.exit_code if unanswered or is_failed else 0


def _check_builds(flags: tuple[str, ...], defines: tuple[str, ...]) -> tuple[str, ...]:
    """The flag sets with the macros. Raises UsageError for a flag that is not allowed."""
    from hipsynth.toolchain import check_flags

    note_no_level(flags)
    with_macros = tuple(with_defines(flag_text, defines) for flag_text in flags)
    for flag_text in with_macros:
        check_flags(flag_text)
    return with_macros


def check_hip_options(file: Path, flags: tuple[str, ...], options: Mapping[str, object], is_text_model: bool) -> None:
    """Raises UsageError if an option that is for HIP programs was given for a script."""
    from hipsynth.library.programs import check_hip_only

    more = {"--flags": flags != DEFAULT_FLAGS, "--tools and language models": is_text_model}
    check_hip_only(file, {**{name: bool(value) for name, value in options.items()}, **more})


def _shipped_agent() -> Path:
    from hipsynth.tuning.prediction.agent import SHIPPED_AGENT

    return SHIPPED_AGENT


def _list_variants(
    builds: list[tuple[str, str, str]],
    question: LaunchAssumptions,
    sweeps: tuple[str, ...],
    listed: Path | None,
    defines: Sequence[str],
) -> list[Variant]:
    """The variants of the sweeps or of a file, whose flags get the macros. Raises UsageError, BadInput."""
    from hipsynth.training.analytic.variants import from_file, sweep_variants

    if listed is None:
        return sweep_variants(sweeps, builds, question)
    return from_file(listed, builds, question, lambda flags: with_defines(flags, defines))


def _predict_variants(
    program: Program, variants: Sequence[Variant], predictor: AnalyticPredictor, as_json: bool
) -> int:
    from hipsynth.training.analytic.batch import predict_variants
    from hipsynth.training.analytic.prediction_text import variant_lines

    answers = [answer.document() for answer in predict_variants(predictor, program.text, variants)]
    if as_json:
        for answer in answers:
            click.echo(json.dumps(to_json(answer)))
    else:
        click.echo("\n".join(variant_lines(answers)))
    return report_unanswered([(answer.kernels, ()) for answer in answers])


def _source_model(program: Program, file: Path, targets: list[tuple[str, str, str]], model: Path, as_json: bool) -> int:
    from hipsynth.profiling.backends.protocol import Target
    from hipsynth.training.analytic.documents import document_of
    from hipsynth.training.models.model_record import model_record
    from hipsynth.training.models.predict import Predictor, prediction_table
    from hipsynth.tuning.prediction.agent import PredictionAgent
    from hipsynth.tuning.prediction.live import predict_program
    from hipsynth.tuning.prediction.train import TASK

    record = model_record(model)
    if record is not None and record.get("task") == TASK:
        agent = PredictionAgent.load(model)
        questions = [Target(arch, flag_text, device) for arch, flag_text, device in targets]
        answers = [predict_program(agent, model, program, target) for target in questions]
    else:
        predictor = Predictor.load(model)
        answers = [predictor.predict(program.text, arch, flag_text, device) for arch, flag_text, device in targets]
    results = [prediction.document() for prediction in answers]
    if as_json:
        print_json(document_of(program, str(file), model, results))
    else:
        click.echo("\n\n".join(prediction_table(prediction) for prediction in answers))
    return report_unanswered([(result.kernels, ()) for result in results])


def prediction_text(result: PredictionResult, why: bool) -> str:
    """What `synth predict` prints for one target; with `why`, also how each figure came about."""
    from hipsynth.training.analytic.prediction_text import prediction_lines

    return "\n".join(prediction_lines(result, why))
