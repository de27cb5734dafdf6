"""Makes training samples over many programs: the path of each one's best moves becomes chats."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, cast

from hipsynth.core.documents import document_json
from hipsynth.core.files import write_whole
from hipsynth.core.journal import ResultJournal
from hipsynth.core.json_lines import write_json_lines
from hipsynth.core.program import text_id
from hipsynth.tuning.agent.sft_chats import (
    ChatSample,
    NotTeachable,
    ToolChatRow,
    from_trace,
    make_chat_samples,
    steps_of,
)
from hipsynth.tuning.agent.trace import read_trace
from hipsynth.tuning.optimize.move_paths import ValuationJob, collect_move_values
from hipsynth.tuning.optimize.move_values import ValuedProgram, read_jobs

SPLITS = ("train", "held_out")
MOST_COPIES = 8  # of a path
RUNS_FILE, MOVES_FILE, REPORT_FILE = "runs.jsonl", "moves.jsonl", "report.json"


class DigestedRow(ToolChatRow):
    """A line of a file of chats, and what two lines that say the same share."""

    digest: str


class ProgramSamples(TypedDict):
    """The samples of one program on one target, or of a model's run, or why there are none."""

    samples: list[DigestedRow]
    reason: str


@dataclass(frozen=True)
class CollectionSummary:
    """The document of `synth traces --json`: numbers of programs, each once for all its targets and runs, and of
    samples, steps and lineages by part; `duplicates` were left out; `without`: programs on one target, and models'
    runs, without a sample, by reason."""

    programs: int
    samples: Mapping[str, int]
    steps: Mapping[str, int]
    lineages: Mapping[str, int]
    duplicates: int
    without: Mapping[str, int]


def collect_chats(
    jobs: Iterable[ValuationJob], out: Path, workers: int, say: Callable[[str], None] = lambda line: None
) -> CollectionSummary:
    """Walks the paths that `out` lacks, and writes train.jsonl, held_out.jsonl and report.json; returns the report.

    A program that fails is in the report with its reason. Raises BadInput if `out` cannot be used, MissingDependency
    without a compiler or sandbox."""
    collect_move_values(jobs, out / MOVES_FILE, workers, say)
    return write_chats(out)


def tell_program(valued: ValuedProgram, copies: int = 1) -> ProgramSamples:
    """The samples of a program's path, the straight one in `copies`."""
    try:
        return {"samples": [_sample_line(sample) for sample in make_chat_samples(valued, copies)], "reason": ""}
    except NotTeachable as error:
        return _no_samples(error.reason)


def _check_result(entry: object) -> ProgramSamples:
    if not isinstance(entry, Mapping) or not isinstance(entry["samples"], list) or not isinstance(entry["reason"], str):
        raise TypeError
    return cast(ProgramSamples, dict(entry))


def _no_samples(reason: str) -> ProgramSamples:
    return {"samples": [], "reason": reason}


def _sample_line(sample: ChatSample) -> DigestedRow:
    return {"digest": sample.digest, **sample.document()}


def add_runs(paths: Sequence[Path], out: Path, splits: Mapping[str, str]) -> CollectionSummary:
    """Adds the verified successes among the traces of models' runs; returns the report. `splits`: by program, beside
    those that `out` has; runs on other programs are held out.

    Raises BadInput for a trace that cannot be read."""
    out.mkdir(parents=True, exist_ok=True)
    journal = ResultJournal(out / RUNS_FILE, _check_result)
    valued = (state for program in read_jobs(out / MOVES_FILE) for state in program.states)
    splits = {state.program: state.split for state in valued} | dict(splits)
    for path in paths:
        lines = read_trace(path)
        try:
            result: ProgramSamples = {"samples": [_sample_line(from_trace(lines, splits))], "reason": ""}
        except NotTeachable as error:
            result = _no_samples(error.reason)
        journal.add(f"run/{path.resolve()}", result)
    return write_chats(out)


def choose_copies(programs: Iterable[ValuedProgram]) -> Callable[[ValuedProgram], int]:
    """In how many copies a training program's path is told: so often that each transformation by which programs gain is
    told as often as the most frequent one, up to MOST_COPIES. Else a model learns to end where a rare one is best."""
    gaining = Counter(name for valued in programs if is_trained(valued) for name in gaining_transformations(valued))
    most = max(gaining.values(), default=0)

    def count_copies(valued: ValuedProgram) -> int:
        names = gaining_transformations(valued) if is_trained(valued) else set()
        return min(MOST_COPIES, max((math.ceil(most / gaining[name]) for name in names), default=1))

    return count_copies


def is_trained(valued: ValuedProgram) -> bool:
    """Whether a program's lineage is of the training part."""
    return bool(valued.states) and valued.states[0].split == "train"


def gaining_transformations(valued: ValuedProgram) -> set[str]:
    """The transformations that a program's path goes along."""
    steps = ((state, state.next_move) for state in valued.states)
    return {state.moves[row.move].transformation for state, row in steps if row is not None}


def write_chats(out: Path) -> CollectionSummary:
    """Writes the chats of all paths and runs in a folder, each once, no lineage in both parts; returns the report."""
    count_copies = choose_copies(read_jobs(out / MOVES_FILE))
    results, programs = list[ProgramSamples](), set[str]()
    for valued in read_jobs(out / MOVES_FILE):
        results.append(tell_program(valued, count_copies(valued)))
        programs.add(text_id(valued.text))
    results += ResultJournal(out / RUNS_FILE, _check_result).read().values()
    once: dict[str, DigestedRow] = {}
    for result in results:
        for row in result["samples"]:
            once.setdefault(row["digest"], row)
    rows = list(once.values())
    for split in SPLITS:
        part = [row for row in rows if row["split"] == split]
        lines = ({name: value for name, value in row.items() if name != "digest"} for row in part)
        write_json_lines(out / f"{split}.jsonl", lines)
    report = CollectionSummary(
        programs=len(programs | {row["program"] for row in rows}),
        samples={split: sum(row["split"] == split for row in rows) for split in SPLITS},
        steps={
            split: len({step for row in rows if row["split"] == split for step in steps_of(row["messages"])})
            for split in SPLITS
        },
        lineages={split: len({row["lineage"] for row in rows if row["split"] == split}) for split in SPLITS},
        duplicates=sum(len(result["samples"]) for result in results) - len(rows),
        without=dict(Counter(result["reason"] for result in results if result["reason"])),
    )
    write_whole(out / REPORT_FILE, json.dumps(document_json(report), indent=1) + "\n")
    return report
