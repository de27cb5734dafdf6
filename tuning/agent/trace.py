"""The file of one run, from which it resumes: JSON lines with messages, the programs that were made, the outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput
from hipsynth.core.files import open_regular, write_error
from hipsynth.tuning.tools import Version, Workshop

TRACE_BYTES = 256 << 20
LINE_BYTES = 4 << 20


class Trace:
    """Lines {"kind": "run" | "message" | "program" | "outcome", ...}; an incomplete line at the end is left out."""

    def __init__(self, path: Path, setting: Mapping[str, Any]) -> None:
        """Opens a trace, or begins it. Raises BadInput for the trace of a run with another setting."""
        self.path = path
        self.lines = read_trace(path) if path.exists() or path.is_symlink() else []
        if not self.lines:
            self.add({"kind": "run", **setting})
            return
        first = self.lines[0]
        different = [name for name in setting if first.get(name) != json.loads(json.dumps(setting[name]))]
        if first.get("kind") != "run" or different:
            cause = f"another {', '.join(different) or 'kind of file'}"
            raise BadInput(f"{path} is the trace of another run", cause=cause, remedy="name another file")

    def add(self, line: Mapping[str, Any]) -> None:
        """Appends a line. It begins with a line end, as the line before may be incomplete. Raises BadInput."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write("\n" + json.dumps(line))
        except OSError as error:
            raise write_error(self.path, error) from error
        self.lines.append(dict(line))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["kind"] == kind]

    def keep_programs(self, shop: Workshop) -> None:
        """Writes the programs that are not in the trace yet."""
        names = {line["program"]["name"] for line in self.of("program")}
        for version in shop.versions.values():
            if version.name not in names:
                self.add({"kind": "program", "program": asdict(version)})

    def restore(self, shop: Workshop) -> None:
        """Puts the trace's programs into a workshop. Raises BadInput if they are damaged."""
        for line in self.of("program"):
            try:
                version = from_json(Version, line["program"])
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                cause = f"a program in it: {error}"
                raise BadInput(f"{self.path} is damaged", cause=cause, remedy="name another file") from None
            shop.versions[version.name] = version


def read_trace(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a trace. Raises BadInput if it is no regular file or too large."""
    entries = []
    with open_regular(path, TRACE_BYTES) as file:
        while line := file.readline(LINE_BYTES):
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, dict) and isinstance(entry.get("kind"), str):
                entries.append(entry)
    return entries
