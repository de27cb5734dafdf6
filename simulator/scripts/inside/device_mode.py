"""Answers of PyTorch's functions for device tensors: those of a GPU build, where the tensors are CPU tensors.

Tensors on the device say that they are on cuda:0; `device="cuda"` in any call puts its result there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from types import BuiltinFunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode
from torch.utils import _device

from .autocasting import call_with_autocast
from .placement import Placement, any_on_device, is_on_device
from .tensor_types import read_type, type_name

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")
_Tensor: Any = torch.Tensor
_NATIVE = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, MethodWrapperType)


class InvalidDevice(RuntimeError):
    """A GPU that the virtual machine does not have."""


def check_device(device: object) -> None:
    """Raises InvalidDevice for another GPU than the only one; `device`: an index, a name, a torch.device or None."""
    index = device if isinstance(device, int) else torch.device(str(device)).index if device is not None else 0
    if index not in (0, None):
        raise InvalidDevice("HIP error: invalid device ordinal (the virtual machine has one GPU, number 0)")


def _names_gpu(device: object) -> bool:
    is_gpu = isinstance(device, int) or torch.device(str(device)).type == "cuda"
    if is_gpu:
        check_device(device)
    return is_gpu


def _read_device(
    func: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[bool | None, tuple[object, ...], dict[str, object]]:
    """Whether a call names the GPU (None: it names no device), and its arguments with the CPU in the place of that."""
    device = kwargs.get("device")
    if device is None and _device.CURRENT_DEVICE is not None and func in _device._device_constructors():
        device = _device.CURRENT_DEVICE  # its own layer lies below this one
        kwargs = {**kwargs, "device": device}
    if device is not None:
        explicit = _names_gpu(device)
        return explicit, args, {**kwargs, "device": CPU} if explicit else kwargs
    named = [value for value in args if isinstance(value, torch.device)]
    if not named:
        return None, args, kwargs
    explicit = _names_gpu(named[0])
    return explicit, tuple(CPU if explicit and isinstance(value, torch.device) else value for value in args), kwargs


class DeviceMode(TorchFunctionMode):
    """The layer above PyTorch's functions; `placement` is the one below."""

    def __init__(self, placement: Placement) -> None:
        super().__init__()
        self.placement = placement
        self._special: dict[object, Callable[..., object]] = {
            torch.device: torch.device,
            _Tensor.device.__get__: lambda t: CUDA if is_on_device(t) else _Tensor.device.__get__(t),
            _Tensor.is_cuda.__get__: is_on_device,
            _Tensor.is_cpu.__get__: lambda t: not is_on_device(t) and _Tensor.is_cpu.__get__(t),
            _Tensor.get_device: lambda t: 0 if is_on_device(t) else _Tensor.get_device(t),
            _Tensor.to: self._convert,
            _Tensor.type: self._convert_type,
            _Tensor.type_as: self._convert,
            _Tensor.cuda: self._move_to_device,
            _Tensor.cpu: lambda t, memory_format=torch.preserve_format: self._convert(
                t, CPU, memory_format=memory_format
            ),
            _Tensor.numpy: lambda t, *, force=False: _Tensor.numpy(_host_tensor(t, force=force), force=force),
            _Tensor.__array__: lambda t, *args, **kwargs: _Tensor.__array__(_host_tensor(t), *args, **kwargs),
            _Tensor.__repr__: self._describe,
            _Tensor.__deepcopy__: self._copy_deeply,
            _Tensor.pin_memory: lambda t, device=None: t,
            _Tensor.is_pinned: lambda t, device=None: False,
            _Tensor.record_stream: lambda t, stream: None,
        }

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        special = self._special.get(func)
        if special is not None:
            return special(*args, **kwargs)
        custom = self.placement.custom_operators
        if custom is not None and custom.names and custom.has_operator(func):
            with self.results_on_device(None):
                return func(*args, **kwargs)
        explicit, args, kwargs = _read_device(func, args, kwargs)
        wanted = explicit
        if wanted is None and any_on_device(args, kwargs):
            wanted = True
        elif wanted is None and isinstance(func, _NATIVE):  # it runs nothing of the device
            with torch._C._DisableTorchDispatch():
                return func(*args, **kwargs)
        before, self.placement.wanted = self.placement.wanted, wanted
        try:
            if wanted and torch._C._is_any_autocast_enabled():
                result = call_with_autocast(func, args, kwargs)
            else:
                result = func(*args, **kwargs)
        finally:
            self.placement.wanted = before
        moved = explicit or (wanted and func is _Tensor.new_tensor)  # what never comes to the layer below
        if moved and isinstance(result, torch.Tensor) and not is_on_device(result):
            return self._convert(result, CUDA)
        return result

    @contextlib.contextmanager
    def results_on_device(self, wanted: bool | None) -> Iterator[None]:
        """Where operators put their results while the block runs."""
        before, self.placement.wanted = self.placement.wanted, wanted
        try:
            yield
        finally:
            self.placement.wanted = before

    def _convert(self, tensor: torch.Tensor, *args: Any, copy: bool = False, **kwargs: Any) -> torch.Tensor:
        """Tensor.to: another place, type or both."""
        if args and isinstance(args[0], torch.Tensor):  # as that tensor is
            kwargs = {"device": CUDA if is_on_device(args[0]) else args[0].device, "dtype": args[0].dtype, **kwargs}
            args = ()
        if "other" in kwargs:
            return self._convert(tensor, kwargs.pop("other"), copy=copy, **kwargs)
        if len(args) > 3:  # device, dtype, non_blocking, copy
            args, copy = args[:3], args[3]
        form = kwargs.pop("memory_format", None) or torch.preserve_format
        device, dtype, _, _ = torch._C._nn._parse_to(*args, **kwargs)
        here = is_on_device(tensor)
        there = here if device is None else device.type == "cuda"
        if there:
            check_device(device)
        if device is not None and device.type not in ("cuda", "cpu"):
            raise RuntimeError(f"the virtual machine has no device of type {device.type}")
        with self.results_on_device(there):
            copy = copy or here != there
            result: torch.Tensor = _Tensor.to(tensor, CPU, dtype or tensor.dtype, copy=copy, memory_format=form)
        return result

    def _convert_type(
        self, tensor: torch.Tensor, dtype: torch.dtype | str | type | None = None, non_blocking: bool = False
    ) -> torch.Tensor | str:
        if dtype is None:
            return type_name(_Tensor.type(tensor), on_device=is_on_device(tensor))
        kind, place = read_type(dtype)
        return self._convert(tensor, kind) if place is None else self._convert(tensor, torch.device(place), kind)

    def _move_to_device(
        self,
        tensor: torch.Tensor,
        device: object = None,
        non_blocking: bool = False,
        memory_format: torch.memory_format = torch.preserve_format,
    ) -> torch.Tensor:
        check_device(device)
        return self._convert(tensor, CUDA, memory_format=memory_format)

    def _describe(self, tensor: torch.Tensor, *, tensor_contents: str | None = None) -> str:
        with self:  # which device it is on is asked there
            text: str = torch._tensor_str._str(tensor, tensor_contents=tensor_contents)  # type: ignore[no-untyped-call]
        return text

    def _copy_deeply(self, tensor: torch.Tensor, memo: dict[int, object]) -> torch.Tensor:
        copy: torch.Tensor = _Tensor.__deepcopy__(tensor, memo)
        if not is_on_device(tensor) or is_on_device(copy):
            return copy
        with self.results_on_device(True), torch.no_grad():
            copy.data = _Tensor.to(copy.data, CPU, copy=True)
        return copy


