"""Python scripts with Triton kernels in requests: predicted, profiled, made faster and verified as HIP programs are.

A script's launches are those that it makes, so it is run for each of these, in the sandbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.errors import BadInput
from hipsynth.core.languages import SUFFIXES, TRITON, SourceLanguage, refuse_hip_options
from hipsynth.core.program import Project, SourceFile, project_program
from hipsynth.core.reasons import Reason
from hipsynth.core.scratch import KeepFolder, scratch_folder
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.matrix.job import MatrixJob, run_job
from hipsynth.profiling.reports.describe import profile_document
from hipsynth.profiling.reports.documents import ProfileDocument
from hipsynth.serving.limits import OWN_LIMIT_FACTOR
from hipsynth.serving.requests import ProgramRequest, SearchRequest, VerificationRequest
from hipsynth.simulator.limits import RunLimits
from hipsynth.simulator.scripts.prepare import require_packages
from hipsynth.toolchain import sandbox
from hipsynth.tuning.optimize.documents import OptimizeDocument, VerifyDocument
from hipsynth.tuning.optimize.scripts.map_script import map_script
from hipsynth.tuning.optimize.scripts.optimize_script import ScriptRequest, optimize_script
from hipsynth.tuning.optimize.scripts.verify_changed import verify_changed_script
from hipsynth.tuning.swizzle.documents import SwizzleDocument
from hipsynth.tuning.swizzle.report import swizzle_document
from hipsynth.tuning.swizzle.search import SwizzleSettings
from hipsynth.tuning.trial.script import ScriptTrials

if TYPE_CHECKING:
    from hipsynth.training.analytic.predict import AnalyticPredictor
    from hipsynth.training.models.documents import PredictDocument

DEFAULT_FLAGS = "-O3"
NAME_BYTES = 200  # of a file


def predict_triton(request: ProgramRequest, target: Target, predictor: AnalyticPredictor) -> PredictDocument:
    """The document of `synth predict SCRIPT.py --json`. Raises BadInput for a script that may not run here, or launches
    nothing, and UsageError for flags or launches, which the script itself sets."""
    from hipsynth.training.analytic.documents import document_of, predict_script

    if not request.run_host:
        problem = "the launches of a script are those that it makes"
        raise BadInput(problem, cause="it is not run here", remedy="trust its folder", reason=Reason.NOT_RUN)
    with ExitStack() as scratch:
        program = project_program(locate_script(request, scratch.enter_context))
        targets = [(target.arch, "", target.device)]
        results = predict_script(program, request.name, targets, predictor, request.limit_s)
    return document_of(program, request.name, predictor.path, results)


def profile_triton(request: ProgramRequest, target: Target) -> ProfileDocument:
    """The document of `synth profile SCRIPT.py --json`. A script that fails or takes too long is a result with a
    reason. Raises UsageError as predict_triton()."""
    with ExitStack() as scratch:
        program = project_program(locate_script(request, scratch.enter_context))
        limits = RunLimits(time_s=request.limit_s, lines=request.lines)
        results = run_job(MatrixJob("sim", program, ((target, program.runs[0]),), limits))
    return profile_document(program.id, request.name, results)


def search_moves(request: SearchRequest, target: Target, say: Callable[[str], None]) -> tuple[OptimizeDocument, str]:
    """(the document of `synth optimize SCRIPT.py --json`, the fastest script). Raises BadInput for one that does not
    run or has no kernel, UsageError as predict_triton()."""
    question = ScriptRequest(
        target, request.arguments, budget_s=request.budget_s, clock_s=OWN_LIMIT_FACTOR * request.budget_s
    )
    with open_trials(request) as trials:
        result = optimize_script(trials, question, say)
    return result.document(Path(request.name), target.arch, ""), result.text


def search_mappings(request: SearchRequest, target: Target, say: Callable[[str], None]) -> tuple[SwizzleDocument, str]:
    """(the document of `synth swizzle SCRIPT.py --json`, the script with its programs mapped). Raises as
    search_moves()."""
    question = SwizzleSettings(target, request.arguments, time_s=request.limit_s, budget_s=request.budget_s)
    with open_trials(request) as trials:
        result = map_script(trials, question, say)
    return swizzle_document(result), result.text


def verify_triton(request: VerificationRequest, target: Target) -> VerifyDocument:
    """The document of `synth verify ORIGINAL.py CHANGED.py --json`. Raises BadInput for an original that does not
    run."""
    question = ScriptRequest(target, request.arguments)
    with open_trials(request, request.original) as trials:
        result = verify_changed_script(trials, request.source, question)
    return result.document(Path("original.py"), Path(request.name), target.arch, "")


@contextmanager
def open_trials(request: ProgramRequest, text: str = "") -> Iterator[ScriptTrials]:
    """Trials of variants of a request's script, or of another `text` in its place, while the block runs. Raises
    MissingDependency."""
    with ExitStack() as stack:
        project = locate_script(request, stack.enter_context, text)
        require_packages()
        sandbox.require_sandbox()
        yield ScriptTrials(project, text or request.source, stack.enter_context(scratch_folder()))


def locate_script(request: ProgramRequest, keep: KeepFolder, text: str = "") -> Project:
    """The file that holds a request's script, else one in a folder of its own, which `keep` enters; with another
    `text`, if that is given. Raises UsageError for flags or launches."""
    is_flagged = request.flags != DEFAULT_FLAGS
    shapes = {"grid": request.grid is not None, "block": request.block is not None}
    refuse_hip_options({"flags": is_flagged, **shapes, "values": bool(request.values)})
    path = Path(request.path) if request.path and not text else None
    if path is None:
        stem = Path(request.name).stem.encode()[:NAME_BYTES].decode(errors="ignore")
        path = keep(scratch_folder()) / f"{stem}{SUFFIXES[TRITON]}"
        path.write_text(text or request.source, encoding="utf-8", errors="surrogateescape")
    return Project((SourceFile(path, SourceLanguage.PYTHON),), path.parent, request.arguments)
