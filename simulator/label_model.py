"""The version of the model of labels: the simulator's part of a label's identity (label_model.toml)."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path

TABLE_PATH = Path(__file__).with_name("label_model.toml")


@functools.cache
def _versions() -> Mapping[str, int]:
    table = tomllib.loads(TABLE_PATH.read_text())
    return {name: table[name] for name in ("sim", "preview")}


@functools.cache
def _older() -> Mapping[str, int]:
    rows = tomllib.loads(TABLE_PATH.read_text()).get("equal", ())
    return {row["older"]: row["sim"] for row in rows}


def version_number(backend: str) -> int:
    """The version's number of a backend, "sim" or "preview"."""
    return _versions()[backend]


def sim_version() -> str:
    """The version of executed labels, e.g. "labels-3"."""
    return f"labels-{_versions()['sim']}"


def preview_version() -> str:
    """The version of previews, which also depend on the simulator's, e.g. "labels-3-preview-1"."""
    return f"{sim_version()}-preview-{_versions()['preview']}"


def equal_versions(version: str) -> tuple[str, ...]:
    """The older identities whose labels equal those of a version, with the same settings after its "+"."""
    name, plus, settings = version.partition("+")
    return tuple(older + plus + settings for older, number in _older().items() if f"labels-{number}" == name)


def current_version(version: str) -> str:
    """The present name of a version that a corpus or release carries; itself if it has no other."""
    name, plus, settings = version.partition("+")
    return f"labels-{_older()[name]}{plus}{settings}" if name in _older() else version
