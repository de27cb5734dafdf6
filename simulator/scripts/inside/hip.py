"""The HIP runtime library of this process, by ctypes: memory, events, queries, and what only scripts need."""

from __future__ import annotations

import ctypes
import functools
import json
import os
from collections.abc import Callable

OUT_OF_MEMORY = 2  # hipErrorOutOfMemory
MEMORY_BYTES = 1 << 40  # address space of a device; kSlotBytes of native/core/arena.cpp
_PCI_TITLE_BYTES = 256
_DEVICE_POINTER = 3  # HIP_POINTER_ATTRIBUTE_DEVICE_POINTER


class HipError(RuntimeError):
    """A call that failed, with HIP's error number."""

    def __init__(self, function: str, number: int) -> None:
        super().__init__(f"{function} failed with HIP error {number}")
        self.number = number


class DeviceFailure(RuntimeError):
    """A launch that the device ended, in a process that goes on."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{message} ({reason})")


make_failure: Callable[[str, str], Exception] = DeviceFailure  # of a reason and a message


class Hip:
    """The calls of one loaded library."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.hipsynthMemoryStart.restype = ctypes.c_uint64
        self._library.hipsynthStop.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
        self._library.hipsynthDescribeKernel.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
        self._library.hipsynthTakeFailure.restype = ctypes.c_char_p
        self._library.hipsynthBeginResults.argtypes = (ctypes.c_uint32, ctypes.c_bool)
        self._library.hipsynthSampleCoarsely.argtypes = (ctypes.c_bool,)
        self._library.hipsynthSampleCoarsely.restype = ctypes.c_bool
        self._library.hipsynthUncertainty.restype = ctypes.c_double
        self.memory_start: int = self._library.hipsynthMemoryStart()
        self.memory_end = self.memory_start + MEMORY_BYTES

    def call_function(self, function: str, *arguments: object) -> None:
        """Calls a function of the HIP API. Raises HipError, or what make_failure() makes."""
        number = getattr(self._library, function)(*arguments)
        if number:
            raise self.take_failure() or HipError(function, number)

    def allocate_memory(self, size: int) -> int:
        """The address of new device memory."""
        address = ctypes.c_void_p()
        self.call_function("hipMalloc", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value or 0

    def release_memory(self, address: int) -> None:
        self._library.hipFree(ctypes.c_void_p(address))

    def has_allocated(self, address: int) -> bool:
        """Whether an address is in device memory that is allocated."""
        start, pointer = ctypes.c_void_p(), ctypes.c_void_p(address)
        number: int = self._library.hipPointerGetAttribute(ctypes.byref(start), _DEVICE_POINTER, pointer)
        self._library.hipGetLastError()
        return number == 0

    def read_attribute(self, number: int) -> int:
        """An attribute of the device, by its number in hipDeviceAttribute_t."""
        value = ctypes.c_int()
        self.call_function("hipDeviceGetAttribute", ctypes.byref(value), number, 0)
        return value.value

    def device_name(self) -> str:
        name = ctypes.create_string_buffer(_PCI_TITLE_BYTES)
        self.call_function("hipDeviceGetName", name, len(name), 0)
        return name.value.decode()

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes of device memory."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call_function("hipMemGetInfo", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def make_handle(self, function: str, *arguments: object) -> ctypes.c_void_p:
        """A new handle, such as a stream or an event."""
        handle = ctypes.c_void_p()
        self.call_function(function, ctypes.byref(handle), *arguments)
        return handle

    def destroy_event(self, event: ctypes.c_void_p) -> None:
        self._library.hipEventDestroy(event)

    def elapsed_ms(self, start: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        """Simulated time between two recorded events."""
        value = ctypes.c_float()
        self.call_function("hipEventElapsedTime", ctypes.byref(value), start, end)
        return value.value

    def describe_kernel(self, function: int, members: str) -> None:
        """Adds members to the kernel's entry in the result."""
        self._library.hipsynthDescribeKernel(function, members.encode())

    def clear_caches(self) -> None:
        """Empties the simulated caches."""
        self.call_function("hipsynthClearCaches")

    def sample_coarsely(self, coarse: bool) -> bool:
        """Samples large grids coarsely from here on, or as the profile has it. False, and nothing changes, if coarsely
        would be no faster."""
        return bool(self._library.hipsynthSampleCoarsely(coarse))

    def read_uncertainty(self) -> float:
        """By how many ns sampling may have changed the durations of the launches since clear_caches()."""
        return float(self._library.hipsynthUncertainty())

    def begin_results(self, sampling_units: int, lines: bool) -> None:
        """What follows is in a new document, from empty caches; only in a process with its own channel."""
        self.call_function("hipsynthBeginResults", sampling_units, lines)

    def publish_results(self) -> None:
        """Writes the document into the channel."""
        self.call_function("hipsynthPublishResults")

    def take_failure(self) -> Exception | None:
        """Why the last call failed, if the device says so; it is asked once."""
        reason, _, message = self._library.hipsynthTakeFailure().decode(errors="replace").partition("\n")
        return make_failure(reason, message) if reason else None

    def note_host_read(self) -> None:
        """Tells recordings that the script has read device memory."""
        self._library.hipsynthHostHasRead()

    def count_operators(self, operators: dict[str, int]) -> None:
        """Tells the result how often which operator of PyTorch ran on the CPU."""
        self.call_function("hipsynthCountOperators", json.dumps(dict(sorted(operators.items()))).encode())

    def stop_process(self, reason: str, message: str) -> None:
        """Ends the process with a failure in its result."""
        self._library.hipsynthStop(reason.encode(), message.encode())


@functools.cache
def library() -> Hip:
    """The library that TRITON_LIBHIP_PATH names."""
    return Hip(os.environ["TRITON_LIBHIP_PATH"])
