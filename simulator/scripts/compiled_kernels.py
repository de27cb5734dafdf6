"""What a script's compiler made: kept from one run of a script to the next, and read for its line tables.

A script can write whatever it wants into its compiler's cache. Therefore only the same script finds it again: one with
the same text, beside the same files, with the same compiler. Nothing is shared with other scripts.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hipsynth.core.cache import cache_dir
from hipsynth.core.errors import BadInput
from hipsynth.core.files import read_regular, replace_atomically
from hipsynth.core.folders import walk_files
from hipsynth.core.program import Project
from hipsynth.core.scratch import remove_tree
from hipsynth.simulator.artefacts import Artefacts
from hipsynth.simulator.scripts.prepare import package_versions

CACHE, VARIABLE = ".hipsynth-triton", "TRITON_CACHE_DIR"
TUNINGS, TUNINGS_VARIABLE = "autotunings.jsonl", "HIPSYNTH_AUTOTUNINGS"  # in the cache, not kept with it
MOST_BYTES, MOST_OBJECTS = 64 << 20, 1000
MOST_IR_BYTES = 4 << 20
KEPT_BYTES, KEPT_FILES = 128 << 20, 5000  # of one script
ENTRIES, ALL_BYTES = 64, 1 << 30  # of all scripts; the oldest go
MOST_BESIDE = 500  # files that a script may read, beyond which nothing is kept
AUTOTUNE_RESULTS = ".autotune.json"  # of Triton: times of configurations, which each run of a script finds out anew
_NAME = re.compile(r"(?!\.)[\w.\-]{1,255}")
_GROUP, _CHILDREN = "__grp__", "child_paths"  # Triton's lists of files that belong together


@contextlib.contextmanager
def reuse_compiled(project: Project | None, artefacts: Artefacts, folder: Path) -> Iterator[Artefacts]:
    """The script, to be run in `folder`, with what its compiler made in earlier runs of the same script; what it makes
    in the block is kept for later ones. Other programs as they are."""
    if artefacts.interpreter is None:
        yield artefacts
        return
    entry = _entry_of(project) if project is not None else None
    with reuse_entry(entry, entry, artefacts, folder) as runnable:
        yield runnable


@contextlib.contextmanager
def reuse_entry(entry: Path | None, stored: Path | None, artefacts: Artefacts, folder: Path) -> Iterator[Artefacts]:
    """The script, to be run in `folder`, with the compiled kernels that lie in `stored`; with new ones, all of them are
    kept in `entry`, also where a run is interrupted. Both are folders that nothing but these functions writes to."""
    assert artefacts.interpreter is not None
    cache = folder.resolve() / CACHE
    remove_tree(cache)
    cache.mkdir()
    restored = _copy_files(stored, cache) if stored is not None and stored.is_dir() else set()
    variables = {VARIABLE: str(cache), TUNINGS_VARIABLE: str(cache / TUNINGS)}
    places = dict(artefacts.interpreter.places) | variables
    runnable = replace(artefacts, interpreter=replace(artefacts.interpreter, places=tuple(places.items())))
    with contextlib.ExitStack() as stack:
        stack.callback(remove_tree, cache)
        if entry is not None:
            stack.callback(_store_entry, cache, entry, restored)
        yield runnable


def read_compiled(folder: Path) -> tuple[bytes, ...]:
    """The code objects that a script's compiler made, inside reuse_compiled(), each once, in the order of their bytes;
    what cannot be read, or is too large, is left out."""
    objects: set[bytes] = set()
    for path in sorted((folder / CACHE).glob("*/*.hsaco"))[:MOST_OBJECTS]:
        try:
            objects.add(read_regular(path, MOST_BYTES, inside=folder))
        except BadInput:
            continue
    return tuple(sorted(objects))


def read_intermediate(folder: Path) -> dict[int, str]:
    """The TTGIR of the code objects of read_compiled(), by their CRC-32."""
    texts: dict[int, str] = {}
    for path in sorted((folder / CACHE).glob("*/*.ttgir"))[:MOST_OBJECTS]:
        try:
            checksum = zlib.crc32(read_regular(path.with_suffix(".hsaco"), MOST_BYTES, inside=folder))
            texts[checksum] = read_regular(path, MOST_IR_BYTES, inside=folder).decode(errors="replace")
        except BadInput:
            continue
    return texts


def _entry_of(project: Project) -> Path | None:
    """Where a script's compiled kernels are kept: by all that it may read. None if that is too much."""
    script = project.sources[0].path
    names = []
    try:
        beside = walk_files(project.folder, links=True)
        for number, path in enumerate(itertools.chain(beside, sorted(project.readable))):
            if number >= MOST_BESIDE:
                return None
            if path.is_file():
                names.append((str(path), _identify_file(path)))
        parts = [package_versions(), sys.version, str(script), _identify_file(script), sorted(names)]
    except (OSError, BadInput):
        return None
    identity = json.dumps(parts).encode("utf-8", "surrogateescape")
    return cache_dir() / "triton-kernels" / hashlib.sha256(identity).hexdigest()


def _identify_file(path: Path) -> str:
    """The hash of Python code; of other files, which may be large, their size and the time of their last change."""
    if path.suffix == ".py":
        return hashlib.sha256(read_regular(path, MOST_BYTES)).hexdigest()
    state = path.stat()
    return f"{state.st_size} {state.st_mtime_ns}"


def _copy_files(source: Path, target: Path) -> set[str]:
    """Copies a cache whose contents nobody vouches for; returns the names of its files. Leaves out links, code of the
    host, results of autotuning, and what is too large."""
    copied: set[str] = set()
    spent = 0
    for path in sorted(source.glob("*/*"))[:KEPT_FILES]:
        folder, name = path.parent.name, path.name
        is_safe = _NAME.fullmatch(folder) and _NAME.fullmatch(name) and path.suffix != ".so"
        if not is_safe or name.endswith(AUTOTUNE_RESULTS):
            continue
        try:
            data = read_regular(path, KEPT_BYTES - spent, inside=source)
        except BadInput:
            continue
        spent += len(data)
        place = target / folder
        place.mkdir(exist_ok=True)
        (place / name).write_bytes(_move_group(data, place) if name.startswith(_GROUP) else data)
        copied.add(f"{folder}/{name}")
    return copied


def _move_group(data: bytes, folder: Path) -> bytes:
    """Triton's list of files, which names absolute paths, for files in another folder; empty if it is none."""
    try:
        children = json.loads(data)[_CHILDREN]
        moved = {str(name): str(folder / Path(path).name) for name, path in children.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        moved = {}
    return json.dumps({_CHILDREN: moved}).encode()


def _store_entry(cache: Path, entry: Path, restored: set[str]) -> None:
    """Keeps a cache after a run, if there is anything new. Failure to is no error."""
    left_out = (".so", AUTOTUNE_RESULTS)
    present = {f"{path.parent.name}/{path.name}" for path in cache.glob("*/*") if not path.name.endswith(left_out)}
    with contextlib.suppress(OSError, BadInput):
        if present <= restored:
            if restored:
                os.utime(entry)
            return
        with replace_atomically(entry) as fresh:
            fresh.mkdir(mode=0o700)
            _copy_files(cache, fresh)
        _delete_oldest(entry.parent)


def _delete_oldest(folder: Path) -> None:
    """Bounds what is kept of all scripts."""
    entries = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    total = 0
    for number, path in enumerate(entries):
        total += sum(file.stat().st_size for file in path.glob("*/*"))
        if number >= ENTRIES or total > ALL_BYTES:
            remove_tree(path)
