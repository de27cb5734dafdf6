"""Runs `synth optimize` on the naive handwritten programs, beside the versions written by hand, and writes the tables
of docs/reference/optimize.md.

    python -m studies.optimize_table FOLDER [--only PROBLEM ...] [--arch A ...] [--budget S] [--workers N] [--page]
    python -m studies.optimize_table FOLDER --programs CHECKOUT [...]

With --programs, it takes the HIP programs of a folder instead. FOLDER/optimized.jsonl keeps the results, with the day
and the tools, and a second call goes on: programs whose text has changed since are searched again; --page writes the
page, else the tables are printed.
"""

from __future__ import annotations

import argparse
import functools
import math
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth.core.documents import JsonObject, document_json, from_json
from hipsynth.core.errors import HipsynthError
from hipsynth.core.journal import ResultJournal
from hipsynth.core.workers import map_unordered
from hipsynth.library.harness import read_runnable
from hipsynth.simulator.devices import device_of, load_device
from hipsynth.tuning.optimize.confirm import DRAWN
from hipsynth.tuning.optimize.documents import OptimizeDocument, SearchEnd, SearchStatus, list_path
from hipsynth.tuning.optimize.evaluate import SHORT_LAUNCH
from hipsynth.tuning.optimize.optimize import OptimizeRequest, optimize_program
from hipsynth.tuning.trial import target_of
from studies import handwritten
from studies.found_programs import FoundProgram, ProgramCollection, find_programs
from studies.handwritten import HandwrittenStep
from studies.markdown import format_table, write_tables
from studies.result_origin import UNKNOWN, ResultOrigin, describe_origins, record_origin

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "optimize.md"
ARCHS = ("gfx90a", "gfx942")
BUDGET_S = 60.0  # what `synth optimize` takes unasked
IMPROVED = 1.02  # speed-up from which a program counts as improved
HEAD = ("problem", "program", "before, us", "after, us", "speed-up", "by hand", "by hand in halves", "steps")
HALVES = re.compile(r"\b(_Float16|__half2?|half2|__hip_bfloat16)\b")  # `half` alone is also a name of variables
# Steps that do other work than the first one of their problem, so that their times say nothing of it.
OTHER_WORK = frozenset({
    "convolution_separable",  # another filter
    "hash_lds_partitions",  # keys that come partitioned
    "smith_waterman_batch",  # many short pairs in place of a long one
    "softmax_online_long_rows",
    "stencil2d_two_sweeps",
})  # fmt: skip
OWN_COMMAND, COLLECTION_COMMAND = "optimize_table FOLDER --page", "--programs"  # as the page's places name them
ENDS = {
    SearchEnd.BUDGET: "at the end of its budget",
    SearchEnd.CLOCK: "by the clock",
    SearchEnd.NOTHING_LEFT: "with nothing left to try",
}


@dataclass(frozen=True)
class OptimizedProgram:
    """What the search made of the first step of a problem. `by_hand`: how many times as fast the fastest step of the
    problem is, `hand_step`, without those in half precision, which no search may choose; `in_halves`: the fastest of
    these, 0 without any. `answer`: None where the search refused, because of `refusal`."""

    problem: str
    program: str
    arch: str
    budget_s: float
    by_hand: float
    hand_step: str
    answer: OptimizeDocument | None
    refusal: str = ""
    in_halves: float = 0.0
    collection: str = ""  # the name of the folder of programs, which have no version by hand
    origin: ResultOrigin = UNKNOWN

    @property
    def is_comparable(self) -> bool:
        """Whether the original runs, and can be compared."""
        return self.answer is not None and self.answer.status != SearchStatus.REFUSED

    @property
    def speedup(self) -> float:
        return max(1.0, self.answer.speedup) if self.answer is not None else 1.0


