"""Handlers of worker processes: take a request as JSON and return the verb's document. Independent of HTTP.

The predictors are imported when they are needed: a worker that only executes programs starts in half the time.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput, UsageError, suggest_name
from hipsynth.core.program import Program, ProgramRun, Project, SourceFile
from hipsynth.core.scratch import KeepFolder
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.matrix.job import MatrixJob, open_backend, run_job
from hipsynth.profiling.matrix.without_main import complete_project, name_original, needs_smaller_sizes, refuse_choices
from hipsynth.profiling.reports.describe import profile_document
from hipsynth.profiling.reports.documents import ProfileDocument
from hipsynth.serving.limits import MOST_KERNELS
from hipsynth.serving.requests import BuildRequest, ChatRequest, ProgramRequest, SearchRequest, VerificationRequest
from hipsynth.simulator.devices import device_of
from hipsynth.simulator.limits import RunLimits
from hipsynth.source.harness import (
    HarnessChoices,
    add_harness,
    check_argument_names,
    complete_text,
    ensure_main,
    lacks_main,
)
from hipsynth.source.outline import count_kernel_marks
from hipsynth.toolchain import check_flags, sandbox

if TYPE_CHECKING:
    from hipsynth.serving.documents import ChatAnswer, ImprovedProgram, Prepared
    from hipsynth.training.analytic.predict import AnalyticPredictor
    from hipsynth.training.models.documents import PredictDocument
    from hipsynth.tuning.optimize.documents import VerifyDocument

ReportProgress = Callable[[str], None]
WARM = "#include <hip/hip_runtime.h>\n__global__ void warm%d(float* a) { a[threadIdx.x] = 0; }\n"


@functools.cache
def load_predictor() -> AnalyticPredictor:
    """The shipped predictor. Imported late, as it takes tenths of a second to load."""
    from hipsynth.training.analytic.predict import AnalyticPredictor

    return AnalyticPredictor.load()


def target_of(request: BuildRequest) -> Target:
    """The target of a request. Raises UsageError for an unknown architecture, device or flag, and for flags that name
    files: a request is one text, and reads nothing of this machine but the toolchain."""
    device = device_of(request.arch, request.device)
    return Target(request.arch, check_flags(request.flags), device.name)


def program_of(request: ProgramRequest) -> Program:
    """Raises BadInput for a text with too many kernels."""
    _check_kernel_count(request.source)
    path = Path(request.path) if request.path else None
    project = Project((SourceFile(path),), path.parent) if path else None
    name = Path(request.name).stem
    program = Program(text=request.source, origin="handwritten", family="", name=name, project=project)
    return program.with_runs([ProgramRun(request.arguments)])


def _check_kernel_count(text: str) -> None:
    """Raises BadInput for a text with too many kernels, which would take too long."""
    if count_kernel_marks(text) > MOST_KERNELS:
        raise BadInput(f"more than {MOST_KERNELS} kernels in one file", remedy="split the file")


def predict(request: ProgramRequest) -> PredictDocument:
    """The document of `synth predict --json`, but kernels without main() are launched as `synth profile` launches
    them. Raises TimeLimitReached, BadInput for values of no argument."""
    from hipsynth.profiling.preview.record import HostCode
    from hipsynth.training.analytic.documents import document_of, predict_each
    from hipsynth.training.analytic.predict import LaunchAssumptions, LaunchNotes

    if request.is_script:
        from hipsynth.serving.scripts import predict_triton

        return predict_triton(request, target_of(request), load_predictor())
    program, target = program_of(request), target_of(request)
    _check_values(program.text, request.values)
    choices = launch_choices(request)
    host = HostCode.RUN if request.run_host else HostCode.KNOWN
    harnessed = complete_text(program.text, choices) if request.run_host else None
    question = LaunchAssumptions(choices.grid, choices.block, request.values, request.arguments, host, program.project)
    if harnessed is not None:
        question = replace(question, grid=None, block=None, values={})
    compiled = complete_text(request.last_compiled, choices)
    text, last_compiled = (harnessed or program).text, compiled.text if compiled else request.last_compiled
    targets = [(target.arch, target.flags, target.device)]
    results = predict_each(text, targets, question, load_predictor(), request.limit_s, last_compiled)
    if harnessed is not None:
        results = list(map(LaunchNotes(assumed=harnessed.assumed).mark_result, results))
    return document_of(program, request.name, load_predictor().path, results)


def _check_values(text: str, values: Mapping[str, float]) -> None:
    """Raises BadInput for values of no argument: the form of the request is right, they do not fit its program."""
    try:
        check_argument_names(text, values)
    except UsageError as error:
        raise BadInput(error.what, cause=error.cause, remedy=error.remedy) from error


def launch_choices(request: ProgramRequest) -> HarnessChoices:
    """What a request says of the launches of kernels without main()."""
    return HarnessChoices(_to_shape(request.grid), _to_shape(request.block), request.values, request.arguments)


def _to_shape(dimensions: Sequence[int] | None) -> tuple[int, int, int] | None:
    if dimensions is None:
        return None
    x, y, z = [*dimensions, 1, 1][:3]
    return x, y, z


def profile(request: ProgramRequest) -> ProfileDocument:
    """The document of `synth profile --json`, with `lines` that of --lines. A program that fails or takes too long is a
    result with a reason."""
    sandbox.require_sandbox()
    open_backend("sim")
    if request.is_script:
        from hipsynth.serving.scripts import profile_triton

        return profile_triton(request, target_of(request))
    program, target = program_of(request), target_of(request)
    limits = RunLimits(time_s=request.limit_s, lines=request.lines)
    choices = launch_choices(request)
    with contextlib.ExitStack() as scratch:
        for careful in (False, True):
            completed, assumed = complete_program(program, choices, scratch.enter_context, careful)
            results = run_job(MatrixJob("sim", completed, ((target, program.runs[0]),), limits))
            if not needs_smaller_sizes(assumed, choices, results):
                break
        if program.project is not None and completed.project is not None:
            results = name_original(results, completed.project, program.project)
    return profile_document(program.id, request.name, results, assumed=assumed)


def complete_program(
    program: Program, choices: HarnessChoices, keep: KeepFolder, careful: bool = False
) -> tuple[Program, tuple[str, ...]]:
    """(the program, with a main() if it has kernels and none; what was assumed). Raises as `add_harness`, and
    UsageError for choices that a main() has made."""
    if program.project is not None:
        project, assumed = complete_project(program.project, choices, keep, careful)
        return replace(program, project=project), assumed
    if not lacks_main(program.text):
        return program, refuse_choices(choices)
    harnessed = add_harness(program.text, choices, careful)
    return replace(program, text=harnessed.text), harnessed.notes


def verify(request: VerificationRequest) -> VerifyDocument:
    """The document of `synth verify --json`. Raises BadInput for an original that has no kernel or does not run, and
    for a text with too many kernels."""
    from hipsynth.tuning.optimize.verification.verify_change import VerifyRequest, verify_change

    if request.is_script:
        from hipsynth.serving.scripts import verify_triton

        return verify_triton(request, target_of(request))
    program, target = program_of(request), target_of(request)
    _check_kernel_count(request.original)
    sandbox.require_sandbox()
    original, changed = (ensure_main(text).text for text in (request.original, program.text))
    question = VerifyRequest(original, changed, target, request.arguments)
    return verify_change(question).document(Path("original.hip"), Path(request.name), target.arch, target.flags)


def prepare(request: BuildRequest) -> Prepared:
    """Makes later compiles for a target fast: its precompiled header is built at its second use."""
    from hipsynth.serving.documents import Prepared

    target = target_of(request)
    for number in range(2):
        load_predictor().predict(WARM % number, target.arch, target.flags, target.device)
    return Prepared((target.arch, target.flags))


def chat(request: ChatRequest) -> ChatAnswer:
    """An answer of the trained language model to chat messages, with its numbers of tokens."""
    from hipsynth.serving.chat import answer_chat

    return answer_chat(request)


def search_faster_program(kind: str, request: SearchRequest, say: ReportProgress) -> ImprovedProgram:
    """The answer of a search of this kind ("optimize" or "swizzle"). Raises as improve_program(), and BadInput for a
    text with too many kernels."""
    from hipsynth.serving.improve import improve_program

    program_of(request)
    return improve_program(kind, request, launch_choices(request), target_of(request), say)


# By kind of request, what answers its JSON; a search says what it does.
HANDLERS: Mapping[str, Callable[[object, ReportProgress], object]] = {
    "predict": lambda body, _: predict(from_json(ProgramRequest, body)),
    "profile": lambda body, _: profile(from_json(ProgramRequest, body)),
    "verify": lambda body, _: verify(from_json(VerificationRequest, body)),
    "optimize": lambda body, say: search_faster_program("optimize", from_json(SearchRequest, body), say),
    "swizzle": lambda body, say: search_faster_program("swizzle", from_json(SearchRequest, body), say),
    "prepare": lambda body, _: prepare(from_json(BuildRequest, body)),
    "chat": lambda body, _: chat(from_json(ChatRequest, body)),
}


def answer(kind: str, body: object, say: ReportProgress = lambda line: None) -> object:
    """The document of a request as it came: `body` is the JSON form of a dataclass of serving/requests.py. `say` is
    told what a search does. Raises UsageError for an unknown kind."""
    if kind not in HANDLERS:
        raise UsageError(f"no request of the kind {kind!r}", cause=suggest_name(kind, HANDLERS))
    return HANDLERS[kind](body, say)
