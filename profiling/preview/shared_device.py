"""A simulated device on which the launches of a run follow each other: its caches keep what earlier ones left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hipsynth.profiling.preview.launch import DeviceBuffer
from hipsynth.simulator.native_core import NativeDevice


@dataclass
class SharedDevice:
    """`core` is made at the first launch, and anew after one that failed.

    `modules`: number of each code object on it; `places`: bytes and address of each buffer, by the address that the
    program saw.
    """

    core: NativeDevice | None = None
    modules: dict[bytes, int] = field(default_factory=dict)
    places: dict[int, tuple[int, int]] = field(default_factory=dict)

    def start(self, make: Callable[[], NativeDevice]) -> NativeDevice:
        """The device; `make` is called if there is none."""
        if self.core is None:
            self.core, self.modules, self.places = make(), {}, {}
        return self.core

    def empty_caches(self) -> None:
        """Lets the next launch find empty caches."""
        if self.core is not None:
            self.core.reset()

    def end(self) -> None:
        """Forgets the device: the next launch finds empty caches."""
        self.core = None

    def load(self, core: NativeDevice, elf: bytes, disassembly: str) -> int:
        """The number of a code object, which is loaded once."""
        if elf not in self.modules:
            self.modules[elf] = core.load(elf, disassembly)
        return self.modules[elf]

    def place(self, core: NativeDevice, buffer: DeviceBuffer, allocate: Callable[[DeviceBuffer], int]) -> int:
        """The address of a buffer: where it lies already, else of a new allocation, in place of what lay there."""
        earlier = self.places.get(buffer.start)
        if earlier is not None and earlier[0] == buffer.bytes:
            return earlier[1]
        end = buffer.start + max(1, buffer.bytes)
        for start, (size, address) in list(self.places.items()):
            if start < end and buffer.start < start + max(1, size):
                core.release(address)
                del self.places[start]
        address = allocate(buffer)
        self.places[buffer.start] = buffer.bytes, address
        return address
