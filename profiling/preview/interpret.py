"""Interprets a small part of a launch on a device with few CUs, in this process, and scales it to the whole one.

Nothing of the program runs natively: the kernel's machine code is interpreted on memory that holds made-up data. What
depends on the data (branches, gathered addresses) is therefore a guess, and what work-groups far apart share is not
seen; `training` corrects for both.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hipsynth.core.time_limit import seconds_left
from hipsynth.profiling import metrics
from hipsynth.profiling.preview.instances import explicit_arguments, resolve_template_instance
from hipsynth.profiling.preview.launching import HostLaunch
from hipsynth.profiling.preview.packing import GUESSED_BYTES, packed
from hipsynth.simulator.devices import DeviceTable
from hipsynth.simulator.errors import SimError
from hipsynth.simulator.native_core import native_core
from hipsynth.source.names import short_name

CUS_PER_XCD = 2  # of the small device; 8 on devices with one XCD
FEWEST_CUS = 8
EXACT_WORK = 150_000  # up to which a launch is interpreted as a whole, in units of about 10 ns
# Reading more than this, relative to what a kernel only reads, may be due to caches that too few work-groups have
# warmed: it is interpreted again with so many times the work, one after the other.
REREAD, MORE_WORK = 1.1, (6,)
MOST_INSTRUCTIONS = 20_000_000
LEAST_SECONDS = 0.1  # of one launch's interpretation near a limit of time; 0 would be none
MEMORY_BYTES = 1 << 38
SMALL_BYTES = 4096  # of buffers that do not limit the made-up data
TILE_WORDS, MOST_FILLED_BYTES = 1 << 18, 1 << 26
BUFFER = "global_buffer"
MOST_GROUPS = "topology.workgroups_per_cu"
BASIC = (  # the metrics that the others of the twelve follow from
    "L1_Cache_Hit_Rate",
    "L2_Cache_Hit_Rate",
    "L1_Cache_Bandwidth",
    "L2_Cache_Bandwidth",
    "L2_Fabric_Read_BW",
    "L2_Fabric_Write_BW",
    "HBM_GFLOPS",
)
CHANNEL = "l2_requests_busiest_channel"
# A channel counts as busier than others if it was in half of the sampling units. Two of four units often are a power of
# two of bytes apart and thus on one channel by chance; of so many more, which divide the grid by no power of two, few.
UNEVEN, MORE_UNITS = 1.2, 7
BUSIEST = "l1_cycles_busiest_cu"  # of the work: the one count that is of one CU


@dataclass(frozen=True)
class Code:
    """Compiled device code: the code object's bytes and its disassembly."""

    elf: bytes
    disassembly: str


@dataclass(frozen=True)
class Preview:
    """What the interpretation says of a launch on the whole device."""

    launch: HostLaunch
    counters: Mapping[str, float]
    work: Mapping[str, float]
    duration_ns: float
    bounds: Mapping[str, float]
    bottleneck: str
    occupancy: Mapping[str, Any]  # of the launch: a small grid may leave slots empty
    registers: Mapping[str, float]
    metrics: Mapping[str, float | None]  # BASIC
    buffer_bytes: int
    groups_run: int
    by_data: bool  # addresses or control flow may depend on data, which is made up
    guessed: bool  # the size of a buffer is not known
    astray: bool = False  # made-up data led to errors or far, zeros did not
    instance: str = ""  # the kernel with its template arguments
    sway: float = 0.0  # how much the duration changes, as |log|, with what is made up where no contents are known


@dataclass(frozen=True)
class Counted:
    """What the interpretation of a launch counted, extended to its grid, on the small device."""

    counters: Mapping[str, float]
    work: Mapping[str, float]
    occupancy: Mapping[str, Any]
    registers: Mapping[str, float]
    groups_run: int
    by_data: bool
    guessed: bool = False  # buffers had to be larger than the host code says
    astray: bool = False  # made-up data led to errors or far, zeros did not


