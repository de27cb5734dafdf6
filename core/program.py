"""Program: one self-contained file, HIP or a Python script with Triton kernels, with its provenance (parameters,
lineage, passes); and folders of programs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NotRequired, TypedDict, cast

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput
from hipsynth.core.files import SOURCE_BYTES, folder_around, open_regular, read_regular, write_whole
from hipsynth.core.json_lines import write_json_lines
from hipsynth.core.languages import HIP, SUFFIXES, TRITON, SourceLanguage, language_of
from hipsynth.core.reasons import Reason

INDEX = "programs.jsonl"
GENERATE_RUN, AUGMENT_RUN = "generate.json", "augment.json"  # say what the run was that writes a folder
INDEX_BYTES, RECORD_BYTES = 1 << 40, 8 << 20


_ID = re.compile(r"[0-9a-f]{16}")


def is_id(value: object) -> bool:
    """Whether a value has the form of a program's or an item's id: 16 hex digits, so also a safe file name."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def text_id(text: str) -> str:
    """The id of a program: the first 16 hex digits of its text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Expected:
    """Output of a correct run: `lines` are compared word by word, numbers within `rtol`/`atol`."""

    lines: tuple[str, ...] = ()
    rtol: float = 0.0
    atol: float = 0.0
    exit_code: int = 0


@dataclass(frozen=True)
class ProgramRun:
    """One way to run a program: its command-line arguments, and the generator's parameters that they change."""

    arguments: tuple[str, ...] = ()
    params: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceFile:
    """One file of a program on disk; `flags`: flags for this file only."""

    path: Path
    language: SourceLanguage = SourceLanguage.HIP
    flags: str = ""


@dataclass(frozen=True)
class Project:
    """A program that is built from several files or has data files: sources, folder, arguments."""

    sources: tuple[SourceFile, ...]
    folder: Path  # the program runs in a copy of this folder
    arguments: tuple[str, ...] = ()
    # Files that its arguments name and that it may read where they are. What the user typed may lie anywhere; what a
    # build file names lies in its folder (see named_files).
    readable: frozenset[Path] = frozenset()
    environment: tuple[tuple[str, str], ...] = ()  # variables that the user sets for it
    relocatable: bool = False  # -fgpu-rdc: the device code of all files is linked together
    # The folders that its files may include from; None: each file's own folder and those that its flags name.
    roots: tuple[Path, ...] | None = None
    digest: str = ""  # of what its results depend on besides its text: flags, headers, data files; "": not known

    @property
    def is_script(self) -> bool:
        """Whether it is a Python script, whose kernels are compiled while it runs."""
        return self.sources[0].language == SourceLanguage.PYTHON


class ExpectedRecord(TypedDict):
    """What a program must print, in its record."""

    lines: list[str]
    rtol: float
    atol: float
    exit_code: int


class RunRecord(TypedDict):
    """One way to run a program, in its record."""

    arguments: list[str]
    params: dict[str, int]


class ProgramRecord(TypedDict):
    """One line of programs.jsonl: a program's fields without its text. Surveys keep the `text` in it until it is
    stored."""

    id: str
    origin: str
    family: str
    name: NotRequired[str]
    params: NotRequired[Mapping[str, object]]
    choices: NotRequired[list[int]]
    lineage: NotRequired[str]
    derivation: NotRequired[list[str]]
    expected: NotRequired[ExpectedRecord | None]
    runs: NotRequired[list[RunRecord]]
    language: NotRequired[str]  # only if it is not HIP
    text: NotRequired[str]


