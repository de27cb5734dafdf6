"""`synth profile` of one program as a function."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.errors import BadInput, MissingDependency
from hipsynth.core.reasons import Reason
from hipsynth.library.arguments import Folders, Words, check_positive, check_values, list_folders, list_words
from hipsynth.library.targets import Names, Shape, complete_shape, list_paths, list_targets
from hipsynth.profiling.reports.executed_profile import ExecutedProfile

if TYPE_CHECKING:
    from hipsynth.core.program import Project
    from hipsynth.core.scratch import KeepFolder
    from hipsynth.profiling.backends.protocol import Target, TargetResult
    from hipsynth.simulator.limits import RunLimits
    from hipsynth.source.harness import HarnessChoices


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


def profile(
    path: str | Path | Sequence[str | Path],
    *,
    arch: Names = "",
    device: Names = "",
    flags: Names = "-O3",
    args: Words = (),
    includes: Folders = (),
    grid: Shape | None = None,
    block: Shape | None = None,
    values: Mapping[str, float] | None = None,
    lines: bool = False,
    what_if: bool = False,
    exact: bool = False,
    budget_s: float = 0.0,
    timeout_s: float = 60.0,
    workers: int = 1,
) -> ExecutedProfile:
    """Compile a program, execute its kernels on the CPU, and count what the hardware counts.

    `path` is a HIP file, all files of a program, a folder with build files, or a Python script with Triton kernels;
    `args` are its arguments. Several names of `arch`, `device` and `flags` give a result for each combination; without
    `arch` and `device`, one each for gfx90a and gfx942. `grid`, `block` and `values` are for kernels without main().

    `lines` attributes counts to source lines, `what_if` says what removing each cause of time is worth, `exact` runs
    every grid in full, `budget_s` bounds the work of all launches, `timeout_s` the processor time.

    Raises CompileFailed or BadInput if no target gives a kernel; otherwise a target that failed has its `reason`.
    """
    from hipsynth.library.programs import locate_program
    from hipsynth.simulator.build import compile_limits
    from hipsynth.simulator.limits import SAMPLING_UNITS, RunLimits, least_time
    from hipsynth.source.harness import HarnessChoices
    from hipsynth.toolchain import sandbox

    arguments, folders = list_words("args", args), list_folders(includes)
    check_positive(timeout_s=timeout_s, workers=workers, **({"budget_s": budget_s} if budget_s else {}))
    sandbox.require_sandbox()
    limits = RunLimits(
        time_s=timeout_s if not budget_s else max(timeout_s, least_time(budget_s)),
        sampling_units=0 if exact else SAMPLING_UNITS,
        patient=not budget_s,
        budget_s=budget_s,
        lines=lines,
    )
    targets = list_targets(arch, device, flags)
    choices = HarnessChoices(complete_shape(grid), complete_shape(block), check_values(values))
    with ExitStack() as scratch:
        keep = scratch.enter_context
        project = locate_program(
            list_paths(path), arguments, targets[0].arch, keep, includes=folders,
            limits=compile_limits(limits), flags=targets[0].flags,
        )  # fmt: skip
        request = ProfileRequest(project, targets, limits, choices, workers=workers, what_if=what_if)
        notes = list[str]()
        document = profile_project(request, keep, notes.append)
    if not any(result.kernels for result in document.measured):
        raise_failure(document)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return document


def profile_project(request: ProfileRequest, keep: KeepFolder, say: Callable[[str], None]) -> ExecutedProfile:
    """The profile of a program that was located. `keep` enters the scratch folders that it needs; `say` is told what
    is assumed of the launches of kernels without main(). Raises KeyboardInterrupt if it was interrupted before the
    first kernel ended."""
    from hipsynth.core.program import project_program
    from hipsynth.profiling.matrix.job import profile_program
    from hipsynth.profiling.matrix.without_main import complete_project, name_original, needs_smaller_sizes
    from hipsynth.profiling.reports.filters import select_kernels
    from hipsynth.source.harness import HOW_TO_CHOOSE

    project = completed = request.project
    choices = replace(request.choices, kernel=request.kernel_pattern)
    assumed: tuple[str, ...] = ()

    def profile_completed() -> list[TargetResult]:
        is_chosen = bool(choices or project.arguments)
        for note in (*assumed, *([HOW_TO_CHOOSE] if assumed and not is_chosen else ())):
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


def raise_failure(document: ExecutedProfile) -> None:
    """Raises the error of the first target, for a profile without a kernel."""
    result = document.measured[0]
    meaning = result.reason.meaning if result.reason else "it launches no kernel"
    kind = MissingDependency if result.reason == Reason.MISSING else BadInput
    raise kind(
        f"{document.program.path} cannot be profiled: {meaning}", cause=result.message, reason=result.reason or None
    )
