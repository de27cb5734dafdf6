"""Makes flattened and renamed copies of many programs and records their lineage; an interrupted run can resume."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TypedDict

from hipsynth.core.documents import from_json, to_json
from hipsynth.core.errors import BadInput, HipsynthError, UsageError
from hipsynth.core.files import read_regular, sole_writer, write_whole
from hipsynth.core.folders import CORPUS_MANIFEST, RELEASE_FACTS, is_shared_folder
from hipsynth.core.journal import ResultJournal
from hipsynth.core.json_lines import write_json_lines
from hipsynth.core.languages import INCLUDED_SUFFIXES, SOURCE_SUFFIXES
from hipsynth.core.program import (
    AUGMENT_RUN,
    INDEX,
    ProgramRecord,
    check_record,
    program_path,
    read_index,
    read_text,
    require_finished,
    text_id,
)
from hipsynth.core.reasons import TRANSIENT, Reason
from hipsynth.core.workers import ItemOutcome, map_unordered
from hipsynth.source.clang import libclang_version
from hipsynth.source.parse import MAX_BYTES, Diagnostic, ParseConfig
from hipsynth.synth.frontend.make_copies import AugmentInput, AugmentResult, CopyFailure
from hipsynth.synth.frontend.passes.flatten import has_main, program_sources
from hipsynth.synth.frontend.sandboxed_copies import ONE_COPY, AugmentRequest, CopyRecipe, vary_isolated
from hipsynth.toolchain import find_toolchain, sandbox

FAILURES = "failures.jsonl"
UNCHANGED_NAMES = "kept.jsonl"  # the names of each program that are the same in all its copies, and why
JOURNAL = "augment.journal"
UNSETTLED = TRANSIENT | {Reason.TIMEOUT}  # tried again by the same command, maybe with more time


@dataclass(frozen=True)
class AugmentSummary:
    """Counts of an augment run; `reused` base programs were finished by an earlier run.

    `names` are the names that the base programs declare; `kept` counts those that stayed in copies, by reason (see
    `rename_groups.REASONS`), and `kept_names` lists them: program -> name -> reason.
    """

    out: str
    bases: int
    programs: int
    failed: int
    reused: int
    reasons: dict[str, int]  # reason -> number of failures
    examples: dict[str, str]  # reason -> the first program that failed for it, and its message
    names: int
    kept: dict[str, int]
    kept_names: dict[str, dict[str, str]]
    kinds: dict[str, int]  # pass -> number of programs that it changed


# --- finding base programs ------------------------------------------------------------------------------------------


def find_items(path: Path) -> list[AugmentInput]:
    """The base programs of a file or folder, in a fixed order.

    In a folder with a programs.jsonl they are its records. Otherwise, in each folder, one source with `main` beside
    others without it is one program of several files; else every source is a program of its own.
    Raises BadInput if `path` does not exist, holds no program, or is a folder that is being written to.
    """
    if path.is_file():
        folder = path.parent.resolve()  # a sandbox shows this folder, and none that `..` goes through
        return [AugmentInput(path.name, files=(folder / path.name,), root=folder)]
    if not path.is_dir():
        raise BadInput(
            f"{path}: no such file or folder", reason=Reason.MISSING_FILE, remedy="run `synth generate` first"
        )
    path = path.resolve()
    require_finished(path)
    items = list(_indexed_inputs(path) if (path / INDEX).exists() else _loose_inputs(path, path))
    if not items:
        raise BadInput(
            f"{path}: no programs",
            cause="neither programs.jsonl nor HIP sources",
            remedy="give a HIP source file, a folder of them, or a folder of `synth generate`",
            reason=Reason.NO_PROGRAMS,
        )
    return items


def _indexed_inputs(folder: Path) -> Iterator[AugmentInput]:
    for record in read_index(folder):
        try:
            program = record.read()
            if program.is_script:
                raise BadInput("a Python script; copies are of HIP programs", reason=Reason.UNSUPPORTED)
            yield AugmentInput(record.name, program=program)
        except BadInput as error:
            problem = f"{error.what}: {error.cause}" if error.cause else error.what
            yield AugmentInput(record.name, problem=Diagnostic(error.reason, problem))


def _loose_inputs(folder: Path, top: Path) -> Iterator[AugmentInput]:
    here = sorted(p for p in folder.iterdir() if p.is_file() and p.suffix in SOURCE_SUFFIXES)
    below = [p for p in program_sources(folder) if not lies_in_output(p, folder)] if here else []
    here = [p for p in here if p in below]
    mains = [p for p in below if has_main(p)]
    if len(mains) == 1 and mains[0].parent == folder and len(below) > 1:
        yield AugmentInput(mains[0].relative_to(top).as_posix(), files=tuple(below), root=folder)
        return
    for path in here:
        if path.suffix == ".hip" or has_main(path):
            yield AugmentInput(path.relative_to(top).as_posix(), files=(path,), root=top)
    folders = (p for p in folder.iterdir() if p.is_dir() and not p.is_symlink())
    for child in sorted(p for p in folders if not is_output(p)):
        yield from _loose_inputs(child, top)


def is_output(folder: Path) -> bool:
    """Whether programs were written to a folder, or are being written: it has no sources of its own."""
    return any((folder / name).exists() for name in (INDEX, AUGMENT_RUN))


def lies_in_output(path: Path, top: Path) -> bool:
    """Whether programs were written to a folder between a file and `top`, such as by an earlier run."""
    return any(place != top and place.is_relative_to(top) and is_output(place) for place in path.parents)


# --- many programs --------------------------------------------------------------------------------------------------


def augment_programs(
    path: Path,
    out: Path,
    config: ParseConfig,
    recipe: CopyRecipe = ONE_COPY,
    *,
    items: Sequence[AugmentInput] | None = None,
    generated: tuple[Path, ...] = (),
    options: Mapping[str, object] = MappingProxyType({}),
    workers: int = 1,
    engine: str = "local",
    timeout: float = 60.0,
    on_item: Callable[[str], None] = lambda _: None,
) -> AugmentSummary:
    """Writes copies of the programs at `path` into the folder `out`: <id>.hip, programs.jsonl, failures.jsonl,
    kept.jsonl.

    The same input and recipe give the same bytes for any number of workers. A journal in `out` records finished items,
    so an interrupted run can resume; `timeout` is in seconds per copy. `on_item` is called with the name of each
    finished item. `items`: the programs, where they are known already. `generated`: as of an `AugmentRequest`.
    `options`: what else the programs were read with; copies of a run with others are not replaced.
    Raises BadInput like `find_items`, and if `out` cannot be written or another process writes to it; MissingDependency
    if programs cannot be isolated here.
    """
    items = find_items(path) if items is None else items
    if recipe.isolate:
        sandbox.require_sandbox()
    requests = [AugmentRequest(item, config, recipe, generated) for item in items]
    run = partial(map_unordered, workers=workers, engine=engine, item_timeout_s=timeout * (recipe.copies + 1))
    if out.resolve() == path.resolve():
        raise UsageError(f"{out}: copies would replace their own originals", remedy="give another folder with --out")
    with sole_writer(out):
        _require_own_folder(out)
        _record_run(out, path, recipe, options)
        return _run_requests(requests, out, run, on_item)


def _require_own_folder(out: Path) -> None:
    """Raises BadInput for a folder with programs of another origin, a corpus, or a release."""
    if any((out / name).exists() for name in (UNCHANGED_NAMES, JOURNAL)):
        return
    if owned := [name for name in (INDEX, CORPUS_MANIFEST, RELEASE_FACTS) if (out / name).exists()]:
        problem = f"{out}: holds programs that `synth augment` did not make"
        raise BadInput(problem, cause=f"it has a {owned[0]}", remedy="give another folder with --out")


def _record_run(out: Path, path: Path, recipe: CopyRecipe, options: Mapping[str, object]) -> None:
    """Records where the copies in a folder come from. Raises BadInput if it has those of another run, which this one
    would drop; a run may make more copies of each program, and new ones of programs that have changed."""
    origin = {"path": str(path.resolve()), "seed": recipe.seed, "kinds": recipe.kinds, "texts": vars(recipe.texts)}
    run = to_json({**origin, **options, "copies": recipe.copies})
    if (out / AUGMENT_RUN).exists() and (out / INDEX).exists():
        try:
            before = json.loads(read_regular(out / AUGMENT_RUN, 1 << 20, inside=out))
            more = before["copies"] == recipe.copies or 0 < before["copies"] < recipe.copies
            same = more and {**before, "copies": recipe.copies} == run
        except (BadInput, ValueError, KeyError, TypeError, RecursionError):
            same = False
        if not same:
            cause = "they were made of other programs, or with another seed, other texts, kinds, macros, header folders"
            cause += " or build files, or with more copies"
            raise BadInput(f"{out}: holds copies of another run", cause=cause, remedy="use another --out")
    write_whole(out / AUGMENT_RUN, json.dumps(run) + "\n")


def _run_requests(
    requests: Sequence[AugmentRequest],
    out: Path,
    run: Callable[
        [Callable[[AugmentRequest], AugmentResult], Iterable[AugmentRequest]], Iterator[ItemOutcome[AugmentResult]]
    ],
    on_item: Callable[[str], None],
) -> AugmentSummary:
    items = [request.item for request in requests]
    digests: dict[Path, bytes] = {}  # folder -> hash
    keys = [_request_key(request, digests) for request in requests]
    journal = ResultJournal(out / JOURNAL, _check_record)
    finished = {k: v for k, v in journal.read().items() if _is_whole(v, out)}
    todo = [i for i, k in enumerate(keys) if k not in finished]
    reused = len(items) - len(todo)
    for i in range(reused):
        on_item(items[i].name)
    for outcome in run(vary_isolated, (requests[i] for i in todo)):
        number = todo[outcome.index]
        varied = outcome.value if outcome.value is not None else _failed_result(items[number], outcome.error)
        for program in varied.programs:
            write_whole(program_path(out, program.id), program.text)
        finished[keys[number]] = _to_record(varied)
        if not any(failure.reason in UNSETTLED for failure in varied.failures):
            journal.add(keys[number], finished[keys[number]])
        on_item(items[number].name)
    journal.sort()
    return _write_results(out, {item.name: finished[key] for item, key in zip(items, keys, strict=True)}, reused)


def _failed_result(item: AugmentInput, error: Exception | None) -> AugmentResult:
    if not isinstance(error, HipsynthError):
        message = f"{type(error).__name__}: {error}"
        return AugmentResult((), (CopyFailure(item.name, 0, Reason.INTERNAL_ERROR, message),))
    return AugmentResult((), (CopyFailure(item.name, 0, error.reason, error.what),))


def _request_key(request: AugmentRequest, folder_digests: dict[Path, bytes]) -> str:
    """A hash of everything that the result depends on: the input's bytes, what it may include, its record, the options,
    the toolchain, and the passes. `folder_digests` keeps the hashes of folders for the programs that follow."""
    item, config, recipe = request.item, request.config, request.recipe
    identity = (
        recipe.copies, recipe.seed, item.name, item.problem, config.search, recipe.texts, item.builds, recipe.kinds,
        _digest_passes(), find_toolchain().identity, libclang_version(),
    )  # fmt: skip
    described = repr(identity)
    for folder in request.generated:
        described = described.replace(str(folder), "generated")
    digest = hashlib.sha256(described.encode(errors="surrogateescape"))
    if item.program is not None:
        digest.update(json.dumps(item.program.record(), sort_keys=True).encode())
    builds = item.build_configurations
    files = [path for build in builds for path in build.files]
    preludes = [path for build in builds for settings in build.settings for path in settings.preludes]
    for path in dict.fromkeys((*files, *preludes)):
        _add_file(digest, path, path.name)
    places = [item.root] if item.root else [path.parent for path in files]
    for folder in dict.fromkeys((*places, *config.include, *(path for build in builds for path in build.includes))):
        if folder not in folder_digests:
            folder_digests[folder] = _digest_folder(folder)
        digest.update(folder_digests[folder])
    return digest.hexdigest()[:24]


def _add_file(digest: hashlib._Hash, path: Path, name: str) -> None:
    digest.update(os.fsencode(name) + b"\0")
    with contextlib.suppress(BadInput):  # no program can read it either
        digest.update(read_regular(path, MAX_BYTES))
    digest.update(b"\0")


def _digest_folder(folder: Path) -> bytes:
    """A hash of the files that programs in a folder may include, so that the result may depend on them."""
    digest = hashlib.sha256()
    for current, names, files in os.walk(folder):
        place = Path(current)
        names[:] = [] if is_shared_folder(place) else sorted(name for name in names if not is_output(place / name))
        for path in (place / name for name in sorted(files)):
            if path.suffix in INCLUDED_SUFFIXES:
                _add_file(digest, path, str(path.relative_to(folder)))
    return digest.digest()


@cache
def _digest_passes() -> str:
    """A hash of the code that makes copies: this package's, and what reads and changes sources."""
    digest = hashlib.sha256()
    package = Path(__file__).parent
    for folder in (package, package.parents[1] / "source"):
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


