"""Recorded figures beside the work of our dispatches, collected once from the studies and kept in build/.

A study is run again when the simulator's core, a device table, the compiler, its headers, or the study's own files have
changed, or what is kept of a figure.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hipsynth.core.files import write_whole
from hipsynth.profiling.uncertainty import classes, expected_error
from hipsynth.simulator.identity import build_identity
from hipsynth.simulator.native_core import Dispatch
from hipsynth.toolchain import find_toolchain
from studies.validation.frame import FOLDER, KERNELS, ComparisonRow, ComparisonTable, Study, list_studies
from studies.validation.timed import TimedTerms, TimedValue

IMPORTED = re.compile(r"^from studies\.validation\.comparisons\.(\w+) import", re.MULTILINE)
CACHE = FOLDER.resolve().parents[1] / "build" / "leave-one-out"
TRAFFIC = (
    "FETCH_SIZE, GB", "WRITE_SIZE, GB", "fetch efficiency, %",
    "TCC_EA_RDREQ", "TCC_EA_WRREQ", "TCC_EA0_RDREQ", "TCC_EA0_WRREQ",
)  # fmt: skip
TIME, HIT, L1_HIT, BYTES = expected_error.SORTS
HIT_RATES = {"L2_Cache_Hit_Rate": HIT, "L1_Cache_Hit_Rate": L1_HIT}


@dataclass(frozen=True)
class RecordedFigure:
    """One recorded figure. `what`: TIME (`theirs`, `ours` in ns), HIT and L1_HIT (in per cent) or BYTES. `timed`: the
    fields of TimedValue without its runs, of which `works` has the work. `counters`: of the longest run."""

    study: str
    title: str
    label: str
    device: str
    what: str
    theirs: float
    ours: float
    timed: TimedTerms = field(default_factory=TimedTerms)
    works: tuple[Mapping[str, float], ...] = ()
    counters: Mapping[str, float] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """What kinds.toml matches."""
        return f"{self.study}/{self.title}/{self.label}".rstrip(" ,")

    @property
    def timed_value(self) -> TimedValue[Mapping[str, float]]:
        return TimedValue(self.works, **self.timed)

    @property
    def error(self) -> float:
        """Signed: the natural logarithm of ours over theirs; for hit rates the difference in points."""
        return self.ours - self.theirs if self.is_hit_rate else math.log(self.ours / self.theirs)

    @functools.cached_property
    def kernel_class(self) -> str:
        """Its kernel's class; "" without counters. A rate over a difference of runs is free of launches, so it is never
        short, and how short a kernel is does not matter to its caches."""
        timed = self.what == TIME and not self.timed_value.is_difference
        return classes.classify(self.counters, self.theirs if timed else math.inf) if self.counters else ""

    @property
    def is_hit_rate(self) -> bool:
        return self.what in HIT_RATES.values()


def list_figures(study: str, tables: Iterable[ComparisonTable]) -> Iterator[RecordedFigure]:
    """The times, hit rates and fabric bytes of a study's tables. What is zero on both sides tells nothing."""
    for table in tables:
        counters = {row.label: _read_counters(row.timed) for row in table.rows if row.timed is not None}
        for row in table.rows:
            where = (study, table.title, row.label, table.device)
            counted = counters.get(row.label, {})
            if row.quantity in HIT_RATES:
                yield RecordedFigure(*where, HIT_RATES[row.quantity], row.recorded, row.ours, counters=counted)
            elif row.quantity in TRAFFIC and row.recorded > 0 and row.ours > 0:
                yield RecordedFigure(*where, BYTES, row.recorded, row.ours, counters=counted)
            elif row.timed is not None:
                yield _build_timed_figure(study, table, row, row.timed)


def _read_counters(timed: TimedValue[Dispatch]) -> dict[str, float]:
    longest = max(timed.runs, key=lambda run: float(run["duration_ns"]))
    return {name: float(value) for name, value in longest["counters"].items() if name in classes.COUNTERS}


def _build_timed_figure(
    study: str, table: ComparisonTable, row: ComparisonRow, timed: TimedValue[Dispatch]
) -> RecordedFigure:
    theirs, ours = timed.compute_recorded_ns(row.recorded), timed.compute_recorded_ns(row.ours)
    works = tuple(dict(run["work"]) for run in timed.runs)
    return RecordedFigure(
        study, table.title, row.label, table.device, TIME, theirs, ours, timed.drop_runs(), works, _read_counters(timed)
    )


def list_sources(study: str) -> list[Path]:
    """The files that decide a study's figures besides the simulator: its module and those of other studies that it
    imports, the kernels that these name, its recording, and what all studies share."""
    modules, waiting = set[Path](), [FOLDER / "comparisons" / f"{study}.py"]
    while waiting:
        module = waiting.pop()
        if module not in modules:
            modules.add(module)
            waiting += [module.with_name(f"{name}.py") for name in IMPORTED.findall(module.read_text())]
    text = "".join(module.read_text() for module in modules)
    kernels = [path for path in KERNELS.glob("*.hip") if f'"{path.stem}"' in text]
    shared = [FOLDER / f"{name}.py" for name in ("bench", "calls", "frame", "points", "timed")]
    return sorted([*modules, *kernels, FOLDER / "recorded" / f"{study}.toml", *shared])


def identify_study(study: str) -> str:
    """A digest that changes with everything that can change a study's figures, or what this module keeps of them."""
    facts = [build_identity(), find_toolchain().identity, *sorted(classes.COUNTERS)]
    digest = hashlib.sha256(json.dumps(facts).encode())
    for path in [*list_sources(study), Path(__file__)]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def collect_figures(study: Study) -> list[RecordedFigure]:
    """The figures of one study, from build/ if nothing has changed since they were collected."""
    path = CACHE / f"{study.name}-{identify_study(study.name)}.json.gz"
    if path.exists():
        rows = json.loads(gzip.decompress(path.read_bytes()))
        return [RecordedFigure(**{**row, "works": tuple(row["works"])}) for row in rows]
    figures = list(list_figures(study.name, study.build_tables()))
    CACHE.mkdir(parents=True, exist_ok=True)
    for old in CACHE.glob(f"{study.name}-*.json.gz"):
        old.unlink()
    write_whole(path, gzip.compress(json.dumps([asdict(figure) for figure in figures]).encode(), mtime=0))
    return figures


def collect_all_figures() -> list[RecordedFigure]:
    """The figures of all studies, which run on all cores: the simulator's core runs without Python's lock."""
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        started = [
            workers.submit(collect_figures, study) for study in reversed(list_studies())
        ]  # the slowest is the last
        return [figure for process in reversed(started) for figure in process.result()]
