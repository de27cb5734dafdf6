"""`synth profile` of one program as a function."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.errors import BadInput, MissingDependency, UsageError
from hipsynth.core.reasons import Reason
from hipsynth.library.arguments import (
    Defines,
    Folders,
    Words,
    check_positive,
    check_values,
    list_defines,
    list_environment,
    list_folders,
    list_words,
    with_defines,
)
from hipsynth.library.programs import check_hip_only
from hipsynth.library.targets import Names, Shape, complete_shape, list_names, list_paths, list_targets
from hipsynth.profiling.reports.executed_profile import ExecutedProfile
from hipsynth.source.harness import HOW_TO_CHOOSE

if TYPE_CHECKING:
    from hipsynth.core.program import Project
    from hipsynth.core.scratch import KeepFolder
    from hipsynth.profiling.backends.protocol import Target, TargetResult
    from hipsynth.simulator.limits import RunLimits
    from hipsynth.source.harness import HarnessChoices


HOW_IN_PYTHON = "choose with grid, block and values={NAME: N}"


@dataclass(frozen=True)
class ProfileRequest:
    """What to measure of a program, and what to keep: kernels with `kernel_pattern` in their name, the `top` that take
    most time (0: all). `choices`: of the launches of kernels without main()."""

    project: Project
    targets: Sequence[Target]
    limits: RunLimits
    choices: HarnessChoices
    backend: str = "sim"
    workers: int = 1
    kernel_pattern: str = ""
    top: int = 0
    what_if: bool = False
    how_to_choose: str = HOW_TO_CHOOSE


def profile(
    path: str | Path | Sequence[str | Path],
    *,
    arch: Names = "",
    device: Names = "",
    flags: Names = "-O3",
    args: Words = (),
    defines: Defines = (),
    includes: Folders = (),
    env: Mapping[str, str] | None = None,
    project: str | Path | None = None,
    grid: Shape | None = None,
    block: Shape | None = None,
    values: Mapping[str, float] | None = None,
    kernel: str = "",
    top: int = 0,
    lines: bool = False,
    what_if: bool = False,
    backend: str = "sim",
    exact: bool = False,
    effort: float = 1.0,
    per_kernel: int = 0,
    warm_l2: bool = False,
    budget_s: float = 0.0,
    timeout_s: float = 60.0,
    workers: int = 1,
) -> ExecutedProfile:
    """Compile a program, execute its kernels on the CPU, and count what the hardware counts.

    `path` is a HIP file, all files of a program, a folder with build files, or a Python script with Triton kernels;
    `args` are its arguments, `env` variables of its environment, `defines` macros (`{"N": 64}`), `project` the folder
    whose build files say how `path` is built. Several names of `arch`, `device` and `flags` give a result for each
    combination; without `arch` and `device`, one each for gfx90a and gfx942. `grid`, `block` and `values` are for
    kernels without main(). Of the kernels, those with `kernel` in their name are kept, and the `top` that take most
    time (0: all).

    `lines` attributes counts to source lines, `what_if` says what removing each cause of time is worth. `backend`: as
    of `synth profile`. `exact` runs every grid in full; other grids are sampled if they take over `effort` times the
    usual limit. Only the first `per_kernel` launches of each kernel and shape are counted (0: all). With `warm_l2`,
    launches find in the L2 what earlier ones read. `budget_s` bounds the work of all launches, `timeout_s` the
    processor time.

    Raises CompileFailed or BadInput if no target gives a kernel; otherwise a target that failed has its `reason`.
    """
    from hipsynth.simulator.limits import SAMPLING_UNITS, RunLimits, least_time
    from hipsynth.source.harness import HarnessChoices
    from hipsynth.toolchain import sandbox

    arguments, folders = list_words("args", args), list_folders(includes)
    check_positive(timeout_s=timeout_s, workers=workers, effort=effort, **({"budget_s": budget_s} if budget_s else {}))
    paths, macros = list_paths(path), list_defines(defines)
    other = {"flags": flags != "-O3", "backend": backend != "sim"}
    check_hip_only(paths[0], {"defines": bool(macros), "includes": bool(folders), "project": bool(project), **other})
    _check_choices(backend, {"lines": lines, "what_if": what_if, "warm_l2": warm_l2, "budget_s": budget_s > 0})
    _check_excluding({"exact": exact, "effort": effort != 1}, {"budget_s": budget_s > 0, "per_kernel": per_kernel > 0})
    if backend in ("sim", "preview"):
        sandbox.require_sandbox()
    limits = RunLimits(
        timeout_s if not budget_s else max(timeout_s, least_time(budget_s)), patient=not budget_s,
        sampling_units=0 if exact else SAMPLING_UNITS, effort=effort, per_kernel=per_kernel, warm_l2=warm_l2,
        budget_s=budget_s, lines=lines,
    )  # fmt: skip
    targets = list_targets(arch, device, tuple(with_defines(text, macros) for text in list_names(flags)))
    choices = HarnessChoices(complete_shape(grid), complete_shape(block), check_values(values))
    make_request = functools.partial(
        ProfileRequest, targets=targets, limits=limits, choices=choices, backend=backend, workers=workers,
        kernel_pattern=kernel, top=top, what_if=what_if, how_to_choose=HOW_IN_PYTHON,
    )  # fmt: skip
    call = ProgramCall(paths, arguments, folders, Path(project) if project else None, list_environment("env", env))
    return _profile_located(call, targets[0], limits, make_request)


@dataclass(frozen=True)
class ProgramCall:
    """Where a program is, what it is called with, and where its headers and build files are."""

    paths: Sequence[Path]
    arguments: tuple[str, ...]
    includes: Sequence[str]
    project: Path | None
    environment: tuple[tuple[str, str], ...]


def _profile_located(
    call: ProgramCall, target: Target, limits: RunLimits, make_request: Callable[[Project], ProfileRequest]
) -> ExecutedProfile:
    """The profile of a program; warns the caller of profile() of what was assumed of its launches. Raises as
    profile()."""
    from hipsynth.library.programs import locate_program
    from hipsynth.simulator.build import compile_limits

    notes = list[str]()
    with ExitStack() as scratch:
        keep = scratch.enter_context
        program = locate_program(
            call.paths, call.arguments, target.arch, keep, includes=call.includes, project=call.project,
            limits=compile_limits(limits), flags=target.flags,
        )  # fmt: skip
        program = replace(program, environment=call.environment)
        document = profile_project(make_request(program), keep, notes.append)
    require_kernel(document)
    for note in notes:
        warnings.warn(note, stacklevel=3)
    return document


def _check_choices(backend: str, of_simulator: Mapping[str, bool]) -> None:
    """Raises UsageError if something was chosen of the simulator, by its keyword, and another backend measures."""
    if wrong := [keyword for keyword, is_chosen in of_simulator.items() if is_chosen and backend != "sim"]:
        raise UsageError(f"{' and '.join(wrong)}: only for the simulator", remedy="leave it out, or the backend")


def _check_excluding(*pairs: Mapping[str, bool]) -> None:
    """Raises UsageError if all options of a pair, by their keywords, were chosen."""
    for pair in pairs:
        if all(pair.values()):
            raise UsageError(" excludes ".join(pair), remedy="give one of them")


def profile_project(request: ProfileRequest, keep: KeepFolder, say: Callable[[str], None]) -> ExecutedProfile:
    """The profile of a program that was located. `keep` enters the scratch folders that it needs; `say` is told what
    is assumed of the launches of kernels without main(). Raises KeyboardInterrupt if it was interrupted before the
    first kernel ended."""
    from hipsynth.core.program import project_program
    from hipsynth.profiling.matrix.job import profile_program
    from hipsynth.profiling.matrix.without_main import complete_project, name_original, needs_smaller_sizes
    from hipsynth.profiling.reports.filters import select_kernels

    project = completed = request.project
    choices = replace(request.choices, kernel=request.kernel_pattern)
    assumed: tuple[str, ...] = ()

    def profile_completed() -> list[TargetResult]:
        is_chosen = bool(choices or project.arguments)
        for note in (*assumed, *([request.how_to_choose] if assumed and not is_chosen else ())):
            say(note)
        return profile_program(
            project_program(completed), request.targets, request.backend, request.limits, request.workers,
            keep_interrupted=True,
        )  # fmt: skip

    if not request.backend.startswith("recorded"):  # what was recorded is found by the program's text
        completed, assumed = complete_project(project, choices, keep)
    results = profile_completed()
    if needs_smaller_sizes(assumed, choices, results):
        say(f"{results[0].reason.meaning}; with small sizes and large buffers:")
        completed, assumed = complete_project(project, choices, keep, careful=True)
        results = profile_completed()
    program = project_program(completed)
    results = select_kernels(name_original(results, completed, project), request.kernel_pattern, request.top)
    if any(result.reason == Reason.INTERRUPTED for result in results) and not any(r.kernels for r in results):
        raise KeyboardInterrupt  # there is nothing to show
    return ExecutedProfile.of(program.id, str(project.sources[0].path), results, request.what_if, assumed)


def require_kernel(document: ExecutedProfile) -> None:
    """Raises the error of the first target, for a profile without a kernel."""
    if any(result.kernels for result in document.measured):
        return
    result = document.measured[0]
    meaning = result.reason.meaning if result.reason else "it launches no kernel"
    kind = MissingDependency if result.reason == Reason.MISSING else BadInput
    raise kind(
        f"{document.program.path} cannot be profiled: {meaning}", cause=result.message, reason=result.reason or None
    )
