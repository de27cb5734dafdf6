"""Writes programs into a folder so that an interrupted run can resume: each file atomically, the index last.

During a run, the records of finished programs are in `programs.jsonl.partial` and `generate.json` identifies the run;
the same command resumes from them. At the end the partial file is renamed to `programs.jsonl`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hipsynth.core.errors import BadInput
from hipsynth.core.files import PARTIAL as SUFFIX
from hipsynth.core.files import open_regular, read_regular, sole_writer, write_error, write_whole
from hipsynth.core.json_lines import write_json_lines
from hipsynth.core.languages import HIP
from hipsynth.core.program import (
    GENERATE_RUN,
    INDEX,
    INDEX_BYTES,
    RECORD_BYTES,
    Program,
    ProgramRecord,
    check_record,
    program_path,
    read_text,
    text_id,
)
from hipsynth.synth.generate.headers import find_template, template_of, templates_dir
from hipsynth.synth.generate.policy import Policy
from hipsynth.synth.generate.producer import generate_programs

PARTIAL = INDEX + SUFFIX


@dataclass
class GenerateSummary:
    """The contents of a folder after `generate_into`; `families` counts programs by family."""

    out: str
    count: int
    seed: int
    reused: int  # programs written by an earlier, interrupted run
    families: dict[str, int] = field(default_factory=dict)


def grammar_digest() -> str:
    """A hash of everything that determines a program's bytes: the templates, the policy, and this package's source."""
    digest = hashlib.sha256()
    package = Path(__file__).parent
    for root, pattern in ((templates_dir(), "**/*.j2"), (templates_dir(), "**/*.toml"), (package, "**/*.py")):
        for file in sorted(p for p in root.glob(pattern) if p.is_file() and p.parent.name != "llm"):  # no grammar
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def generate_into(
    out: Path, count: int, *, seed: int = 0, family: str | None = None, workers: int = 1, runs: int = 1,
    policy: Policy | None = None, engine: str = "local", on_program: Callable[[Program], None] | None = None,
    languages: tuple[str, ...] = (HIP,),
) -> GenerateSummary:  # fmt: skip
    """Writes `count` programs of a seed, each in every one of `languages`, to OUT/<id>.hip (or .py) and
    OUT/programs.jsonl, resuming an interrupted run.

    `runs`: problem sizes per program (see problem_sizes.with_runs); `policy`: in place of the default.

    Raises UsageError for an unknown family, BadInput if the folder holds another run, is being written to by another
    process, or cannot be written.
    """
    if family is not None:
        find_template(family)
    run: dict[str, object] = {"seed": seed, "family": family, "runs": runs, "grammar": grammar_digest()}
    if policy is not None:
        run["policy"] = policy.digest
    if languages != (HIP,):
        run["languages"] = list(languages)
    with sole_writer(out):
        try:
            records = _finished_records(out, run, len(languages))
            reused = len(records) // len(languages)
            if reused > count:
                problem = f"{out} holds {reused} programs, more than --count {count}"
                raise BadInput(problem, remedy="use another --out, or a larger --count")
            fresh = generate_programs(
                count, seed, family, workers, start=reused, earlier_ids={str(r["id"]) for r in records}, runs=runs,
                policy=policy, engine=engine, languages=languages,
            )  # fmt: skip
            if reused < count or (out / PARTIAL).exists():  # a kill may come between the last program and the index
                records += _write_programs(out, run, records, fresh, on_program)
        except OSError as error:
            raise write_error(out, error) from error
    families = Counter(template_of(str(r["family"])) for r in records)
    return GenerateSummary(str(out), len(records), seed, reused, dict(sorted(families.items())))


def _finished_records(out: Path, run: dict[str, Any], languages: int) -> list[ProgramRecord]:
    """The records of this run whose programs are complete on disk, each in every language, in order."""
    partial, index, run_file = out / PARTIAL, out / INDEX, out / GENERATE_RUN
    source = partial if partial.exists() else index
    if not source.exists():
        return []
    try:
        same = json.loads(read_regular(run_file, 1 << 20, inside=out)) == run
    except (BadInput, ValueError, RecursionError):
        same = False
    if not same:
        raise BadInput(
            f"{out} holds programs of another run",
            cause="they were generated with another seed, family, number of sizes or version of the grammar",
            remedy="use an empty --out folder",
        )
    records = []
    with open_regular(source, INDEX_BYTES, inside=out) as file:
        while line := file.readline(RECORD_BYTES):
            try:
                record = json.loads(line)
                check_record(record)
                text = read_text(program_path(out, record["id"], record.get("language", HIP)), "", out)
            except (ValueError, KeyError, TypeError, RecursionError, BadInput):
                break  # the last line of an interrupted run may be incomplete
            if text_id(text) != record["id"]:
                break
            records.append(record)
    return records[: len(records) // languages * languages]


def _write_programs(
    out: Path, run: dict[str, Any], finished: list[ProgramRecord], programs: Iterable[Program],
    on_program: Callable[[Program], None] | None,
) -> list[ProgramRecord]:  # fmt: skip
    partial = out / PARTIAL
    write_whole(out / GENERATE_RUN, json.dumps(run) + "\n")
    write_json_lines(partial, finished, sort_keys=True)
    records = []
    with partial.open("a") as stream:
        for program in programs:
            write_whole(program_path(out, program.id, program.language), program.text)
            record = program.record()
            stream.write(json.dumps(record, sort_keys=True) + "\n")
            stream.flush()
            records.append(record)
            if on_program is not None:
                on_program(program)
    partial.replace(out / INDEX)
    return records
