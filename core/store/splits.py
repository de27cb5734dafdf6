"""Splits of labels for training and testing, the same ones for corpora, releases and exports.

By lineage, so that no test program is a relative of a training program:

- `train`, `validation`, `test`: 80, 10 and 10 % of the lineages, by hash, so a row stays in its split as a corpus grows
- `unseen_families`, `unseen_devices`: families, compositions and devices of held_out.toml, never trained on; of such
  devices the programs of `test`
- `handwritten`, `real`: handwritten programs and programs of surveys, never trained on
- `other`: neither for training nor for testing: other programs on held-out devices, programs of held-out families whose
  lineage occurs elsewhere

Or at random, by single item, as the paper does: renamed copies leak.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from hipsynth.core.errors import UsageError, suggest_name
from hipsynth.core.tables import read_table

NAMES = ("train", "validation", "test")
SHARES = (0.8, 0.1, 0.1)
BY_ORIGIN = {"handwritten": "handwritten", "surveyed": "real"}
OTHER = "other"
RELEASED = (*NAMES, "unseen_families", "unseen_devices", OTHER)  # a release has generated programs only
BY = ("lineage", "random")


@dataclass(frozen=True)
class HeldOutFamilies:
    """Families, and parts of the names of compositions."""

    names: tuple[str, ...]
    parts: tuple[str, ...]


@dataclass(frozen=True)
class HeldOutDevices:
    """Devices by name."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class HeldOutTable:
    """The content of held_out.toml."""

    families: HeldOutFamilies
    devices: HeldOutDevices


@functools.cache
def _load_held_out() -> HeldOutTable:
    return read_table(Path(__file__).with_name("held_out.toml"), HeldOutTable)


def held_out_family(family: str) -> bool:
    """Whether no program of the family, or composition such as `compose/line-hashed-loop`, is ever trained on."""
    families = _load_held_out().families
    parts = family[8:].split("-") if family.startswith("compose/") else ()
    return family in families.names or not set(families.parts).isdisjoint(parts)


def held_out_device(device: str) -> bool:
    """Whether no label of the device is ever trained on."""
    return device in _load_held_out().devices.names


def split_names() -> tuple[str, ...]:
    """The ways to split: by `lineage` (leak-free), at `random` (as in the paper; renamed copies leak)."""
    return BY


def splits(measurements: pa.Table, by: str = "lineage") -> list[str]:
    """The split of each row: at random one of NAMES, by lineage those of splits_of(). No part of NAMES is empty in a
    corpus with at least three keys. Raises UsageError for an unknown `by`."""
    if by not in BY:
        raise UsageError(f"no split called {by!r}", cause=suggest_name(by, BY), remedy=f"one of: {', '.join(BY)}")
    if by == "random":
        keys = measurements["measurement_id"].to_pylist()
        parts = _assign_parts(keys, fill=True)
        return [parts[key] for key in keys]
    columns = (measurements[name].to_pylist() for name in ("family", "lineage", "device", "origin"))
    return splits_of(*columns, fill=True)


def splits_of(
    families: Sequence[str],
    lineages: Sequence[str],
    devices: Sequence[str] = (),
    origins: Sequence[str] = (),
    *,
    fill: bool = False,
) -> list[str]:
    """The split by lineage of each program, or of each label if devices are given; without origins all are generated.

    `fill` moves the lineages nearest to a boundary so that none of NAMES is empty in a small corpus; without it a
    lineage's split does not depend on what else there is.
    """
    devices, origins = devices or [""] * len(families), origins or [""] * len(families)
    rows = list(zip(families, lineages, devices, origins, strict=True))
    pool = [lineage for family, lineage, _, origin in rows if origin not in BY_ORIGIN and not held_out_family(family)]
    parts = _assign_parts(pool, fill)
    return [
        BY_ORIGIN.get(origin) or _choose_split(family, parts.get(key), device) for family, key, device, origin in rows
    ]


def _choose_split(family: str, part: str | None, device: str) -> str:
    """`part`: that of the row's lineage among families that are not held out, None if it does not occur there."""
    if held_out_family(family):
        return OTHER if part else "unseen_families"
    assert part is not None
    if held_out_device(device):
        return "unseen_devices" if part == "test" else OTHER
    return part


def _assign_parts(keys: Sequence[str], fill: bool) -> dict[str, str]:
    places = {key: _hash_position(key) for key in set(keys)}
    parts = {key: _part_at(place) for key, place in places.items()}
    if fill and len(parts) >= len(NAMES):
        _fill_empty(parts, places)
    return parts


def _hash_position(key: str) -> float:
    """A number in [0, 1) derived from a hash of the key."""
    digest = hashlib.sha256(f"hipsynth:{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def _part_at(place: float) -> str:
    _, validation, test = SHARES
    if place < test:
        return "test"
    return "validation" if place < validation + test else "train"


def _fill_empty(parts: dict[str, str], places: dict[str, float]) -> None:
    """Gives every part at least one key: the lowest numbers go to test, the next ones to validation."""
    ordered = sorted(parts, key=lambda key: (places[key], key))
    for name in ("test", "validation", "train"):
        if name not in parts.values():
            donors = [key for key in ordered if list(parts.values()).count(parts[key]) > 1]
            parts[donors[-1] if name == "train" else donors[0]] = name
