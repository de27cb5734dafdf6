"""The input of a pass: a program's text and, for a program of several files, their paths."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Source:
    """A program. `text` is the content of the main file, `main` its path while quoted includes still refer to other
    files, `root` the folder outside of which no file is read, `units` all translation units, in order, if several."""

    text: bytes
    main: Path | None = None
    root: Path | None = None
    units: tuple[Path, ...] = ()
