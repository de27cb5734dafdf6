"""`synth swizzle SCRIPT.py` as a function: mappings of a script's kernels, autotuned ones with what they chose."""

from __future__ import annotations

from dataclasses import replace

from hipsynth.core.kernel_record import Dim
from hipsynth.core.reasons import Reason
from hipsynth.source.triton_source import read_triton_source
from hipsynth.tuning.optimize.scripts.chosen_configuration import offer_configurations, pin_choices
from hipsynth.tuning.swizzle.mappable import ScriptProgram
from hipsynth.tuning.swizzle.search import ProgramSwizzle, Say, SwizzleSettings, map_program
from hipsynth.tuning.trial import Conditions, Trial
from hipsynth.tuning.trial.script import ScriptTrials
from hipsynth.tuning.trial.search_clock import Clock


def map_script(trials: ScriptTrials, question: SwizzleSettings, say: Say) -> ProgramSwizzle:
    """Searches mappings for every kernel of a script. An autotuned one has the configuration alone that it chose while
    mappings are timed; they are bijections for the grids of the others too, and the script keeps the author's list.

    Raises BadInput for a script that does not run, or launches nothing; UsageError for bad options.
    """
    program = ScriptProgram(trials, question.target)
    refusals = filter(None, map(program.find_refusal, program.kernels))
    if not any(refusal.code == Reason.AUTOTUNED for refusal in refusals):
        return map_program(program, question, say)
    clock = Clock(question.budget_s)
    say("running the program for what its autotuners choose")
    trial = trials.run(trials.text, question.target, Conditions(question.arguments, time_s=question.time_s))
    source = read_triton_source(trials.text)
    choice = pin_choices(source, trial.autotunings)
    pinned = ScriptProgram(replace(trials, text=choice.text), question.target)
    left_s = max(1.0, question.budget_s - clock.spent_s)
    result = map_program(pinned, replace(question, budget_s=left_s, grids=_grids_of(trial)), say)
    return replace(result, text=offer_configurations(source, choice, result.text))


def _grids_of(trial: Trial) -> dict[str, tuple[Dim, ...]]:
    """The grids that each kernel was launched with."""
    names = {kernel.name for kernel in trial.kernels}
    return {
        name: tuple(dict.fromkeys(kernel.grid for kernel in trial.kernels if kernel.name == name)) for name in names
    }
