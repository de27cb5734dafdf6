"""Reads what a script's `triton.autotune` tried (inside/autotuning.py writes it)."""

from __future__ import annotations

import json
from pathlib import Path

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput
from hipsynth.core.files import read_regular
from hipsynth.simulator.autotunings import Autotuning
from hipsynth.simulator.scripts.compiled_kernels import CACHE, TUNINGS

MOST_BYTES, MOST_TUNINGS = 16 << 20, 1000


def read_autotunings(folder: Path) -> tuple[Autotuning, ...]:
    """What a script in `folder` tuned, inside reuse_compiled(). A file that is not as it was written counts as none:
    the script may have written to it."""
    path = folder / CACHE / TUNINGS
    if not path.exists():
        return ()
    try:
        lines = read_regular(path, MOST_BYTES, inside=folder).splitlines()[:MOST_TUNINGS]
        tunings = tuple(from_json(Autotuning, json.loads(line)) for line in lines)
    except (BadInput, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ()
    return tunings if all(map(_is_whole, tunings)) else ()


def _is_whole(tuning: Autotuning) -> bool:
    times = [row.time_ns for row in tuning.configurations if row.time_ns is not None]
    return sum(row.chosen for row in tuning.configurations) == 1 and all(0 <= time < float("inf") for time in times)
