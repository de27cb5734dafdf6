"""Types of the native module, which simulator/native/bindings/module.cpp defines."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import NotRequired, Protocol, TypedDict, Unpack, cast

import numpy as np
import numpy.typing as npt

from hipsynth.core.errors import MissingDependency
from hipsynth.core.installation import set_up_by
from hipsynth.core.kernel_record import Dim

Bytes = npt.NDArray[np.uint8]


class KernelDescriptor(TypedDict):
    """A kernel of a loaded code object. `args`: offset, size and kind (as in the code object) of each argument."""

    symbol: str
    name: str
    kernarg_bytes: int
    lds_bytes: int
    scratch_bytes: int
    vgprs: int
    agprs: int
    sgprs: int
    args: list[tuple[int, int, str]]


class ResidencyNumbers(TypedDict):
    """How many waves and work-groups of a dispatch fit a CU, and what limits them."""

    groups_per_cu: float
    waves_per_cu: float
    fraction: float
    peak_waves: float
    limited_by: str


class TimingLimits(TypedDict):
    """The bound that decides the duration, and the cycles of each."""

    bottleneck: str
    wave_cycles: float
    bounds: dict[str, float]


class SamplingNumbers(TypedDict):
    """How a dispatch was executed: its strategy, how many work-groups ran, and expected relative errors."""

    strategy: str
    groups_simulated: int
    groups_recorded: int
    error: dict[str, float]
    reused: int


class Dispatch(TypedDict):
    """The result of one launch. Parts from `registers` to `traffic` are absent from a device that does not count."""

    grid: Dim
    block: Dim
    duration_ns: float
    counters: dict[str, float]
    registers: NotRequired[dict[str, float]]
    occupancy: NotRequired[ResidencyNumbers]
    limits: NotRequired[TimingLimits]
    work: NotRequired[dict[str, float]]
    traffic: NotRequired[dict[str, float]]
    sampling: SamplingNumbers
    out_of_bounds: int  # accesses outside of every allocation that were let pass
    unreplayed: bool  # sampled, since replaying its equal work-groups would have taken too long
    printf: bytes


class TimingEstimate(TypedDict):
    """The timing model's result for counted work."""

    duration_ns: float
    busy_cycles: float
    bottleneck: str
    bounds: dict[str, float]


class DeviceOptions(TypedDict, total=False):
    """Options of a simulated device; see DeviceOptions in core/machine.h for what they mean and their defaults."""

    count: bool
    max_wave_instructions: int
    memory_bytes: int
    cpu_seconds: float
    values: bool
    sampling_units: int
    sample_above: int
    replayable: int
    in_part: bool
    repeatable: int
    largest_error: float
    per_kernel: int
    reuse: bool
    keep_l2: bool
    strict_bounds: bool


class NativeDevice(Protocol):
    """One simulated device; memory and caches live as long as it does. Its methods raise SimError."""

    def reset(self) -> None:
        """Empties all caches."""

    def empty_l2(self) -> None:
        """Empties the L2, as a copy by the host does."""

    def allocate(self, bytes: int) -> int:
        """Device address of a new allocation."""

    def allocate_at(self, offset: int, bytes: int) -> int:
        """Device address of a new allocation at an offset from `arena`."""

    def arena(self) -> int:
        """The lowest address of device memory."""

    def release(self, address: int) -> bool:
        """False when `address` is not the start of an allocation."""

    def write(self, address: int, data: Bytes | bytes) -> None:
        """Copies bytes to device memory."""

    def fill(self, address: int, bytes: int, data: Bytes, period: int) -> None:
        """Writes an array every `period` bytes, and zeros between, to so many bytes of device memory."""

    def read(self, address: int, out: Bytes) -> None:
        """Copies device memory into an array."""

    def load(self, elf: bytes, disassembly: str) -> int:
        """Loads a code object; returns the number of the module."""

    def kernels(self, module: int) -> list[KernelDescriptor]:
        """The kernels of a module."""

    def symbol(self, module: int, symbol: str) -> tuple[int, int]:
        """(address, bytes) of a global variable, (0, 0) when absent."""

    def decided_by_data(self, module: int, kernel: str) -> bool:
        """Whether addresses or control flow of a kernel may depend on what its vector loads read."""

    def launch(
        self,
        module: int,
        kernel: str,
        grid: Dim,
        block: Dim,
        args: bytes,
        dynamic_lds: int = 0,
        cooperative: bool = False,
    ) -> Dispatch:
        """Runs one dispatch to its end; grid in work-groups, arguments laid out as in the metadata."""


class MakeDevice(Protocol):
    """The constructor of a NativeDevice."""

    def __call__(self, arch: str, spec: Mapping[str, float], **options: Unpack[DeviceOptions]) -> NativeDevice:
        """A device of an architecture with the constants `spec` and DeviceOptions."""


class NativeCore(Protocol):
    """The native module."""

    Device: MakeDevice
    SimError: type[Exception]

    def estimate(self, spec: Mapping[str, float], work: Mapping[str, float]) -> TimingEstimate:
        """The timing model alone: `work` is what a dispatch did, as its result has it."""

    def reasons(self) -> list[str]:
        """The names of why an execution ends."""

    def spec_keys(self) -> list[str]:
        """Keys that an architecture table must have."""


def native_core() -> NativeCore:
    """The native module; raises MissingDependency if it is not built."""
    try:
        return cast(NativeCore, importlib.import_module("hipsynth.simulator._core"))
    except ImportError as error:
        raise MissingDependency("the simulator core is not built", cause=str(error), remedy=set_up_by()) from error
