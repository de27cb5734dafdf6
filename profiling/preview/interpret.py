"""Interprets a sample of a launch's work-groups in this process, as large as that of a label in a corpus.

The kernel's machine code is interpreted on the memory that the launch was recorded with, at the addresses that the
program saw; what is not recorded holds made-up data. What depends on such data (branches, gathered addresses) is a
guess, which `training` corrects for.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason
from hipsynth.core.time_limit import seconds_left
from hipsynth.profiling import metrics
from hipsynth.profiling.preview.launch import GUESSED_BYTES, POINTER, DeviceBuffer, DeviceLaunch
from hipsynth.profiling.preview.shared_device import SharedDevice
from hipsynth.simulator.devices import DeviceTable
from hipsynth.simulator.errors import SimError
from hipsynth.simulator.launch_record import ARENA
from hipsynth.simulator.limits import CORPUS_ERROR, CORPUS_UNITS
from hipsynth.simulator.native_core import KernelDescriptor, NativeDevice, native_core
from hipsynth.source.names import base_name, short_name

# Up to this work, in units of about 10 ns, a launch is interpreted as a whole: CORPUS_EFFORT of the usual.
EXACT_WORK = 1_800_000
# Times that work, up to which a grid of equal work-groups is replayed: some seconds where one answer is asked for, and
# as labels of a corpus do where many are.
REPLAYABLE, CORPUS_REPLAYABLE = 512, 16
REPEATABLE = 100  # times EXACT_WORK: launches of which a sample says nothing run in full, about two seconds at most
# Instructions of waves, in the work-groups that are interpreted: where data may keep loops from ending, and elsewhere.
MOST_BY_DATA, MOST_INSTRUCTIONS = 40_000_000, 300_000_000
LEAST_SECONDS = 0.1  # of one launch's interpretation near a limit of time; 0 would be none
MEMORY_BYTES = 1 << 38
SMALL_BYTES = 4096  # of buffers that do not limit the made-up data
TILE_WORDS, MOST_FILLED_BYTES = 1 << 18, 1 << 26
BUFFER = "global_buffer"
ARENA_BYTES = 1 << 40
FIRST_ADDRESS = ARENA + (1 << 38)  # of allocations: Memory::kInternalBytes of native/core/machine.h
NOT_STARTED = "the device does not start it"
BASIC = (  # the metrics that the others of the twelve follow from
    "L1_Cache_Hit_Rate",
    "L2_Cache_Hit_Rate",
    "L1_Cache_Bandwidth",
    "L2_Cache_Bandwidth",
    "L2_Fabric_Read_BW",
    "L2_Fabric_Write_BW",
    "HBM_GFLOPS",
)
# Times the sampler's own estimate of the duration's error, where equal work-groups are too many to be replayed, or a
# corpus would execute the launch once more: holds for six of seven naive products of 512 to 2048 rows, and for sparse
# products with a row for each work-item.
SAMPLING_COVERS = 3.0
BUSIEST = "l1_cycles_busiest_cu"  # of the work: the one count that is of one CU


@dataclass(frozen=True)
class Code:
    """Compiled device code: the code object's bytes, its disassembly, and the flags that it was compiled with; no
    bytes for a program whose kernels are all loaded while it runs. `oversized`: why the device does not start kernels
    with too much static LDS, by full name; by base name, builds of a template without its body."""

    elf: bytes
    disassembly: str
    flags: str = ""
    oversized: Mapping[str, str] = field(default_factory=dict)

    def why_refused(self, kernel: str, reason: str) -> str:
        """Why the device does not start a kernel, by its full name; `reason`: what the size of its code says."""
        return self.oversized.get(kernel) or self.oversized.get(base_name(kernel)) or reason


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
    sampling_error: float = 0.0  # of the duration, relative, where a sample of the work-groups does not tell it well
    out_of_bounds: int = 0  # accesses of the interpreted work-groups outside of every array
    by_time: tuple[Preview, Preview] | None = None  # of the first time and later ones, where this is their mean


@dataclass(frozen=True)
class ScaledCounts:
    """Counts of an interpreted launch, extrapolated to its whole grid."""

    counters: Mapping[str, float]
    work: Mapping[str, float]
    occupancy: Mapping[str, Any]
    registers: Mapping[str, float]
    groups_run: int
    by_data: bool
    guessed: bool = False  # buffers had to be larger than the host code says
    diverged: bool = False  # made-up data led to errors or far, zeros did not
    recorded_failed: bool = False  # recorded data led to errors or far, so other data was taken
    sampling_error: float = 0.0  # as Preview's
    out_of_bounds: int = 0  # as Preview's
    warm: bool = False  # on the device of earlier launches, whose caches keep what these left


@dataclass(frozen=True)
class DataAssumption:
    """What a launch's memory is taken to hold. `made_up_below`: made-up numbers are smaller than this; 0: than what
    makes sense as an index. `enlarge_buffers`: every buffer has at least GUESSED_BYTES. `use_recorded`: buffers hold
    what was recorded of them, or with `made_up_below`, what is certain of that."""

    made_up_below: int = 0
    enlarge_buffers: bool = False
    use_recorded: bool = True


# In turn, if the data makes a kernel fail or go on for too long, or buffers seem to be too small.
MADE_UP, ZEROS = DataAssumption(use_recorded=False), DataAssumption(made_up_below=1)
ASSUMPTIONS = (
    DataAssumption(),
    MADE_UP,
    ZEROS,
    DataAssumption(made_up_below=1, enlarge_buffers=True),
)
# What unknown data may be instead: lengths and counts are often zero, states and levels small.
OTHER_DATA, MOST_SENSITIVITY = (ZEROS, DataAssumption(made_up_below=4)), math.log(10)


class Interpreter:
    """Device code loaded for previews on one device."""

    def __init__(self, code: Code, table: DeviceTable, replayable: int = CORPUS_REPLAYABLE) -> None:
        self.table, self.spec = table, table.spec()
        self.code, self.replayable = code, replayable
        self.kernels: list[KernelDescriptor] = []
        if code.elf:
            core = self._native_device()
            self.kernels = core.kernels(core.load(code.elf, code.disassembly))
        self._by_data: dict[str, bool] = {}
        self._modules: dict[tuple[bytes, bytes], Interpreter] = {}
        self.by_symbol: Mapping[str, KernelDescriptor] = {kernel["symbol"]: kernel for kernel in self.kernels}

    def _native_device(self, instructions: int = MOST_INSTRUCTIONS) -> NativeDevice:
        return native_core().Device(
            self.table.arch,
            dict(self.spec),
            sampling_units=CORPUS_UNITS,
            sample_above=EXACT_WORK,
            replayable=self.replayable,
            in_part=self.replayable > CORPUS_REPLAYABLE,
            repeatable=REPEATABLE,
            max_wave_instructions=instructions,
            memory_bytes=MEMORY_BYTES,
            cpu_seconds=0.0 if math.isinf(left := seconds_left()) else max(left, LEAST_SECONDS),
            values=False,
            strict_bounds=False,
        )

    def of_module(self, launch: DeviceLaunch) -> Interpreter:
        """The interpreter of the code that the launch is of: this one's, or what was loaded while the program ran."""
        if launch.module is None:
            return self
        if launch.module not in self._modules:
            elf, disassembly = launch.module
            code = Code(elf, disassembly.decode(errors="replace"))
            self._modules[launch.module] = Interpreter(code, self.table, self.replayable)
        return self._modules[launch.module]

    def kernel_of(self, launch: DeviceLaunch) -> KernelDescriptor | None:
        """The descriptor of the kernel that was launched; None if the code object does not have it."""
        return self.by_symbol.get(launch.symbol)

    def preview(
        self, launch: DeviceLaunch, sensitivity: float | None = None, device: SharedDevice | None = None
    ) -> Preview | None:
        """Interprets a launch; None if its kernel or arguments are not known. `sensitivity`: if it is known from other
        launches like this. `device`: on which earlier launches ran. Raises SimError."""
        counted = self.count(launch, device)
        if counted is None:
            return None
        counts = self.scale_counts(launch, counted)
        if counts.by_data and counted.recorded_failed:  # such as a queue, which few work-groups do not empty soon
            return replace(counts, sensitivity=MOST_SENSITIVITY)
        if not counts.by_data or counts.diverged or is_certain(launch):
            return counts
        if sensitivity is None:
            sensitivity = self._find_sensitivity(launch, None if counted.warm else counts.duration_ns)
        return replace(counts, sensitivity=sensitivity)

    def _find_sensitivity(self, launch: DeviceLaunch, cold_ns: float | None) -> float:
        """How much a launch's duration depends on data that nobody knows before the program runs. `cold_ns`: what it
        is with the first assumption and empty caches, if that is known."""
        kernel = self.kernel_of(launch)
        if kernel is None:
            return 0.0
        cold = [] if cold_ns is None else [cold_ns]
        try:
            duration_ns, *others = cold + [
                self.scale_counts(launch, self._interpret_launch(kernel, launch, assumed)).duration_ns
                for assumed in (ASSUMPTIONS[0], *OTHER_DATA)[len(cold) :]
            ]
        except SimError:
            return MOST_SENSITIVITY
        return min(MOST_SENSITIVITY, max(abs(math.log(other / duration_ns)) for other in others))

    def count(self, launch: DeviceLaunch, device: SharedDevice | None = None) -> ScaledCounts | None:
        """As preview(), before the timing model. Raises BadInput for more LDS than the device has, too."""
        kernel = self.kernel_of(launch)
        if kernel is None or len(launch.arguments) < explicit_bytes(kernel):
            return None
        self._require_room(kernel, launch.dynamic_lds)
        for assumed in ASSUMPTIONS:
            if assumed == MADE_UP and not launch.has_contents:
                continue
            try:
                counts = self._interpret_in_turn(kernel, launch, assumed, device)
                return replace(counts, recorded_failed=launch.has_contents and not assumed.use_recorded)
            except SimError as error:
                if not self._may_succeed(kernel, assumed, error):
                    raise
        return None

    def _require_room(self, kernel: KernelDescriptor, dynamic_lds: int) -> None:
        size, most = kernel["lds_bytes"] + dynamic_lds, int(self.spec["lds.bytes_per_cu"])
        if size > most:
            why = self.code.why_refused(kernel["name"], f"{size} bytes of LDS; at most {most}")
            raise BadInput(f"{NOT_STARTED}: {why}", reason=Reason.BAD_CONFIGURATION)

    def _may_succeed(self, kernel: KernelDescriptor, assumed: DataAssumption, error: SimError) -> bool:
        """Whether a launch that failed on assumed data may succeed with the next assumption."""
        if error.reason == Reason.INSTRUCTION_LIMIT and (assumed.made_up_below == 1 or not self.by_data(kernel)):
            return False  # larger buffers will not help where zeros keep it from ending, nor other data a fixed loop
        return error.reason in (Reason.ILLEGAL_ACCESS, Reason.INSTRUCTION_LIMIT) and assumed != ASSUMPTIONS[-1]

    def by_data(self, kernel: KernelDescriptor) -> bool:
        """Whether addresses or control flow of a kernel may depend on data."""
        symbol = kernel["symbol"]
        if symbol not in self._by_data:
            core = self._native_device()
            self._by_data[symbol] = core.decided_by_data(core.load(self.code.elf, self.code.disassembly), symbol)
        return self._by_data[symbol]

    def _interpret_in_turn(
        self, kernel: KernelDescriptor, launch: DeviceLaunch, assumed: DataAssumption, device: SharedDevice | None
    ) -> ScaledCounts:
        """On the device of earlier launches, unless there is none, or the first assumption failed. One that takes more
        instructions than data may decide, and does not depend on data, is interpreted again, alone."""
        by_data = self.by_data(kernel)
        if device is None or assumed != ASSUMPTIONS[0]:
            return self._interpret_launch(kernel, launch, assumed)
        warm = device.core is not None
        try:
            return replace(self._interpret_launch(kernel, launch, assumed, device), warm=warm)
        except SimError as error:
            device.end()
            if by_data or error.reason != Reason.INSTRUCTION_LIMIT:
                raise
            return self._interpret_launch(kernel, launch, assumed)

    def _interpret_launch(
        self,
        kernel: KernelDescriptor,
        launch: DeviceLaunch,
        assumed: DataAssumption,
        shared: SharedDevice | None = None,
    ) -> ScaledCounts:
        """`shared`: where the launch runs; without one, caches are empty."""
        by_data = self.by_data(kernel)
        device = shared or SharedDevice()
        few_instructions = by_data or shared is not None
        core = device.start(lambda: self._native_device(MOST_BY_DATA if few_instructions else MOST_INSTRUCTIONS))
        module = device.load(core, self.code.elf, self.code.disassembly)
        arguments = self._place_memory(device, core, module, launch, assumed, by_data)
        counted = core.launch(
            module, launch.symbol, launch.grid, launch.block, arguments, launch.dynamic_lds, launch.cooperative
        )
        run = int(counted["sampling"]["groups_simulated"])
        parts = counted["counters"], counted["work"], counted["occupancy"], counted["registers"]
        diverged = assumed.made_up_below == 1 and by_data
        error = _sampling_error(counted["sampling"]["error"].get("Duration", 0.0), counted["unreplayed"])
        return ScaledCounts(
            *parts, run, by_data, assumed.enlarge_buffers, diverged, sampling_error=error,
            out_of_bounds=counted["out_of_bounds"],
        )  # fmt: skip

    @staticmethod
    def _place_memory(
        device: SharedDevice,
        core: NativeDevice,
        module: int,
        launch: DeviceLaunch,
        assumed: DataAssumption,
        by_data: bool,
    ) -> bytes:
        """Allocates the launch's buffers, fills them and the device code's variables; returns the arguments with the
        addresses that the buffers have there."""
        named = launch.named_buffers()
        sizes = [buffer.bytes for buffer in named]
        index = max(1, min([n // 8 for n in sizes if n >= SMALL_BYTES] or [SMALL_BYTES // 8]))
        filled = MOST_FILLED_BYTES if by_data else 0
        moved: list[tuple[DeviceBuffer, int]] = []
        shift = core.arena() - ARENA

        def allocate(buffer: DeviceBuffer) -> int:
            if not assumed.enlarge_buffers and not is_outside(buffer):
                return core.allocate_at(buffer.start - ARENA, buffer.bytes)
            return core.allocate(max(buffer.bytes, GUESSED_BYTES if assumed.enlarge_buffers and buffer in named else 1))

        for buffer in sorted(launch.buffers, key=is_outside):  # others must not take the places of device memory
            address = device.place(core, buffer, allocate)
            fill_buffer(core, address, buffer, assumed, assumed.made_up_below or index, filled)
            if address != buffer.start + shift or shift:
                moved.append((buffer, address))
        for symbol, data in launch.variables.items():
            address, size = core.symbol(module, symbol)
            if address and data:
                core.write(address, np.frombuffer(data, np.uint8)[:size])
        return relocate_pointers(launch.arguments, moved)

    def scale_counts(self, launch: DeviceLaunch, counted: ScaledCounts) -> Preview:
        """The timing model's estimate for the counts of a launch."""
        work, groups = dict(counted.work), math.prod(launch.grid)
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
            sampling_error=counted.sampling_error,
            out_of_bounds=counted.out_of_bounds,
        )


def _sampling_error(estimate: float, is_unreplayed: bool) -> float:
    """The error to reckon with where the sampler estimates that of the duration; 0 for one that a label has, too."""
    return SAMPLING_COVERS * estimate if is_unreplayed or estimate > CORPUS_ERROR else 0.0


def mean_preview(first: Preview, later: Preview, arch: str) -> Preview:
    """The mean of a launch that is made several times: `first` with the caches that it finds, empty ones as often as
    the launch does, `later` all others."""
    launch = first.launch
    share = (launch.cold if launch.starts_cold else 1) / launch.times

    def mean_numbers(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
        return {name: share * a[name] + (1 - share) * b[name] for name in a}

    counters = mean_numbers(first.counters, later.counters)
    duration_ns = share * first.duration_ns + (1 - share) * later.duration_ns
    return replace(
        first,
        counters=counters,
        work=mean_numbers(first.work, later.work),
        duration_ns=duration_ns,
        bounds=mean_numbers(first.bounds, later.bounds),
        bottleneck=later.bottleneck,
        metrics=metrics.compute_metrics(counters, duration_ns, arch, BASIC),
        by_time=(first, later),
    )


def explicit_arguments(kernel: KernelDescriptor) -> list[tuple[int, int, str]]:
    """(offset, bytes, kind) of the arguments that a launch gives."""
    return [a for a in kernel["args"] if not str(a[2]).startswith("hidden_")]


def explicit_bytes(kernel: KernelDescriptor) -> int:
    """The bytes of the arguments that a launch gives."""
    return max((offset + size for offset, size, _ in explicit_arguments(kernel)), default=0)


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
        data, period = np.frombuffer(contents.data, np.uint8), contents.known
        core.fill(address, min(buffer.bytes, max(filled, period)) if period else 0, data, period)
    elif filled and limit > 1:
        tile = (_noise_tile() % limit).view(np.uint8)
        core.fill(address, min(buffer.bytes, filled), tile, len(tile))


@functools.cache
def _noise_tile() -> npt.NDArray[np.uint32]:
    return np.random.default_rng(7).integers(0, 1 << 31, TILE_WORDS, dtype=np.uint32)
