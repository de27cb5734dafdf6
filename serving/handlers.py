"""Handlers of worker processes: take a request as JSON and return the verb's document. Independent of HTTP.

The predictors are imported when they are needed: a worker that only executes programs starts in half the time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput
from hipsynth.core.program import Program, ProgramRun, Project, SourceFile
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.matrix.job import MatrixJob, open_backend, run_job
from hipsynth.profiling.reports.describe import profile_document
from hipsynth.profiling.reports.documents import ProfileDocument
from hipsynth.serving.limits import MOST_KERNELS
from hipsynth.serving.requests import BuildRequest, ChatRequest, ProgramRequest, VerificationRequest
from hipsynth.simulator.devices import device_of
from hipsynth.simulator.limits import RunLimits
from hipsynth.source.outline import count_kernel_marks
from hipsynth.toolchain import check_flags, sandbox

if TYPE_CHECKING:
    from hipsynth.serving.documents import ChatAnswer, Prepared
    from hipsynth.training.analytic.predict import AnalyticPredictor
    from hipsynth.training.models.documents import PredictDocument
    from hipsynth.tuning.optimize.documents import VerifyDocument

WARM = "#include <hip/hip_runtime.h>\n__global__ void warm%d(float* a) { a[threadIdx.x] = 0; }\n"


@functools.cache
def load_predictor() -> AnalyticPredictor:
    from hipsynth.training.analytic.predict import AnalyticPredictor

    return AnalyticPredictor.load()


def target_of(request: BuildRequest) -> Target:
    """The target of a request. Raises UsageError for an unknown architecture, device or flag, and for flags that name
    files: a request is one text, and reads nothing of this machine but the toolchain."""
    device = device_of(request.arch, request.device)
    return Target(request.arch, check_flags(request.flags), device.name)


def program_of(request: ProgramRequest) -> Program:
    """Raises BadInput for a text with too many kernels, which would take too long."""
    if count_kernel_marks(request.source) > MOST_KERNELS:
        raise BadInput(f"more than {MOST_KERNELS} kernels in one file", remedy="split the file")
    path = Path(request.path) if request.path else None
    project = Project((SourceFile(path),), path.parent) if path else None
    name = Path(request.name).stem
    program = Program(text=request.source, origin="handwritten", family="", name=name, project=project)
    return program.with_runs([ProgramRun(request.arguments)])


def predict(request: ProgramRequest) -> PredictDocument:
    """The document of `synth predict --json`. Raises TimeLimitReached."""
    from hipsynth.profiling.preview.record import HostCode
    from hipsynth.training.analytic.documents import document_of, predict_each
    from hipsynth.training.analytic.predict import LaunchAssumptions

    program, target = program_of(request), target_of(request)
    grid, block = _to_shape(request.grid), _to_shape(request.block)
    host = HostCode.RUN if request.run_host else HostCode.KNOWN
    question = LaunchAssumptions(grid, block, request.values, request.arguments, host, program.project)
    targets = [(target.arch, target.flags, target.device)]
    results = predict_each(program.text, targets, question, load_predictor(), request.limit_s, request.last_compiled)
    return document_of(program, request.name, load_predictor().path, results)


def _to_shape(dimensions: Sequence[int] | None) -> tuple[int, int, int] | None:
    if dimensions is None:
        return None
    x, y, z = [*dimensions, 1, 1][:3]
    return x, y, z


def profile(request: ProgramRequest) -> ProfileDocument:
    """The document of `synth profile --json`, with `lines` that of --lines. A program that fails or takes too long is a
    result with a reason."""
    program, target = program_of(request), target_of(request)
    sandbox.require_sandbox()
    open_backend("sim")
    limits = RunLimits(time_s=request.limit_s, lines=request.lines)
    results = run_job(MatrixJob("sim", program, ((target, program.runs[0]),), limits))
    return profile_document(program.id, request.name, results)


def verify(request: VerificationRequest) -> VerifyDocument:
    """The document of `synth verify --json`. Raises BadInput for an original that has no kernel or does not run."""
    from hipsynth.tuning.optimize.verify_change import VerifyRequest, verify_change

    program, target = program_of(request), target_of(request)
    sandbox.require_sandbox()
    question = VerifyRequest(request.original, program.text, target, request.arguments)
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


PROGRAM_KINDS: Mapping[str, Callable[[ProgramRequest], object]] = {
    "predict": predict,
    "profile": profile,
}


def answer(kind: str, body: object) -> object:
    """The document of a request as it came: `body` is the JSON form of a dataclass of serving/requests.py."""
    if kind == "chat":
        return chat(from_json(ChatRequest, body))
    if kind == "verify":
        return verify(from_json(VerificationRequest, body))
    if kind == "prepare":
        return prepare(from_json(BuildRequest, body))
    return PROGRAM_KINDS[kind](from_json(ProgramRequest, body))
