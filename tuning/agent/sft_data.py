"""Makes training samples over many programs: each is optimized by the search, and its winning steps become chats."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, cast

from hipsynth.core.documents import document_json
from hipsynth.core.errors import HipsynthError
from hipsynth.core.files import write_whole
from hipsynth.core.journal import ResultJournal
from hipsynth.core.program import Program
from hipsynth.core.reasons import Reason
from hipsynth.core.scratch import scratch_folder
from hipsynth.profiling.backends.protocol import Target
from hipsynth.tuning.agent.sft_chats import (
    ChatSample,
    NotTeachable,
    ToolChatRow,
    from_trace,
    make_chat_samples,
    open_tool_session,
    steps_of,
)
from hipsynth.tuning.agent.trace import read_trace
from hipsynth.tuning.optimize.optimize import OptimizeRequest, optimize_program

SPLITS = ("train", "held_out")
DONE_FILE, REPORT_FILE = "done.jsonl", "report.json"


class DigestedRow(ToolChatRow):
    """A line of a file of chats, and what two lines that say the same share."""

    digest: str


class ProgramSamples(TypedDict):
    """The samples of one program on one target, or why there are none."""

    samples: list[DigestedRow]
    reason: str


@dataclass(frozen=True)
class CollectionSummary:
    """The document of `synth traces --json`: numbers of programs, and of samples, steps and lineages by part;
    `duplicates` were left out; `without`: programs without a sample, by reason."""

    programs: int
    samples: Mapping[str, int]
    steps: Mapping[str, int]
    lineages: Mapping[str, int]
    duplicates: int
    without: Mapping[str, int]


@dataclass(frozen=True)
class ProgramTarget:
    """One program on one target."""

    program: Program
    target: Target
    budget_s: float

    @property
    def key(self) -> str:
        return "/".join((self.program.id, self.target.arch, self.target.flags, f"{self.budget_s:g}"))


def collect_chats(
    items: Iterable[ProgramTarget], out: Path, say: Callable[[str], None] = lambda line: None
) -> CollectionSummary:
    """Makes what `out` lacks, and writes train.jsonl, held_out.jsonl and report.json; returns the report.

    A program whose search finds nothing, or that fails, is in the report with its reason; it is not searched on further
    targets. Raises BadInput if `out` cannot be used.
    """
    out.mkdir(parents=True, exist_ok=True)
    journal = ResultJournal(out / DONE_FILE, _check_result)
    records = journal.read()
    gained: dict[str, bool] = {}  # whether a program's first target gave a sample
    for item in items:
        if item.key not in records:
            records[item.key] = (
                _make_samples(item) if gained.get(item.program.id, True) else _no_samples(Reason.NOT_ON_FIRST_TARGET)
            )
            journal.add(item.key, records[item.key])
            result = records[item.key]
            say(f"{item.program.name or item.program.id} {item.target.arch}: {result['reason'] or 'told'}")
        gained.setdefault(item.program.id, bool(records[item.key]["samples"]))
    return write_chats(out, records.values())


def _check_result(entry: object) -> ProgramSamples:
    if not isinstance(entry, Mapping) or not isinstance(entry["samples"], list) or not isinstance(entry["reason"], str):
        raise TypeError
    return cast(ProgramSamples, dict(entry))


def _no_samples(reason: str) -> ProgramSamples:
    return {"samples": [], "reason": reason}


def _make_samples(item: ProgramTarget) -> ProgramSamples:
    program = item.program
    lineage = program.family if program.origin == "handwritten" else program.lineage or program.id
    with scratch_folder() as runs:
        request = OptimizeRequest(program.text, item.target, item.budget_s, program.arguments, journal=runs)
        try:
            session = open_tool_session(request)
            if not session.moves(session.add(program.text, arguments=program.arguments)):
                return _no_samples(Reason.NO_MOVES)  # one run, where a search would prepare its checks first
            samples = make_chat_samples(request, optimize_program(request), lineage, program.origin)
        except HipsynthError as error:
            return _no_samples(error.reason)
    return {"samples": [_sample_line(sample) for sample in samples], "reason": ""}


def _sample_line(sample: ChatSample) -> DigestedRow:
    return {"digest": sample.digest, **sample.document()}


def add_runs(paths: Sequence[Path], out: Path) -> CollectionSummary:
    """Adds the verified successes among the traces of models' runs; returns the report.

    Raises BadInput for a trace that cannot be read."""
    out.mkdir(parents=True, exist_ok=True)
    journal = ResultJournal(out / DONE_FILE, _check_result)
    records = journal.read()
    for path in paths:
        lines = read_trace(path)
        try:
            result: ProgramSamples = {"samples": [_sample_line(from_trace(lines, "", "llm"))], "reason": ""}
        except NotTeachable as error:
            result = _no_samples(error.reason)
        key = f"run/{path.resolve()}"
        records[key] = result
        journal.add(key, result)
    return write_chats(out, records.values())


def write_chats(out: Path, results: Iterable[ProgramSamples]) -> CollectionSummary:
    """The files of all results: each chat once, and no lineage in both parts."""
    results = list(results)
    once: dict[str, DigestedRow] = {}
    for result in results:
        for row in result["samples"]:
            once.setdefault(row["digest"], row)
    rows = list(once.values())
    for split in SPLITS:
        lines = [_chat_line(row) for row in rows if row["split"] == split]
        write_whole(out / f"{split}.jsonl", "".join(lines))
    report = CollectionSummary(
        programs=len(results),
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


def _chat_line(row: DigestedRow) -> str:
    return json.dumps({name: value for name, value in row.items() if name != "digest"}) + "\n"
