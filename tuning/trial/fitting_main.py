"""A main() for kernels without one, whose sizes were tried: kernels whose indices leave buffers get smaller ones."""

from __future__ import annotations

from hipsynth.profiling.backends.protocol import Target
from hipsynth.source.harness import HarnessChoices, HarnessedProgram, add_harness, needs_care
from hipsynth.tuning.trial.run import Conditions, run_trial

TRIED_S = 10.0  # processor time of the run that shows whether sizes that nobody gave fit


def add_fitting_main(text: str, target: Target, choices: HarnessChoices | None = None) -> HarnessedProgram:
    """The text with a main() behind it, which is run once unless something was chosen of its launches. Raises as
    add_harness()."""
    chosen = choices or HarnessChoices()
    harnessed = add_harness(text, chosen)
    if not chosen:
        trial = run_trial(harnessed.text, target, Conditions(exact=True, count=False, time_s=TRIED_S))
        if needs_care(trial.reason):
            return add_harness(text, chosen, careful=True)
    return harnessed