@dataclass(frozen=True)
class Way:
    """How to interpret a launch. `below`: made-up numbers are smaller than this; 0: than what makes sense as an index.
    `roomy`: every buffer has at least GUESSED_BYTES. `told`: buffers hold what the host code puts into them, as far as
    that is known, or with `below`, as far as no kernel has written to them since."""

    below: int = 0
    roomy: bool = False
    told: bool = True
    whole_device: bool = False  # instead of a small one
    work: int = EXACT_WORK
    units: int = 2  # sampling units besides the first and the last
    instructions: int = MOST_INSTRUCTIONS


# In turn, if made-up data leads astray or takes too long, or buffers seem to be too small.
MADE_UP, ZEROS = Way(told=False), Way(below=1)
WAYS = Way(), MADE_UP, ZEROS, Way(below=1, roomy=True, instructions=10 * MOST_INSTRUCTIONS)
# What unknown data may be instead: lengths and counts are often zero, states and levels small.
OTHER_DATA, MOST_SWAY = (ZEROS, Way(below=4)), math.log(10)


class Interpreter:
    """Device code loaded for previews on one device."""

    def __init__(self, code: Code, table: DeviceTable) -> None:
        self.table, self.spec = table, table.spec()
        self.small = self.spec | {"topology.cus": float(small_cus(self.spec))}
        self.code = code
        core = self._core(self.small)
        self.kernels: list[dict[str, Any]] = core.kernels(core.load(code.elf, code.disassembly))
        self._named: dict[tuple[Any, ...], Mapping[str, Any] | None] = {}

    def _core(self, spec: Mapping[str, float], way: Way = WAYS[0]) -> Any:
        return native_core().Device(
            self.table.arch,
            dict(spec),
            sampling_units=way.units,
            sample_above=way.work,
            max_wave_instructions=way.instructions,
            memory_bytes=MEMORY_BYTES,
            cpu_seconds=0.0 if math.isinf(left := seconds_left()) else max(left, LEAST_SECONDS),
            values=False,
        )

    def kernel_of(self, launch: HostLaunch) -> Mapping[str, Any] | None:
        """The descriptor of the kernel that a launch names; None if there is none. Raises UnknownInstance."""
        name = launch.kernel, launch.template, len(launch.arguments)
        if name not in self._named:
            self._named[name] = resolve_template_instance(self.kernels, launch)
        return self._named[name]

    def preview(self, launch: HostLaunch, sway: float | None = None) -> Preview | None:
        """Interprets a launch; None if its kernel or arguments are not known. `sway`: if it is known from other
        launches like this. Raises SimError, UnknownInstance."""
        counted = self.count(launch)
        if counted is None:
            return None
        found = self.scaled(launch, counted)
        if not found.by_data or found.astray:
            return found
        return replace(found, sway=self._sway(launch) if sway is None else sway)

    def _sway(self, launch: HostLaunch) -> float:
        """How much the duration depends on data that nobody knows before the program runs."""
        kernel = self.kernel_of(launch)
        if kernel is None:
            return 0.0
        try:
            first, *others = (
                self.scaled(launch, self._interpret(kernel, launch, way)).duration_ns for way in (WAYS[0], *OTHER_DATA)
            )
        except SimError:
            return MOST_SWAY
        return min(MOST_SWAY, max(abs(math.log(other / first)) for other in others))

    def count(self, launch: HostLaunch) -> Counted | None:
        """As preview(), before the timing model."""
        kernel = self.kernel_of(launch)
        if kernel is None or not self._fits(kernel, launch):
            return None
        for way in WAYS:
            if way == MADE_UP and not launch.contents():
                continue
            try:
                return self._refined(kernel, launch, way, self._interpret(kernel, launch, way))
            except SimError as error:
                endless = error.reason == "instruction_limit" and way.below == 1 and self.by_data(kernel)
                if error.reason not in ("illegal_access", "instruction_limit") or way == WAYS[-1] or endless:
                    raise
        return None

    def by_data(self, kernel: Mapping[str, Any]) -> bool:
        """Whether addresses or control flow of a kernel may depend on data."""
        core = self._core(self.small)
        return bool(core.decided_by_data(core.load(self.code.elf, self.code.disassembly), kernel["symbol"]))

    def _refined(self, kernel: Mapping[str, Any], launch: HostLaunch, way: Way, found: Counted) -> Counted:
        """The counts, or better ones if more work-groups, or the whole device, are likely to change them."""
        groups = math.prod(launch.grid)
        whole, informed = found.groups_run >= groups, found.by_data and bool(launch.contents())
        if whole and not informed:
            return found
        way = replace(way, instructions=10 * way.instructions)
        if groups <= self.spec["topology.cus"] and (informed or not found.by_data):  # these all run at once there
            return self._tried(kernel, launch, replace(way, work=MORE_WORK[0] * way.work, whole_device=True), found)
        if whole:
            return found
        for times in MORE_WORK:
            if self._rereads(kernel, launch, found) and found.groups_run < groups:
                way = replace(way, work=times * way.work)
                found = self._tried(kernel, launch, way, found)
        if self.unevenness(found) > UNEVEN and found.groups_run < groups:
            found = min(found, self._tried(kernel, launch, replace(way, units=MORE_UNITS), found), key=self.unevenness)
        return found

    @staticmethod
    def _rereads(kernel: Mapping[str, Any], launch: HostLaunch, found: Counted) -> bool:
        """Whether a launch seems to read its inputs more than once, which may be due to caches that are not warm."""
        there = sum(buffer_sizes(kernel, launch, launch.read_only)) or sum(buffer_sizes(kernel, launch))
        return found.work["fabric_read_bytes"] > REREAD * there and not found.by_data

    def _tried(self, kernel: Mapping[str, Any], launch: HostLaunch, way: Way, otherwise: Counted) -> Counted:
        try:
            return self._interpret(kernel, launch, way)
        except SimError:  # made-up data may end even what a part of it did not
            return otherwise

    def unevenness(self, counted: Counted) -> float:
        """The requests of the busiest L2 channel, relative to the average channel's."""
        channels = self.small["l2.channels"] * self.small["topology.xcds"]
        return counted.work[CHANNEL] * channels / max(1.0, counted.counters["TCC_REQ"])

    def _interpret(self, kernel: Mapping[str, Any], launch: HostLaunch, way: Way) -> Counted:
        groups = math.prod(launch.grid)
        core = self._core(self.spec if way.whole_device else self._sparse(groups), way)
        module = core.load(self.code.elf, self.code.disassembly)
        by_data: bool = core.decided_by_data(module, kernel["symbol"])
        explicit = explicit_arguments(kernel)
        sizes = buffer_sizes(kernel, launch)
        data = bytearray(max((offset + size for offset, size, _ in explicit), default=0))
        index = max(1, min([n // 8 for n in sizes if n >= SMALL_BYTES] or [SMALL_BYTES // 8]))
        limit = way.below or index
        filled = MOST_FILLED_BYTES if by_data else 0

        contents = launch.contents() if by_data and way.told else {}
        if way.below:
            contents = {one: held for one, held in contents.items() if one not in launch.written}

        def allocate(size: int, value: Any) -> int:
            address = made_up(core, max(size, GUESSED_BYTES * way.roomy), limit, filled)
            if address and size and (held := contents.get(id(value))) is not None:
                core.write(address, held[:size])
            return address

        for (offset, size, kind), value in zip(explicit, launch.arguments, strict=True):
            data[offset : offset + size] = packed(value, size, kind == BUFFER, allocate) or b""
        found = core.launch(module, kernel["symbol"], launch.grid, launch.block, bytes(data), launch.dynamic_lds)
        run = int(found["sampling"]["groups_simulated"])
        work = dict(found["work"])
        if way.whole_device:  # as scaled() expects it
            work[BUSIEST] /= self._share(groups)
        parts = found["counters"], work, found["occupancy"], found["registers"]
        return Counted(*parts, run, by_data, way.roomy, way.below == 1 and by_data)

    def _sparse(self, groups: int) -> dict[str, float]:
        """The small device with no more resident work-groups per CU than the grid gives the whole device: they share
        the vL1D and hide each other's latency."""
        resident = math.ceil(groups / self.spec["topology.cus"])
        return self.small | {MOST_GROUPS: float(min(self.spec[MOST_GROUPS], max(1, resident)))}

    def _share(self, groups: int) -> float:
        """The work-groups that the busiest CU of the whole device gets, relative to that of the small one."""
        return math.ceil(groups / self.spec["topology.cus"]) / math.ceil(groups / self.small["topology.cus"])

    @staticmethod
    def _fits(kernel: Mapping[str, Any], launch: HostLaunch) -> bool:
        explicit = explicit_arguments(kernel)
        return len(explicit) == len(launch.arguments) and all(
            packed(value, size, kind == BUFFER) is not None
            for (_, size, kind), value in zip(explicit, launch.arguments, strict=True)
        )

    def scaled(self, launch: HostLaunch, counted: Counted) -> Preview:
        """What the timing model makes of the counts on the whole device."""
        work = dict(counted.work)
        groups = math.prod(launch.grid)
        work[BUSIEST] *= self._share(groups)
        timing = native_core().estimate(self.spec, work)
        counters = dict(counted.counters)
        kernel = self.kernel_of(launch)
        sizes = buffer_sizes(kernel, launch) if kernel is not None else []
        counters["SQ_BUSY_CU_CYCLES"] = timing["busy_cycles"] * min(groups, self.spec["topology.cus"])
        return Preview(
            launch,
            counters,
            work,
            timing["duration_ns"],
            timing["bounds"],
            timing["bottleneck"],
            counted.occupancy,
            counted.registers,
            metrics.compute(counters, timing["duration_ns"], self.table.arch, BASIC),
            sum(sizes),
            counted.groups_run,
            counted.by_data,
            counted.guessed or GUESSED_BYTES in sizes,
            counted.astray,
            short_name(kernel["name"]) if kernel is not None else "",
        )


def buffer_sizes(kernel: Mapping[str, Any], launch: HostLaunch, of: Sequence[bool] = ()) -> list[int]:
    """The bytes behind each pointer that a launch passes; `of`: only in these arguments."""
    sizes: list[int] = []

    def note(size: int, _: Any) -> int:
        sizes.append(size)
        return 0

    for i, ((_, size, kind), value) in enumerate(zip(explicit_arguments(kernel), launch.arguments, strict=True)):
        if not of or (i < len(of) and of[i]):
            packed(value, size, kind == BUFFER, note)
    return sizes


@functools.cache
def _noise() -> npt.NDArray[np.uint32]:
    return np.random.default_rng(7).integers(0, 1 << 31, TILE_WORDS, dtype=np.uint32)


def made_up(core: Any, size: int, limit: int, filled: int) -> int:
    """Allocates a buffer of which the first `filled` bytes hold numbers below `limit`, the rest zeros; its address. A
    buffer of no bytes is a null pointer."""
    if size == 0:
        return 0
    address: int = core.allocate(max(size, 16))
    if filled and limit > 1:
        tile = (_noise() % limit).view(np.uint8)
        for at in range(0, min(size, filled), len(tile)):
            core.write(address + at, tile[: min(len(tile), size - at)])
    return address


def small_cus(spec: Mapping[str, float]) -> int:
    return int(min(spec["topology.cus"], max(FEWEST_CUS, CUS_PER_XCD * spec["topology.xcds"])))
