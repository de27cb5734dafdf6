"""`synth verify` as a function."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.errors import BadInput
from hipsynth.library.arguments import (
    Defines,
    Folders,
    Words,
    list_checks,
    list_defines,
    list_folders,
    list_words,
    with_defines,
)
from hipsynth.library.harness import name_messages, read_compared
from hipsynth.library.programs import check_hip_only, has_script_suffix, read_source
from hipsynth.library.scripts import open_script_trials
from hipsynth.simulator.devices import choose_arch
from hipsynth.tuning.optimize.documents import VerifyDocument

if TYPE_CHECKING:
    from hipsynth.profiling.backends.protocol import Target
    from hipsynth.tuning.optimize.scripts.optimize_script import ScriptRequest
    from hipsynth.tuning.optimize.verification.verify_change import VerifyResult


def verify(
    original: str | Path,
    changed: str | Path,
    *,
    arch: str = "",
    device: str = "",
    flags: str = "-O3",
    args: Words = (),
    check_args: Sequence[Words] = (),
    allow_fast_math: bool = False,
    defines: Defines = (),
    includes: Folders = (),
    on_stage: Callable[[str], None] = lambda _: None,
    say: Callable[[str], None] = warnings.warn,
) -> VerifyDocument:
    """Check that the program `changed` does the same as `original`, and say how much faster it is: both HIP, or both
    Python scripts with Triton kernels (`flags`, `allow_fast_math`, `defines` and `includes` are for HIP). Kernels
    without a main() get that of the original, made from its signatures. Raises BadInput if only one has one.

    `args`: the programs' arguments in the timed runs; `check_args`: those of small runs whose outputs are compared, by
    default found. `defines`: macros (`{"N": 64}`); `includes`: folders with headers, beside the programs' own. Calls
    `on_stage` with what is done next, `say` with assumed launches. Raises BadInput where the original does not run.
    """
    from hipsynth.toolchain import sandbox
    from hipsynth.tuning.optimize.scripts.optimize_script import ScriptRequest
    from hipsynth.tuning.optimize.verification.verify_change import VerifyRequest, verify_change
    from hipsynth.tuning.trial import target_of

    arguments, checks, folders = list_words("args", args), list_checks(check_args), list_folders(includes)
    target = target_of(choose_arch(arch, device), with_defines(flags, list_defines(defines)), device)
    sandbox.require_sandbox()
    if _are_scripts(files := (Path(original), Path(changed))):
        hip_only = {"flags": flags != "-O3", "allow_fast_math": allow_fast_math, "defines": bool(defines)}
        check_hip_only(files[0], {**hip_only, "includes": bool(folders)})
        result = _verify_scripts(files, ScriptRequest(target, arguments, checks), on_stage)
        return result.document(*files, target.arch, "")
    allowed = frozenset({"fast-math"} if allow_fast_math else ())
    request = VerifyRequest(*_read_texts(files, target, folders, say), target, arguments, checks, allowed)
    with name_messages(files[0], request.original):
        return verify_change(request, on_stage).document(*files, target.arch, target.flags)


def _read_texts(
    files: tuple[Path, Path], target: Target, includes: Sequence[str], say: Callable[[str], None]
) -> tuple[str, str]:
    text, changed, notes = read_compared(*files, target, includes)
    for note in notes:
        say(note)
    return text, changed


def _are_scripts(files: tuple[Path, Path]) -> bool:
    """Whether both are Python scripts. Raises BadInput if only one is."""
    kinds = set(map(has_script_suffix, files))
    if len(kinds) > 1:
        problem = f"{files[1]}: not in the language of {files[0]}"
        raise BadInput(problem, remedy="give two HIP sources or two Python scripts")
    return kinds == {True}


def _verify_scripts(files: tuple[Path, Path], request: ScriptRequest, on_stage: Callable[[str], None]) -> VerifyResult:
    from hipsynth.tuning.optimize.scripts.verify_changed import verify_changed_script

    changed = read_source(files[1])
    with open_script_trials(files[0], request.arguments, request.target.arch) as trials:
        return verify_changed_script(trials, changed, request, on_stage)
