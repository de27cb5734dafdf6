"""`synth swizzle` as a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.library.harness import name_messages
from hipsynth.library.programs import has_script_suffix, read_nonempty
from hipsynth.library.scripts import open_script_trials

if TYPE_CHECKING:
    from hipsynth.tuning.swizzle.search import ProgramSwizzle, SwizzleSettings


def swizzle_program(
    file: Path, question: SwizzleSettings, say: Callable[[str], None], includes: Sequence[str] = ()
) -> tuple[str, ProgramSwizzle]:
    """The text of a HIP program or Python script, and the mappings that were found for its kernels. Headers beside a
    HIP program, and in the folders `includes`, are found; one that is changed is written into the program.

    Raises CompileFailed or BadInput for a program that does not compile or run, or launches nothing; UsageError for bad
    options, MissingDependency if nothing can run here.
    """
    from hipsynth.source.own_headers import take_out_headers, write_in_headers
    from hipsynth.tuning.optimize.scripts.map_script import map_script
    from hipsynth.tuning.swizzle.search import search_mappings

    if not has_script_suffix(file):
        text = read_nonempty(file)
        joined_text = write_in_headers(text, file.parent, [Path(folder) for folder in includes])
        with name_messages(file, joined_text):
            mapped = search_mappings(joined_text, question, say)
        return text, replace(mapped, text=take_out_headers(mapped.text))
    with open_script_trials(file, question.arguments, question.target.arch) as trials:
        return trials.text, map_script(trials, question, say)
