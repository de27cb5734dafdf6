"""Public Triton programs on the virtual GPU: what runs, what fails and why. Writes docs/reference/triton-coverage.md.

python -m studies.triton_coverage SOURCES [--arch ARCH] [--only TEXT]    measures what triton_coverage.toml lists
python -m studies.triton_coverage                                        writes the page from what was measured
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hipsynth.core.files import write_whole
from hipsynth.core.languages import SourceLanguage
from hipsynth.core.program import Project, SourceFile
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.core.scratch import scratch_folder
from hipsynth.core.tables import read_table
from hipsynth.simulator import api, devices
from hipsynth.simulator.limits import RunLimits
from hipsynth.simulator.run_folder import place_program
from hipsynth.simulator.run_result import RunResult
from hipsynth.simulator.scripts.compiled_kernels import reuse_compiled
from hipsynth.simulator.scripts.prepare import package_versions, prepare_script
from studies.result_origin import describe_days, record_day

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "triton-coverage.md"
PROGRAMS, RESULTS = (Path(__file__).with_suffix(suffix) for suffix in (".toml", ".json"))
ARCHS = {"gfx90a": "MI250X", "gfx942": "MI300X", "gfx950": "MI350X"}
SCRIPT = "hipsynth_trial.py"
SECONDS = 120.0  # of processor time for a program
LONGEST_WHY = 160
UNRECORDED = "versions that were not recorded"
ABSENT = "Block pointers have been removed"  # by Triton 3.9
HEAD = """# What runs of public Triton code

Kernels of public projects on the virtual GPU, with {versions}; none of their files are in this repository. A script
of ours runs each at a small size, in the sandbox, with every program of a grid, and the project's own check of its
results decides. {days}.
[studies/triton_coverage.toml](../../studies/triton_coverage.toml) has the sources, versions and scripts; `python
-m studies.triton_coverage SOURCES` tries them again, where SOURCES has a folder with the files of each project. MI250X
and MI350X have a sample: each twelfth program of a project, from the first (`--sample 12`).
"""


@dataclass(frozen=True)
class ProgramRow:
    """A program in its folder, and the script that runs it."""

    name: str
    folder: str
    code: str


@dataclass(frozen=True)
class CollectionRow:
    """A program for each folder that a pattern matches."""

    folders: str
    code: str


@dataclass(frozen=True)
class ProjectRow:
    """A project of triton_coverage.toml, which explains its columns."""

    folder: str
    title: str
    source: str
    version: str
    prelude: str = ""
    program: tuple[ProgramRow, ...] = ()
    collection: tuple[CollectionRow, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProgramTable:
    """The content of triton_coverage.toml."""

    project: tuple[ProjectRow, ...]


@dataclass(frozen=True)
class TrialProgram:
    """One program of a project: `folder` below the project's, and the script of ours that runs it there. `number`: its
    place in the project, from 0."""

    project: str
    number: int
    name: str
    folder: Path
    script: str


@dataclass(frozen=True)
class TrialResult:
    """How a program ended on one architecture. `why` is "" if it passed; `day`, and `versions` of Triton and torch, are
    "" if it was tried before they were recorded."""

    project: str
    program: str
    arch: str
    passed: bool
    why: str
    day: str = ""
    versions: str = ""


def list_projects() -> tuple[ProjectRow, ...]:
    """The projects of triton_coverage.toml."""
    return read_table(PROGRAMS, ProgramTable).project


def list_programs(sources: Path) -> Iterator[TrialProgram]:
    """The programs whose files lie in `sources`."""
    for project in list_projects():
        folder = sources / project.folder
        programs = [(row.name, folder / row.folder, row.code) for row in project.program]
        for collection in project.collection:
            tasks = sorted(folder.glob(collection.folders), key=lambda path: path.name)
            programs += [(task.name, task, collection.code) for task in tasks]
        present_programs = [program for program in programs if program[1].is_dir()]
        for number, (name, place, code) in enumerate(present_programs):
            yield TrialProgram(project.title, number, name, place, project.prelude + code)


def try_program(program: TrialProgram, arch: str) -> TrialResult:
    """Runs a program in the sandbox, each kernel in full. What fails in this machinery is a result, too."""
    try:
        why = _run_trial(program, arch)
    except Exception as error:  # one program must not end the others
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"[:LONGEST_WHY]
    return TrialResult(program.project, program.name, arch, not why, why, record_day(), package_versions())


def _run_trial(program: TrialProgram, arch: str) -> str:
    """Why a program failed; "" if it passed."""
    with scratch_folder() as scratch:
        folder = scratch / "program"
        shutil.copytree(program.folder, folder)
        script = folder / SCRIPT
        script.write_text(program.script)
        project = Project((SourceFile(script, SourceLanguage.PYTHON),), folder)
        placed = place_program(project, SCRIPT, prepare_script(script), scratch / "run")
        limits = RunLimits(time_s=SECONDS, sampling_units=0, caches=False)
        table = devices.load_device(devices.default_device(arch))
        with reuse_compiled(project, placed.artefacts, placed.folder) as runnable:
            result = api.run_program(runnable, table, placed.folder, limits)
    return "" if result.status == RunStatus.OK and not result.exit_code else _explain_failure(result)


def _explain_failure(result: RunResult) -> str:
    """Why a program failed, in one line: the device's reason, or the last words of the program itself."""
    if result.reason not in (Reason.NONE, Reason.NO_DISPATCH):
        return f"{result.reason}: {' '.join(result.message.split())}"[:LONGEST_WHY]
    errors, printed = (
        [line.strip() for line in text.splitlines() if line.strip()] for text in (result.stderr, result.stdout)
    )
    of_tests = [line for line in printed if line.startswith(("FAILED ", "ERROR "))]
    of_tests += [line[1:].strip() for line in printed if line.startswith("E  ")]
    raised = errors[-1:] if errors and "Error" in errors[-1] else []
    last = [*printed[-1:], *raised, *of_tests[-1:]]
    return (last[-1] if last else f"exit code {result.exit_code}")[:LONGEST_WHY]


