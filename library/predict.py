"""`synth predict` as a function."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.languages import SourceLanguage
from hipsynth.core.reasons import Reason
from hipsynth.library.arguments import (
    Defines,
    Folders,
    Words,
    check_positive,
    check_values,
    list_defines,
    list_folders,
    list_words,
    with_defines,
)
from hipsynth.library.programs import check_has_kernel, check_hip_only, has_script_suffix
from hipsynth.library.targets import Names, Shape, complete_shape, list_names
from hipsynth.training.models.documents import PredictDocument

if TYPE_CHECKING:
    from hipsynth.core.program import Program
    from hipsynth.training.analytic.predict import AnalyticPredictor, LaunchAssumptions


class PrintedPrediction(PredictDocument):
    """The document; `print` shows what `synth predict` prints."""

    def __str__(self) -> str:
        from hipsynth.training.analytic.prediction_text import prediction_lines

        return "\n\n".join("\n".join(prediction_lines(result)) for result in self.results)


def predict(
    path: str | Path,
    *,
    arch: Names = "",
    device: Names = "",
    flags: Names = "-O3",
    args: Words = (),
    grid: Shape | None = None,
    block: Shape | None = None,
    values: Mapping[str, float] | None = None,
    model: str | Path | None = None,
    defines: Defines = (),
    includes: Folders = (),
    check: bool = False,
    defer: bool = False,
    timeout_s: float = 60.0,
) -> PrintedPrediction:
    """Predict duration and metrics of the kernels in a HIP file, or those that a Python script launches with Triton,
    without executing them as a whole.

    Several names of `arch`, `device` and `flags` give a result for each combination. `grid` and `block` replace those
    of the host code, `values` are arguments of the kernels by name; these three and `flags` are for HIP, as are
    `defines`, macros (`{"N": 64}`), and `includes`, folders with headers of the program, beside its own. `check` also
    executes the program, and adds what that gives; `defer` does where the prediction is unsure. `model`: the folder of
    an analytic predictor, by default the shipped one.

    Raises BadInput for a source without a kernel, UsageError for names that do not exist.
    """
    from hipsynth.profiling.matrix.targets import resolve_devices
    from hipsynth.source.harness import check_argument_names
    from hipsynth.toolchain import check_flags

    file, words, folders = Path(path), list_words("args", args), list_folders(includes)
    assumed = check_values(values)
    macros = list_defines(defines)
    builds = tuple(with_defines(text, macros) for text in list_names(flags))
    check_positive(timeout_s=timeout_s)
    hip_only = {"grid": grid is not None, "block": block is not None, "values": bool(assumed), "flags": flags != "-O3",
                "defines": bool(macros), "includes": bool(folders)}  # fmt: skip
    check_hip_only(file, hip_only)
    shapes = complete_shape(grid), complete_shape(block)
    program, question = read_question(file, words, *shapes, assumed, folders)
    targets = resolve_devices(list_names(arch), list_names(device))
    for flag_text in builds:
        check_flags(flag_text)
    if assumed:
        check_argument_names(program.text, assumed)
    questions = [(name, flag_text, device_name) for name, device_name in targets for flag_text in builds]
    predictor = open_analytic(None if model is None else Path(model))
    execute = "always" if check else "unsure" if defer else "never"
    document = predict_completed(program, str(path), questions, question, predictor, execute, timeout_s)
    return PrintedPrediction(**vars(document))


def read_question(
    file: Path,
    arguments: tuple[str, ...],
    grid: tuple[int, int, int] | None,
    block: tuple[int, int, int] | None,
    values: Mapping[str, float],
    includes: Sequence[str] = (),
) -> tuple[Program, LaunchAssumptions]:
    """(the program in a file, what is assumed of its launches). With `includes`, or if the file has no kernel, headers
    of its folder and of these folders are written into its text. Raises BadInput for a file that cannot be read."""
    from hipsynth.core.files import resolve_path
    from hipsynth.core.program import Project, SourceFile, load_program, project_program
    from hipsynth.simulator.run_folder import named_files
    from hipsynth.source.outline import kernel_names
    from hipsynth.source.own_headers import write_in_headers
    from hipsynth.training.analytic.predict import LaunchAssumptions

    language = SourceLanguage.PYTHON if has_script_suffix(file) else SourceLanguage.HIP
    shows = shlex.join(f"-I{resolve_path(Path(folder))}" for folder in includes)
    source = SourceFile(file, language, shows)
    project = Project((source,), resolve_path(file).parent, arguments, named_files(arguments, Path.cwd()))
    program = project_program(project) if has_script_suffix(file) else load_program(file)
    if not has_script_suffix(file) and (includes or not kernel_names(program.text)):
        text = write_in_headers(program.text, file.parent, [Path(folder) for folder in includes])
        program = replace(program, text=text)
    if not has_script_suffix(file):
        check_has_kernel(file, program.text)
    return program, LaunchAssumptions(grid, block, values, arguments, project=project)


def predict_completed(
    program: Program,
    path: str,
    questions: Sequence[tuple[str, str, str]],
    question: LaunchAssumptions,
    predictor: AnalyticPredictor,
    execute: str,
    timeout_s: float,
) -> PredictDocument:
    """The document of a program, with the main() of `synth profile` if it has kernels and none: notes say what that
    assumes."""
    from hipsynth.source.harness import HarnessChoices, complete_text
    from hipsynth.training.analytic.documents import predict_document
    from hipsynth.training.analytic.predict import LaunchNotes

    choices = HarnessChoices(question.grid, question.block, question.values, question.arguments)
    is_script = question.project is not None and question.project.is_script
    if is_script:  # flags are for HIP
        questions = list(dict.fromkeys((arch, "", device) for arch, _, device in questions))
    for careful in (False, True):  # small sizes and large buffers, where the usual ones do not fit together
        harnessed = None if is_script else complete_text(program.text, choices, careful)
        if harnessed is None:
            complete, launches, notes = replace(program, project=question.project), question, LaunchNotes()
        else:
            complete, notes = replace(program, text=harnessed.text), LaunchNotes(assumed=harnessed.assumed)
            launches = replace(question, grid=None, block=None, values={})
        document = predict_document(complete, path, questions, launches, predictor, execute, timeout_s)
        if harnessed is None or choices or not _leaves_its_arrays(document):
            break
    return replace(document, results=tuple(map(notes.mark_result, document.results)))


def _leaves_its_arrays(document: PredictDocument) -> bool:
    """Whether a kernel accesses what lies outside of its arrays."""
    kernels = [kernel for result in document.results for kernel in result.kernels]
    return any(kernel.out_of_bounds or kernel.reason_code == Reason.ILLEGAL_ACCESS for kernel in kernels)


def open_analytic(model: Path | None) -> AnalyticPredictor:
    """The analytic predictor in a folder or file, or the shipped one. Raises MissingDependency, BadInput."""
    from hipsynth.training.analytic.predict import SHIPPED, AnalyticPredictor

    return AnalyticPredictor.load(SHIPPED if model is None else model)