@dataclass(frozen=True)
class OptimizeJob:
    """The first step of a problem, or a program of a collection, to be optimized on an architecture. `clock_s`: the
    longest time on the clock, 0 for the usual one."""

    problem: str
    arch: str
    budget_s: float
    clock_s: float = 0.0
    program: FoundProgram | None = None

    @property
    def key(self) -> str:
        name = self.problem if self.program is None else f"{self.program.collection}/{self.problem}"
        return f"{name} {self.arch} {self.budget_s:g}"


def group_steps() -> dict[str, list[HandwrittenStep]]:
    """The steps of each handwritten problem that has several, the naive one first, without those of other work."""
    problems: dict[str, list[HandwrittenStep]] = {}
    for step in handwritten.list_steps():
        problems.setdefault(step.problem, []).append(step)
    return {
        problem: [step for step in steps if step.name not in OTHER_WORK]
        for problem, steps in problems.items()
        if len(steps) > 1 and steps[0].number == 1
    }


def list_naive_steps() -> Iterator[tuple[str, Path]]:
    """The first step of each problem that has several."""
    for problem, steps in group_steps().items():
        yield problem, steps[0].path


def search_program(folder: Path, job: OptimizeJob, path: Path, text: str) -> tuple[OptimizeDocument | None, str]:
    """(The answer of the search, or None; why it was refused)."""
    request = OptimizeRequest(text, target_of(job.arch), job.budget_s, journal=folder / "runs", clock_s=job.clock_s)
    try:
        return optimize_program(request).document(Path(path.name), job.arch, request.target.flags), ""
    except HipsynthError as error:
        return None, f"{error.what}: {error.cause}"


def optimize_job(folder: Path, job: OptimizeJob) -> OptimizedProgram:
    """Searches; for a problem written by hand, profiles all steps of it, too."""
    if job.program is not None:
        answer, refusal = optimize_found_program(folder, job, job.program)
        name, collection = job.program.path.stem, job.program.collection
        return OptimizedProgram(
            job.problem, name, job.arch, job.budget_s, 1.0, "", answer, refusal, collection=collection
        )
    steps = group_steps()[job.problem]
    first = steps[0]
    durations = {step.name: handwritten.measure_step(step, job.arch).sum_launches("Duration") for step in steps}
    gains = {name: durations[first.name] / duration for name, duration in durations.items()}
    in_halves = [step.name for step in steps if HALVES.search(step.path.read_text())]
    fastest = max(gains.keys() - in_halves, key=lambda name: gains[name])
    half_gain = max((gains[name] for name in in_halves), default=0.0)
    answer, refusal = search_program(folder, job, first.path, first.path.read_text())
    return OptimizedProgram(
        job.problem, first.name, job.arch, job.budget_s, gains[fastest], fastest, answer, refusal, half_gain
    )


def optimize_found_program(
    folder: Path, job: OptimizeJob, program: FoundProgram
) -> tuple[OptimizeDocument | None, str]:
    """(The answer of the search for a program of a collection, or None; why it was refused)."""
    try:
        text, _ = read_runnable(program.path, target_of(job.arch), program.includes)
    except HipsynthError as error:
        return None, f"{error.what}: {error.cause}"
    return search_program(folder, job, program.path, text)


def open_results(folder: Path) -> ResultJournal[JsonObject]:
    """The documents of the results that a folder keeps."""
    folder.mkdir(parents=True, exist_ok=True)
    return ResultJournal(folder / "optimized.jsonl", lambda entry: document_json(from_json(OptimizedProgram, entry)))


def read_results(folder: Path) -> list[OptimizedProgram]:
    """The results that a folder keeps."""
    return [from_json(OptimizedProgram, document) for document in open_results(folder).read().values()]