class CopyFailureRecord(TypedDict):
    """A CopyFailure as it is written."""

    name: str
    copy: int
    reason: str
    message: str


class AugmentRecord(TypedDict):
    """The result of one base program: its copies, why others failed, how many names it has, and why some were kept."""

    programs: list[ProgramRecord]
    failures: list[CopyFailureRecord]
    names: int
    kept: dict[str, str]


def _to_record(varied: AugmentResult) -> AugmentRecord:
    return {
        "programs": [program.record() for program in varied.programs],
        "failures": [_failure_record(failure) for failure in varied.failures],
        "names": varied.names,
        "kept": dict(varied.kept),
    }


def _failure_record(failure: CopyFailure) -> CopyFailureRecord:
    return {"name": failure.name, "copy": failure.copy, "reason": failure.reason, "message": failure.message}


def _is_whole(record: AugmentRecord, out: Path) -> bool:
    """Whether all files of a finished item are still those that were written."""
    try:
        sources = [(p["id"], read_text(program_path(out, p["id"]), "", out)) for p in record["programs"]]
    except BadInput:
        return False
    return all(text_id(text) == source for source, text in sources)


def _write_results(out: Path, records: Mapping[str, AugmentRecord], reused: int) -> AugmentSummary:
    """Writes programs.jsonl, failures.jsonl and kept.jsonl in the order of the base programs, which `records` has by
    name; of equal texts the first is kept."""
    programs: dict[str, ProgramRecord] = {}
    failures: list[CopyFailureRecord] = []
    for name, record in records.items():
        failures += record["failures"]
        for program in record["programs"]:
            if program["id"] in programs:
                message = f"the same text as program {program['id']}"
                failures.append({"name": name, "copy": 0, "reason": Reason.DUPLICATE, "message": message})
            programs.setdefault(program["id"], program)
    kept_names = {name: record["kept"] for name, record in records.items() if record["kept"]}
    rows = [{"name": name, "names": records[name]["names"], "kept": record} for name, record in kept_names.items()]
    write_json_lines(out / UNCHANGED_NAMES, rows, sort_keys=True)
    write_json_lines(out / FAILURES, failures, sort_keys=True)
    write_json_lines(out / INDEX, programs.values(), sort_keys=True)
    examples = {}
    for failure in reversed(failures):  # so that the first of each reason is kept
        reason = failure["reason"]
        examples[reason] = f"{failure['name']}: {failure['message'].removeprefix(reason + ': ')}"
    return AugmentSummary(
        out=str(out),
        bases=len(records),
        programs=len(programs),
        failed=len(failures),
        reused=reused,
        reasons=_count_reasons(f["reason"] for f in failures),
        examples=examples,
        names=sum(record["names"] for record in records.values()),
        kept=_count_reasons(reason for record in kept_names.values() for reason in record.values()),
        kept_names=kept_names,
        kinds=_count_reasons(kind for record in records.values() for kind in _pass_kinds(record)),
    )


def _pass_kinds(record: AugmentRecord) -> Iterator[str]:
    for program in record["programs"]:
        yield from {step.partition(":")[0] for step in program["derivation"]}


def _count_reasons(reasons: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(reasons).items()))


def _check_record(result: object) -> AugmentRecord:
    """A result as _to_record makes it; raises KeyError, TypeError or ValueError for anything else."""
    if not isinstance(result, dict):
        raise TypeError("a result is no object")
    programs = [check_record(record) for record in result["programs"]]
    reasons = {str(name): str(reason) for name, reason in dict(result["kept"]).items()}
    failures = [_failure_record(from_json(CopyFailure, row)) for row in result["failures"]]
    return {"programs": programs, "failures": failures, "names": int(result["names"]), "kept": reasons}
