"""`synth swizzle` as a function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.library.programs import has_script_suffix, read_nonempty
from hipsynth.library.scripts import open_script_trials

if TYPE_CHECKING:
    from hipsynth.tuning.swizzle.search import ProgramSwizzle, SwizzleSettings


def swizzle_program(file: Path, question: SwizzleSettings, say: Callable[[str], None]) -> tuple[str, ProgramSwizzle]:
    """The text of a HIP program or Python script, and the mappings that were found for its kernels.

    Raises CompileFailed or BadInput for a program that does not compile or run, or launches nothing; UsageError for bad
    options, MissingDependency if nothing can run here.
    """
    from hipsynth.tuning.optimize.scripts.map_script import map_script
    from hipsynth.tuning.swizzle.search import search_mappings

    if not has_script_suffix(file):
        text = read_nonempty(file)
        return text, search_mappings(text, question, say)
    with open_script_trials(file, question.arguments, question.target.arch) as trials:
        return trials.text, map_script(trials, question, say)
