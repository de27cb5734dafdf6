"""Checks a release. Rows are rebuilt: the program from its recorded choices, its build, its run; everything stored is
compared. Splits must not share programs, lineages, or sources that differ in names and numbers only."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from hipsynth.core.errors import HipsynthError, UsageError
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.program import Program, ProgramRun
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.core.store import CorpusItem, StoredRow
from hipsynth.core.store.release import TOOLS, Release, labels_schema
from hipsynth.core.store.schema import item_rows, schema_of
from hipsynth.core.store.splits import RELEASED
from hipsynth.profiling import metrics
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.matrix.collect import with_sure_labels
from hipsynth.profiling.matrix.job import MatrixJob, open_backend, run_job
from hipsynth.simulator import label_model
from hipsynth.source.skeletons import control_skeleton, token_skeleton
from hipsynth.synth.generate.build import replay_program
from hipsynth.synth.generate.problem_sizes import expected_output
from hipsynth.synth.generate.producer import generate_programs
from hipsynth.synth.generate.writer import grammar_digest
from hipsynth.synth.release.release_plan import limits_of
from hipsynth.synth.release.release_rows import kept_counters, label_row

TRAINED_ON = ("train", "validation")
TESTS = ("test", "unseen_families", "unseen_devices")


class RebuildStatus(StrEnum):
    """Whether a rebuilt row has the stored values; FAILED if it could not be rebuilt."""

    SAME = "same"
    DIFFERS = "differs"
    FAILED = "failed"


class SeedStatus(StrEnum):
    """Whether the programs of a shard are those of its seed; NOT_CHECKED if another version of the generator drew
    them."""

    SAME = "same"
    DIFFERS = "differs"
    NOT_CHECKED = "not checked"


@dataclass
class RebuildCheck:
    """What rebuilding the rows of one id gave: `differences` name the columns with the stored and the rebuilt value."""

    id: str
    program: str
    status: RebuildStatus
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class SeedCheck:
    """A shard's programs compared with those of its seed: `programs` are the ids that the seed does not give."""

    shard: int
    status: SeedStatus
    programs: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReleaseVerification:
    """The document of `synth release verify --json`. `checksums` are "same" (else there is an error instead); `leaks`:
    what crosses the splits, null where that was not looked for. `seeds`: of the shards of these rows, as far as the
    release says how they were made."""

    release: str
    checksums: str
    leaks: tuple[str, ...] | None
    rows: tuple[RebuildCheck, ...]
    seeds: tuple[SeedCheck, ...] = ()


def choose_ids(release: Release, row: str, sample: int) -> list[str]:
    """The ids to rebuild: `row`, or a sample that depends only on the ids. Raises UsageError for an unknown row."""
    ids = sorted(set(release.read("labels")["id"].to_pylist()))
    if row:
        if row not in ids:
            raise UsageError(f"{release.root} has no row {row!r}", remedy="give an id of the column `id` of its labels")
        return [row]
    return sorted(ids, key=lambda key: hashlib.sha256(f"verify:{key}".encode()).digest())[:sample]


def verify_labels(release: Release, ids: Sequence[str], note: Callable[[str], None]) -> list[RebuildCheck]:
    """Rebuilds the labels with these ids, one after the other. Raises MissingDependency if the simulator cannot run
    here."""
    labels, programs = release.read("labels"), release.read("programs")
    differences = []
    for key in ids:
        rows = labels.filter(pc.equal(labels["id"], key)).to_pylist()
        (program,) = programs.filter(pc.equal(programs["id"], rows[0]["program"])).to_pylist()
        try:
            differences.append(_check_program(release, rows, program))
        except HipsynthError as error:
            if error.exit_code == 4:
                raise
            differences.append(RebuildCheck(key, program["id"], RebuildStatus.FAILED, notes=[str(error)]))
        note(key)
    return differences


def check_seeds(release: Release, ids: Sequence[str]) -> list[SeedCheck]:
    """Draws the programs of the shards of these rows again, where the release says how they were made."""
    labels, programs = release.read("labels"), release.read("programs")
    shards = sorted(
        {n for key, n in zip(labels["id"].to_pylist(), labels["shard"].to_pylist(), strict=True) if key in ids}
    )
    checks = []
    for shard in shards:
        origin = release.facts.shard(shard).origin
        if origin is None:
            continue
        if origin.grammar != grammar_digest():
            checks.append(SeedCheck(shard, SeedStatus.NOT_CHECKED))
            continue
        of_seed = {program.id for program in generate_programs(origin.programs, origin.seed, runs=origin.sizes)}
        stored = set(programs.filter(pc.equal(programs["shard"], shard))["id"].to_pylist())
        foreign = tuple(sorted(stored - of_seed))
        checks.append(SeedCheck(shard, SeedStatus.DIFFERS if foreign else SeedStatus.SAME, foreign))
    return checks


