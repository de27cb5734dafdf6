"""One kernel as a backend measured it: the record that the simulator writes, reports show and the corpus keeps.

The members of the parts that the simulator fills are named once more, in profiling/sim/native/core/record.h; JSON and
the columns of a corpus follow from the dataclasses here.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, TypeVar

Dim = tuple[int, int, int]
T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """Who measured a kernel."""

    backend: str = ""
    version: str = ""
    duration_from: str = ""  # the kind of profiler file that the duration comes from, where a backend reads several


@dataclass(frozen=True)
class Registers:
    """What a kernel takes: registers of a wave's lanes, LDS of a work-group, scratch memory of a work-item."""

    vgprs: float
    agprs: float
    sgprs: float
    lds_bytes: float
    scratch_bytes: float


@dataclass(frozen=True)
class Occupancy:
    """What fits on one CU at once, and the resource that allows no more."""

    groups_per_cu: float
    waves_per_cu: float
    fraction: float  # of the device's wave slots
    peak_waves: float  # that the simulation held at once, on the whole device
    limited_by: str  # "LDS", "SGPRs", "VGPRs", "wave slots", "work-groups"


@dataclass(frozen=True)
class Limits:
    """What the timing model makes the duration of."""

    bottleneck: str  # the largest of the bounds
    wave_cycles: float  # life of an average wave, alone on the device
    bounds: Mapping[str, float]  # unit -> ns that it alone would need


@dataclass(frozen=True)
class Work:
    """What a dispatch did: the input of the timing model (profiling/sim/native/timing/work.h)."""

    groups: float = 0
    waves_per_group: float = 0
    groups_per_cu: float = 0
    waves: float = 0
    # Wave instructions by the unit that executes them.
    valu_full: float = 0
    valu_trans: float = 0
    valu_f64: float = 0
    valu_int64_mul: float = 0
    mfma_cycles: float = 0
    salu: float = 0
    smem: float = 0
    vmem: float = 0
    lds: float = 0
    flow: float = 0
    lds_cycles: float = 0
    # Round trips that waves waited for, one after the other, by the deepest level reached.
    store_waits: float = 0
    l1_waits: float = 0
    l2_waits: float = 0
    infinity_waits: float = 0
    hbm_waits: float = 0
    scalar_hit_waits: float = 0
    scalar_l2_waits: float = 0
    scalar_infinity_waits: float = 0
    scalar_hbm_waits: float = 0
    lds_waits: float = 0
    barriers: float = 0
    store_tails: float = 0
    # Requests and bytes.
    l1_cycles_busiest_cu: float = 0
    l2_requests_busiest_channel: float = 0
    l2_turns_busiest_channel: float = 0
    l2_transfers: float = 0
    atomics_busiest_line: float = 0
    fabric_read_bytes: float = 0
    fabric_write_bytes: float = 0
    hbm_read_bytes: float = 0
    hbm_write_bytes: float = 0
    flushed_bytes: float = 0


@dataclass(frozen=True)
class Traffic:
    """Behind the L2: bytes that the HBM moved, and requests that the Infinity Cache answered."""

    hbm_read_bytes: float
    hbm_write_bytes: float
    infinity_hits: float


@dataclass(frozen=True)
class Sampling:
    """Which part of the work-groups ran, over all dispatches.

    "exact": all of them. "replayed": all did what a few recorded ones did. "sampled": counters and duration are scaled
    up from a part of them. Only exact dispatches compute results.
    """

    strategy: Literal["exact", "replayed", "sampled"] = "exact"
    groups_simulated: int = 0
    groups_recorded: int = 0  # those whose trace stands for all
    # Counter, or "Duration" -> expected relative error of the scaling (two standard deviations).
    error: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class KernelRecord:
    """One kernel of one run. Amounts (duration, counters, limits, work, traffic) are means per dispatch.

    A backend leaves the parts that it cannot know None. Grid and block are those of the first dispatch.
    """

    name: str  # without return type and parameters
    dispatches: int
    grid: Dim  # work-groups
    block: Dim  # work-items
    duration_ns: float
    counters: Mapping[str, float]  # hardware names
    metrics: Mapping[str, float | None] = field(default_factory=dict)  # see profiling/metrics/metrics.toml
    source: Source = field(default_factory=Source)
    symbol: str = ""  # in the code object
    signature: str = ""  # demangled
    same_shape: bool = True  # every dispatch had this grid and block
    registers: Registers | None = None
    occupancy: Occupancy | None = None
    limits: Limits | None = None
    work: Work | None = None
    traffic: Traffic | None = None
    sampling: Sampling | None = None

    @property
    def sampled(self) -> bool:
        """Whether not every work-group ran, so that results in memory were not computed."""
        return self.sampling is not None and self.sampling.strategy != "exact"

    @property
    def error_estimate(self) -> Mapping[str, float]:
        """Counter, or "Duration" -> expected relative error of scaling up; empty where all of the grid ran."""
        return self.sampling.error if self.sampling is not None else {}


@functools.cache
def types_of(kind: type) -> dict[str, Any]:
    """The types of a dataclass's fields by name."""
    hints = typing.get_type_hints(kind)
    return {part.name: hints[part.name] for part in fields(kind)}


def optional(kind: Any) -> Any:
    """The X of `X | None`, or None where a type is no such union."""
    if typing.get_origin(kind) not in (typing.Union, types.UnionType):
        return None
    (inner,) = (part for part in typing.get_args(kind) if part is not types.NoneType)
    return inner


def decode(kind: type[T], value: Any) -> T:
    """A dataclass from its `asdict` after JSON or Arrow, which know lists for tuples and pairs for mappings.

    Raises TypeError or ValueError for what does not fit; fields with a default may be missing.
    """
    make: Callable[[Any], T] = _decoder(typing.cast(Any, kind))
    return make(value)


@functools.cache
def _decoder(kind: Any) -> Callable[[Any], Any]:
    """The function that makes values of a type."""
    if (inner := optional(kind)) is not None:
        given = _decoder(inner)
        return lambda value: None if value is None else given(value)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        parts = [_decoder(part) for part in arguments]
        return lambda value: tuple(part(item) for part, item in zip(parts, value, strict=True))
    if origin is Mapping:
        item = _decoder(arguments[1])
        return lambda value: {name: item(one) for name, one in dict(value).items()}
    if is_dataclass(kind):
        known = {name: _decoder(part) for name, part in types_of(typing.cast(type, kind)).items()}
        return functools.partial(_made, typing.cast(Any, kind), known)
    # Whole numbers are written without a point. Any other type is a Literal of texts.
    plain: Mapping[Any, tuple[type, ...]] = {float: (float, int), int: (int,), bool: (bool,)}
    return functools.partial(_checked, plain.get(kind, (str,)), arguments)


def _made(kind: Callable[..., Any], known: Mapping[str, Callable[[Any], Any]], value: Mapping[str, Any]) -> Any:
    if unknown := sorted(value.keys() - known):
        raise ValueError(f"unknown fields: {', '.join(unknown)}")
    return kind(**{name: known[name](item) for name, item in value.items()})


def _checked(allowed: tuple[type, ...], choice: tuple[str, ...], value: Any) -> Any:
    if not isinstance(value, allowed):
        raise TypeError(f"{value!r} is no {allowed[0].__name__}")
    if choice and value not in choice:
        raise ValueError(f"{value!r} is none of {', '.join(choice)}")
    return value