@dataclass(frozen=True)
class Program:
    """One program. `lineage` is the id of the base program it descends from (its own id for a base)."""

    text: str
    origin: str  # "synthetic" | "handwritten" | "surveyed" | "llm"
    family: str
    name: str = ""
    params: Mapping[str, object] = field(default_factory=dict)
    choices: tuple[int, ...] = ()  # the generator's recorded choices, from which it can be regenerated
    lineage: str = ""
    derivation: tuple[str, ...] = ()  # passes applied since the base, e.g. ("rename:7", "flatten")
    expected: Expected | None = None
    runs: tuple[ProgramRun, ...] = (ProgramRun(),)  # how to run it: without arguments, or at several problem sizes
    # Computes what a run must print, if `expected` is None; None if that is not known.
    oracle: Callable[[Program, ProgramRun], Expected | None] | None = field(default=None, compare=False, repr=False)
    project: Project | None = None  # only for programs built from files on disk; never set for programs of a corpus

    @property
    def id(self) -> str:
        return text_id(self.text)

    @property
    def language(self) -> str:
        """ "hip" or "triton"."""
        return language_of(self.text)

    @property
    def is_script(self) -> bool:
        """Whether it is a Python script, whose kernels are compiled while it runs."""
        return self.project.is_script if self.project else self.language == TRITON

    @property
    def arguments(self) -> tuple[str, ...]:
        """The command-line arguments of its first run."""
        return self.project.arguments if self.project else self.runs[0].arguments

    def expectation(self) -> Expected | None:
        """What its first run must print, if that is known."""
        if self.expected is not None and not self.runs[0].arguments:
            return self.expected
        return self.oracle(self, self.runs[0]) if self.oracle else None

    @property
    def host_code(self) -> str:
        """Who wrote its host code, on which trust in its labels depends: "generated" (this project) or "foreign"."""
        return "generated" if self.origin == "synthetic" else "foreign"

    def record(self) -> ProgramRecord:
        """The JSON object stored in programs.jsonl: all fields except the text and the project."""
        expected: ExpectedRecord | None = None
        if self.expected is not None:
            e = self.expected
            expected = {"lines": list(e.lines), "rtol": e.rtol, "atol": e.atol, "exit_code": e.exit_code}
        record: ProgramRecord = {
            "id": self.id,
            "origin": self.origin,
            "family": self.family,
            "name": self.name,
            "params": dict(self.params),
            "choices": list(self.choices),
            "lineage": self.lineage or self.id,
            "derivation": list(self.derivation),
            "expected": expected,
            "runs": [{"arguments": list(run.arguments), "params": dict(run.params)} for run in self.runs],
        }
        if self.language != HIP:
            record["language"] = self.language
        return record

    @staticmethod
    def from_record(record: Mapping[str, object] | ProgramRecord, text: str) -> Program:
        """The program of a programs.jsonl record; raises KeyError, TypeError or ValueError for an invalid one."""
        record = check_record(record)
        e = record.get("expected")
        expected = None if e is None else Expected(tuple(e["lines"]), e["rtol"], e["atol"], e["exit_code"])
        return Program(
            text=text,
            origin=record["origin"],
            family=record["family"],
            name=record.get("name", ""),
            params=record.get("params", {}),
            choices=tuple(record.get("choices", ())),
            lineage=record.get("lineage", ""),
            derivation=tuple(record.get("derivation", ())),
            expected=expected,
            runs=tuple(ProgramRun(tuple(run["arguments"]), run["params"]) for run in record.get("runs", ()))
            or (ProgramRun(),),
        )

    def with_runs(self, runs: Iterable[ProgramRun]) -> Program:
        """The same program with other runs."""
        return replace(self, runs=tuple(runs))


_TEXTS = ("origin", "family", "name", "lineage", "language")


