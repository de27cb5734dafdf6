"""`torch.autocast("cuda")` for device tensors: PyTorch's autocasting of the CPU, in the types that it has on a GPU.

PyTorch keeps the state of each kind of device. While a function runs on device tensors, the CPU has the GPU's state;
operators that only a GPU casts (softmax and sum become float32) get kernels of ours, which leave host tensors alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch._C import DispatchKey, DispatchKeySet

from .placement import any_on_device, is_on_device, tensors_in

_LOWER = frozenset((
    "addmv", "addr", "chain_matmul", "convolution", "_convolution", "einsum", "gru_cell", "linalg_multi_dot",
    "lstm_cell", "mv", "rnn_relu_cell", "rnn_tanh_cell", "_thnn_fused_gru_cell", "_thnn_fused_lstm_cell",
))  # fmt: skip
_WIDEST = frozenset((
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "index_put", "scatter_add", "tensordot", "vdot",
))  # fmt: skip
_OF_NVIDIA = frozenset(("_scaled_dot_product_flash_attention", "cudnn_convolution", "cudnn_convolution_transpose"))
_CASTING = DispatchKeySet(DispatchKey.AutocastCPU)
_BEHIND_CASTING = torch._C._dispatch_keyset_full_after(DispatchKey.AutocastCPU)
_libraries: list[torch.library.Library] = []


def call_with_autocast(func: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Calls a function on device tensors with the state of the GPU's autocasting."""
    enabled, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    wanted = torch.is_autocast_enabled("cuda")
    if wanted and not _libraries:
        _libraries.append(_add_kernels())
    torch.set_autocast_enabled("cpu", wanted)
    torch.set_autocast_dtype("cpu", torch.get_autocast_dtype("cuda"))
    with_onednn = torch._C._get_mkldnn_enabled()
    if func == torch.lstm:  # oneDNN has it in no float16 on most CPUs
        torch._C._set_mkldnn_enabled(False)
    try:
        return func(*args, **kwargs)
    finally:
        torch._C._set_mkldnn_enabled(with_onednn)
        torch.set_autocast_enabled("cpu", enabled)
        torch.set_autocast_dtype("cpu", dtype)


def _gpu_only() -> Iterator[str]:
    """Names of the operators that autocasting casts on a GPU and not on the CPU."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    for schema in torch._C._jit_get_all_schemas():
        name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        if not schema.name.startswith("aten::") or not torch._C._dispatch_has_kernel(name):
            continue
        if has_kernel(name, "AutocastCUDA") and not has_kernel(name, "AutocastCPU"):
            yield name


def _add_kernels() -> torch.library.Library:
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    for name in sorted(set(_gpu_only())):
        packet, _, overload = name.removeprefix("aten::").partition(".")
        if packet not in _OF_NVIDIA:
            operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
            kernel = _make_kernel(operator, packet)
            library.impl(operator, kernel, "AutocastCPU", with_keyset=True)  # type: ignore[no-untyped-call]
    return library


def _make_kernel(operator: torch._ops.OpOverload[..., object], packet: str) -> Callable[..., object]:
    def run(keys: DispatchKeySet, *args: object, **kwargs: object) -> object:
        with torch._C.DisableTorchFunction():
            casts = torch.is_autocast_enabled("cuda") and any_on_device(args, kwargs)
            if not casts:
                return operator.redispatch(keys & _BEHIND_CASTING, *args, **kwargs)
            with torch._C._ExcludeDispatchKeyGuard(_CASTING):
                if kwargs.get("dtype") is None:
                    dtype = _type_for(packet, (*args, *kwargs.values()))
                    args = tuple(_cast_floats(value, dtype) for value in args)
                    kwargs = {name: _cast_floats(value, dtype) for name, value in kwargs.items()}
                return operator(*args, **kwargs)

    return run


def _type_for(packet: str, values: tuple[object, ...]) -> torch.dtype:
    lower = torch.get_autocast_dtype("cuda")
    if packet in _LOWER:
        return lower
    is_wide = packet not in _WIDEST or any(tensor.dtype == torch.float32 for tensor in tensors_in(values))
    return torch.float32 if is_wide else lower


def _cast_floats(value: object, dtype: torch.dtype) -> object:
    """An argument with its floating-point tensors on the device in a type; float64 stays."""
    if isinstance(value, torch.Tensor):
        is_cast = value.is_floating_point() and value.dtype != torch.float64 and is_on_device(value)
        return value.to(dtype) if is_cast else value
    if isinstance(value, list | tuple):
        return type(value)(_cast_floats(part, dtype) for part in value)
    return value
