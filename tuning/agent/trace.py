"""The file of one run, from which it resumes: JSON lines with messages, the programs that were made, the outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from hipsynth.core.documents import JsonObject, from_json
from hipsynth.core.errors import BadInput
from hipsynth.core.json_lines import append_json_line, read_json_lines
from hipsynth.tuning.agent.prompts import ChatTurn
from hipsynth.tuning.optimize.documents import SearchStatus
from hipsynth.tuning.tools import ToolSession, Version


@dataclass(frozen=True)
class RunLine:
    """The first line, "run": what was set, of which `program` is the id of the source's text and `arch` the
    architecture."""

    setting: Mapping[str, object]

    def row(self) -> Mapping[str, object]:
        """The line's JSON object."""
        return {"kind": "run", **self.setting}


@dataclass(frozen=True)
class MessageLine:
    """A line "message": a message of the chat, and the seconds and tokens that the run had taken with it."""

    message: ChatTurn
    seconds: float = 0.0
    tokens: int = 0
    failed: bool = False

    def row(self) -> Mapping[str, object]:
        """The line's JSON object, without the tokens and the failure of a message that had none."""
        tokens = {"tokens": self.tokens} if self.tokens else {}
        failed = {"failed": True} if self.failed else {}
        return {"kind": "message", "message": self.message, "seconds": self.seconds, **tokens, **failed}


@dataclass(frozen=True)
class ProgramLine:
    """A line "program": a program that was made."""

    program: Version

    def row(self) -> Mapping[str, object]:
        """The line's JSON object."""
        return {"kind": "program", "program": asdict(self.program)}


@dataclass(frozen=True)
class OutcomeLine:
    """The last line, "outcome": why the run ended, the name of its answer, and what was verified of it."""

    ended: str
    best: str
    status: SearchStatus
    reason: str
    speedup: float
    verified: JsonObject = field(default_factory=dict)

    def row(self) -> Mapping[str, object]:
        """The line's JSON object."""
        return {"kind": "outcome", **asdict(self)}


TraceLine = RunLine | MessageLine | ProgramLine | OutcomeLine
Line = TypeVar("Line", RunLine, MessageLine, ProgramLine, OutcomeLine)


class Trace:
    """The lines of a run, as core.json_lines reads and appends them."""

    def __init__(self, path: Path, setting: Mapping[str, object]) -> None:
        """Opens a trace, or begins it. Raises BadInput for the trace of a run with another setting."""
        self.path = path
        self.lines = read_trace(path, missing_ok=True)
        if not self.lines:
            self.add(RunLine(setting))
            return
        first = self.lines[0]
        stored = first.setting if isinstance(first, RunLine) else {}
        different = [name for name in setting if stored.get(name) != json.loads(json.dumps(setting[name]))]
        if different or not isinstance(first, RunLine):
            cause = f"another {', '.join(different) or 'kind of file'}"
            raise BadInput(f"{path} is the trace of another run", cause=cause, remedy="name another file")

    def add(self, line: TraceLine) -> None:
        """Appends a line. Raises BadInput."""
        append_json_line(self.path, line.row())
        self.lines.append(line)

    def list_lines(self, kind: type[Line]) -> list[Line]:
        """Its lines of a kind."""
        return [line for line in self.lines if isinstance(line, kind)]

    def keep_programs(self, session: ToolSession) -> None:
        """Writes the programs that are not in the trace yet."""
        names = {line.program.name for line in self.list_lines(ProgramLine)}
        for version in session.versions.values():
            if version.name not in names:
                self.add(ProgramLine(version))

    def restore(self, session: ToolSession) -> None:
        """Puts the trace's programs into a session."""
        for line in self.list_lines(ProgramLine):
            session.versions[line.program.name] = line.program


def read_trace(path: Path, *, missing_ok: bool = False) -> list[TraceLine]:
    """The lines of a trace. Raises BadInput if it is no regular file, too large or damaged."""
    return list(read_json_lines(path, _read_line, "line of a trace", "name another file", missing_ok=missing_ok))


def _read_line(row: dict[str, Any]) -> TraceLine:
    kind = row["kind"]
    members = {name: value for name, value in row.items() if name != "kind"}
    if kind == "run":
        return RunLine(members)
    if kind == "message":
        return MessageLine(**{**members, "message": _check_message(members["message"])})
    if kind == "program":
        return ProgramLine(from_json(Version, members["program"]))
    if kind == "outcome":
        status, speedup = SearchStatus(members["status"]), float(members["speedup"])
        return OutcomeLine(**{**members, "status": status, "speedup": speedup})
    raise ValueError("its kind is unknown")


def _check_message(message: object) -> ChatTurn:
    if not isinstance(message, dict) or not isinstance(message["role"], str):
        raise TypeError("its message has no role")
    return cast(ChatTurn, message)
