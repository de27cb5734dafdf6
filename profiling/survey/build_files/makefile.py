"""Build plans from a Makefile: `make -n` in the sandbox, with stub scripts in place of ROCm's tools."""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth.core.files import leads_to_file
from hipsynth.core.scratch import scratch_folder
from hipsynth.profiling.survey.build_files import rocm
from hipsynth.profiling.survey.build_files.commands import plans_of, simple_commands, steps_of
from hipsynth.profiling.survey.build_files.run_lines import calls_of
from hipsynth.profiling.survey.build_plan import BuildPlan, Invocation
from hipsynth.profiling.survey.sources import read_text
from hipsynth.toolchain import sandbox

_LIMITS = sandbox.SandboxLimits(
    **sandbox.time_limits(20), memory_bytes=1 << 30, output_bytes=4 << 20, file_bytes=16 << 20, processes=64
)
MOST_RUNS = 24  # of recursive makes, for one goal
_RUN_GOAL = re.compile(r"^(?:run|test|check|bench)[\w-]*$")


@functools.cache
def make_available() -> bool:
    """Whether make is installed and the sandbox works; required because a Makefile may run any command."""
    return shutil.which("make") is not None and sandbox.is_available()


def make_plans(makefile: Path, root: Path, arch: str, shows: Sequence[Path] = ()) -> list[BuildPlan]:
    """Plans for the programs that the default goal of `makefile`, and other goals that look like programs, would link.

    `shows`: further folders that make sees, with prerequisites outside `root`. Only dry runs, nothing is built, and no
    more after one that exceeded a limit: not for calls of the programs found by then, either. Empty if make fails or
    is not available.
    """
    if not make_available():
        return []
    view = MakeView(root, arch, tuple(shows))
    plans: dict[str, BuildPlan] = {}
    for goals in ((), *((goal,) for goal in _further_goals(makefile))):
        text = dry_run(makefile, view, goals)
        if not text:
            return list(plans.values())
        for plan in _plans_of_text(text, makefile):
            plans.setdefault(plan.name, plan)
    calls = _goal_calls(makefile, view, list(plans)) if plans else {}
    return [replace(plan, calls=tuple(calls.get(plan.name, ()))) for plan in plans.values()]


def _plans_of_text(text: str, makefile: Path) -> list[BuildPlan]:
    return plans_of(steps_of(simple_commands(text, makefile.parent)), makefile.parent, "make")


_Run = tuple[Path, tuple[str, ...]]


@dataclass(frozen=True)
class MakeView:
    """What dry runs of make see: the folder `root`, and further folders `shows`; programs are built for `arch`."""

    root: Path
    arch: str
    shows: tuple[Path, ...] = ()


def dry_run(
    makefile: Path, view: MakeView, goals: tuple[str, ...], depth: int = 2, visited: set[_Run] | None = None
) -> str:
    """Output of `make -n` for `goals`, including recursive makes up to `depth` levels; "" if it exceeds a limit.

    `visited`: the recursive makes that have run, each of which runs once.
    """
    with scratch_folder() as scratch:
        tools = rocm.stand_in(scratch / "rocm", view.arch)
        command = ["make", "-n", "-B", "-k", "-w", "-C", str(makefile.parent), "-f", makefile.name, *goals]
        environment = {
            **rocm.ENVIRONMENT,
            **dict.fromkeys(("HIPCC", "HIPCXX", "HIPLD"), "hipcc"),  # defaults for Makefiles that leave these unset
            "MAKEFLAGS": "",
        }
        (scratch / "work").mkdir()
        process = sandbox.run_sandboxed(
            command, scratch / "work", _LIMITS, read_only=[view.root, *view.shows], env=environment,
            mounts={rocm.PLACE: tools},
        )  # fmt: skip
    if process.status in (sandbox.JobStatus.TIMEOUT, sandbox.JobStatus.KILLED):
        return ""
    if depth == 0:
        return process.stdout
    visited = {(makefile, goals)} if visited is None else visited
    return process.stdout + "".join(_run_recursive_makes(process.stdout, makefile, view, depth - 1, visited))


def _run_recursive_makes(text: str, makefile: Path, view: MakeView, depth: int, visited: set[_Run]) -> Iterator[str]:
    """Dry runs of recursive makes called as plain `make`; unlike $(MAKE), `make -n` prints but does not enter them."""
    for folder, words, *_ in simple_commands(text, makefile.parent):
        if words[0] != "make" or not folder.is_relative_to(view.root):
            continue
        place, goals, rest = folder / makefile.name, list[str](), iter(words[1:])
        for word in rest:
            if word == "-C":
                place = folder / next(rest, ".") / makefile.name
            elif word == "-f":
                place = place.parent / next(rest, makefile.name)
            elif not word.startswith("-"):
                goals.append(word)
        run = (place.resolve(), tuple(goals))
        is_new = run not in visited and len(visited) < MOST_RUNS
        if is_new and leads_to_file(run[0]) and run[0].is_relative_to(view.root):
            visited.add(run)
            yield dry_run(run[0], view, run[1], depth, visited)


def _further_goals(makefile: Path) -> list[str]:
    """Goals other than the default that look like programs (at most 40)."""
    text = read_text(makefile)
    goals = re.findall(r"^([A-Za-z0-9_][\w.-]*)\s*:(?!=)", text, re.MULTILINE)
    chosen_goals = [goal for goal in dict.fromkeys(goals) if not _RUN_GOAL.match(goal) and not _is_cleaning_goal(goal)]
    return [goal for goal in chosen_goals if Path(goal).suffix in ("", ".exe", ".out", ".x")][:40]


def _is_cleaning_goal(goal: str) -> bool:
    return "clean" in goal or goal in ("install", "uninstall", "help", "distclean", "format", "docs")


def _run_goals(makefile: Path) -> list[str]:
    text = read_text(makefile)
    goals = [goal for goal in re.findall(r"^([\w-]+)\s*:(?!=)", text, re.MULTILINE) if _RUN_GOAL.match(goal)]
    return list(dict.fromkeys(goals))[:4]


def _goal_calls(makefile: Path, view: MakeView, names: Sequence[str]) -> dict[str, list[Invocation]]:
    """Program name -> calls found in goals such as `run` and `test`."""
    invocations: dict[str, list[Invocation]] = {}
    for goal in _run_goals(makefile):
        text = dry_run(makefile, view, (goal,))
        for name, call in calls_of(text, makefile.parent, names, view.root):
            invocations.setdefault(name, []).append(call)
    return invocations