def read_results() -> dict[tuple[str, str, str], TrialResult]:
    """What was measured: (project, program, architecture) -> result."""
    rows = [TrialResult(**row) for row in json.loads(RESULTS.read_text())] if RESULTS.exists() else []
    return {(row.project, row.program, row.arch): row for row in rows}


def write_results(results: dict[tuple[str, str, str], TrialResult]) -> None:
    """Keeps what was measured, a row a line."""
    rows = [json.dumps(asdict(results[key])) for key in sorted(results)]
    write_whole(RESULTS, "[\n" + ",\n".join(rows) + "\n]\n")


def describe_coverage(results: Sequence[TrialResult]) -> Iterator[str]:
    """The page."""
    versions = sorted({row.versions or UNRECORDED for row in results})
    yield HEAD.format(versions=" and ".join(versions), days=describe_days(row.day for row in results))
    for project in list_projects():
        rows = [row for row in results if row.project == project.title]
        if rows:
            yield f"## {project.title}\n"
            yield f"{project.source}; {project.version}.\n"
            yield from _render_project(rows, project.reasons)


def _render_project(rows: Sequence[TrialResult], reasons: Mapping[str, str]) -> Iterator[str]:
    archs = [arch for arch in ARCHS if any(row.arch == arch for row in rows)]
    for arch in archs:
        arch_rows = [row for row in rows if row.arch == arch]
        good, absent = sum(row.passed for row in arch_rows), sum(ABSENT in row.why for row in arch_rows)
        others = f" ({len(arch_rows) - absent} without those that need block pointers)" if absent else ""
        yield f"- {ARCHS[arch]} ({arch}): {good} of {len(arch_rows)} pass{others}."
    failed = [row for row in rows if not row.passed]
    if failed:
        yield "\n| fails | on | why |\n|---|---|---|"
        for row in failed:
            why = reasons.get(row.program, row.why).replace("|", "\\|").replace("<", "&lt;")
            yield f"| {row.program} | {ARCHS[row.arch]} | {why} |"
    passed = dict.fromkeys(row.program for row in rows if row.passed)
    yield f"\nPass on at least one: {', '.join(passed)}.\n"


def write_page() -> None:
    """Writes docs/reference/triton-coverage.md."""
    write_whole(PAGE, "\n".join(describe_coverage(list(read_results().values()))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="?", type=Path)
    parser.add_argument("--arch", action="append", choices=list(ARCHS))
    parser.add_argument("--only", action="append", default=[], help="programs with this in their names")
    parser.add_argument("--sample", type=int, default=0, help="each N-th program of a project, the first among them")
    parser.add_argument("--missing", action="store_true", help="only what was not measured yet")
    parser.add_argument("--at-once", type=int, default=1, help="programs that run at the same time")
    options = parser.parse_args()
    results = read_results()
    trials = [
        (program, arch)
        for program in (list_programs(options.sources) if options.sources else ())
        for arch in options.arch or ARCHS
        if not options.only or any(text in program.name for text in options.only)
        if not options.sample or program.number % options.sample == 0
        if not options.missing or (program.project, program.name, arch) not in results
    ]
    for result in iterate_results(trials, options.at_once):
        results[result.project, result.program, result.arch] = result
        print(f"{result.program} on {result.arch}: {result.why or 'passes'}", file=sys.stderr, flush=True)
        write_results(results)
    write_page()


def iterate_results(trials: Sequence[tuple[TrialProgram, str]], at_once: int) -> Iterator[TrialResult]:
    """The results of trials, in the order in which they end. An interruption lets no further trial begin."""
    pool = ThreadPoolExecutor(at_once)
    try:
        for future in as_completed([pool.submit(try_program, *trial) for trial in trials]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


if __name__ == "__main__":
    main()
