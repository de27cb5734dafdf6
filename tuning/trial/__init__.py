"""Trials: compile a program's text, run it in the sandbox on the simulator, compare what two programs leave behind.

>>> from hipsynth.tuning.trial import Conditions, compare, target_of, trial
>>> before = trial(text, target_of("gfx942"), Conditions(("256",), exact=True))
>>> after = trial(changed, target_of("gfx942"), Conditions(("256",), exact=True))
>>> compare(before, after).equal
"""

from hipsynth.tuning.trial.compare import BIT_FOR_BIT, Tolerance, TrialComparison, compare, differing
from hipsynth.tuning.trial.run import Conditions, Trial, target_of, trial

__all__ = [
    "BIT_FOR_BIT",
    "Conditions",
    "Tolerance",
    "Trial",
    "TrialComparison",
    "compare",
    "differing",
    "target_of",
    "trial",
]
