"""Tables in TOML files, read as the dataclasses that state their shape."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput

T = TypeVar("T")


def parse_table(kind: type[T], table: object, where: str) -> T:
    """A parsed TOML table as the dataclass `kind`, whose fields with a default may be missing. Raises BadInput, naming
    `where` it stands, for unknown or missing keys and for values of other types."""
    try:
        return from_json(kind, table)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{where}: {error}", remedy="correct the table") from error


def read_table(path: Path, kind: type[T]) -> T:
    """The table of a TOML file of this project as the dataclass `kind`. Raises BadInput as parse_table() does, and for
    what is no TOML."""
    try:
        table = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path.name}: {error}", remedy="correct the table") from error
    return parse_table(kind, table, path.name)
