"""The version of the model of labels: the simulator's part of a label's identity (label_model.toml)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.tables import read_table

TABLE_PATH = Path(__file__).with_name("label_model.toml")


@dataclass(frozen=True)
class EqualVersion:
    """A version without a number, `older`, whose labels equal those of version `sim`."""

    older: str
    sim: int


@dataclass(frozen=True)
class LabelModel:
    """The content of label_model.toml."""

    sim: int
    preview: int
    equal: tuple[EqualVersion, ...] = ()


@functools.cache
def _load_model() -> LabelModel:
    return read_table(TABLE_PATH, LabelModel)


def _older_versions() -> Mapping[str, int]:
    return {row.older: row.sim for row in _load_model().equal}


def version_number(backend: str) -> int:
    """The version's number of a backend, "sim" or "preview"."""
    model = _load_model()
    return {"sim": model.sim, "preview": model.preview}[backend]


def sim_version() -> str:
    """The version of executed labels, e.g. "labels-3"."""
    return f"labels-{_load_model().sim}"


def preview_version() -> str:
    """The version of previews, which also depend on the simulator's, e.g. "labels-3-preview-1"."""
    return f"{sim_version()}-preview-{_load_model().preview}"


def equal_versions(version: str) -> tuple[str, ...]:
    """The older identities whose labels equal those of a version, with the same settings after its "+"."""
    name, plus, settings = version.partition("+")
    return tuple(older + plus + settings for older, number in _older_versions().items() if f"labels-{number}" == name)


def current_version(version: str) -> str:
    """The present name of a version that a corpus or release carries; itself if it has no other."""
    name, plus, settings = version.partition("+")
    older = _older_versions()
    return f"labels-{older[name]}{plus}{settings}" if name in older else version
