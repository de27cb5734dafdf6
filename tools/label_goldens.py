"""The recorded labels that say when the model of labels has changed: simulator/label_model.toml's versions.

    python -m tools.label_goldens             # labels all programs of tests/golden/labels again, prints what moved
    python -m tools.label_goldens --write     # records them; refused if labels moved and their version did not rise
    python -m tools.label_goldens --draw      # draws the programs anew, then records the same labels with them
    python -m tools.label_goldens --add DEVICE ...    # adds labels of more devices; all others stay as they are

What moved under a new version is added to docs/reference/label-versions.md. The texts of the programs are kept, so that
another grammar changes no label; those of the part "quick" are labelled by `make test`, all by `make test-full`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import shlex
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hipsynth import toolchain
from hipsynth.core.errors import HipsynthError
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.program import Program, ProgramRun
from hipsynth.core.run_status import RunStatus
from hipsynth.core.store.release import Release
from hipsynth.core.workers import map_unordered
from hipsynth.profiling.backends.protocol import Target, TargetResult
from hipsynth.profiling.matrix.collect import with_sure_labels
from hipsynth.profiling.matrix.job import MatrixJob, run_job
from hipsynth.simulator import devices, label_model
from hipsynth.synth.generate.headers import load_templates
from hipsynth.synth.generate.problem_sizes import shrink_program
from hipsynth.synth.generate.producer import generate_programs
from hipsynth.synth.release.release_plan import LIMITS

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "golden" / "labels"
PAGE = ROOT / "docs" / "reference" / "label-versions.md"
PARTS = {"quick": 2, "full": 2}  # programs of each family
ADDED = {"quick": 3, "full": 6}  # every how many programs are labelled on a device that is added
COMPOSED = 3  # times as many of the family whose programs differ most
SEED = 31
RARE = ("mfma", "salu", "write_back")  # limits of few programs
QUICK_INSTRUCTIONS = 400_000  # wave instructions of a cell of the quick part, at most
SHOWN = ("duration_ns", "bottleneck", "counters.TCC_REQ", "counters.TCC_MISS", "counters.SQ_INSTS")
MOST_LISTED = 40
COLUMNS = ("part", "family", "program", "arguments", "device", "backend", "kernel", *SHOWN, "digest")
Facts = dict[str, Any]


@dataclass(frozen=True)
class GoldenLabel:
    """One recorded label: what it is of, the values that are shown, and a digest over all of them."""

    part: str
    family: str
    program: str
    arguments: str
    device: str
    backend: str  # "sim" | "preview"
    kernel: str  # its index and name, or the reason why there is no label
    values: tuple[str, ...]  # of SHOWN
    digest: str

    @property
    def key(self) -> tuple[str, ...]:
        return self.program, self.arguments, self.device, self.backend, self.kernel.partition(" ")[0]

    def format_line(self) -> str:
        return "\t".join((*list(vars(self).values())[:7], *self.values, self.digest))


@dataclass(frozen=True)
class GoldenRecord:
    """The recorded labels, the versions they are of, and the names of the values in each backend's digests."""

    sim: int
    preview: int
    tools: Mapping[str, str]
    names: Mapping[str, Sequence[str]]
    labels: Sequence[GoldenLabel]

    def find_version(self, backend: str) -> int:
        return self.sim if backend == "sim" else self.preview


# --- the programs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GoldenProgram:
    """A program of the record, labelled in every run on every device and previewed on the first one."""

    part: str
    program: Program
    devices: tuple[str, ...]

    def build_job(self, backend: str) -> MatrixJob:
        named = self.devices if backend == "sim" else self.devices[:1]
        targets = [Target(devices.load_device(name).arch, "-O3", name) for name in named]
        return MatrixJob(backend, self.program, tuple((t, run) for t in targets for run in self.program.runs), LIMITS)


