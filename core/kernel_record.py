"""KernelRecord: the measurements of one kernel, as backends return them, reports show them and the corpus stores them.

simulator/native/core/record.h repeats the names of the members that the simulator fills. The JSON form and the
corpus columns are derived from these dataclasses.
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
    """The backend that measured a kernel."""

    backend: str = ""
    version: str = ""
    duration_from: str = ""  # kind of profiler file with the duration, for backends that read several kinds

    @property
    def kind(self) -> Literal["executed", "predicted", "measured"]:
        """What its figures are: of an execution in the simulator, of a preview without one, or of hardware."""
        return {"sim": "executed", "preview": "predicted"}.get(self.backend, "measured")  # type: ignore[return-value]


@dataclass(frozen=True)
class Registers:
    """Resources of a kernel: VGPRs and AGPRs per lane, SGPRs per wave, LDS per work-group, scratch per work-item."""

    vgprs: float
    agprs: float
    sgprs: float
    lds_bytes: float
    scratch_bytes: float


@dataclass(frozen=True)
class Occupancy:
    """Work-groups and waves that fit on one CU at once, and the resource that limits them."""

    groups_per_cu: float
    waves_per_cu: float
    fraction: float  # of the device's wave slots
    peak_waves: float  # most waves resident at once in the simulation, on the whole device
    limited_by: str  # "LDS", "SGPRs", "VGPRs", "wave slots", "work-groups"


@dataclass(frozen=True)
class Limits:
    """The terms of the timing model from which the duration is computed."""

    bottleneck: str  # the largest of the bounds
    wave_cycles: float  # lifetime of an average wave that runs alone on the device
    bounds: Mapping[str, float]  # unit -> ns that this unit alone would need


@dataclass(frozen=True)
class Work:
    """Work done by a dispatch: the input of the timing model (simulator/native/timing/work.h)."""

    groups: float = 0
    waves_per_group: float = 0
    groups_per_cu: float = 0
    waves: float = 0
    working_groups: float = 0
    working_waves: float = 0
    # Wave instructions by execution unit.
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
    jumps: float = 0
    lds_cycles: float = 0
    # Serialized memory round trips that waves waited for, by the deepest level reached.
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
    barrier_cycles: float = 0
    # Requests and bytes.
    l1_cycles_busiest_cu: float = 0
    l2_requests_busiest_channel: float = 0
    l2_turns_busiest_channel: float = 0
    atomics_busiest_line: float = 0
    fabric_read_bytes: float = 0
    fabric_write_bytes: float = 0
    hbm_read_bytes: float = 0
    hbm_write_bytes: float = 0
    flushed_bytes: float = 0
    left_bytes: float = 0


@dataclass(frozen=True)
class Traffic:
    """Traffic behind the L2: bytes moved by the HBM, and Infinity Cache hits."""

    hbm_read_bytes: float
    hbm_write_bytes: float
    infinity_hits: float


@dataclass(frozen=True)
class Sampling:
    """How many of the work-groups were simulated, over all dispatches.

    "exact": all of them. "replayed": the trace of a few recorded work-groups was replayed for all. "sampled": counters
    and duration are scaled up from some of them. Only exact dispatches compute results.
    """

    strategy: Literal["exact", "replayed", "sampled"] = "exact"
    groups_simulated: int = 0
    groups_recorded: int = 0  # work-groups whose trace was replayed for all
    # Counter, or "Duration" -> expected relative error of scaling up (two standard deviations).
    error: Mapping[str, float] = field(default_factory=dict)
    reused: int = 0  # dispatches whose counters and duration were taken from an earlier one


@dataclass(frozen=True)
class KernelRecord:
    """One kernel of one run. Amounts (duration, counters, limits, work, traffic) are means per dispatch.

    Parts that a backend cannot measure are None. Grid and block are those of the first dispatch.
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
    same_shape: bool = True  # all dispatches have this grid and block
    registers: Registers | None = None
    occupancy: Occupancy | None = None
    limits: Limits | None = None
    work: Work | None = None
    traffic: Traffic | None = None
    sampling: Sampling | None = None

    @property
    def sampled(self) -> bool:
        """True if some work-groups were not executed, so that results in memory are not valid."""
        return self.sampling is not None and self.sampling.strategy != "exact"

    @property
    def error_estimate(self) -> Mapping[str, float]:
        """Counter, or "Duration" -> expected relative error of scaling up; empty if the whole grid ran."""
        return self.sampling.error if self.sampling is not None else {}


@functools.cache
def types_of(kind: type) -> dict[str, Any]:
    """Field name -> resolved type, for a dataclass."""
    hints = typing.get_type_hints(kind)
    return {part.name: hints[part.name] for part in fields(kind)}


def optional(kind: Any) -> Any:
    """X for the type `X | None`, None for any other type."""
    if typing.get_origin(kind) not in (typing.Union, types.UnionType):
        return None
    (inner,) = (part for part in typing.get_args(kind) if part is not types.NoneType)
    return inner


def decode(kind: type[T], value: Any) -> T:
    """Rebuilds a dataclass from its `asdict` form after JSON or Arrow (lists for tuples, pairs for mappings).

    Raises TypeError or ValueError for values that do not match the types; fields with a default may be missing.
    """
    make: Callable[[Any], T] = _decoder(typing.cast(Any, kind))
    return make(value)


@functools.cache
def _decoder(kind: Any) -> Callable[[Any], Any]:
    """The function that converts a decoded value to `kind`."""
    if (inner := optional(kind)) is not None:
        given = _decoder(inner)
        return lambda value: None if value is None else given(value)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple and arguments[-1] is Ellipsis:
        each = _decoder(arguments[0])
        return lambda value: tuple(each(item) for item in _checked((list, tuple), (), value))
    if origin is tuple:
        parts = [_decoder(part) for part in arguments]
        return lambda value: tuple(part(item) for part, item in zip(parts, value, strict=True))
    if origin is Mapping:
        item = _decoder(arguments[1])
        return lambda value: {name: item(one) for name, one in dict(value).items()}
    if is_dataclass(kind):
        known = {name: _decoder(part) for name, part in types_of(typing.cast(type, kind)).items()}
        return functools.partial(_made, typing.cast(Any, kind), known)
    # Floats with integral values are written as integers. Any type not listed here is str or a Literal of strings.
    plain: Mapping[Any, tuple[type, ...]] = {float: (float, int), int: (int,), bool: (bool,)}
    return functools.partial(_checked, plain.get(kind, (str,)), arguments)


def _made(kind: Callable[..., Any], known: Mapping[str, Callable[[Any], Any]], value: Mapping[str, Any]) -> Any:
    if unknown := sorted(value.keys() - known):
        raise ValueError(f"unknown fields: {', '.join(unknown)}")
    return kind(**{name: known[name](item) for name, item in value.items()})


def _checked(allowed: tuple[type, ...], choice: tuple[str, ...], value: Any) -> Any:
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        raise TypeError(f"{value!r} is no {allowed[0].__name__}")
    if choice and value not in choice:
        raise ValueError(f"{value!r} is none of {', '.join(choice)}")
    return value
