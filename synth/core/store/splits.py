"""Train, validation and test splits: by lineage, so that no test program is a copy of a training program, or random."""

from __future__ import annotations

import functools
import hashlib
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from hipsynth.synth.core.errors import UsageError

NAMES = ("train", "validation", "test")
DEFAULT_SHARES = (0.8, 0.1, 0.1)
COLUMN = {"lineage": "lineage", "random": "measurement_id"}


@functools.cache
def _held_out() -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """(families, parts of compositions, devices) of held_out.toml."""
    table = tomllib.loads(Path(__file__).with_name("held_out.toml").read_text())
    families, devices = table["families"], table["devices"]
    return frozenset(families["names"]), frozenset(families["parts"]), frozenset(devices["names"])


def held_out_family(family: str) -> bool:
    """Whether no program of the family, or composition such as `compose/line-hashed-loop`, is ever trained on."""
    names, parts, _ = _held_out()
    return family in names or (family.startswith("compose/") and not parts.isdisjoint(family[8:].split("-")))


def held_out_device(device: str) -> bool:
    """Whether no label of the device is ever trained on."""
    return device in _held_out()[2]


def split_names() -> tuple[str, ...]:
    """Names of the splits: `lineage` (leak-free) and `random` (as in the paper; renamed copies leak)."""
    return tuple(COLUMN)


def splits(
    measurements: pa.Table, by: str = "lineage", *, shares: Sequence[float] = DEFAULT_SHARES, salt: str = "hipsynth"
) -> list[str]:
    """One of NAMES per row. The assignment depends only on the row's key, so it is stable as a corpus grows.

    A corpus with at least three keys has no empty part: the keys nearest to a boundary are moved into it.
    Raises UsageError for an unknown `by`.
    """
    if by not in COLUMN:
        raise UsageError(f"no split called {by!r}", remedy=f"one of: {', '.join(COLUMN)}")
    keys = measurements[COLUMN[by]].to_pylist()
    places = {key: _place(key, salt) for key in set(keys)}
    parts = {key: _part(place, shares) for key, place in places.items()}
    _fill_empty(parts, places, shares)
    return [parts[key] for key in keys]


def part_of(key: str) -> str:
    """The part of a lineage by the default shares, whatever else a corpus holds."""
    return _part(_place(key, "hipsynth"), DEFAULT_SHARES)


def _place(key: str, salt: str) -> float:
    """A number in [0, 1) derived from a hash of key and salt."""
    digest = hashlib.sha256(f"{salt}:{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def _part(place: float, shares: Sequence[float]) -> str:
    if place < shares[2]:
        return "test"
    return "validation" if place < shares[1] + shares[2] else "train"


def _fill_empty(parts: dict[str, str], places: dict[str, float], shares: Sequence[float]) -> None:
    """Gives every wanted part at least one key: the lowest numbers go to test, the next ones to validation."""
    wanted = [name for name, share in zip(NAMES, shares, strict=True) if share > 0]
    if len(parts) < len(wanted):
        return
    ordered = sorted(parts, key=lambda key: (places[key], key))
    for name in ("test", "validation", "train"):
        if name in wanted and name not in parts.values():
            donors = [key for key in ordered if list(parts.values()).count(parts[key]) > 1]
            parts[donors[-1] if name == "train" else donors[0]] = name
