"""Operators that mix tensors of the host and the device fail as on a GPU, where they would silently work here."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from .placement import is_on_device, tensors_in

MIXED = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
_Operator = torch._ops.OpOverload[..., object]
# Those that are not of one element at a time, and never move anything between devices.
_STRICT = frozenset((
    "mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "dot", "cat", "stack", "convolution", "embedding", "gather",
    "index_select", "index_add", "index_copy", "scatter", "scatter_add", "scatter_reduce", "where", "allclose",
    "mse_loss", "nll_loss_forward", "native_layer_norm", "native_batch_norm", "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
))  # fmt: skip
_NOT_CHECKED, _READS, _CHANGES_FIRST = range(3)
_kinds: dict[_Operator, int] = {}


def _kind_of(operator: _Operator) -> int:
    if torch.Tag.pointwise not in operator.tags and operator.overloadpacket.__name__.rstrip("_") not in _STRICT:
        return _NOT_CHECKED
    alias = operator._schema.arguments[0].alias_info if operator._schema.arguments else None
    return _CHANGES_FIRST if alias is not None and alias.is_write else _READS


def _is_on_host(tensor: torch.Tensor, *, changes: bool) -> bool:
    """Whether a GPU build would refuse the tensor beside one of the device: numbers that are only read may be there."""
    is_number = not tensor.dim() and not changes
    return not is_number and tensor.is_cpu and tensor.layout == torch.strided and tensor.numel() != 0


def refuse_mixed_places(operator: _Operator, args: Iterable[object], kwargs: dict[str, object]) -> None:
    """Raises RuntimeError, with the words of a GPU build, if it certainly would. Call it where no mode is active."""
    kind = _kinds.get(operator)
    if kind is None:
        kind = _kinds[operator] = _kind_of(operator)
    if kind == _NOT_CHECKED:
        return
    on_device = on_host = False
    changes = kind == _CHANGES_FIRST
    for tensor in tensors_in((*args, *kwargs.values()) if kwargs else args):
        if is_on_device(tensor):
            on_device = True
        elif _is_on_host(tensor, changes=changes):
            on_host = True
        changes = False
    if on_device and on_host:
        raise RuntimeError(MIXED)