def check_record(record: object) -> ProgramRecord:
    """The object as a record. Raises KeyError, TypeError or ValueError if Program.record could not have made it."""
    if not isinstance(record, dict) or not is_id(record["id"]):
        raise ValueError("it has no valid id")
    json.dumps(record, ensure_ascii=False).encode()  # fails for half a surrogate pair, which no later step can store
    if not all(isinstance(record.get(name, ""), str) for name in _TEXTS):
        raise ValueError(f"one of {', '.join(_TEXTS)} is not text")
    if record.get("language", HIP) not in SUFFIXES:
        raise ValueError(f"the language is none of {', '.join(SUFFIXES)}")
    expected = record.get("expected")
    if not isinstance(record.get("params", {}), dict) or not isinstance(expected, dict | None):
        raise ValueError("params or expected is not an object")
    if expected is not None:
        from_json(Expected, expected)
    if not all(type(choice) is int and -(2**63) <= choice < 2**63 for choice in record.get("choices", ())):
        raise ValueError("choices are not 64-bit integers")
    for run in record.get("runs", ()):
        words = run["arguments"]
        if not isinstance(words, list) or not all(isinstance(text, str) and "\0" not in text for text in words):
            raise ValueError("the arguments of a run are not a list of texts")
        sizes = run["params"]
        if not isinstance(sizes, dict) or not all(type(value) is int for value in sizes.values()):
            raise ValueError("the parameters of a run are not integers by name")
    if not all(isinstance(step, str) for step in record.get("derivation", ())):
        raise ValueError("derivation is not a list of texts")
    return cast(ProgramRecord, record)


def program_path(directory: Path, program_id: str, language: str = HIP) -> Path:
    """Where the text of a program lies in a folder of programs."""
    return directory / f"{program_id}{SUFFIXES[language]}"


def write_programs(directory: Path, programs: Iterable[Program]) -> int:
    """Writes DIR/<id>.hip (or .py) files, then DIR/programs.jsonl atomically. Returns the number of programs."""
    directory.mkdir(parents=True, exist_ok=True)
    records = []
    for program in programs:
        write_whole(program_path(directory, program.id, program.language), program.text)
        records.append(program.record())
    write_json_lines(directory / INDEX, records, sort_keys=True)
    return len(records)


def read_text(path: Path, remedy: str, inside: Path | None = None) -> str:
    """Reads a source file of at most SOURCE_BYTES. Raises BadInput, its reason "not_utf8" or that of read_regular;
    `remedy` is for a missing file."""
    try:
        return read_regular(path, SOURCE_BYTES, inside=inside).decode()
    except UnicodeDecodeError as error:
        is_binary = b"\0" in error.object
        convert = f"convert it, for example: iconv -f latin1 -t utf-8 {path.name}"
        remedy = "give the source of this compiled program" if is_binary else convert
        raise BadInput(f"{path}: is not UTF-8 text", cause=str(error), remedy=remedy, reason=Reason.NOT_UTF8) from error
    except BadInput as error:
        error.remedy = remedy if error.reason == Reason.MISSING_FILE else error.remedy
        raise


def load_program(path: Path, *, origin: str = "handwritten", family: str = "", inside: Path | None = None) -> Program:
    """Reads one file as a program; raises BadInput like `read_text`."""
    text = read_text(path, "give the path of a HIP source file", inside)
    return Program(
        text=text,
        origin=origin,
        family=family or _to_storable_name(path.parent.name),
        name=_to_storable_name(path.stem),
    )


def _to_storable_name(name: str) -> str:
    """A file name as text for JSON and Parquet: bytes that are no UTF-8 become replacement characters."""
    return os.fsencode(name).decode(errors="replace")


def project_program(project: Project) -> Program:
    """The program of a project; its text joins all sources.

    Raises BadInput if a source cannot be read, or (reason "outside") if it lies, after all links, in none of the
    project's roots: a build file may name any file of the user, and a corpus stores the text.
    """
    parts = [load_program(source.path, inside=folder_around(source.path, project.roots)) for source in project.sources]
    return replace(parts[0], text="\n".join(part.text for part in parts), project=project)


def iter_programs(
    directory: Path, on_bad: Callable[[BadInput], None] | None = None, *, scripts: bool = False
) -> Iterator[Program]:
    """The programs of a folder: those listed in its programs.jsonl; if there is none, every *.hip file below it, and
    with `scripts` every *.py file with Triton kernels.

    Errors of unreadable programs are passed to `on_bad`; without `on_bad`, the first one is raised as BadInput. So are
    listed scripts, where they are not wanted.
    """
    for take in _program_readers(directory, scripts):
        try:
            program = take()
            if program.is_script and not scripts:
                raise _no_script(program)
        except BadInput as error:
            if on_bad is None:
                raise
            on_bad(error)
        else:
            yield program


