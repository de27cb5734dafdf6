"""`synth optimize` as a function."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.library.arguments import (
    Defines,
    Folders,
    Words,
    check_positive,
    list_checks,
    list_defines,
    list_folders,
    list_words,
    with_defines,
)
from hipsynth.library.harness import name_messages, read_runnable
from hipsynth.library.programs import check_hip_only, check_keeps_program, has_script_suffix, read_source
from hipsynth.library.scripts import open_script_trials
from hipsynth.simulator.devices import choose_arch
from hipsynth.tuning.optimize.documents import OptimizeDocument, SearchStatus

if TYPE_CHECKING:
    from hipsynth.tuning.optimize.optimize import OptimizeResult
    from hipsynth.tuning.optimize.scripts.optimize_script import ScriptRequest


def optimize(
    path: str | Path,
    *,
    arch: str = "",
    device: str = "",
    flags: str = "-O3",
    args: Words = (),
    check_args: Sequence[Words] = (),
    budget_s: float = 60.0,
    clock_s: float | None = None,
    allow_fast_math: bool = False,
    defines: Defines = (),
    includes: Folders = (),
    out: str | Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> OptimizeDocument:
    """Search for source changes that make a program's kernels faster, and verify them; in a Python script with Triton
    kernels, for other meta-parameters (`flags`, `allow_fast_math`, `defines` and `includes` are for HIP).

    `budget_s` is work at fixed prices, the same on every machine, `clock_s` the longest time on the clock (None: 1.2
    times the budget). `defines`: macros (`{"N": 64}`); `includes`: folders with headers of the program, beside its own.
    A faster program is written to `out`, by default NAME.optimized.hip (or .py) in the current folder; `say` is told
    each step. Raises BadInput for a source without a kernel, HipsynthError for a program that does not run.
    """
    from hipsynth.toolchain import sandbox
    from hipsynth.tuning.optimize.optimize import OptimizeRequest, optimize_program
    from hipsynth.tuning.optimize.scripts.optimize_script import ScriptRequest
    from hipsynth.tuning.trial import target_of

    arguments, sizes, folders = list_words("args", args), list(list_checks(check_args)), list_folders(includes)
    macros = list_defines(defines)
    check_positive(budget_s=budget_s, **({} if clock_s is None else {"clock_s": clock_s}))
    sandbox.require_sandbox()
    file, target_arch = Path(path), choose_arch(arch, device)
    choose_output(file, out, folders)
    if has_script_suffix(file):
        hip_only = {"flags": flags != "-O3", "allow_fast_math": allow_fast_math, "defines": bool(macros)}
        check_hip_only(file, {**hip_only, "includes": bool(folders)})
        target = target_of(target_arch, flags, device)
        result = search_script(file, ScriptRequest(target, arguments, tuple(sizes), budget_s, clock_s or 0.0), say)
        return result.document(file, target_arch, "", write_optimized(result, file, out))
    flags = with_defines(flags, macros)
    target = target_of(target_arch, flags, device)
    text, notes = read_runnable(file, target, folders)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    request = OptimizeRequest(
        text,
        target,
        budget_s,
        arguments,
        sizes,
        clock_s=clock_s or 0.0,
        allow=frozenset({"fast-math"} if allow_fast_math else ()),
    )
    with name_messages(file, text):
        result = optimize_program(request, say)
    return result.document(file, target_arch, flags, write_optimized(result, file, out))


def search_script(file: Path, request: ScriptRequest, say: Callable[[str], None]) -> OptimizeResult:
    """Searches for faster meta-parameters of a script. Raises as optimize()."""
    from hipsynth.tuning.optimize.scripts.optimize_script import optimize_script

    with open_script_trials(file, request.arguments, request.target.arch) as trials:
        return optimize_script(trials, request, say)


def choose_output(file: Path, out: str | Path | None, includes: Sequence[str] = ()) -> Path:
    """Where a faster program goes, by default NAME.optimized.hip (or .py) in the current folder. Raises UsageError if
    that is the program itself or a header of it, BadInput if it cannot be written."""
    from hipsynth.core.files import require_writable

    patched = Path(out or f"{file.stem}.optimized{'.py' if has_script_suffix(file) else '.hip'}")
    check_keeps_program(patched, file, includes)
    require_writable(patched)
    return patched


def write_optimized(result: OptimizeResult, file: Path, out: str | Path | None) -> Path | None:
    """Writes a faster program to choose_output(); returns its path.
    Headers of the program's own that were written in, and are as they were, are included again."""
    if result.status != SearchStatus.IMPROVED:
        return None
    from hipsynth.core.files import write_whole
    from hipsynth.source.own_headers import take_out_headers

    patched = choose_output(file, out)
    write_whole(patched, take_out_headers(result.text))
    return patched


def diff_files(before: Path, after: Path) -> str:
    """What a written program changes in the file that it was made from, as a unified diff with both names."""
    ours, theirs = (read_source(path).splitlines(keepends=True) for path in (before, after))
    lines = difflib.unified_diff(ours, theirs, str(before), str(after))
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
