"""PyTorch's old names of types, which also say where a tensor is: torch.cuda.FloatTensor."""

from __future__ import annotations

import torch

_NAMES = "Bool Byte Char Short Int Long Half BFloat16 Float Double"


def type_name(host_name: str, *, on_device: bool) -> str:
    """What Tensor.type() answers, from the answer for the host: torch.FloatTensor, torch.sparse.FloatTensor."""
    return host_name.replace("torch.", "torch.cuda.", 1) if on_device else host_name


def read_type(wanted: torch.dtype | str | type) -> tuple[torch.dtype, str | None]:
    """The type that Tensor.type(wanted) asks for, and the place if it names one: a dtype has none."""
    if isinstance(wanted, torch.dtype):
        return wanted, None
    name = wanted if isinstance(wanted, str) else f"{wanted.__module__}.{wanted.__name__}"
    folder, _, kind = name.rpartition(".")
    if folder not in ("torch", "torch.cuda") or kind.removesuffix("Tensor") not in _NAMES.split():
        raise ValueError(f"invalid type: '{name}'")
    return getattr(torch, kind).dtype, "cuda" if folder == "torch.cuda" else "cpu"


class _DeviceType(type):
    """A class whose instances are the device's tensors of one type."""

    dtype: torch.dtype
    is_cuda = True

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch.Tensor) and value.is_cuda and value.dtype == cls.dtype

    def __call__(cls, *args: object, **kwargs: object) -> torch.Tensor:
        tensor: torch.Tensor = getattr(torch, cls.__name__)(*args, **kwargs).cuda()
        return tensor


def activate_types() -> None:
    """Puts classes of the virtual device in the place of PyTorch's, which a CPU build cannot use."""
    for name in _NAMES.split():
        kind = f"{name}Tensor"
        members = {"__module__": "torch.cuda", "dtype": getattr(torch, kind).dtype}
        setattr(torch.cuda, kind, _DeviceType(kind, (), members))
