"""`torch.cuda` of the virtual device: what scripts ask before, between and after kernels."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from . import hip
from .device_mode import CUDA, check_device

HIP_VERSION = "7.1.0"
NCCL_FUNCTIONS = (
    "all_gather",
    "all_reduce",
    "broadcast",
    "init_rank",
    "reduce",
    "reduce_scatter",
    "unique_id",
    "version",
)
_ARCHS = {0: "gfx90a", 4: "gfx942", 5: "gfx950"}  # minor version of the instruction set -> architecture
# hipDeviceAttribute_t
_CLOCK_KHZ, _L2_BYTES, _MAJOR, _THREADS_PER_GROUP, _THREADS_PER_CU = 5, 19, 23, 56, 57
_BUS_BITS, _MEMORY_KHZ, _MINOR, _CUS, _REGISTERS, _LDS_BYTES, _WAVE_SIZE = 59, 60, 61, 63, 72, 74, 87


@dataclass(frozen=True)
class DeviceProperties:
    """torch.cuda.get_device_properties."""

    name: str
    gcnArchName: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_block: int
    max_threads_per_multi_processor: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    is_integrated: int = 0
    is_multi_gpu_board: int = 0


def device_properties(device: object = None) -> DeviceProperties:
    """The properties of the only device."""
    check_device(device)
    ask = hip.library().read_attribute
    lds = ask(_LDS_BYTES)
    return DeviceProperties(
        name=hip.library().device_name(),
        gcnArchName=f"{_ARCHS[ask(_MINOR)]}:sramecc+:xnack-",
        major=ask(_MAJOR),
        minor=ask(_MINOR),
        total_memory=hip.library().memory_info()[1],
        multi_processor_count=ask(_CUS),
        warp_size=ask(_WAVE_SIZE),
        max_threads_per_block=ask(_THREADS_PER_GROUP),
        max_threads_per_multi_processor=ask(_THREADS_PER_CU),
        regs_per_multiprocessor=ask(_REGISTERS),
        shared_memory_per_block=lds,
        shared_memory_per_block_optin=lds,
        shared_memory_per_multiprocessor=lds,
        L2_cache_size=ask(_L2_BYTES),
        clock_rate=ask(_CLOCK_KHZ),
        memory_clock_rate=ask(_MEMORY_KHZ),
        memory_bus_width=ask(_BUS_BITS),
    )


class DeviceStream:
    """A stream; kernels of all streams have ended when their launch returns, in simulated time they overlap."""

    def __init__(self, device: object = None, priority: int = 0, *, handle: int | None = None, **_: object) -> None:
        self.device, self.priority = CUDA, priority
        self.cuda_stream = handle if handle is not None else hip.library().make_handle("hipStreamCreate").value or 0

    def synchronize(self) -> None:
        hip.library().call_function("hipStreamSynchronize", ctypes.c_void_p(self.cuda_stream))

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        """No graph is recorded from it: there are none."""
        return False

    def wait_event(self, event: Event) -> None:
        event.wait(self)

    def wait_stream(self, stream: DeviceStream) -> None:
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> DeviceStream:
        _current.streams.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _current.streams.pop()


_default = DeviceStream(handle=0)


class _CurrentStreams(threading.local):
    """The streams that a thread has entered, as PyTorch's: the last one is its current stream."""

    def __init__(self) -> None:
        self.streams = [_default]


_current = _CurrentStreams()


def current_stream(device: object = None) -> DeviceStream:
    """The stream that kernels are launched in."""
    return _current.streams[-1]


class Event:
    """An event; its times are simulated ones."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self._handle = hip.library().make_handle("hipEventCreate")
        self.recorded = False

    def __del__(self) -> None:
        if "_handle" in vars(self) and hip is not None:
            hip.library().destroy_event(self._handle)

    def record(self, stream: DeviceStream | None = None) -> None:
        self.recorded = True
        hip.library().call_function(
            "hipEventRecord", self._handle, ctypes.c_void_p((stream or current_stream()).cuda_stream)
        )

    def wait(self, stream: DeviceStream | None = None) -> None:
        target = ctypes.c_void_p((stream or current_stream()).cuda_stream)
        hip.library().call_function("hipStreamWaitEvent", target, self._handle, 0)

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        hip.library().call_function("hipEventSynchronize", self._handle)

    def elapsed_time(self, end: Event) -> float:
        if not (self.recorded and end.recorded):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return hip.library().elapsed_ms(self._handle, end._handle)


@contextlib.contextmanager
def use_stream(stream: DeviceStream | None) -> Iterator[None]:
    """torch.cuda.stream."""
    with stream if stream is not None else contextlib.nullcontext():
        yield


class DeviceGuard:
    """torch.cuda.device, which PyTorch's own functions ask for by type: the only device."""

    def __init__(self, device: object) -> None:
        check_device(device)
        self.idx, self.prev_idx = 0, -1

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class TensorGuard(DeviceGuard):
    """torch.cuda.device_of: the device of a tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(None)


class Generator(torch._C.Generator):
    """torch.Generator: one of the device is one of the CPU, so that it gives the same numbers on every machine."""

    def __new__(cls, device: object = "cpu") -> Generator:
        generator: Generator = super().__new__(cls, device="cpu")  # type: ignore[call-arg]
        return generator


def _used_bytes(device: object = None) -> int:
    free, total = hip.library().memory_info()
    return total - free


class _Peak:
    """The most memory that was asked for; the runtime library keeps no peak, so it is that at the calls."""

    most = 0

    def read(self, device: object = None) -> int:
        self.most = max(self.most, _used_bytes())
        return self.most

    def reset(self, device: object = None) -> None:
        self.most = _used_bytes()


class UnsupportedOnDevice(NotImplementedError):
    """Something of torch.cuda that the virtual device does not have."""


def _refuse(name: str) -> type:
    class Refused:
        def __init__(self, *_: object, **__: object) -> None:
            raise UnsupportedOnDevice(f"the virtual device has no {name}")

    return Refused


def _refuse_call(name: str) -> Callable[..., object]:
    def refuse(*_: object, **__: object) -> object:
        raise UnsupportedOnDevice(f"the virtual device has no {name}")

    return refuse


_notes: set[str] = set()


def _leave_uncompiled(model: Any = None, **_: object) -> Any:
    """torch.compile: PyTorch's operators run on the CPU in any case."""
    if not _notes:
        sys.stderr.write("note: torch.compile leaves functions as they are here; Inductor's kernels are not profiled\n")
        _notes.add("torch.compile")
    return (lambda function: function) if model is None else model


