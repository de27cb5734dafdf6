"""A file with one JSON line per finished item, from which an interrupted run resumes."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hipsynth.core.files import open_regular, write_error
from hipsynth.core.program import INDEX_BYTES, RECORD_BYTES


class ResultJournal:
    """Results by key. Incomplete and invalid lines are ignored: their items are done again.

    `checked` returns the result that a line holds; KeyError, TypeError or ValueError rejects it.
    """

    def __init__(self, path: Path, checked: Callable[[Any], dict[str, Any]]) -> None:
        self.path = path
        self.checked = checked

    def read(self) -> dict[str, dict[str, Any]]:
        """The results by key. Raises BadInput if the journal is not a file in its folder."""
        found: dict[str, dict[str, Any]] = {}
        if not self.path.exists() and not self.path.is_symlink():
            return found
        with open_regular(self.path, INDEX_BYTES, inside=self.path.parent) as file:
            while line := file.readline(RECORD_BYTES):
                with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                    entry = json.loads(line)
                    found[str(entry["key"])] = self.checked(entry["result"])
        return found

    def add(self, key: str, result: dict[str, Any]) -> None:
        """Appends a result. It begins with a line end, as the line before may be incomplete. Raises BadInput."""
        line = "\n" + json.dumps({"key": key, "result": result})
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            with os.fdopen(descriptor, "a") as stream:
                stream.write(line)
        except OSError as error:
            raise write_error(self.path, error) from error