def collect_results(folder: Path, jobs: Iterable[OptimizeJob], workers: int) -> None:
    """Runs the jobs whose results are not there yet."""
    results = open_results(folder)
    there = {key: from_json(OptimizedProgram, document) for key, document in results.read().items()}
    naive, waiting = dict(list_naive_steps()), list(jobs)
    paths = {job.key: naive[job.problem] if job.program is None else job.program.path for job in waiting}
    texts = {key: path.read_text(errors="replace") for key, path in paths.items()}
    missing = [job for job in waiting if job.key not in there or not there[job.key].origin.is_of(texts[job.key])]
    for outcome in map_unordered(functools.partial(optimize_job, folder), missing, workers):
        job = missing[outcome.index]
        result = replace(outcome.get(), origin=record_origin(texts[job.key]))
        results.add(job.key, document_json(result))
        print(f"{job.key}: {result.speedup:.2f} times, by hand {result.by_hand:.2f}", file=sys.stderr, flush=True)


def name_path(answer: OptimizeDocument) -> str:
    """The transformations that led to the answer, each with its kernel."""
    return ", ".join(f"{step.transformation} {step.kernel}" for step in list_path(answer.steps, answer.step))


def format_row(row: OptimizedProgram) -> list[str]:
    answer = row.answer
    by_hand = [
        f"{row.by_hand:.2f} `{row.hand_step}`" if row.by_hand >= IMPROVED else "1.00",
        f"{row.in_halves:.2f}" if row.in_halves else "",
    ]
    if answer is None or answer.status != SearchStatus.IMPROVED:
        why = row.refusal if answer is None else answer.reason
        return [row.problem, f"`{row.program}`", "", "", "1.00", *by_hand, why.rstrip(".")]
    sizes = "" if answer.holds else " (not at all sizes)"
    times = [f"{answer.before_ns / 1e3:.1f}", f"{answer.after_ns / 1e3:.1f}", f"{answer.speedup:.2f}{sizes}"]
    return [row.problem, f"`{row.program}`", *times, *by_hand, name_path(answer)]


def summarise_results(rows: Sequence[OptimizedProgram]) -> str:
    """Shares and means over the programs of an architecture."""
    improved = sum(row.speedup >= IMPROVED for row in rows)
    mean = statistics.geometric_mean(row.speedup for row in rows)
    hand = statistics.geometric_mean(row.by_hand for row in rows)
    better = [row for row in rows if row.by_hand >= IMPROVED]
    gained = sum(math.log(min(row.speedup, row.by_hand)) for row in better)
    share = gained / sum(math.log(row.by_hand) for row in better) if better else 1.0
    ends = Counter(row.answer.ended for row in rows if row.answer is not None)
    budgets = ", ".join(f"{budget:g} s" for budget in sorted({row.budget_s for row in rows}))
    return (
        f"{improved} of {len(rows)} programs are faster, in geometric mean {mean:.2f} times; the fastest versions by "
        f"hand {hand:.2f} times. Of the {len(better)} programs that were improved by hand, the search finds "
        f"{100 * share:.0f} % of that log-gain. Budget {budgets}; the search ended "
        + ", ".join(f"{number} times {ENDS[end]}" for end, number in sorted(ends.items()))
        + "."
    )


COLLECTION_HEAD = ("program", "before, us", "after, us", "speed-up", "at shapes not seen", "ended", "steps")


def format_collection(collection: ProgramCollection, results: Sequence[OptimizedProgram]) -> str:
    """The tables of a folder of programs by architecture, each with its summary; what is left out, and why."""
    rows = [row for row in results if row.collection == collection.name]
    text = f"\n{describe_origins(row.origin for row in rows)}.\n"
    for arch in ARCHS:
        ran = sorted((row for row in rows if row.arch == arch and row.is_comparable), key=lambda row: row.problem)
        if ran:
            table = format_table(COLLECTION_HEAD, [format_found_program(row) for row in ran])
            text += f"\n### {collection.name}, {arch}\n\n{summarise_collection(ran)}\n\n{table}"
    reasons = {row.problem: explain_refusal(row) for row in rows if not row.is_comparable}
    lines = [f"- `{problem}`: {reason}" for problem, reason in sorted(reasons.items())]
    lines += [f"- {why}: {', '.join(f'`{name}`' for name in names)}" for why, names in collection.left_out.items()]
    return text + ("\nLeft out:\n\n" + "\n".join(lines) + "\n" if lines else "")