def _no_script(program: Program) -> BadInput:
    problem = f"{program.name or program.id}: is a Python script with Triton kernels"
    return BadInput(problem, remedy="give a folder of HIP programs", reason=Reason.UNSUPPORTED)


def iter_scripts(directory: Path) -> Iterator[Program]:
    """The programs of the *.py files with Triton kernels below a folder, each by itself. Other Python files are none,
    nor is what cannot be read, or lies in hidden folders and installed packages."""
    for path in sorted(directory.rglob(f"*{SUFFIXES[TRITON]}")):
        folders = path.relative_to(directory).parts[:-1]
        if not path.is_file() or any(name.startswith(".") or name == "site-packages" for name in folders):
            continue
        program = None
        with contextlib.suppress(BadInput):
            program = load_program(path, inside=directory)
        if program is not None and program.language == TRITON:
            yield program


def require_finished(directory: Path) -> None:
    """Raises BadInput for a folder without an index that programs are being written to: what they are, their lineages
    and sizes stand in the index, which comes last."""
    for verb, run in (("generate", GENERATE_RUN), ("augment", AUGMENT_RUN)):
        if (directory / run).exists() and not (directory / INDEX).exists():
            raise BadInput(
                f"{directory}: its programs are not finished",
                cause=f"`synth {verb}` writes {INDEX} at its end, and has not ended here",
                remedy=f"run the same `synth {verb}` again: it goes on where it stopped",
            )


def _program_readers(directory: Path, scripts: bool) -> Iterator[Callable[[], Program]]:
    """One function per program of the folder; calling it reads that program."""
    if not directory.is_dir():
        raise BadInput(f"{directory}: no such folder", remedy="run `synth generate --out DIR` first")
    if (directory / INDEX).exists():
        for record in read_index(directory):
            yield record.read
        return
    require_finished(directory)
    for path in sorted(directory.rglob("*.hip")):
        if path.is_file() or not path.exists():  # reports broken links; skips folders and pipes
            yield partial(load_program, path, inside=directory)
    for program in iter_scripts(directory) if scripts else ():
        yield partial(replace, program)


@dataclass(frozen=True)
class StoredProgram:
    """One line of DIR/programs.jsonl. `where` identifies the line in messages."""

    directory: Path
    where: str
    line: bytes

    @property
    def name(self) -> str:
        """The program's id, or the line if it has none."""
        try:
            identifier = json.loads(self.line)["id"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return self.where
        return str(identifier) if is_id(identifier) else self.where

    def read(self) -> Program:
        """Reads the program. Raises BadInput: "bad_record" for an invalid line or a text that does not match its id,
        else as read_text."""
        remedy = "generate the folder again"
        try:
            record = json.loads(self.line)
            record = check_record(record)
            path = program_path(self.directory, record["id"], record.get("language", HIP))
            program = Program.from_record(record, read_text(path, remedy, self.directory))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            problem = f"{self.directory / self.where}: unreadable record"
            raise BadInput(problem, cause=str(error), remedy=remedy, reason=Reason.BAD_RECORD) from error
        if program.id != record["id"]:
            raise BadInput(
                f"{path}: text does not match its id",
                cause="the file was edited after it was generated",
                remedy="move it to a folder without programs.jsonl, where any *.hip file is taken",
                reason=Reason.BAD_RECORD,
            )
        return program


def read_index(directory: Path) -> Iterator[StoredProgram]:
    """The lines of DIR/programs.jsonl. One longer than RECORD_BYTES is cut, and so an unreadable record."""
    with open_regular(directory / INDEX, INDEX_BYTES, inside=directory) as file:
        number = 0
        while line := file.readline(RECORD_BYTES):
            number += 1
            yield StoredProgram(directory, f"{INDEX}:{number}", line.rstrip(b"\n"))
