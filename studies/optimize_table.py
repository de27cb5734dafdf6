"""Runs `synth optimize` on the naive handwritten programs, beside the versions written by hand, and writes the tables
of docs/reference/optimize.md.

    python -m studies.optimize_table FOLDER [--only PROBLEM ...] [--arch A ...] [--budget S] [--workers N] [--page]

FOLDER/optimized.jsonl keeps the results, and a second call goes on; --page writes the page.
"""

from __future__ import annotations

import argparse
import functools
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hipsynth.core.documents import JsonObject, document_json, from_json
from hipsynth.core.errors import HipsynthError
from hipsynth.core.journal import ResultJournal
from hipsynth.core.workers import map_unordered
from hipsynth.tuning.optimize.documents import OptimizeDocument
from hipsynth.tuning.optimize.optimize import OptimizeRequest, optimize_program
from hipsynth.tuning.trial import target_of
from studies import handwritten
from studies.handwritten import Step
from studies.markdown import format_table, write_tables

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "optimize.md"
ARCHS = ("gfx90a", "gfx942")
BUDGET_S = 60.0  # what `synth optimize` takes unasked
IMPROVED = 1.02  # speed-up from which a program counts as improved
HEAD = ("problem", "program", "before, us", "after, us", "speed-up", "by hand", "by hand in halves", "steps")
HALVES = re.compile(r"\b(_Float16|__half2?|half2|__hip_bfloat16)\b")  # `half` alone is also a name of variables
ENDS = {"budget": "at the end of its budget", "clock": "by the clock", "nothing left": "with nothing left to try"}


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

    @property
    def speedup(self) -> float:
        return max(1.0, self.answer.speedup) if self.answer is not None else 1.0


@dataclass(frozen=True)
class OptimizeJob:
    """The first step of a problem, to be optimized on an architecture."""

    problem: str
    arch: str
    budget_s: float

    @property
    def key(self) -> str:
        return f"{self.problem} {self.arch} {self.budget_s:g}"


def steps_by_problem() -> dict[str, list[Step]]:
    """The steps of each handwritten problem that has several, the naive one first."""
    problems: dict[str, list[Step]] = {}
    for step in handwritten.steps():
        problems.setdefault(step.problem, []).append(step)
    return {problem: steps for problem, steps in problems.items() if len(steps) > 1 and steps[0].number == 1}


def naive() -> Iterator[tuple[str, Path]]:
    """The first step of each problem that has several."""
    for problem, steps in steps_by_problem().items():
        yield problem, steps[0].path


def optimize_job(folder: Path, job: OptimizeJob) -> OptimizedProgram:
    """Searches, and profiles all steps of the problem."""
    steps = steps_by_problem()[job.problem]
    first = steps[0]
    durations = {step.name: handwritten.figures(step, job.arch).total("Duration") for step in steps}
    gains = {name: durations[first.name] / duration for name, duration in durations.items()}
    in_halves = [step.name for step in steps if HALVES.search(step.path.read_text())]
    fastest = max(gains.keys() - in_halves, key=lambda name: gains[name])
    half_gain = max((gains[name] for name in in_halves), default=0.0)
    answer, refusal = None, ""
    try:
        request = OptimizeRequest(first.path.read_text(), target_of(job.arch), job.budget_s, journal=folder / "runs")
        answer = optimize_program(request).document(Path(first.path.name), job.arch, request.target.flags)
    except HipsynthError as error:
        refusal = f"{error.what}: {error.cause}"
    return OptimizedProgram(
        job.problem, first.name, job.arch, job.budget_s, gains[fastest], fastest, answer, refusal, half_gain
    )


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
    there = results.read()
    missing = [job for job in jobs if job.key not in there]
    for outcome in map_unordered(functools.partial(optimize_job, folder), missing, workers):
        result, job = outcome.get(), missing[outcome.index]
        results.add(job.key, document_json(result))
        print(f"{job.key}: {result.speedup:.2f} times, by hand {result.by_hand:.2f}", file=sys.stderr, flush=True)


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def name_path(answer: OptimizeDocument) -> str:
    """The transformations that led to the answer, each with its kernel."""
    steps = {step.number: step for step in answer.steps}
    at = answer.step
    path: list[str] = []
    while at >= 0:
        path.insert(0, f"{steps[at].transformation} {steps[at].kernel}")
        at = steps[at].parent
    return ", ".join(path)


def format_row(row: OptimizedProgram) -> list[str]:
    answer = row.answer
    by_hand = [
        f"{row.by_hand:.2f} `{row.hand_step}`" if row.by_hand >= IMPROVED else "1.00",
        f"{row.in_halves:.2f}" if row.in_halves else "",
    ]
    if answer is None or answer.status != "improved":
        why = row.refusal if answer is None else answer.reason
        return [row.problem, f"`{row.program}`", "", "", "1.00", *by_hand, why.rstrip(".")]
    sizes = "" if answer.holds else " (not at all sizes)"
    times = [f"{answer.before_ns / 1e3:.1f}", f"{answer.after_ns / 1e3:.1f}", f"{answer.speedup:.2f}{sizes}"]
    return [row.problem, f"`{row.program}`", *times, *by_hand, name_path(answer)]


def summarise_results(rows: Sequence[OptimizedProgram]) -> str:
    """Shares and means over the programs of an architecture."""
    improved = sum(row.speedup >= IMPROVED for row in rows)
    mean, hand = (geometric_mean(values) for values in ([row.speedup for row in rows], [row.by_hand for row in rows]))
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


def format_tables(results: Sequence[OptimizedProgram]) -> str:
    """The tables of all architectures, each with its summary."""
    text = f"\n{datetime.now(UTC):%-d %B %Y}.\n"
    for arch in ARCHS:
        rows = sorted((row for row in results if row.arch == arch), key=lambda row: row.problem)
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
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    jobs = [
        OptimizeJob(problem, arch, options.budget)
        for problem, _ in naive()
        for arch in options.arch
        if not options.only or problem in options.only
    ]
    collect_results(options.folder, jobs, options.workers)
    if options.page:
        write_tables(PAGE, format_tables(read_results(options.folder)))


if __name__ == "__main__":
    main()
