"""Variants of a Python script with Triton kernels, for the functions that change one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.library.programs import locate_program, read_source

if TYPE_CHECKING:
    from hipsynth.tuning.trial.script import ScriptTrials


@contextmanager
def open_script_trials(file: Path, arguments: tuple[str, ...], arch: str) -> Iterator[ScriptTrials]:
    """Trials of variants of a script, while the block runs. Raises BadInput, MissingDependency."""
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
