"""The code objects that a script's compiler left: they are lost with the sandbox's own folders unless its cache lies in
the folder that the script runs in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.core.files import read_regular
from hipsynth.simulator.artefacts import Artefacts

CACHE, VARIABLE = ".triton", "TRITON_CACHE_DIR"
MOST_BYTES, MOST_OBJECTS = 64 << 20, 1000


def keep_compiled(artefacts: Artefacts, folder: Path) -> Artefacts:
    """The script with its compiler's cache below `folder`; other programs as they are."""
    if artefacts.interpreter is None:
        return artefacts
    places = dict(artefacts.interpreter.places) | {VARIABLE: str(folder.resolve() / CACHE)}
    return replace(artefacts, interpreter=replace(artefacts.interpreter, places=tuple(places.items())))


def read_compiled(folder: Path) -> tuple[bytes, ...]:
    """The code objects of keep_compiled() after the run, each once, in the order of their bytes; what cannot be read,
    or is too large, is left out."""
    objects: set[bytes] = set()
    for path in sorted((folder / CACHE).glob("*/*.hsaco"))[:MOST_OBJECTS]:
        try:
            objects.add(read_regular(path, MOST_BYTES, inside=folder))
        except BadInput:
            continue
    return tuple(sorted(objects))
