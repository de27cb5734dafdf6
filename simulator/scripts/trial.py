"""Trials of scripts: what a script with Triton kernels left in tensors, for comparisons (inside/trial.py writes it)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hipsynth.core.errors import BadInput
from hipsynth.core.files import read_program_file
from hipsynth.core.reasons import Reason
from hipsynth.simulator.artefacts import Artefacts
from hipsynth.simulator.observation import Family

VARIABLE, FILE = "HIPSYNTH_SCRIPT_TRIAL", "hipsynth-tensors.bin"
MOST_BYTES, MOST_TENSORS = 1 << 30, 10_000
HEAD_BYTES = 1 << 20


@dataclass(frozen=True)
class TensorBytes:
    """What the last launch of a kernel left in memory of a tensor. `dtype`: PyTorch's name, such as "float32"."""

    dtype: str
    data: bytes

    @property
    def digest(self) -> str:
        return hashlib.blake2b(self.data, digest_size=16).hexdigest()


def observe_script(
    artefacts: Artefacts,
    folder: Path,
    *,
    seed: int = 0,
    family: Family = Family.SCALED,
    tensors: bool = True,
    still: bool = False,
) -> Artefacts:
    """The script, to be run in `folder`, which also leaves what its kernels wrote in a file there (`tensors`). `seed`:
    not 0, its random generators give other numbers. Generators without a seed always get one. `family`: LARGE, what
    PyTorch draws is 256 times as large; ZEROS, a quarter of it is zero; else it is as drawn. `still`: whatever it
    times takes the same time, so that runs whose kernels are not equally fast print the same."""
    assert artefacts.interpreter is not None
    settings = {
        "seed": seed,
        "family": family.name,
        "tensors": str(folder.resolve() / FILE) if tensors else "",
        "still": still,
    }
    places = dict(artefacts.interpreter.places) | {VARIABLE: json.dumps(settings)}
    return replace(artefacts, interpreter=replace(artefacts.interpreter, places=tuple(places.items())))


def read_tensors(folder: Path) -> tuple[TensorBytes, ...]:
    """The tensors that a run in `folder` left, in the order of their first launches; () if it did not reach its end.
    Raises BadInput if the file is not as it was written, or too large."""
    data = read_program_file(folder, FILE, MOST_BYTES)
    if not data:
        return ()
    end = data.find(b"\n", 0, HEAD_BYTES)
    try:
        rows: Any = json.loads(data[: max(end, 0)])
        sizes = [(str(dtype), int(size)) for dtype, size in rows]
    except (ValueError, TypeError, RecursionError):
        raise _damaged_file() from None
    if (
        len(sizes) > MOST_TENSORS
        or any(size < 0 for _, size in sizes)
        or end + 1 + sum(s for _, s in sizes) != len(data)
    ):
        raise _damaged_file()
    tensors, at = [], end + 1
    for dtype, size in sizes:
        tensors.append(TensorBytes(dtype, data[at : at + size]))
        at += size
    return tuple(tensors)


def _damaged_file() -> BadInput:
    return BadInput(f"{FILE} is damaged", cause="the script wrote to it", reason=Reason.BAD_RESULT)
