"""Program: one self-contained HIP file with everything that says where it came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from hipsynth.synth.core.errors import BadInput
from hipsynth.synth.core.files import write_whole

INDEX = "programs.jsonl"


def text_id(text: str) -> str:
    """The id of a program: the first 16 hex digits of its text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Expected:
    """What a correct run prints: `lines` compared word by word, numbers within `rtol`/`atol`."""

    lines: tuple[str, ...] = ()
    rtol: float = 0.0
    atol: float = 0.0
    exit_code: int = 0


@dataclass(frozen=True)
class SourceFile:
    """One file of a program on disk. `language`: hip (both sides), c++ or c; `flags`: its own compiler flags."""

    path: Path
    language: str = "hip"
    flags: str = ""


@dataclass(frozen=True)
class Project:
    """A program in files of its own: its sources, the folder with its data, its arguments."""

    sources: tuple[SourceFile, ...]
    folder: Path  # it runs in a copy of this one
    arguments: tuple[str, ...] = ()
    relocatable: bool = False  # -fgpu-rdc: device code of all files is linked


@dataclass(frozen=True)
class Program:
    """One HIP program. `lineage` is the id of the base program it descends from (its own id for a base)."""

    text: str
    origin: str  # "synthetic" | "handwritten" | "llm"
    family: str
    name: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    choices: tuple[int, ...] = ()  # the recorded choice sequence that made it
    lineage: str = ""
    derivation: tuple[str, ...] = ()  # passes applied since the base, e.g. ("rename:7", "flatten")
    expected: Expected | None = None
    project: Project | None = None  # only of programs that are built from files of their own, never of a corpus's

    @property
    def id(self) -> str:
        return text_id(self.text)

    def record(self) -> dict[str, Any]:
        """The JSON object stored in programs.jsonl (everything but the text)."""
        expected = None
        if self.expected is not None:
            e = self.expected
            expected = {"lines": list(e.lines), "rtol": e.rtol, "atol": e.atol, "exit_code": e.exit_code}
        return {
            "id": self.id,
            "origin": self.origin,
            "family": self.family,
            "name": self.name,
            "params": dict(self.params),
            "choices": list(self.choices),
            "lineage": self.lineage or self.id,
            "derivation": list(self.derivation),
            "expected": expected,
        }

    @staticmethod
    def from_record(record: Mapping[str, Any], text: str) -> Program:
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
        )


def program_path(directory: Path, program_id: str) -> Path:
    return directory / f"{program_id}.hip"


def write_programs(directory: Path, programs: Iterable[Program]) -> int:
    """Writes DIR/<id>.hip files and, last and atomically, DIR/programs.jsonl. Returns how many."""
    directory.mkdir(parents=True, exist_ok=True)
    lines = []
    for program in programs:
        program_path(directory, program.id).write_text(program.text)
        lines.append(json.dumps(program.record(), sort_keys=True))
    write_whole(directory / INDEX, "".join(line + "\n" for line in lines))
    return len(lines)


def read_text(path: Path, remedy: str) -> str:
    """The text of a source file; raises BadInput with reason "missing_file", "unreadable_file" or "not_utf8"."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        remedy = f"convert it, for example: iconv -f latin1 -t utf-8 {path.name}"
        raise BadInput(f"{path}: is not UTF-8 text", cause=str(error), remedy=remedy, reason="not_utf8") from error
    except OSError as error:
        reason = "missing_file" if isinstance(error, FileNotFoundError) else "unreadable_file"
        raise BadInput(f"{path}: cannot be read", cause=str(error), remedy=remedy, reason=reason) from error


def load_program(path: Path, *, origin: str = "handwritten", family: str = "") -> Program:
    """One .hip file as a program; raises BadInput when it cannot be read."""
    text = read_text(path, "give the path of a HIP source file")
    return Program(text=text, origin=origin, family=family or path.parent.name, name=path.stem)


def project_program(project: Project) -> Program:
    """The program of a project: its text is that of all sources. Raises BadInput for one that is unreadable."""
    parts = [load_program(source.path) for source in project.sources]
    return replace(parts[0], text="\n".join(part.text for part in parts), project=project)


def iter_programs(directory: Path, on_bad: Callable[[BadInput], None] | None = None) -> Iterator[Program]:
    """The programs of a folder: by its programs.jsonl, or every *.hip below it when there is none.

    A program that cannot be read goes to `on_bad`, and ends the iteration with BadInput when there is none.
    """
    for take in _takers(directory):
        try:
            program = take()
        except BadInput as error:
            if on_bad is None:
                raise
            on_bad(error)
        else:
            yield program


def _takers(directory: Path) -> Iterator[Callable[[], Program]]:
    """One function per program of the folder, each of which reads it."""
    if not directory.is_dir():
        raise BadInput(f"{directory}: no such folder", remedy="run `synth generate --out DIR` first")
    if (directory / INDEX).exists():
        for record in read_index(directory):
            yield record.read
        return
    for path in sorted(directory.rglob("*.hip")):
        if path.is_file() or not path.exists():  # a broken link is reported; folders and pipes are no programs
            yield partial(load_program, path)


@dataclass(frozen=True)
class Record:
    """One line of DIR/programs.jsonl. `where` names the line, for messages."""

    directory: Path
    where: str
    line: bytes

    @property
    def name(self) -> str:
        """The program's id, or the line where there is none."""
        try:
            return str(json.loads(self.line)["id"])
        except (ValueError, KeyError, TypeError):
            return self.where

    def read(self) -> Program:
        """Raises BadInput: "bad_record" for the line or a text that is not its program's, else as read_text."""
        remedy = "generate the folder again"
        try:
            record = json.loads(self.line)
            path = program_path(self.directory, record["id"])
            program = Program.from_record(record, read_text(path, remedy))
        except (ValueError, KeyError, TypeError) as error:
            what = f"{self.directory / self.where}: unreadable record"
            raise BadInput(what, cause=str(error), remedy=remedy, reason="bad_record") from error
        if program.id != record["id"]:
            raise BadInput(
                f"{path}: text does not match its id",
                cause="the file was edited after it was generated",
                remedy="move it to a folder without programs.jsonl, where any *.hip file is taken",
                reason="bad_record",
            )
        return program


def read_index(directory: Path) -> Iterator[Record]:
    """The lines of DIR/programs.jsonl."""
    for number, line in enumerate((directory / INDEX).read_bytes().splitlines(), 1):
        yield Record(directory, f"{INDEX}:{number}", line)
