"""The plan of the release (release.toml): programs, flag sets and devices of each labelled shard."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hipsynth.core.errors import UsageError
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.matrix.targets import select_targets
from hipsynth.simulator.limits import CORPUS_EFFORT, CORPUS_ERROR, CORPUS_UNITS, RunLimits

TABLE_PATH = Path(__file__).with_name("release.toml")
LIMITS = RunLimits(sampling_units=CORPUS_UNITS, effort=CORPUS_EFFORT, largest_error=CORPUS_ERROR)  # of `synth profile`
MOST_SHARDS = 10_000


@dataclass(frozen=True)
class ShardKind:
    """Flag sets and devices of the shards of one kind, as `synth profile` takes them."""

    flags: tuple[str, ...]
    devices: tuple[str, ...]


@dataclass(frozen=True)
class ReleasePlan:
    """The content of release.toml."""

    programs: int
    first_seed: int
    sizes: int
    shards_per_file: int
    kinds: tuple[ShardKind, ...]

    def seed(self, shard: int) -> int:
        return self.first_seed + shard

    def targets(self, shard: int) -> tuple[Target, ...]:
        """The targets on which the programs of a shard are profiled."""
        kind = self.kinds[shard % len(self.kinds)]
        return select_targets((), kind.flags, kind.devices)[0]

    def file_range(self, shard: int) -> tuple[int, int]:
        """The first and the last shard of the files that hold a shard."""
        first = shard - shard % self.shards_per_file
        return first, first + self.shards_per_file - 1


@cache
def load_plan() -> ReleasePlan:
    """The plan of this installation."""
    data = tomllib.loads(TABLE_PATH.read_text())
    kinds = tuple(ShardKind(tuple(row["flags"]), tuple(row["devices"])) for row in data["kind"])
    return ReleasePlan(data["programs"], data["first_seed"], data["sizes"], data["shards_per_file"], kinds)


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
