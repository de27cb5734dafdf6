"""Searches for a faster program, of one text: what `synth optimize` and `synth swizzle` do with a file."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.matrix.without_main import refuse_choices
from hipsynth.serving import scripts
from hipsynth.serving.documents import ImprovedProgram
from hipsynth.serving.limits import OWN_LIMIT_FACTOR
from hipsynth.serving.requests import SearchRequest
from hipsynth.source.harness import HarnessChoices, lacks_main
from hipsynth.source.harness_edits import remove_harness
from hipsynth.source.torch_sources import uses_pytorch
from hipsynth.toolchain import sandbox
from hipsynth.tuning.optimize.documents import OptimizeDocument
from hipsynth.tuning.optimize.optimize import OptimizeRequest, optimize_program
from hipsynth.tuning.swizzle.documents import SwizzleDocument
from hipsynth.tuning.swizzle.report import swizzle_document
from hipsynth.tuning.swizzle.search import SwizzleSettings, search_mappings
from hipsynth.tuning.trial.fitting_main import add_fitting_main

Say = Callable[[str], None]


def improve_program(
    kind: str, request: SearchRequest, choices: HarnessChoices, target: Target, say: Say
) -> ImprovedProgram:
    """The faster program that a search of this kind ("optimize" or "swizzle") finds; kernels without main() are
    launched as `choices` say. Also for Python scripts.

    Raises BadInput for a source without a kernel, HipsynthError for a program that does not run, UsageError for choices
    that a main() has made.
    """
    sandbox.require_sandbox()
    if request.is_script:
        script_search = scripts.search_moves if kind == "optimize" else scripts.search_mappings
        report, improved = script_search(request, target, say)
        return _state_changes(request, report, improved)
    text = request.source
    if lacks_main(text) and uses_pytorch(text):
        problem = "the launches of an extension of PyTorch cannot be changed here"
        raise BadInput(problem, remedy="give the kernels and a main() that launches them", reason=Reason.NO_MAIN)
    harnessed = add_fitting_main(text, target, choices) if lacks_main(text) else None
    assumed = refuse_choices(choices) if harnessed is None else harnessed.notes
    for note in assumed:
        say(note)
    search = _search_moves if kind == "optimize" else _search_mappings
    report, improved = search(request, text if harnessed is None else harnessed.text, target, say)
    if harnessed is not None:
        improved = text if improved == harnessed.text else remove_harness(improved, harnessed)
    return _state_changes(request, report, improved, assumed)


def _state_changes(
    request: SearchRequest, report: OptimizeDocument | SwizzleDocument, improved: str, assumed: tuple[str, ...] = ()
) -> ImprovedProgram:
    before, after = (text.splitlines(True) for text in (request.source, improved))
    diff = "".join(difflib.unified_diff(before, after, request.name, request.name))
    return ImprovedProgram(report=report, source=improved, diff=diff, assumed=assumed)


def _search_moves(request: SearchRequest, text: str, target: Target, say: Say) -> tuple[OptimizeDocument, str]:
    question = OptimizeRequest(
        text, target, request.budget_s, request.arguments, clock_s=OWN_LIMIT_FACTOR * request.budget_s
    )
    result = optimize_program(question, say)
    return result.document(Path(request.name), target.arch, request.flags), result.text


def _search_mappings(request: SearchRequest, text: str, target: Target, say: Say) -> tuple[SwizzleDocument, str]:
    question = SwizzleSettings(target, request.arguments, time_s=request.limit_s, budget_s=request.budget_s)
    result = search_mappings(text, question, say)
    return swizzle_document(result), result.text