def draw_programs() -> Iterator[GoldenProgram]:
    """A few programs of every family at small sizes, those of the part "full" also at one of their own, on the devices
    of one architecture, every third on both; and programs of the release for limits that small programs do not meet."""
    archs = devices.list_architectures()
    for family in sorted(load_templates()):
        times = COMPOSED if family == "compose" else 1
        drawn = generate_programs(times * sum(PARTS.values()), seed=SEED, family=family, runs=6)
        for number, program in enumerate(drawn):
            part = "quick" if number < times * PARTS["quick"] else "full"
            small = shrink_program(program, 2)
            chosen_runs = [] if part == "quick" else [program.runs[-1]]
            runs = dict.fromkeys(run.arguments for run in (*small.runs, *chosen_runs))
            arch = archs[number % len(archs)]
            others = [devices.default_device(a) for a in archs if a != arch and number % 3 == 0]
            named = (*(d for d in devices.list_devices() if devices.load_device(d).arch == arch), *others)
            yield GoldenProgram(part, replace(small, choices=(), params={}, runs=tuple(map(ProgramRun, runs))), named)
    yield from draw_rare_limits()


def draw_rare_limits() -> Iterator[GoldenProgram]:
    """The cheapest program of the release with each of the limits RARE."""
    release = Release.load(ROOT / "corpus" / "release" / "v1")
    labels = sorted(
        release.read("labels").to_pylist(), key=lambda row: (row["dispatches"] * row["SQ_INSTS"], row["id"])
    )
    texts = {row["id"]: row["text"] for row in release.read("programs").to_pylist()}
    for limit in RARE:
        row = next(row for row in labels if row["bottleneck"] == limit)
        run = ProgramRun(tuple(shlex.split(row["arguments"])))
        program = Program(texts[row["program"]], "synthetic", row["family"], runs=(run,))
        yield GoldenProgram("quick", program, (row["device"],))


def choose_programs() -> list[GoldenProgram]:
    """The programs that are labelled on devices that are added, with the devices that they have labels of."""
    return [drawn_program for part, step in ADDED.items() for drawn_program in list_programs(part)[::step]]


def write_programs(drawn: Iterable[GoldenProgram]) -> None:
    """Stores the programs of the record."""
    rows = [
        {"part": choice.part, "family": choice.program.family, "name": choice.program.name, "text": choice.program.text,
         "devices": list(choice.devices), "runs": [list(run.arguments) for run in choice.program.runs]}
        for choice in drawn
    ]  # fmt: skip
    FOLDER.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), FOLDER / "programs.parquet", compression="zstd", compression_level=19)


def list_programs(part: str) -> list[GoldenProgram]:
    """The programs of a part of the record."""
    programs = []
    for row in pq.read_table(FOLDER / "programs.parquet").to_pylist():
        runs = tuple(ProgramRun(tuple(arguments)) for arguments in row["runs"])
        program = Program(row["text"], "synthetic", row["family"], row["name"], runs=runs)
        programs += [GoldenProgram(part, program, tuple(row["devices"]))] if row["part"] == part else []
    return programs


# --- their labels ---------------------------------------------------------------------------------------------------


def list_facts(kernel: KernelRecord, arch: str) -> Facts:
    """What a label says, by dotted names: not what the timing model was given (`work`, `bounds`), nor its source."""
    record = asdict(with_sure_labels(kernel, arch))
    for name in ("source", "work", "signature"):
        del record[name]
    limits = record.pop("limits")
    return dict(_flatten_facts(record)) | ({"bottleneck": limits["bottleneck"]} if limits else {})


