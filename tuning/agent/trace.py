"""The file of one run, from which it resumes: JSON lines with messages, the programs that were made, the outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Required, TypedDict, cast

from hipsynth.core.documents import JsonObject, from_json
from hipsynth.core.errors import BadInput
from hipsynth.core.json_lines import append_json_line, read_json_lines
from hipsynth.tuning.agent.prompts import ChatTurn
from hipsynth.tuning.tools import ToolSession, Version


class TraceLine(TypedDict, total=False):
    """A line. "run": the setting, of which `program` is the id of the source's text and `arch` the architecture;
    "message": a message of the chat, with what it took; "program": a program that was made; "outcome": the end."""

    kind: Required[str]
    program: object
    arch: str
    message: ChatTurn
    tokens: int
    failed: bool
    seconds: float
    ended: str
    best: str
    status: str
    reason: str
    speedup: float
    verified: JsonObject


class Trace:
    """Lines of the kinds "run", "message", "program" and "outcome", as core.json_lines reads and appends them."""

    def __init__(self, path: Path, setting: Mapping[str, object]) -> None:
        """Opens a trace, or begins it. Raises BadInput for the trace of a run with another setting."""
        self.path = path
        self.lines = read_trace(path, missing_ok=True)
        if not self.lines:
            self.add(cast(TraceLine, {"kind": "run", **setting}))
            return
        first = self.lines[0]
        different = [name for name in setting if first.get(name) != json.loads(json.dumps(setting[name]))]
        if first.get("kind") != "run" or different:
            cause = f"another {', '.join(different) or 'kind of file'}"
            raise BadInput(f"{path} is the trace of another run", cause=cause, remedy="name another file")

    def add(self, line: TraceLine) -> None:
        """Appends a line. Raises BadInput."""
        append_json_line(self.path, line)
        self.lines.append(line)

    def of(self, kind: str) -> list[TraceLine]:
        return [line for line in self.lines if line["kind"] == kind]

    def keep_programs(self, session: ToolSession) -> None:
        """Writes the programs that are not in the trace yet."""
        names = {cast(Mapping[str, object], line["program"])["name"] for line in self.of("program")}
        for version in session.versions.values():
            if version.name not in names:
                self.add({"kind": "program", "program": asdict(version)})

    def restore(self, session: ToolSession) -> None:
        """Puts the trace's programs into a session. Raises BadInput if they are damaged."""
        for line in self.of("program"):
            try:
                version = from_json(Version, line["program"])
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                cause = f"a program in it: {error}"
                raise BadInput(f"{self.path} is damaged", cause=cause, remedy="name another file") from None
            session.versions[version.name] = version


def read_trace(path: Path, *, missing_ok: bool = False) -> list[TraceLine]:
    """The lines of a trace. Raises BadInput if it is no regular file, too large or damaged."""
    return list(read_json_lines(path, _check_line, "line of a trace", "name another file", missing_ok=missing_ok))


def _check_line(row: dict[str, Any]) -> TraceLine:
    if not isinstance(row["kind"], str):
        raise TypeError("its kind is no text")
    return cast(TraceLine, row)
