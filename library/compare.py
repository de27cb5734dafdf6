"""`synth compare` as a function."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.errors import BadInput, HipsynthError, UsageError
from hipsynth.library.arguments import Folders, Words, check_positive, list_folders, list_words
from hipsynth.library.targets import Names, list_names, list_targets
from hipsynth.profiling.compare.documents import CompareDocument
from hipsynth.profiling.reports.documents import ProfileDocument
from hipsynth.simulator.devices import DEFAULT_ARCH

if TYPE_CHECKING:
    from hipsynth.core.scratch import KeepFolder
    from hipsynth.profiling.backends.protocol import Target, TargetResult
    from hipsynth.profiling.compare.line_pairs import ReadLines
    from hipsynth.simulator.limits import RunLimits


@dataclass(frozen=True)
class ComparedRequest:
    """How both sides of a comparison are measured."""

    arguments: tuple[str, ...]
    includes: Sequence[str]
    limits: RunLimits
    workers: int
    say: Callable[[str], None]  # is told what was assumed of kernels without main()


def compare(
    a: str | Path | ProfileDocument,
    b: str | Path | ProfileDocument | None = None,
    *,
    arch: Names = "",
    device: Names = "",
    flags: Names = "-O3",
    args: Words = (),
    includes: Folders = (),
    exact: bool = False,
    lines: bool = False,
    timeout_s: float = 60.0,
    workers: int = 1,
    slower_limit_percent: float | None = None,
) -> CompareDocument:
    """Compare the kernels of A and B: durations with their uncertainty, why they changed, metrics and counters.

    Each is a HIP file, a program folder, a Python script with Triton kernels, a profile, a file with one
    ("FILE.json"), or a revision of a file ("REV:FILE"); without `b`, A is compared with itself. Two names of `arch`,
    `device` or `flags` are A's and B's, one is both's. `lines` compares source lines, too; those
    of a profile that was read are paired by number, without their text.

    Raises BadInput if a side cannot be profiled, UsageError if there is nothing to compare.
    """
    from hipsynth.profiling.compare.differ import compare_profiles
    from hipsynth.simulator.limits import SAMPLING_UNITS, RunLimits
    from hipsynth.toolchain import sandbox

    arguments, folders = list_words("args", args), list_folders(includes)
    check_positive(timeout_s=timeout_s, workers=workers)
    names = [list_names(kind) for kind in (arch, device, flags)]
    variants = max(map(len, names))
    if variants > 2 or (b is None and variants < 2):
        problem = "more than two targets" if variants > 2 else "nothing to compare it with"
        raise UsageError(problem, remedy="give b, or two of arch, device or flags")
    sandbox.require_sandbox()
    limits = RunLimits(time_s=timeout_s, sampling_units=0 if exact else SAMPLING_UNITS, patient=True, lines=lines)
    request = ComparedRequest(arguments, folders, limits, workers, warnings.warn)
    profiles, sources = list[ProfileDocument](), list[str]()
    reader_a, reader_b = choose_reader(a), choose_reader(a if b is None else b)
    with ExitStack() as scratch:  # holds the files of revisions until their lines are compared
        for number, side in enumerate((a, a if b is None else b)):
            if isinstance(side, ProfileDocument):
                profiles.append(side)
                sources.append(side.program.path)
                continue
            wanted = choose_target(number, *names)
            profiles.append(profile_side(str(side), wanted, request, scratch.enter_context))
            sources.append(str(side))
        names_of_sides = sources[0], sources[1]
        return compare_profiles(profiles[0], profiles[1], names_of_sides, slower_limit_percent, (reader_a, reader_b))


def choose_reader(side: str | Path | ProfileDocument) -> ReadLines:
    """What gives the source lines of a side's files: of a profile that was read, which may name any file of this
    machine, nothing does."""
    from hipsynth.profiling.compare.line_pairs import read_no_lines
    from hipsynth.profiling.reports.executed_profile import ExecutedProfile
    from hipsynth.profiling.reports.lines import source_lines

    is_read = not isinstance(side, ExecutedProfile) if isinstance(side, ProfileDocument) else _is_document(str(side))
    return read_no_lines if is_read else source_lines


def _is_document(side: str) -> bool:
    return side.endswith(".json")


def choose_target(
    number: int, archs: Sequence[str], devices: Sequence[str], flags: Sequence[str]
) -> tuple[Target, ...]:
    """The targets of A (0) or B (1)."""
    arch, device, own_flags = (
        values[min(number, len(values) - 1)] if values else "" for values in (archs, devices, flags)
    )
    return list_targets(arch or ("" if device else DEFAULT_ARCH), device, own_flags or "-O3")


def profile_side(side: str, wanted: Sequence[Target], request: ComparedRequest, keep: KeepFolder) -> ProfileDocument:
    """The profile of A or B: read, or measured. Raises BadInput if no target has one."""
    from hipsynth.core.program import project_program
    from hipsynth.core.scratch import scratch_folder
    from hipsynth.library.programs import locate_program
    from hipsynth.profiling.compare.sides import checkout_file, read_profile, split_revision
    from hipsynth.profiling.matrix.job import profile_program
    from hipsynth.profiling.matrix.without_main import complete_project, name_original
    from hipsynth.profiling.reports.describe import profile_document
    from hipsynth.simulator.build import compile_limits
    from hipsynth.source.harness import HarnessChoices

    if _is_document(side):
        return read_profile(Path(side))
    revision = split_revision(side)
    path = Path(side) if revision is None else checkout_file(*revision, keep(scratch_folder()))
    project = locate_program(
        [path], request.arguments, wanted[0].arch, keep, includes=request.includes,
        limits=compile_limits(request.limits), flags=wanted[0].flags,
    )  # fmt: skip
    completed, notes = complete_project(project, HarnessChoices(), keep)
    for note in notes:
        request.say(note)
    program = project_program(completed)
    results = name_original(
        profile_program(program, wanted, "sim", request.limits, request.workers), completed, project
    )
    if failed := [result for result in results if not result.kernels]:
        raise _side_failure(side, failed[0])
    return profile_document(program.id, side, results)


def _side_failure(side: str, result: TargetResult) -> HipsynthError:
    reason = result.reason.meaning if result.reason else "it launches no kernel"
    cause = result.message or reason
    return BadInput(
        f"{side} cannot be profiled: {reason}",
        cause=cause,
        remedy=(result.reason.remedy if result.reason else "") or f"synth profile {side}",
        reason=result.reason or None,
    )
