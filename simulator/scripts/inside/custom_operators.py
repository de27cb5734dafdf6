"""Operators that scripts define (torch.library): their functions see the device as the script does.

PyTorch takes the implementation for CPUs, since the tensors are CPU tensors, and calls it where no mode is active.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
from torch._C import DispatchKey, DispatchKeySet
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from .placement import Placement, any_on_device

_Operator = torch._ops.OpOverload[..., object]
_OF_PYTORCH = frozenset(("aten", "prim", "prims", "quantized", "_quantized"))
_ON_DEVICE = DispatchKeySet(DispatchKey.CUDA)


class CustomOperators:
    """The operators with functions in Python; `mode` and `placement` are the layers that those run with."""

    def __init__(self, mode: TorchFunctionMode, placement: Placement) -> None:
        self.mode = mode
        self.placement = placement
        self.names: set[str] = set()

    def has_operator(self, func: object) -> bool:
        """Whether it is one of them; all of their overloads are."""
        if isinstance(func, torch._ops.OpOverloadPacket):
            return func._qualified_op_name in self.names
        return isinstance(func, torch._ops.OpOverload) and func._schema.name in self.names

    def run_operator(self, func: _Operator, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Runs the implementation for the place where the arguments are. Call it where Placement is not active."""
        with torch._C.DisableTorchFunction():
            on_device = any_on_device(args, kwargs)
        return func.redispatch(_ON_DEVICE, *args, **kwargs) if on_device else func(*args, **kwargs)

    def add_implementation(
        self, library: torch.library.Library, operator: str | _Operator, function: Callable[..., object]
    ) -> Callable[..., object]:
        """The function to register in place of a script's."""
        if library.ns in _OF_PYTORCH or function is torch.library.fallthrough_kernel:
            return function
        name = operator if isinstance(operator, str) else operator._schema.name
        self.names.add(f"{library.ns}::{name.split('::')[-1].split('.')[0]}")

        def run(*args: object, **kwargs: object) -> object:
            answering = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
            has_mode = any(mode is self.mode for mode in answering)
            is_placing = any(mode is self.placement for mode in _get_current_dispatch_mode_stack())
            placing: contextlib.AbstractContextManager[object] = (
                contextlib.nullcontext() if is_placing else self.placement
            )
            before, self.placement.wanted = self.placement.wanted, None
            try:
                with placing, contextlib.nullcontext() if has_mode else self.mode:
                    return function(*args, **kwargs)
            finally:
                self.placement.wanted = before

        return run


def activate_operators(operators: CustomOperators) -> None:
    """Lets all functions that are registered from here on run so."""
    register: Callable[..., None] = torch.library.Library.impl

    def implement(
        library: torch.library.Library,
        op_name: str | _Operator,
        fn: Callable[..., object],
        *args: object,
        **kwargs: object,
    ) -> None:
        register(library, op_name, operators.add_implementation(library, op_name, fn), *args, **kwargs)

    torch.library.Library.impl = implement  # type: ignore[method-assign,assignment]
