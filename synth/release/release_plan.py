"""The plans of releases (release.toml): backend, programs, flag sets and devices of each shard."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput, UsageError, suggest_name
from hipsynth.core.files import read_regular
from hipsynth.core.reasons import Reason
from hipsynth.core.store.release import ShardOrigin
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.matrix.targets import select_targets
from hipsynth.simulator.limits import CORPUS_EFFORT, CORPUS_ERROR, CORPUS_UNITS, RunLimits

TABLE_PATH = Path(__file__).with_name("release.toml")
LIMITS = RunLimits(sampling_units=CORPUS_UNITS, effort=CORPUS_EFFORT, largest_error=CORPUS_ERROR)  # of `synth profile`
MOST_SHARDS, MARKER_BYTES = 10_000, 1 << 16
LABELS = "labels"  # the plan of executed labels


@dataclass(frozen=True)
class ShardKind:
    """Flag sets and devices of the shards of one kind, as `synth profile` takes them."""

    flags: tuple[str, ...]
    devices: tuple[str, ...]


def limits_of(backend: str) -> RunLimits:
    """The limits under which the rows of a release are made; those of previews are the usual ones."""
    return LIMITS if backend == "sim" else RunLimits()


@dataclass(frozen=True)
class ReleasePlan:
    """A plan of release.toml. `shards`: how many make its release complete; 0: there is no such number."""

    programs: int
    first_seed: int
    sizes: int
    shards_per_file: int
    kinds: tuple[ShardKind, ...]
    backend: str = "sim"
    shards: int = 0

    def seed(self, shard: int) -> int:
        return self.first_seed + shard

    def targets(self, shard: int) -> tuple[Target, ...]:
        """The targets on which the programs of a shard are profiled."""
        kind = self.kinds[shard % len(self.kinds)]
        return select_targets((), kind.flags, kind.devices)[0]

    def planned_items(self, shard: int) -> int:
        """Programs x sizes x targets of a shard; a program may have fewer sizes."""
        return self.programs * self.sizes * len(self.targets(shard))

    def file_range(self, shard: int) -> tuple[int, int]:
        """The first and the last shard of the files that hold a shard."""
        first = shard - shard % self.shards_per_file
        return first, first + self.shards_per_file - 1


@cache
def load_plans() -> dict[str, ReleasePlan]:
    """The plans of this installation by name."""
    data = tomllib.loads(TABLE_PATH.read_text())
    return {
        row["name"]: ReleasePlan(
            row["programs"],
            row["first_seed"],
            row["sizes"],
            data["shards_per_file"],
            tuple(ShardKind(tuple(kind["flags"]), tuple(kind["devices"])) for kind in row["kind"]),
            row["backend"],
            row.get("shards", 0),
        )
        for row in data["plan"]
    }


def load_plan(name: str = LABELS) -> ReleasePlan:
    """A plan of this installation. Raises UsageError for an unknown name."""
    plans = load_plans()
    if name not in plans:
        raise UsageError(
            f"no plan called {name!r}", cause=suggest_name(name, tuple(plans)), remedy=f"one of: {', '.join(plans)}"
        )
    return plans[name]


def choose_shards(plan: ReleasePlan, text: str) -> range:
    """The shards of `--shards`; without any, all of the plan. Raises UsageError."""
    if text:
        return shard_numbers(text)
    if not plan.shards:
        raise UsageError("this plan has no last shard", remedy="give --shards A:B, as in 0:4")
    return range(plan.shards)


def shard_numbers(text: str) -> range:
    """The shards of `A:B`, from A to before B, or of one number. Raises UsageError."""
    match = re.fullmatch(r"(\d{1,5})(?::(\d{1,5}))?", text)
    if match is None:
        raise UsageError(f"--shards {text}", remedy="give A:B, from shard A to before shard B, as in 0:4")
    first = int(match[1])
    last = int(match[2]) if match[2] else first + 1
    if not first < last <= MOST_SHARDS:
        raise UsageError(f"--shards {text}: no shards", remedy=f"give A:B with A < B, at most {MOST_SHARDS}")
    return range(first, last)


@dataclass(frozen=True)
class Folders:
    """Where the shards of a working folder lie: programs, corpus, and the file that says that a shard is finished."""

    work: Path

    def programs(self, shard: int) -> Path:
        return self.work / f"p{shard:04}"

    def corpus(self, shard: int) -> Path:
        return self.work / f"s{shard:04}"

    def done_marker(self, shard: int) -> Path:
        return self.work / f"s{shard:04}.done"

    def read_origin(self, shard: int) -> ShardOrigin | None:
        """How a finished shard was made; None if its marker does not say. Raises BadInput for a damaged marker."""
        path = self.done_marker(shard)
        text = read_regular(path, MARKER_BYTES).strip()
        try:
            return from_json(ShardOrigin, json.loads(text)) if text else None
        except (ValueError, TypeError) as error:
            raise BadInput(
                f"{path}: damaged",
                cause=str(error),
                remedy="remove it, and make the shard again",
                reason=Reason.CORRUPT,
            ) from None
