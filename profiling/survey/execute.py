"""Runs a built program in the sandbox, in a copy of its own folder; what lies around that can be read there too."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from profiling import archs
from profiling.backend import Limits
from profiling.folders import copy_folder, placed
from profiling.sim import api
from profiling.survey.build import Built
from profiling.survey.judge import Verdict, judge
from profiling.survey.plan import Program

ATTEMPTS = 3
# What makes another try with other arguments worthwhile.
_RETRY = frozenset({"needs_arguments", "needs_data", "exit_code"})
USAGE_CHARS = 20_000
_LITERAL = re.compile(r"-{0,2}\d[\w.x,]*|--?[a-zA-Z][\w-]*(=[\w.-]+)?")


def run_built(
    program: Program, built: Built, arch: str, root: Path, scratch: Path, limits: Limits, count: bool
) -> tuple[Verdict, api.RunResult, tuple[str, ...]]:
    """Runs with the arguments that the build files give, else with none, else with documented ones.

    Programs read `../data`, so the run's folder lies in a read-only view of the surveyed folder `root`, at the place
    of the program's own. Returns the best verdict with its run and arguments.
    """
    own = built.plan.folder.resolve()
    inside = own.relative_to(root) if own.is_relative_to(root) else Path()
    tries: list[tuple[Verdict, api.RunResult, tuple[str, ...]]] = []
    lists = _argument_lists(program, built)
    while len(tries) < min(len(lists), ATTEMPTS):
        arguments, view = lists[len(tries)], scratch / f"run{len(tries)}"
        folder = view / inside
        done = _run(built, arch, folder, limits, arguments, count, {str(view): root})
        verdict = judge(done, unasked=program.reads_arguments and not arguments)
        tries.append((verdict, done, arguments))
        lost = verdict.reason == "host_crash" and program.reads_arguments and not arguments
        if verdict.reason not in _RETRY and not lost:
            return tries[-1]
        lists += [words for words in _own_examples(done, built, folder) if words not in lists]
    return tries[-1] if tries[-1][0].reason == "needs_data" else tries[0]  # what is missing says more than "arguments"


def _argument_lists(program: Program, built: Built) -> list[tuple[str, ...]]:
    lists = [*built.plan.arguments[:1], (), *built.plan.arguments[1:], *program.arguments]
    return list(dict.fromkeys(lists))


def _own_examples(done: api.RunResult, built: Built, folder: Path) -> list[tuple[str, ...]]:
    """Calls of itself with nothing but numbers, options and files at hand that a program's usage text shows."""
    name = re.escape(Path(built.plan.name).name)
    pattern = re.compile(rf"(?:^|[\s`'\"$>])(?:[\w./-]*/)?{name}((?:[ \t]+[^\s`'\"]+)+)[ \t]*[`'\"]?\.?$", re.MULTILINE)
    found = [tuple(match.split()) for match in pattern.findall(f"{done.stdout}\n{done.stderr}"[:USAGE_CHARS])]
    return [words for words in found if all(_LITERAL.fullmatch(word) or (folder / word).is_file() for word in words)]


def _run(
    built: Built,
    arch: str,
    folder: Path,
    limits: Limits,
    arguments: tuple[str, ...],
    count: bool,
    around: Mapping[str, Path],
) -> api.RunResult:
    assert built.artefacts is not None
    copy_folder(built.plan.folder, folder)
    own = _own_output(built)
    if own is not None:
        shutil.copytree(own, folder, dirs_exist_ok=True)
    artefacts = placed(built.artefacts, folder, built.plan.name)
    device = archs.load(archs.default_device(arch))
    return api.run_program(artefacts, device, folder, limits, arguments, count=count, mounts=around)


def _own_output(built: Built) -> Path | None:
    """The folder where the build left code objects that the program loads itself."""
    assert built.artefacts is not None
    place = built.artefacts.executable.parent / "run"
    return place if place.is_dir() else None
