"""Runs a built program in the sandbox, in a copy of its own folder; what lies around that can be read there too."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from profiling import archs
from profiling.backend import Limits
from profiling.sim import api
from profiling.survey.build import Built
from profiling.survey.judge import Verdict, judge
from profiling.survey.plan import Program
from profiling.survey.sources import SKIPPED_FOLDERS

COPY_FILE_BYTES, COPY_BYTES, COPY_FILES = 64 << 20, 256 << 20, 5000
ATTEMPTS = 3
# What makes another try with other arguments worthwhile.
_RETRY = frozenset({"needs_arguments", "needs_data", "exit_code"})


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
    for number, arguments in enumerate(_argument_lists(program, built)):
        view = scratch / f"run{number}"
        folder = view / inside
        _copy_folder(built.plan.folder, folder, _own_output(built))
        done = _run(_placed(built, folder), arch, folder, limits, arguments, count, {str(view): root})
        verdict = judge(done, unasked=program.reads_arguments and not arguments)
        tries.append((verdict, done, arguments))
        if verdict.reason not in _RETRY:
            break
    return min(tries, key=lambda row: row[0].status == "failed")


def _argument_lists(program: Program, built: Built) -> list[tuple[str, ...]]:
    lists = [*built.plan.arguments[:1], (), *built.plan.arguments[1:], *program.arguments]
    return list(dict.fromkeys(lists))[:ATTEMPTS]


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
    device = archs.load(archs.default_device(arch))
    return api.run_program(built.artefacts, device, folder, limits, arguments, count=count, mounts=around)


def _placed(built: Built, folder: Path) -> Built:
    """With the executable in the run's folder, where programs look for their files; not where a file has its name."""
    assert built.artefacts is not None
    place = folder / (Path(built.plan.name).name or "program")
    if place.exists() or place.is_symlink():
        return built
    shutil.copy(built.artefacts.executable, place)
    return replace(built, artefacts=replace(built.artefacts, executable=place))


def _own_output(built: Built) -> Path | None:
    """The folder where the build left code objects that the program loads itself."""
    assert built.artefacts is not None
    place = built.artefacts.executable.parent / "run"
    return place if place.is_dir() else None


def _copy_folder(source: Path, target: Path, built: Path | None) -> None:
    """The program's folder with its data, so that it may write there; big files and version control stay behind."""
    target.mkdir(parents=True)
    spent = count = 0
    for path in _files(source):
        size = path.stat().st_size
        spent, count = spent + size, count + 1
        if size > COPY_FILE_BYTES or spent > COPY_BYTES or count > COPY_FILES:
            continue
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    if built is not None:
        shutil.copytree(built, target, dirs_exist_ok=True)


def _files(folder: Path) -> Iterator[Path]:
    for place, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if name not in SKIPPED_FOLDERS)
        for name in sorted(files):
            path = Path(place) / name
            if path.is_file() and not path.is_symlink():
                yield path
