"""`synth swizzle` as a function."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.library.programs import is_script, locate_program, read_source

if TYPE_CHECKING:
    from hipsynth.tuning.swizzle.search import ProgramSwizzle, SwizzleSettings
    from hipsynth.tuning.trial.script import ScriptTrials


def swizzle_program(file: Path, question: SwizzleSettings, say: Callable[[str], None]) -> tuple[str, ProgramSwizzle]:
    """The text of a HIP program or Python script, and the mappings that were found for its kernels.

    Raises CompileFailed or BadInput for a program that does not compile or run, or launches nothing; UsageError for bad
    options, MissingDependency if nothing can run here.
    """
    from hipsynth.tuning.swizzle.mappable import ScriptProgram
    from hipsynth.tuning.swizzle.search import map_program, search_mappings

    if not is_script(file):
        text = read_source(file)
        return text, search_mappings(text, question, say)
    with script_trials(file, question.arguments, question.target.arch) as trials:
        return trials.text, map_program(ScriptProgram(trials, question.target), question, say)


@contextlib.contextmanager
def script_trials(file: Path, arguments: tuple[str, ...], arch: str) -> Iterator[ScriptTrials]:
    """Trials of variants of a script, while the block runs. Raises BadInput, MissingDependency."""
    from contextlib import ExitStack

    from hipsynth.core.scratch import scratch_folder
    from hipsynth.simulator.scripts.prepare import require_packages
    from hipsynth.toolchain import sandbox
    from hipsynth.tuning.trial.script import ScriptTrials

    with ExitStack() as stack:
        project = locate_program([file], arguments, arch, stack.enter_context)
        text = read_source(file)
        require_packages()
        sandbox.require_sandbox()
        yield ScriptTrials(project, text, stack.enter_context(scratch_folder()))