def _flatten_facts(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _flatten_facts(inner, f"{prefix}{name}.")
        else:
            yield prefix + name, inner


def list_label_rows(job: MatrixJob, results: Sequence[TargetResult]) -> list[tuple[tuple[str, ...], Facts]]:
    """(key columns without the part, facts) of each kernel of each cell; of a failed cell, its reason."""
    rows: list[tuple[tuple[str, ...], Facts]] = []
    for (target, run), result in zip(job.cells, results, strict=True):
        where = (job.program.family, job.program.id, " ".join(run.arguments), target.device, job.backend)
        if result.status != RunStatus.OK:
            rows.append(((*where, f"- {result.reason}"), {}))
        for index, kernel in enumerate(result.kernels if result.status == RunStatus.OK else ()):
            rows.append(((*where, f"{index} {kernel.name}"), list_facts(kernel, target.arch)))
    return rows


def label_part(part: str, batch: slice = slice(None), workers: int = 1) -> list[tuple[tuple[str, ...], Facts]]:
    """Labels the programs of a part (a batch of them) as a corpus would, executed and previewed."""
    return label_programs(list_programs(part)[batch], workers)


def label_programs(drawn: Sequence[GoldenProgram], workers: int = 1) -> list[tuple[tuple[str, ...], Facts]]:
    """(key columns, facts) of each label of these programs, executed and previewed."""
    jobs = [(choice.part, choice.build_job(backend)) for choice in drawn for backend in ("sim", "preview")]
    rows = []
    for outcome in map_unordered(run_job, [job for _, job in jobs], workers, "local", 3600.0):
        part, job = jobs[outcome.index]
        rows += [((part, *key), facts) for key, facts in list_label_rows(job, outcome.get())]
    return rows


def digest_facts(facts: Facts, names: Sequence[str]) -> str:
    """A hash of the named values; a value that this label does not have is left out."""
    known_facts = [(name, facts[name]) for name in names if name in facts]
    return hashlib.sha256(json.dumps(known_facts).encode()).hexdigest()[:16]


def make_goldens(
    rows: Iterable[tuple[tuple[str, ...], Facts]], names: Mapping[str, Sequence[str]]
) -> list[GoldenLabel]:
    goldens = [
        _parse_golden((*key, *(_show_value(facts.get(name)) for name in SHOWN), digest_facts(facts, names[key[5]])))
        for key, facts in rows
    ]
    return sorted(goldens, key=_make_sort_key)


def _make_sort_key(label: GoldenLabel) -> tuple[bool, str, tuple[str, ...]]:
    return label.part != "quick", label.family, label.key


def _show_value(value: Any) -> str:
    return "" if value is None else f"{value:.10g}" if isinstance(value, int | float) else str(value)


# --- the record -----------------------------------------------------------------------------------------------------


def read_goldens() -> GoldenRecord:
    """The recorded labels."""
    about = json.loads((FOLDER / "about.json").read_text())
    lines = (FOLDER / "labels.tsv").read_text().splitlines()[1:]
    cells = [line.split("\t") for line in lines]
    return GoldenRecord(
        about["sim"], about["preview"], about["tools"], about["names"], [_parse_golden(row) for row in cells]
    )


def _parse_golden(cells: Sequence[str]) -> GoldenLabel:
    part, family, program, arguments, device, backend, kernel, *values, digest = cells
    return GoldenLabel(part, family, program, arguments, device, backend, kernel, tuple(values), digest)


def write_goldens(record: GoldenRecord) -> None:
    about = {"sim": record.sim, "preview": record.preview, "tools": record.tools, "names": record.names}
    (FOLDER / "about.json").write_text(json.dumps(about, indent=1) + "\n")
    lines = ["\t".join(COLUMNS), *(golden.format_line() for golden in record.labels)]
    (FOLDER / "labels.tsv").write_text("\n".join(lines) + "\n")


def read_tool_versions() -> dict[str, str]:
    """The compiler and headers, on which machine code and so labels depend."""
    provenance = toolchain.find_toolchain().provenance()
    return {name: provenance[name] for name in ("compiler", "headers")}


def find_moved_labels(
    before: Sequence[GoldenLabel], after: Sequence[GoldenLabel]
) -> list[tuple[GoldenLabel | None, GoldenLabel | None]]:
    """The labels that differ, as they were and as they are; None: there is none."""
    old, new = ({label.key: label for label in labels} for labels in (before, after))
    keys = sorted(old.keys() | new.keys())
    return [
        (old.get(key), new.get(key))
        for key in keys
        if _list_stated_values(old.get(key)) != _list_stated_values(new.get(key))
    ]


def _list_stated_values(label: GoldenLabel | None) -> tuple[str, str] | None:
    return (label.kernel, label.digest) if label else None


def describe_move(before: GoldenLabel | None, after: GoldenLabel | None) -> str:
    """What moved in one label."""
    label = after or before
    assert label is not None
    head = f"{label.family} {label.program} [{label.arguments}] {label.device} {label.backend}: {label.kernel}"
    if before is None or after is None:
        return f"{head}: {'is new' if before is None else 'is gone'}"
    changes = [
        f"{name.removeprefix('counters.')} {old} -> {new}"
        for name, old, new in zip(SHOWN, before.values, after.values, strict=True)
        if old != new
    ]
    return f"{head}: {', '.join(changes) or 'a value that is not shown'}"


def summarise_moves(pairs: Sequence[tuple[GoldenLabel | None, GoldenLabel | None]], all_labels: int) -> list[str]:
    """What moved, by limit of the kernel before, as rows of a table."""
    changes: dict[str, list[float]] = {}
    for before, after in pairs:
        if before and after and before.values[0] and after.values[0]:
            ratio = math.log(float(after.values[0]) / float(before.values[0]))
            changes.setdefault(f"{before.backend}, {before.values[1] or 'no limit'}", []).append(ratio)
    rows = [f"{len(pairs):,} of {all_labels:,} recorded labels moved.", ""]
    rows += ["| labels limited before by | moved | duration, median change | largest |", "|---|---:|---:|---:|"]
    for name, ratios in sorted(changes.items()):
        largest = max(ratios, key=abs)
        rows.append(
            f"| {name} | {len(ratios)} | {math.expm1(statistics.median(ratios)):+.1%} | {math.expm1(largest):+.1%} |"
        )
    return rows


def explain_refusal(record: GoldenRecord, pairs: Sequence[tuple[GoldenLabel | None, GoldenLabel | None]]) -> str:
    """Why labels that moved may not be recorded, "" if they may."""
    now = {"sim": label_model.version_number("sim"), "preview": label_model.version_number("preview")}
    both = [(before, after) for before, after in pairs if before and after]
    stale = {"sim" if any(a.backend == "sim" for _, a in both) else "preview"} if both else set()
    behind = sorted(name for name in stale if now[name] <= record.find_version(name) and now["sim"] <= record.sim)
    if not behind:
        return ""
    return f"labels moved: raise `{behind[0]}` in {label_model.TABLE_PATH.relative_to(ROOT)}, then --write"


def add_page_moves(pairs: Sequence[tuple[GoldenLabel | None, GoldenLabel | None]], all_labels: int, why: str) -> None:
    """Adds what moved to the section of the present versions, which is the last one of the page."""
    listed = [f"- {describe_move(*pair)}" for pair in pairs[:: max(1, len(pairs) // MOST_LISTED)]]
    add_page_lines([*([why, ""] if why else []), *summarise_moves(pairs, all_labels), "", "Some of them:", "", *listed])


def add_page_lines(body: Sequence[str]) -> None:
    """Adds lines to the section of the present versions, which is the last one of the page; what it says stays."""
    title, text = f"## {label_model.preview_version()}", PAGE.read_text().rstrip()
    head = [] if title in text.splitlines() else [title, ""]
    PAGE.write_text("\n".join([text, "", *head, *body]) + "\n")


# --- the command ----------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="record the labels")
    parser.add_argument("--draw", action="store_true", help="draw the programs anew")
    parser.add_argument("--add", nargs="+", metavar="DEVICE", help="add labels of these devices")
    parser.add_argument("--why", default="", help="what the new version changes, for the page")
    parser.add_argument("--part", choices=PARTS, action="append", help="only look at this part")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    if options.add:
        add_labels(options.add, options.workers)
        return 0
    if options.draw:
        write_programs(_keep_affordable(draw_programs(), options.workers))
    parts = tuple(options.part or PARTS)
    rows = [row for part in parts for row in label_part(part, workers=options.workers)]
    if options.draw:
        drawn = {b: sorted({name for key, facts in rows if key[5] == b for name in facts}) for b in ("sim", "preview")}
        write_goldens(_make_record(make_goldens(rows, drawn), drawn))
        return 0
    record = read_goldens()
    names = record.names
    pairs = find_moved_labels([label for label in record.labels if label.part in parts], make_goldens(rows, names))
    for pair in pairs:
        print(describe_move(*pair))
    print(f"{len(pairs)} of {len(record.labels)} labels moved")
    if not options.write:
        return 5 if pairs else 0
    refusal = explain_refusal(record, pairs)
    if refusal or parts != tuple(PARTS):
        print(refusal or "--write records all parts", file=sys.stderr)
        return 2
    if pairs:
        add_page_moves(pairs, len(record.labels), options.why)
    write_goldens(_make_record(make_goldens(rows, names), names))
    return 0


def add_labels(names: Sequence[str], workers: int) -> None:
    """Adds labels of more devices to the record, their programs and a line on the page. No version rises."""
    record, chosen = read_goldens(), choose_programs()
    added = [replace(drawn_program, devices=tuple(names)) for drawn_program in chosen]
    rows = label_programs(added, workers)
    digest_names = extend_names(record.names, label_programs(chosen, workers), rows)
    write_programs([*list_programs("quick"), *list_programs("full"), *added])
    labels = sorted([*record.labels, *make_goldens(rows, digest_names)], key=_make_sort_key)
    write_goldens(replace(record, names=digest_names, labels=labels))
    add_page_lines([f"{len(rows)} labels of {', '.join(names)} were added; no other label moved."])


def extend_names(
    names: Mapping[str, Sequence[str]],
    labelled: Iterable[tuple[tuple[str, ...], Facts]],
    added: Iterable[tuple[tuple[str, ...], Facts]],
) -> dict[str, list[str]]:
    """The names with those that only added labels have, last. What labels recorded before would now have as well stays
    out until they are recorded anew: with it, their digests would differ."""
    added_names = {(key[5], name) for key, facts in added for name in facts}
    added_names -= {(key[5], name) for key, facts in labelled for name in facts}
    return {
        backend: [*listed, *sorted({name for where, name in added_names if where == backend} - set(listed))]
        for backend, listed in names.items()
    }


def _make_record(labels: Sequence[GoldenLabel], names: Mapping[str, Sequence[str]]) -> GoldenRecord:
    return GoldenRecord(
        label_model.version_number("sim"), label_model.version_number("preview"), read_tool_versions(), names, labels
    )


def _keep_affordable(drawn: Iterable[GoldenProgram], workers: int) -> list[GoldenProgram]:
    """The quick part without runs that take too long, but with the shortest one of each program."""
    drawn_programs = list(drawn)
    quick = [drawn_program for drawn_program in drawn_programs if drawn_program.part == "quick"]
    jobs = [replace(drawn_program, devices=drawn_program.devices[:1]).build_job("sim") for drawn_program in quick]
    affordable: dict[str, tuple[ProgramRun, ...]] = {}
    for outcome in map_unordered(run_job, jobs, workers, "local", 3600.0):
        spent = [
            (sum(k.dispatches * k.counters.get("SQ_INSTS", 0.0) for k in result.kernels), number)
            for number, result in enumerate(outcome.get())
        ]
        program = jobs[outcome.index].program
        cheap = [number for cost, number in spent if cost <= QUICK_INSTRUCTIONS] or [min(spent)[1]]
        affordable[program.id] = tuple(program.runs[number] for number in cheap)
    return [
        drawn_program
        if drawn_program.part != "quick"
        else replace(drawn_program, program=drawn_program.program.with_runs(affordable[drawn_program.program.id]))
        for drawn_program in drawn_programs
    ]


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except HipsynthError as error:
        sys.exit(str(error))
