"""Interprets a small part of a launch on a device with few CUs, in this process, and scales it to the whole one.

The kernel's machine code is interpreted on the memory that the launch was recorded with, at the addresses that the
program saw; what is not recorded holds made-up data. What depends on such data (branches, gathered addresses) is a
guess, and what work-groups far apart share is not seen; `training` corrects for both.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hipsynth.core.reasons import Reason
from hipsynth.core.time_limit import seconds_left
from hipsynth.profiling import metrics
from hipsynth.profiling.preview.launch import (
    GUESSED_BYTES,
    POINTER,
    DeviceBuffer,
    DeviceLaunch,
    is_read_only,
    parameter_types,
)
from hipsynth.simulator.devices import DeviceTable
from hipsynth.simulator.errors import SimError
from hipsynth.simulator.launch_record import ARENA
from hipsynth.simulator.native_core import KernelDescriptor, NativeDevice, native_core
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
ARENA_BYTES = 1 << 40
FIRST_ADDRESS = ARENA + (1 << 38)  # of allocations: Memory::kInternalBytes of native/core/machine.h
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
    """Compiled device code: the code object's bytes, its disassembly, and the flags that it was compiled with; no
    bytes for a program whose kernels are all loaded while it runs."""

    elf: bytes
    disassembly: str
    flags: str = ""


@dataclass(frozen=True)
class Preview:
    """The estimate of one launch: counters, work and duration on the whole device."""

    launch: DeviceLaunch
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
    diverged: bool = False  # made-up data led to errors or far, zeros did not
    instance: str = ""  # the kernel with its template arguments
    sensitivity: float = 0.0  # |log| of the duration's change with other made-up contents, where none are known


@dataclass(frozen=True)
class ScaledCounts:
    """Counts of an interpreted launch, extrapolated to its whole grid, still on the small device."""

    counters: Mapping[str, float]
    work: Mapping[str, float]
    occupancy: Mapping[str, Any]
    registers: Mapping[str, float]
    groups_run: int
    by_data: bool
    guessed: bool = False  # buffers had to be larger than the host code says
    diverged: bool = False  # made-up data led to errors or far, zeros did not
    recorded_failed: bool = False  # recorded data led to errors or far, so other data was taken


@dataclass(frozen=True)
class DataAssumption:
    """How to interpret a launch. `made_up_below`: made-up numbers are smaller than this; 0: than what makes sense as an
    index. `enlarge_buffers`: every buffer has at least GUESSED_BYTES. `use_recorded`: buffers hold what was recorded of
    them, or with `made_up_below`, what is certain of that."""

    made_up_below: int = 0
    enlarge_buffers: bool = False
    use_recorded: bool = True
    whole_device: bool = False  # instead of a small one
    work: int = EXACT_WORK
    units: int = 2  # sampling units besides the first and the last
    instructions: int = MOST_INSTRUCTIONS


# In turn, if the data makes a kernel fail or go on for too long, or buffers seem to be too small.
MADE_UP, ZEROS = DataAssumption(use_recorded=False), DataAssumption(made_up_below=1)
ASSUMPTIONS = (
    DataAssumption(),
    MADE_UP,
    ZEROS,
    DataAssumption(made_up_below=1, enlarge_buffers=True, instructions=10 * MOST_INSTRUCTIONS),
)
# What unknown data may be instead: lengths and counts are often zero, states and levels small.
OTHER_DATA, MOST_SENSITIVITY = (ZEROS, DataAssumption(made_up_below=4)), math.log(10)


class Interpreter:
    """Device code loaded for previews on one device."""

    def __init__(self, code: Code, table: DeviceTable) -> None:
        self.table, self.spec = table, table.spec()
        self.small = self.spec | {"topology.cus": float(small_cus(self.spec))}
        self.code = code
        self.kernels: list[KernelDescriptor] = []
        if code.elf:
            core = self._native_device(self.small)
            self.kernels = core.kernels(core.load(code.elf, code.disassembly))
        self._by_data: dict[str, bool] = {}
        self._modules: dict[tuple[bytes, bytes], Interpreter] = {}
        self.by_symbol: Mapping[str, KernelDescriptor] = {kernel["symbol"]: kernel for kernel in self.kernels}

    def _native_device(self, spec: Mapping[str, float], assumed: DataAssumption = ASSUMPTIONS[0]) -> NativeDevice:
        return native_core().Device(
            self.table.arch,
            dict(spec),
            sampling_units=assumed.units,
            sample_above=assumed.work,
            max_wave_instructions=assumed.instructions,
            memory_bytes=MEMORY_BYTES,
            cpu_seconds=0.0 if math.isinf(left := seconds_left()) else max(left, LEAST_SECONDS),
            values=False,
        )

    def of_module(self, launch: DeviceLaunch) -> Interpreter:
        """The interpreter of the code that the launch is of: this one's, or what was loaded while the program ran."""
        if launch.module is None:
            return self
        if launch.module not in self._modules:
            elf, disassembly = launch.module
            self._modules[launch.module] = Interpreter(Code(elf, disassembly.decode(errors="replace")), self.table)
        return self._modules[launch.module]

    def kernel_of(self, launch: DeviceLaunch) -> KernelDescriptor | None:
        """The descriptor of the kernel that was launched; None if the code object does not have it."""
        return self.by_symbol.get(launch.symbol)

    def preview(self, launch: DeviceLaunch, sensitivity: float | None = None) -> Preview | None:
        """Interprets a launch; None if its kernel or arguments are not known. `sensitivity`: if it is known from other
        launches like this. Raises SimError."""
        counted = self.count(launch)
        if counted is None:
            return None
        counts = self.scale_counts(launch, counted)
        if counts.by_data and counted.recorded_failed:  # such as a queue, which few work-groups do not empty soon
            return replace(counts, sensitivity=MOST_SENSITIVITY)
        if not counts.by_data or counts.diverged or is_certain(launch):
            return counts
        return replace(counts, sensitivity=self._find_sensitivity(launch) if sensitivity is None else sensitivity)

    def _find_sensitivity(self, launch: DeviceLaunch) -> float:
        """How much the duration depends on data that nobody knows before the program runs."""
        kernel = self.kernel_of(launch)
        if kernel is None:
            return 0.0
        try:
            first, *others = (
                self.scale_counts(launch, self._interpret_launch(kernel, launch, assumed)).duration_ns
                for assumed in (ASSUMPTIONS[0], *OTHER_DATA)
            )
        except SimError:
            return MOST_SENSITIVITY
        return min(MOST_SENSITIVITY, max(abs(math.log(other / first)) for other in others))

    def count(self, launch: DeviceLaunch) -> ScaledCounts | None:
        """As preview(), before the timing model."""
        kernel = self.kernel_of(launch)
        if kernel is None or len(launch.arguments) < explicit_bytes(kernel):
            return None
        for assumed in ASSUMPTIONS:
            if assumed == MADE_UP and not launch.has_contents:
                continue
            try:
                counts = self._refine_counts(kernel, launch, assumed, self._interpret_launch(kernel, launch, assumed))
                return replace(counts, recorded_failed=launch.has_contents and not assumed.use_recorded)
            except SimError as error:
                if not self._may_succeed(kernel, assumed, error):
                    raise
        return None

    def _may_succeed(self, kernel: KernelDescriptor, assumed: DataAssumption, error: SimError) -> bool:
        """Whether a launch that failed on assumed data may succeed with the next assumption."""
        if error.reason == Reason.INSTRUCTION_LIMIT and assumed.made_up_below == 1 and self.by_data(kernel):
            return False  # zeros keep it from ending, so larger buffers will not help
        return error.reason in (Reason.ILLEGAL_ACCESS, Reason.INSTRUCTION_LIMIT) and assumed != ASSUMPTIONS[-1]

    def by_data(self, kernel: KernelDescriptor) -> bool:
        """Whether addresses or control flow of a kernel may depend on data."""
        symbol = kernel["symbol"]
        if symbol not in self._by_data:
            core = self._native_device(self.small)
            self._by_data[symbol] = core.decided_by_data(core.load(self.code.elf, self.code.disassembly), symbol)
        return self._by_data[symbol]

    def _refine_counts(
        self, kernel: KernelDescriptor, launch: DeviceLaunch, assumed: DataAssumption, counts: ScaledCounts
    ) -> ScaledCounts:
        """The counts, or better ones if more work-groups, or the whole device, are likely to change them."""
        groups = math.prod(launch.grid)
        is_complete, informed = counts.groups_run >= groups, counts.by_data and launch.has_contents
        if is_complete and not informed:
            return counts
        assumed = replace(assumed, instructions=10 * assumed.instructions)
        if groups <= self.spec["topology.cus"] and (informed or not counts.by_data):  # these all run at once there
            return self._interpret_or_keep(
                kernel, launch, replace(assumed, work=MORE_WORK[0] * assumed.work, whole_device=True), counts
            )
        if is_complete:
            return counts
        for times in MORE_WORK:
            if self._reads_again(kernel, launch, counts) and counts.groups_run < groups:
                assumed = replace(assumed, work=times * assumed.work)
                counts = self._interpret_or_keep(kernel, launch, assumed, counts)
        if self.channel_unevenness(counts) > UNEVEN and counts.groups_run < groups:
            counts = min(
                counts,
                self._interpret_or_keep(kernel, launch, replace(assumed, units=MORE_UNITS), counts),
                key=self.channel_unevenness,
            )
        return counts

    @staticmethod
    def _reads_again(kernel: KernelDescriptor, launch: DeviceLaunch, counts: ScaledCounts) -> bool:
        """Whether a launch seems to read its inputs more than once, which may be due to caches that are not warm."""
        read_only = sum(buffer.bytes for buffer in launch.named_buffers(read_only_offsets(kernel, launch.signature)))
        there = read_only or sum(buffer.bytes for buffer in launch.named_buffers())
        return counts.work["fabric_read_bytes"] > REREAD * there and not counts.by_data

    def _interpret_or_keep(
        self, kernel: KernelDescriptor, launch: DeviceLaunch, assumed: DataAssumption, otherwise: ScaledCounts
    ) -> ScaledCounts:
        try:
            return self._interpret_launch(kernel, launch, assumed)
        except SimError:  # made-up data may end even what a part of it did not
            return otherwise

    def channel_unevenness(self, counted: ScaledCounts) -> float:
        """The requests of the busiest L2 channel, relative to the average channel's."""
        channels = self.small["l2.channels"] * self.small["topology.xcds"]
        return counted.work[CHANNEL] * channels / max(1.0, counted.counters["TCC_REQ"])

    def _interpret_launch(
        self, kernel: KernelDescriptor, launch: DeviceLaunch, assumed: DataAssumption
    ) -> ScaledCounts:
        groups = math.prod(launch.grid)
        core = self._native_device(self.spec if assumed.whole_device else self._sparse_device(groups), assumed)
        module = core.load(self.code.elf, self.code.disassembly)
        by_data = self.by_data(kernel)
        arguments = self._place_memory(core, module, launch, assumed, by_data)
        counted = core.launch(
            module, launch.symbol, launch.grid, launch.block, arguments, launch.dynamic_lds, launch.cooperative
        )
        run = int(counted["sampling"]["groups_simulated"])
        work = dict(counted["work"])
        if assumed.whole_device:  # as scale_counts() expects it
            work[BUSIEST] /= self._busiest_share(groups)
        parts = counted["counters"], work, counted["occupancy"], counted["registers"]
        return ScaledCounts(*parts, run, by_data, assumed.enlarge_buffers, assumed.made_up_below == 1 and by_data)

    def _sparse_device(self, groups: int) -> dict[str, float]:
        """The small device with no more resident work-groups per CU than the grid gives the whole device: they share
        the vL1D and hide each other's latency."""
        resident = math.ceil(groups / self.spec["topology.cus"])
        return self.small | {MOST_GROUPS: float(min(self.spec[MOST_GROUPS], max(1, resident)))}

    def _busiest_share(self, groups: int) -> float:
        """The work-groups that the busiest CU of the whole device gets, relative to that of the small one."""
        return math.ceil(groups / self.spec["topology.cus"]) / math.ceil(groups / self.small["topology.cus"])

    @staticmethod
    def _place_memory(
        core: NativeDevice, module: int, launch: DeviceLaunch, assumed: DataAssumption, by_data: bool
    ) -> bytes:
        """Allocates the launch's buffers, fills them and the device code's variables; returns the arguments with the
        addresses that the buffers have there."""
        named = launch.named_buffers()
        sizes = [buffer.bytes for buffer in named]
        index = max(1, min([n // 8 for n in sizes if n >= SMALL_BYTES] or [SMALL_BYTES // 8]))
        filled = MOST_FILLED_BYTES if by_data else 0
        moved: list[tuple[DeviceBuffer, int]] = []
        shift = core.arena() - ARENA
        for buffer in sorted(launch.buffers, key=is_outside):  # others must not take the places of device memory
            if assumed.enlarge_buffers or is_outside(buffer):
                room = GUESSED_BYTES if assumed.enlarge_buffers and buffer in named else 1
                address = core.allocate(max(buffer.bytes, room))
            else:
                address = core.allocate_at(buffer.start - ARENA, buffer.bytes)
            fill_buffer(core, address, buffer, assumed, assumed.made_up_below or index, filled)
            if address != buffer.start + shift or shift:
                moved.append((buffer, address))
        for symbol, data in launch.variables.items():
            address, size = core.symbol(module, symbol)
            if address and data:
                core.write(address, np.frombuffer(data, np.uint8)[:size])
        return relocate_pointers(launch.arguments, moved)

    def scale_counts(self, launch: DeviceLaunch, counted: ScaledCounts) -> Preview:
        """Converts counts of the small device to an estimate for the whole one by the timing model."""
        work = dict(counted.work)
        groups = math.prod(launch.grid)
        work[BUSIEST] *= self._busiest_share(groups)
        timing = native_core().estimate(self.spec, work)
        counters = dict(counted.counters)
        kernel = self.kernel_of(launch)
        buffers = launch.named_buffers()
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
            metrics.compute_metrics(counters, timing["duration_ns"], self.table.arch, BASIC),
            sum(buffer.bytes for buffer in buffers),
            counted.groups_run,
            counted.by_data,
            counted.guessed or any(buffer.guessed for buffer in buffers),
            counted.diverged,
            short_name(kernel["name"]) if kernel is not None else "",
        )


def explicit_arguments(kernel: KernelDescriptor) -> list[tuple[int, int, str]]:
    """(offset, bytes, kind) of the arguments that a launch gives."""
    return [a for a in kernel["args"] if not str(a[2]).startswith("hidden_")]


def explicit_bytes(kernel: KernelDescriptor) -> int:
    """The bytes of the arguments that a launch gives."""
    return max((offset + size for offset, size, _ in explicit_arguments(kernel)), default=0)


def read_only_offsets(kernel: KernelDescriptor, signature: str) -> list[int]:
    """The offsets of a kernel's arguments that are pointers to constants."""
    types, explicit = parameter_types(signature), explicit_arguments(kernel)
    if len(types) != len(explicit):
        return []
    return [offset for (offset, _, _), kind in zip(explicit, types, strict=True) if is_read_only(kind)]


def is_outside(buffer: DeviceBuffer) -> bool:
    """Whether a buffer is registered host memory, outside device memory."""
    return not ARENA <= buffer.start < ARENA + ARENA_BYTES


def is_certain(launch: DeviceLaunch) -> bool:
    """Whether all that the launch's memory holds is known."""
    return all(buffer.contents is not None and not buffer.stale for buffer in launch.buffers) and not launch.after_loss


def relocate_pointers(arguments: bytes, moved: Sequence[tuple[DeviceBuffer, int]]) -> bytes:
    """Arguments in which pointers into buffers point to where these have moved."""
    data = bytearray(arguments)
    for at in range(0, len(data) - POINTER + 1, POINTER):
        pointer = int.from_bytes(data[at : at + POINTER], "little")
        for buffer, address in moved:
            if buffer.holds(pointer):
                data[at : at + POINTER] = (pointer - buffer.start + address).to_bytes(POINTER, "little")
    return bytes(data)


def fill_buffer(
    core: NativeDevice, address: int, buffer: DeviceBuffer, assumed: DataAssumption, limit: int, filled: int
) -> None:
    """Fills a new buffer: with what it held where that is known, over again behind the part that is known; else its
    first `filled` bytes with numbers below `limit`. The rest is zero."""
    contents = buffer.contents
    if contents is not None and assumed.use_recorded and not (assumed.made_up_below and buffer.stale):
        data = np.frombuffer(contents.data, np.uint8)
        places = range(0, min(buffer.bytes, max(filled, contents.known)), contents.known) if contents.known else ()
        for at in places:
            core.write(address + at, data[: buffer.bytes - at])
        return
    if filled and limit > 1:
        tile = (_noise_tile() % limit).view(np.uint8)
        for at in range(0, min(buffer.bytes, filled), len(tile)):
            core.write(address + at, tile[: min(len(tile), buffer.bytes - at)])


@functools.cache
def _noise_tile() -> npt.NDArray[np.uint32]:
    return np.random.default_rng(7).integers(0, 1 << 31, TILE_WORDS, dtype=np.uint32)


def small_cus(spec: Mapping[str, float]) -> int:
    """CUs of the device that a preview interprets on: CUS_PER_XCD for each XCD, at least FEWEST_CUS, at most all."""
    return int(min(spec["topology.cus"], max(FEWEST_CUS, CUS_PER_XCD * spec["topology.xcds"])))