def _host_tensor(tensor: torch.Tensor, *, force: bool = False) -> torch.Tensor:
    """A tensor that numpy may see. `force`: one on the device, too."""
    if is_on_device(tensor) and not force:
        raise TypeError(
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
            "first."
        )
    return tensor


def activate_backward(mode: DeviceMode) -> None:
    """Lets backward functions that are written in Python see the device as forward functions do."""
    import torch.autograd as autograd

    run: Callable[..., object] = autograd._engine_run_backward  # type: ignore[attr-defined]

    def run_backward(*args: object, **kwargs: object) -> object:
        with mode, mode.results_on_device(None):
            return run(*args, **kwargs)

    autograd._engine_run_backward = run_backward  # type: ignore[attr-defined,assignment]
    _place_absent_gradients()


def _place_absent_gradients() -> None:
    """Puts the zeros that autograd hands a Function for a result without a gradient where that result is."""
    apply_forward: Callable[..., object] = torch.autograd.Function.apply.__func__  # type: ignore[attr-defined]
    apply_backward: Callable[..., object] = BackwardCFunction.apply

    def note_places(cls: type, *args: object, **kwargs: object) -> object:
        results = apply_forward(cls, *args, **kwargs)
        rows = results if isinstance(results, tuple) else (results,)
        node = next((row.grad_fn for row in rows if isinstance(row, torch.Tensor) and row.grad_fn is not None), None)
        if isinstance(node, BackwardCFunction) and len(rows) > 1:
            node._on_device = [isinstance(row, torch.Tensor) and row.is_cuda for row in rows]
        return results

    def place_gradients(node: BackwardCFunction, *gradients: object) -> object:
        places: Sequence[bool] | None = getattr(node, "_on_device", None)
        if places is not None:
            gradients = tuple(
                gradient.to(CUDA) if on_device and isinstance(gradient, torch.Tensor) else gradient
                for gradient, on_device in zip(gradients, places, strict=True)
            )
        return apply_backward(node, *gradients)

    torch.autograd.Function.apply = classmethod(note_places)  # type: ignore[assignment,arg-type]
    BackwardCFunction.apply = place_gradients  # type: ignore[method-assign]
