"""Where tensors live: a tensor is on the device if its storage is memory of the HIP runtime library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import hip

if TYPE_CHECKING:
    from .custom_operators import CustomOperators

_SHAPE_ONLY = torch.device("meta")
_EMPTY = frozenset(
    {
        torch.ops.aten.empty.memory_format,
        torch.ops.aten.empty_strided.default,
        torch.ops.aten.empty_like.default,
        torch.ops.aten.new_empty.default,
        torch.ops.aten.new_empty_strided.default,
    }
)
_PACK = torch.ops.aten._pack_padded_sequence.default  # its second result, sizes of batches, is on the host everywhere
_READS = frozenset({torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default})  # a number, on the host


class _DeviceMemory:
    """Device memory that is released with this object, in the form that numpy takes."""

    def __init__(self, size: int) -> None:
        try:
            self.address = hip.library().allocate_memory(max(size, 1))
        except hip.HipError as error:
            if error.number != hip.OUT_OF_MEMORY:
                raise
            free, total = hip.library().memory_info()
            raise torch.OutOfMemoryError(
                f"HIP out of memory. Tried to allocate {size / 2**30:.2f} GiB. GPU 0 has a total capacity of "
                f"{total / 2**30:.2f} GiB of which {free / 2**30:.2f} GiB is free."
            ) from None
        self.__array_interface__ = {
            "data": (self.address, False), "shape": (max(size, 1),), "typestr": "|u1", "version": 3,
        }  # fmt: skip

    def __del__(self) -> None:
        if hasattr(self, "address"):
            hip.library().release_memory(self.address)


def allocate_storage(size: int) -> torch.UntypedStorage:
    """A storage in new device memory."""
    return torch.from_numpy(numpy.asarray(_DeviceMemory(size))).untyped_storage()


def keep_places_of_files() -> None:
    """Lets torch.save note which storages are device memory, and torch.load put them there."""

    def name_place(storage: Any) -> str | None:
        device = hip.library()
        return "cuda:0" if device.memory_start <= storage.data_ptr() < device.memory_end else None

    def restore_storage(storage: Any, place: str) -> torch.UntypedStorage | None:
        if not place.startswith("cuda"):
            return None
        placed = allocate_storage(storage.nbytes())
        placed.copy_(storage, False)
        return placed

    torch.serialization.register_package(0, name_place, restore_storage)  # before PyTorch's own


def is_on_device(tensor: torch.Tensor) -> bool:
    """Whether the tensor's storage is in device memory. Call it where no mode is active."""
    try:
        address = tensor.data_ptr() or tensor.untyped_storage().data_ptr()  # the first is 0 without elements
    except (RuntimeError, NotImplementedError):  # a tensor without a storage
        return _is_around_device_tensor(tensor)
    device = hip.library()
    return bool(device.memory_start <= address < device.memory_end)


def _is_around_device_tensor(tensor: torch.Tensor) -> bool:
    """Whether a tensor that has no storage, of torch.func or a sparse one, stands for tensors on the device."""
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return is_on_device(torch._C._functorch.get_unwrapped(tensor))
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        return tensor.layout == torch.sparse_coo and is_on_device(tensor._values())


def tensors_in(values: Iterable[object]) -> Iterator[torch.Tensor]:
    """The tensors among arguments, and in lists, tuples and dictionaries of them."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)
        elif isinstance(value, dict):
            yield from tensors_in(value.values())


def any_on_device(args: Iterable[object], kwargs: dict[str, object]) -> bool:
    """Whether one of the arguments of a call is a tensor on the device, also in lists, tuples and dictionaries."""
    return _holds_device_tensor(args) or _holds_device_tensor(kwargs.values())


def _holds_device_tensor(values: Iterable[object]) -> bool:
    for value in values:
        if isinstance(value, torch.Tensor):
            on_device = is_on_device(value)
        elif isinstance(value, list | tuple):
            on_device = _holds_device_tensor(value)
        elif isinstance(value, dict):
            on_device = _holds_device_tensor(value.values())
        else:
            continue
        if on_device:
            return True
    return False


def _place(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor in device memory; its own memory, if it has any yet, is no one else's."""
    if is_on_device(tensor) or tensor._is_zerotensor():
        return tensor
    if tensor.layout == torch.sparse_coo:
        indices, values, merged = _place(tensor._indices()), _place(tensor._values()), tensor.is_coalesced()
        return torch.sparse_coo_tensor(indices, values, tensor.size(), check_invariants=False, is_coalesced=merged)
    if tensor.layout != torch.strided:
        return tensor
    old = tensor.untyped_storage()
    storage = allocate_storage(old.nbytes())
    if tensor.device != _SHAPE_ONLY and old.nbytes():
        storage.copy_(old, False)
    placed = torch.empty(0, dtype=tensor.dtype)
    return placed.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())


class Placement(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Puts what operators make into device memory, if it is `wanted` there, or (None) if they read device tensors.

    PyTorch allocates a result as for any CPU tensor; here, below autograd, nobody else has seen it yet, so it is
    copied. `operators` counts the calls that made or changed device tensors: they ran on the CPU.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and the guard against it takes longer than most operators

    def __init__(
        self,
        check_operator: Callable[[torch._ops.OpOverload[..., object], tuple[object, ...], dict[str, object]], None],
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.check_operator = check_operator
        self.custom_operators: CustomOperators | None = None
        self.wanted: bool | None = None
        self.operators: dict[str, int] = {}
        self._reported = 0

    def report_operators(self) -> None:
        """Writes the counts into the result, if there are new ones."""
        total = sum(self.operators.values())
        if total != self._reported:
            self._reported = total
            hip.library().count_operators(self.operators)

    def forget_operators(self) -> None:
        """Counts from nothing again."""
        self.operators, self._reported = {}, 0

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        custom = self.custom_operators
        if custom is not None and custom.names and custom.has_operator(func):
            return custom.run_operator(func, args, kwargs)
        if torch.is_inference_mode_enabled():  # composite operators come here whole: their parts are placed
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        with torch._C.DisableTorchFunction():
            wanted = self.wanted
            if not wanted or func in _READS:
                reads = any_on_device(args, kwargs)
                wanted = reads if wanted is None else wanted
                if reads and (not wanted or func in _READS):
                    hip.library().note_host_read()
            if not wanted:
                return func(*args, **kwargs)
            if self.wanted:  # a call in Python: what autograd makes by itself is not the script's mistake
                self.check_operator(func, args, kwargs)
            # What has no contents yet is not allocated twice.
            result = func(*args, **({**kwargs, "device": _SHAPE_ONLY} if func in _EMPTY else kwargs))
            name = func.overloadpacket.__name__
            self.operators[name] = self.operators.get(name, 0) + 1
            return _place_results(func, result)


def _place_results(func: torch._ops.OpOverload[..., object], result: object) -> object:
    returns = func._schema.returns

    def place(value: object, is_alias: bool) -> object:
        if is_alias:  # of an argument: it is where that is
            return value
        if isinstance(value, torch.Tensor):
            return _place(value)
        return type(value)(place(part, False) for part in value) if isinstance(value, list) else value

    if isinstance(result, tuple) and func is _PACK:
        return _place(result[0]), result[1]
    if isinstance(result, tuple):
        return tuple(place(value, row.alias_info is not None) for value, row in zip(result, returns, strict=True))
    return place(result, bool(returns) and returns[0].alias_info is not None)
