"""Which constants of the device tables were fitted to which kinds, fits.toml, and device tables with other values."""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.simulator import devices
from studies.leave_one_out.kinds import match_kinds

PATH = Path(__file__).with_name("fits.toml")
TIMES, COUNTERS = "times", "counters"
Place = tuple[str, str]  # table, constant


@dataclass(frozen=True)
class FittedConstant:
    """A constant that was fitted to recordings, or read off them, and those that were set to its value (`places`).

    `changes`: TIMES, or COUNTERS, which the timing model alone cannot fit again. `prior`: its value without any
    recording, from `prior_source`; it may be at most `most`. `shift` is added before the logarithm is taken, for
    constants that may be 0.
    """

    places: tuple[Place, ...]
    changes: str
    kinds: tuple[str, ...]
    prior: float = 0.0
    prior_source: str = ""
    shift: float = 0.0
    most: float = math.inf

    @property
    def name(self) -> str:
        return " ".join(self.places[0])

    @property
    def is_marked(self) -> bool:
        """Whether the table marks it `fit`."""
        table, key = self.places[0]
        return devices.load_device(table).constants[key].fitted

    def read_value(self) -> float:
        """Its value in the device table."""
        table, key = self.places[0]
        return devices.load_device(table)[key]

    def compute_log(self, value: float) -> float:
        return math.log(value + self.shift)

    def invert_log(self, log: float) -> float:
        return min(self.most, max(0.0, math.exp(log) - self.shift))


@functools.cache
def load_fits() -> tuple[FittedConstant, ...]:
    """All rows of fits.toml; a row with `as` is one more place of the row that it names."""
    rows = tomllib.loads(PATH.read_text())["constant"]
    places: dict[Place, list[Place]] = {}
    for row in rows:
        table_key = (row["table"], row["key"])
        if table_key[1] not in _read_keys(table_key[0])[0]:
            raise BadInput(
                f"fits.toml: {table_key[0]}.toml does not set {table_key[1]}", remedy="remove the row, or rename it"
            )
        if "as" not in row:
            places[table_key] = [table_key]
    for row in rows:
        if "as" in row:
            table, _, key = row["as"].partition(" ")
            if (table, key) not in places:
                raise BadInput(f"fits.toml: {row['table']} {row['key']} is as {row['as']}, which has no row")
            places[table, key].append((row["table"], row["key"]))
    return tuple(
        FittedConstant(
            tuple(places[row["table"], row["key"]]),
            row["changes"],
            match_kinds(row["kinds"]),
            row.get("prior", 0.0),
            row.get("prior_source", ""),
            row.get("shift", 0.0),
            row.get("most", math.inf),
        )
        for row in rows
        if "as" not in row
    )


def list_timing_fits(kind: str, marked: bool = False) -> list[FittedConstant]:
    """The constants to be fitted again when a kind is left out; `marked`: only those whose source begins with `fit`,
    not those that were read off a recording."""
    chosen = [fit for fit in load_fits() if fit.changes == TIMES and kind in fit.kinds]
    return [fit for fit in chosen if fit.is_marked] if marked else chosen


@functools.cache
def _read_keys(table: str) -> tuple[frozenset[str], str]:
    """The constants that a table itself sets, and the table that it inherits from."""
    document = tomllib.loads((devices.FOLDER / f"{table}.toml").read_text())
    sections = {name: part for name, part in document.items() if isinstance(part, dict)}
    device_keys = frozenset(f"{section}.{key}" for section, part in sections.items() for key in part)
    return device_keys, document.get("inherits", "")


def find_owner(device: str, key: str) -> str:
    """The table from which a device has a constant."""
    device_keys, base = _read_keys(device)
    return device if key in device_keys or not base else find_owner(base, key)


def replace_values(device: str, fitted: Sequence[FittedConstant], values: Mapping[str, float]) -> dict[str, float]:
    """The constants of a device with other values of some fits, by name."""
    spec = devices.load_device(device).spec()
    for fit in fitted:
        for table, key in fit.places:
            if find_owner(device, key) == table:
                spec[key] = values[fit.name]
    return spec
