"""What hardware recordings say about the error of a simulated value: the reader of errors.toml.

errors.toml is generated from the validation studies (`python -m hipsynth.profiling.validation`). An error is looked up
for the device, then for any device of its architecture. A duration's error depends on how long the kernel runs, so
short and long ones are kept apart; bandwidths and throughputs take the duration's, since the counts they divide are far
more exact.
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hipsynth.profiling import devices, metrics
from hipsynth.synth.core.expressions import evaluate, parse

TABLE_PATH = Path(__file__).with_name("errors.toml")
TIMED = frozenset({"bandwidth", "throughput", "time"})
SHORT_NS = 30_000  # launch overhead and the ramps at both ends are a large part of shorter kernels
ALWAYS_EXACT = ("SQ_INSTS", "SQ_WAVES", "SQ_ITEMS", "SQ_THREAD_CYCLES", "SQ_ACTIVE_INST", "VALU_Active_Threads")


@dataclass(frozen=True)
class Feature:
    """Something a kernel may use: `formula` over counters is positive in one that does.

    A feature that no recorded kernel of an architecture uses leaves the durations of kernels that do without evidence
    like it, and one that concerns memory their cache counters as well.
    """

    title: str
    formula: str
    memory: bool = False


FEATURES = (
    Feature("LDS", "SQ_INSTS_LDS"),
    Feature("LDS bank conflicts", "SQ_LDS_BANK_CONFLICT"),
    Feature("global atomics", "TCP_TCC_ATOMIC_WITH_RET_REQ + TCP_TCC_ATOMIC_WITHOUT_RET_REQ", memory=True),
    Feature("matrix cores", "SQ_INSTS_MFMA"),
    Feature("half precision", "SQ_INSTS_VALU_ADD_F16 + SQ_INSTS_VALU_MUL_F16 + SQ_INSTS_VALU_FMA_F16"),
    Feature("transcendentals", "SQ_INSTS_VALU_TRANS_F16 + SQ_INSTS_VALU_TRANS_F32 + SQ_INSTS_VALU_TRANS_F64"),
    Feature("cache reuse", "EXACT_READ_BYTES + EXACT_WRITE_BYTES - 1.25 * 128 * TCC_MISS", memory=True),
    Feature(
        "scattered access",
        """min(EXACT_READ_BYTES + EXACT_WRITE_BYTES,
        0.5 * 64 * (TCP_TCC_READ_REQ + TCP_TCC_WRITE_REQ) - EXACT_READ_BYTES - EXACT_WRITE_BYTES)""",
        memory=True,
    ),
    Feature("divergence", "0.9 * 64 * SQ_ACTIVE_INST_VALU - SQ_THREAD_CYCLES_VALU"),
)
_FORMULAS = {feature.title: parse(feature.formula) for feature in FEATURES}
MEMORY = frozenset(feature.title for feature in FEATURES if feature.memory)


@dataclass(frozen=True)
class Error:
    """How far simulated values of one quantity lay from recorded ones; `device` is "" for all of an architecture."""

    quantity: str
    arch: str
    device: str
    unit: str  # "%" of the recorded value, or "points" of a percentage
    n: int
    median: float  # of the absolute errors
    worst: float
    kernels: tuple[str, ...]
    studies: tuple[str, ...]

    def __str__(self) -> str:
        """Median / worst (n)."""
        if self.worst == 0:
            return f"0 ({self.n})"
        unit = "points" if self.unit == "points" else "%"
        return f"{_short(self.median)} / {_short(self.worst)} {unit} ({self.n})"

    def document(self) -> dict[str, Any]:
        """The entry of `expected_error` in the profile JSON."""
        return {
            "median": self.median,
            "worst": self.worst,
            "unit": self.unit,
            "n": self.n,
            "compared": self.quantity,
            "device": self.device or self.arch,
            "kernels": list(self.kernels),
        }


def _short(value: float) -> str:
    return "∞" if math.isinf(value) else "0" if value == 0 else f"{value:.2g}" if value < 10 else f"{value:.0f}"


@dataclass(frozen=True)
class Evidence:
    """The whole table. `features` maps an architecture to what its recorded kernels use."""

    errors: Mapping[tuple[str, str], Error]  # (quantity, device or architecture)
    features: Mapping[str, frozenset[str]]
    counted: Mapping[str, frozenset[str]] = field(default_factory=dict)  # of which no time was recorded, only counters


def parse_table(text: str) -> Evidence:
    document = tomllib.loads(text)
    errors = {}
    for row in document.get("error", []):
        row = {**row, "kernels": tuple(row["kernels"]), "studies": tuple(row["studies"])}
        errors[row["quantity"], row["device"] or row["arch"]] = Error(**row)
    return Evidence(errors, _by_arch(document, "features"), _by_arch(document, "counted"))


def _by_arch(document: Mapping[str, Any], section: str) -> dict[str, frozenset[str]]:
    return {arch: frozenset(names) for arch, names in document.get(section, {}).items()}


@functools.cache
def table() -> Evidence:
    return parse_table(TABLE_PATH.read_text())


def duration_class(duration_ns: float) -> str:
    """The quantity under which durations of this size are kept beside "duration_ns"."""
    return f"{metrics.DURATION} {'below' if duration_ns < SHORT_NS else 'from'} {SHORT_NS / 1000:g} us"


def expected(quantity: str, device: str, duration_ns: float) -> Error | None:
    """The error to expect of a metric or counter of a kernel on a device; None where nothing was compared."""
    known = table().errors
    facts = metrics.table().metrics.get(quantity)
    timed = facts is not None and facts.kind in TIMED
    for name in (duration_class(duration_ns), metrics.DURATION, quantity) if timed else (quantity,):
        for place in (device, devices.load(device).arch):
            if (name, place) in known:
                return known[name, place]
    return None


def features(counters: Mapping[str, float]) -> frozenset[str]:
    """The features that a kernel with these counters uses; unknown counters count as zero."""
    return frozenset(
        title for title, node in _FORMULAS.items() if (evaluate(node, lambda name: counters.get(name, 0.0)) or 0) > 0
    )


def without_evidence(counters: Mapping[str, float], device: str, duration_ns: float) -> list[str]:
    """In what a kernel is unlike every recorded one of the architecture: features in the order of FEATURES, length."""
    arch = devices.load(device).arch
    used = features(counters) - table().features.get(arch, frozenset())
    found = [feature.title for feature in FEATURES if feature.title in used]
    if (duration_class(duration_ns), arch) not in table().errors:
        found.append(f"{'below' if duration_ns < SHORT_NS else 'from'} {SHORT_NS / 1000:g} us")
    return found


def covered(quantity: str, unseen: Iterable[str]) -> bool:
    """Whether recordings can tell a quantity's error in a kernel that is unlike them in these points."""
    facts = metrics.table().metrics.get(quantity)
    if quantity.startswith(ALWAYS_EXACT):
        return True
    timed = facts is not None and (facts.kind in TIMED or quantity == "IPC")
    return not (set(unseen) if timed else MEMORY & set(unseen))