def _check_program(release: Release, rows: Sequence[StoredRow], stored: StoredRow) -> RebuildCheck:
    result = RebuildCheck(rows[0]["id"], stored["id"], RebuildStatus.SAME)
    program = _regenerate_program(stored, result)
    target = Target(rows[0]["arch"], rows[0]["flags"], rows[0]["device"])
    run = next((run for run in program.runs if shlex.join(run.arguments) == rows[0]["arguments"]), None)
    if run is None:
        result.status = RebuildStatus.FAILED
        result.differences.append(f"arguments: program {stored['id']} has no run with {rows[0]['arguments']!r}")
        return result
    tools = release.facts.shard(rows[0]["shard"]).tools
    tool = open_backend(tools["backend"])
    (job_result,) = run_job(MatrixJob(tool.name, program, ((target, run),), limits_of(tool.name)))
    here = {
        "version": tool.version(),
        **{name: tool.environment(target).get(name, "") for name in ("compiler", "headers")},
    }
    result.notes += [
        f"{name}: stored {tools[name]}, here {value}"
        for name, value in here.items()
        if value != label_model.current_version(tools[name])
    ]
    if job_result.status != RunStatus.OK:
        result.status = RebuildStatus.FAILED
        result.differences = [f"{job_result.reason}: {job_result.message}"]
        return result
    kernels = [with_sure_labels(kernel, target.arch) for kernel in job_result.kernels]
    rebuilt = _as_stored(
        _rebuild_item(program, run, target, tools, job_result.exit_code, job_result.provenance, kernels),
        stored,
        rows[0]["shard"],
    )
    result.differences += _column_differences(rows, rebuilt)
    result.status = RebuildStatus.DIFFERS if result.differences else RebuildStatus.SAME
    return result


def _regenerate_program(stored: StoredRow, result: RebuildCheck) -> Program:
    """The stored program with its runs. Its text is compared with what its choices give under this grammar."""
    runs = [ProgramRun(tuple(run["arguments"]), run["params"]) for run in json.loads(stored["runs"])] or [ProgramRun()]
    text = replay_program(stored["family"], tuple(stored["choices"])).text
    if text != stored["text"]:
        result.differences.append(f"text: the choices of program {stored['id']} give another source under this grammar")
    choices, params = tuple(stored["choices"]), json.loads(stored["params"])
    program = Program(stored["text"], "synthetic", stored["family"], params=params, choices=choices, runs=tuple(runs))
    return replace(program, oracle=expected_output)


def _rebuild_item(
    program: Program, run: ProgramRun, target: Target, tools: Mapping[str, str], exit_code: int | None,
    provenance: Mapping[str, str], kernels: Sequence[KernelRecord],
) -> CorpusItem:  # fmt: skip
    """The item as the shard has it: its id names the shard's tools, so that only values are compared."""
    where = {"arch": target.arch, "flags": target.flags, "device": target.device}
    which = {"program_id": program.id, "arguments": shlex.join(run.arguments), "lineage": program.id}
    made_by = {name: tools[name] for name in TOOLS}
    return CorpusItem(
        **which, **where, **made_by, origin=program.origin, family=program.family,
        status=RunStatus.OK, reason=Reason.NONE,
        message="", exit_code=exit_code, stdout="", provenance=provenance, kernels=tuple(kernels),
    )  # fmt: skip


def _as_stored(item: CorpusItem, program: StoredRow, shard: int) -> list[StoredRow]:
    """The rows of an item after their way through the corpus and the release: the same types, the same rounding."""
    corpus = pa.Table.from_pylist(item_rows(item), schema=schema_of("measurements", metrics.all_ids())).to_pylist()
    rows = [label_row(row, program, shard) for row in corpus]
    schema = labels_schema(metrics.all_ids(), kept_counters())
    stored_rows: list[StoredRow] = pa.Table.from_pylist(rows, schema=schema).to_pylist()
    return stored_rows


def _column_differences(stored: Iterable[StoredRow], rebuilt: Iterable[StoredRow]) -> list[str]:
    """The columns that are not equal, value by value."""
    before = {row["kernel_index"]: row for row in stored}
    after = {row["kernel_index"]: row for row in rebuilt}
    differences = [
        f"kernel {n}: only in {'the release' if n in before else 'the rebuilt run'}"
        for n in before.keys() ^ after.keys()
    ]
    for n in sorted(before.keys() & after.keys()):
        differences += [
            f"{before[n]['kernel']}.{name}: stored {value}, rebuilt {after[n].get(name)}"
            for name, value in before[n].items()
            if name != "id" and name in after[n] and after[n][name] != value  # the id names the tools
        ]
    return differences


def find_leaks(release: Release) -> list[str]:
    """Descriptions of programs that are both trained on and tested with; empty for a sound release. Compares the
    sources themselves."""
    texts = {row["id"]: row["text"] for row in release.read("programs").select(["id", "text"]).to_pylist()}
    leaks = []
    programs = {split: _split_programs(release, split) for split in RELEASED}
    for kind, of in (("control skeleton", control_skeleton), ("token stream", token_skeleton)):
        keys = {program: of(text) for program, text in texts.items()}
        trained = {keys[program]: program for split in TRAINED_ON for program in sorted(programs[split])}
        for split in TESTS:
            for program in sorted(programs[split]):
                if keys[program] in trained:
                    leaks.append(f"{split}: {program} has the {kind} of {trained[keys[program]]}, which is trained on")
    return leaks


def _split_programs(release: Release, split: str) -> set[str]:
    labelled = release.read("labels", split)["program"].to_pylist()
    return set(labelled) | set(release.read("programs", split)["id"].to_pylist())
