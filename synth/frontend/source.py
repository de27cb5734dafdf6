"""What passes work on: a program's text and, while it is spread over files, where they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Source:
    """`text` of the main file. `main` is its path while quoted includes are still to be found, `root` the folder
    nothing is read from outside of, `units` all translation units in order when there are several."""

    text: bytes
    main: Path | None = None
    root: Path | None = None
    units: tuple[Path, ...] = ()