def _synchronize(device: object = None) -> None:
    hip.library().call_function("hipDeviceSynchronize")


def _device_answers() -> dict[str, object]:
    """What torch.cuda answers about devices."""
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": check_device,
        "device": DeviceGuard,
        "device_of": TensorGuard,
        "get_device_name": lambda device=None: device_properties(device).name,
        "get_device_properties": device_properties,
        "get_device_capability": lambda device=None: (device_properties(device).major, device_properties(device).minor),
        "get_arch_list": lambda: [device_properties().gcnArchName.split(":")[0]],
        "is_bf16_supported": lambda including_emulation=True: True,
        "can_device_access_peer": lambda device, peer: False,
    }


def _stream_answers() -> dict[str, object]:
    """What torch.cuda answers about streams, events and graphs."""
    return {
        "synchronize": _synchronize,
        "Stream": DeviceStream,
        "ExternalStream": lambda pointer, device=None, **_: DeviceStream(handle=pointer),
        "Event": Event,
        "stream": use_stream,
        "set_stream": lambda stream: _current.streams.__setitem__(-1, stream),
        "current_stream": current_stream,
        "default_stream": lambda device=None: _default,
        "is_current_stream_capturing": lambda: False,
        "get_sync_debug_mode": lambda: 0,
        "set_sync_debug_mode": lambda mode: None,
        "_sleep": lambda cycles: None,
        "CUDAGraph": _refuse("graphs"),
        "graph": _refuse("graphs"),
    }


def _memory_answers(peak: _Peak) -> dict[str, object]:
    """What torch.cuda answers about memory."""
    return {
        "empty_cache": lambda: None,
        "ipc_collect": lambda: None,
        "mem_get_info": lambda device=None: hip.library().memory_info(),
        "memory_allocated": _used_bytes,
        "memory_reserved": _used_bytes,
        "max_memory_allocated": peak.read,
        "max_memory_reserved": peak.read,
        "reset_peak_memory_stats": peak.reset,
        "reset_max_memory_allocated": peak.reset,
        "reset_accumulated_memory_stats": lambda device=None: None,
        "memory_summary": lambda device=None, abbreviated=False: f"{_used_bytes()} bytes are allocated",
        "memory_snapshot": lambda device=None: [],
    }


def _random_answers() -> dict[str, object]:
    """What torch.cuda answers about random numbers, which the CPU draws."""
    manual_seed = torch.default_generator.manual_seed
    return {
        "manual_seed": lambda seed: manual_seed(seed) and None,
        "manual_seed_all": lambda seed: None,  # torch.manual_seed, which calls it, has seeded the generator already
        "seed": lambda: torch.seed() and None,
        "seed_all": lambda: torch.seed() and None,
        "initial_seed": torch.initial_seed,
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
    }


def _accelerator_answers(peak: _Peak) -> dict[str, object]:
    """What torch.accelerator answers."""
    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": lambda: 0,
        "current_device_idx": lambda: 0,
        "set_device_index": check_device,
        "set_device_idx": check_device,
        "current_stream": current_stream,
        "synchronize": _synchronize,
        "empty_cache": lambda: None,
        "memory_allocated": _used_bytes,
        "max_memory_allocated": peak.read,
    }


def activate_torch() -> None:
    """Puts the virtual device in the place of PyTorch's own."""
    peak = _Peak()
    answers = _device_answers() | _stream_answers() | _memory_answers(peak) | _random_answers()
    no_peers = {name: _refuse_call(f"NCCL (torch.cuda.nccl.{name}): it is the only GPU") for name in NCCL_FUNCTIONS}
    no_group = _refuse_call("process group (torch.distributed): it is the only GPU, without a network")
    ranges: dict[str, object] = {name: lambda *_, **__: 0 for name in ("range_push", "range_pop", "mark")}
    tables = (
        (torch.cuda, answers), (torch.accelerator, _accelerator_answers(peak)), (torch.cuda.nvtx, ranges),
        (torch.cuda.nccl, no_peers), (torch.distributed, {"init_process_group": no_group}),
        (torch, {"compile": _leave_uncompiled}), (torch.nn.Module, {"compile": lambda module, *_, **__: None}),
    )  # fmt: skip
    for module, functions in tables:
        for name, answer in functions.items():
            setattr(module, name, answer)
    torch.Generator = Generator  # type: ignore[misc]
    torch.version.hip = HIP_VERSION
