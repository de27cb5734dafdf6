"""Trials: compile a program's text, run it in the sandbox on the simulator, compare the outputs of two programs.

>>> from hipsynth.tuning.trial import Conditions, compare_trials, run_trial, target_of
>>> before = run_trial(text, target_of("gfx942"), Conditions(("256",), exact=True))
>>> after = run_trial(changed, target_of("gfx942"), Conditions(("256",), exact=True))
>>> compare_trials(before, after).equal
"""

from hipsynth.tuning.trial.compare import (
    BIT_FOR_BIT,
    Tolerance,
    TrialComparison,
    compare_printed,
    compare_trials,
    describe_other_texts,
    replace_printed_times,
    same_words,
)
from hipsynth.tuning.trial.paired_buffers import find_uploaded_results, same_allocations
from hipsynth.tuning.trial.run import Conditions, Trial, run_trial, target_of
from hipsynth.tuning.trial.trial_cache import AT_ONCE, TrialCache, map_at_once
from hipsynth.tuning.trial.unordered_outputs import (
    UnorderedOutputs,
    differing_outputs,
    find_unordered,
)

__all__ = [
    "AT_ONCE",
    "BIT_FOR_BIT",
    "Conditions",
    "Tolerance",
    "Trial",
    "TrialCache",
    "TrialComparison",
    "UnorderedOutputs",
    "compare_printed",
    "compare_trials",
    "describe_other_texts",
    "differing_outputs",
    "find_unordered",
    "find_uploaded_results",
    "map_at_once",
    "replace_printed_times",
    "run_trial",
    "same_allocations",
    "same_words",
    "target_of",
]
