"""Results of `triton.autotune` in Triton's own cache format: given to a script's run, and taken from it.

Triton writes `HASH/KERNEL.autotune.json` into its cache folder; with TRITON_CACHE_AUTOTUNING=1 it looks there before it
times anything. The hash is over its own version, the target, the kernel's source, the key and the configurations, so
the files serve on a machine with the real device, too. A script may have written anything under such a name: only files
of Triton's form are taken.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.core.files import read_regular, write_error, write_whole
from hipsynth.simulator.artefacts import Artefacts
from hipsynth.simulator.scripts.compiled_kernels import AUTOTUNE_RESULTS, CACHE

VARIABLE = "TRITON_CACHE_AUTOTUNING"
MOST_BYTES, MOST_FILES = 1 << 20, 10_000


@contextlib.contextmanager
def use_autotune_cache(stored: Path, artefacts: Artefacts, folder: Path) -> Iterator[Artefacts]:
    """The script, to be run in `folder` inside reuse_compiled(), with the results that lie in `stored`; what it tunes
    in the block is added to them, also if it is interrupted. Other programs as they are. Raises BadInput if `stored`
    cannot be written."""
    if artefacts.interpreter is None:
        yield artefacts
        return
    cache = folder / CACHE
    try:
        stored.mkdir(parents=True, exist_ok=True)  # before the script has run for nothing
    except OSError as error:
        raise write_error(stored, error) from error
    copy_autotune_results(stored, cache)
    places = dict(artefacts.interpreter.places) | {VARIABLE: "1"}
    try:
        yield replace(artefacts, interpreter=replace(artefacts.interpreter, places=tuple(places.items())))
    finally:
        copy_autotune_results(cache, stored)


def copy_autotune_results(source: Path, target: Path) -> None:
    """Copies results that the cache `target` does not have; its folders are made. Leaves out files of another form.

    Raises BadInput if `target` cannot be written."""
    for path in sorted(source.glob(f"*/*{AUTOTUNE_RESULTS}"))[:MOST_FILES]:
        place = target / path.parent.name / path.name
        if place.exists() or not path.parent.name.isalnum():
            continue
        try:
            data = read_regular(path, MOST_BYTES, inside=source)
        except BadInput:
            continue
        if _has_triton_form(data):
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise write_error(place, error) from error
            write_whole(place, data)


def _has_triton_form(data: bytes) -> bool:
    """Whether a file holds a key, and the settings and times of at least one configuration."""
    try:
        result = json.loads(data)
        timings = result["configs_timings"]
        return isinstance(result["key"], list) and bool(timings) and all(map(_is_timing, timings))
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def _is_timing(row: object) -> bool:
    match row:
        case [{"kwargs": dict()}, list(times)]:
            return bool(times) and all(isinstance(time, int | float) for time in times)
        case [{"kwargs": dict()}, int() | float()]:
            return True
        case _:
            return False