def explain_refusal(row: OptimizedProgram) -> str:
    """Why a program does not run, or cannot be compared: the first line, without the compiler's paths."""
    reason = row.refusal if row.answer is None else row.answer.reason
    line = re.sub(r"\S*/", "", reason.strip().splitlines()[0])
    return line[:160].rstrip(" .:")


def format_found_program(row: OptimizedProgram) -> list[str]:
    """A row of a collection's table."""
    answer = row.answer
    if answer is None or answer.status != SearchStatus.IMPROVED:
        reason, ended = ("", "") if answer is None else (answer.reason, str(answer.ended))
        return [f"`{row.problem}`", "", "", "1.00", "", ended, reason.rstrip(".")]
    others = ", ".join(f"{shape.speedup:.2f}" for shape in answer.shapes if shape.kind == DRAWN)
    times = [f"{answer.before_ns / 1e3:.1f}", f"{answer.after_ns / 1e3:.1f}", f"{answer.speedup:.2f}"]
    return [f"`{row.problem}`", *times, others, str(answer.ended), name_path(answer)]


def summarise_collection(rows: Sequence[OptimizedProgram]) -> str:
    """Shares and means over the programs of a collection that run."""
    answers = [row.answer for row in rows if row.answer is not None and row.speedup >= IMPROVED]
    verified = sum(answer.verified.outputs_equal is True for answer in answers)
    unseen = [shape.speedup for answer in answers for shape in answer.shapes if shape.kind == DRAWN]
    share, mean = 100 * len(answers) / len(rows), statistics.geometric_mean(row.speedup for row in rows)
    text = (
        f"{len(answers)} of {len(rows)} programs are faster ({share:.0f} %), in geometric mean {mean:.2f} times; "
        f"{verified} of the {len(answers)} passed every check."
    )
    launch_ns = load_device(device_of(rows[0].arch).name)["issue.launch_ns"]
    short = [row for row in rows if row.answer is not None and row.answer.before_ns <= SHORT_LAUNCH * launch_ns]
    gained = sum(row.speedup >= IMPROVED for row in short)
    text += (
        f" {len(short)} programs take no more than {SHORT_LAUNCH:g} times an empty launch "
        f"({launch_ns / 1e3:.1f} us); {gained} of them became faster."
    )
    if unseen:
        least, mean = min(unseen), statistics.geometric_mean(unseen)
        text += f" At {len(unseen)} shapes that no search saw: {mean:.2f} times, {least:.2f} at least."
    return text


def format_tables(results: Sequence[OptimizedProgram]) -> str:
    """The tables of all architectures, each with its summary."""
    text = f"\n{describe_origins(row.origin for row in results if not row.collection)}.\n"
    for arch in ARCHS:
        rows = sorted((row for row in results if row.arch == arch and not row.collection), key=lambda row: row.problem)
        if rows:
            text += f"\n## {arch}\n\n{summarise_results(rows)}\n\n" + format_table(
                HEAD, [format_row(row) for row in rows]
            )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--arch", nargs="*", default=ARCHS)
    parser.add_argument("--budget", type=float, default=BUDGET_S)
    parser.add_argument("--clock", type=float, default=0.0, help="seconds, on a machine with other work")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--programs", type=Path, help="a folder of HIP programs")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    collection = None if options.programs is None else find_programs(options.programs)
    programs = (
        dict.fromkeys(problem for problem, _ in list_naive_steps()) if collection is None else collection.programs
    )
    jobs = [
        OptimizeJob(problem, arch, options.budget, options.clock, program)
        for problem, program in programs.items()
        for arch in options.arch
        if not options.only or problem in options.only
    ]
    collect_results(options.folder, jobs, options.workers)
    results = read_results(options.folder)
    if collection is None:
        text, command = format_tables(results), OWN_COMMAND
    else:
        text, command = format_collection(collection, results), COLLECTION_COMMAND
    if options.page:
        write_tables(PAGE, text, command)
    else:
        print(text)


if __name__ == "__main__":
    main()
