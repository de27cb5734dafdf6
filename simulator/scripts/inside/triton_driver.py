"""Triton on the virtual device: its own HIP driver. The result is told what each kernel was specialized for."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
import triton
from triton.backends.amd import driver

from . import hip

LARGEST = 2**63 - 1  # of a number in the result document
TYPES = "argument types"  # a name that no parameter has
OPTIONS = ("num_warps", "num_stages", "num_ctas", "waves_per_eu", "matrix_instr_nonkdim", "kpack")


class LauncherUnusable(RuntimeError):
    """Triton's launcher module cannot be loaded, whatever the script is."""


class UnreachablePointer(ValueError):
    """A launch has a pointer that is no device memory."""


class Launcher(driver.HIPLauncher):  # type: ignore[misc]
    """Launches one compiled kernel."""

    launches = 0  # of all kernels
    before_launch: Callable[[], None] = staticmethod(lambda: None)
    # Of a kernel's name, its arguments and what launches it.
    watch_launch: Callable[[str, Sequence[object], Callable[[], None]], None] = staticmethod(
        lambda kernel, arguments, launch: launch()
    )
    code_objects: ClassVar[set[bytes]] = set()  # that were loaded, where they are kept
    # Names and arguments, without constexpr ones, of the launches in a benchmark; None outside of benchmarks.
    problems: ClassVar[list[tuple[object, ...]] | None] = None

    def __init__(self, src: Any, metadata: Any) -> None:
        super().__init__(src, metadata)
        members = {"language": "triton", "meta": kernel_meta(src, metadata)}
        self._name = str(getattr(metadata, "name", ""))
        self._parameters = tuple(str(name) for name in src.signature)
        self._constant = tuple(kind == "constexpr" for kind in src.signature.values())
        self._members: str | None = json.dumps(members, sort_keys=True)[1:-1] + ", "

    def __call__(self, grid_x: int, grid_y: int, grid_z: int, stream: int, function: int, *args: object) -> None:
        if self._members is not None:
            hip.library().describe_kernel(function, self._members)
            self._members = None
        Launcher.before_launch()
        Launcher.launches += 1
        if Launcher.problems is not None:
            Launcher.problems.append((self._name, *self._describe_problem(args)))
        if grid_x * grid_y * grid_z > 0:  # an empty grid launches nothing, as on the device
            launch = functools.partial(self._launch_kernel, grid_x, grid_y, grid_z, stream, function, *args)
            Launcher.watch_launch(self._name, args, launch)

    def _launch_kernel(self, *args: object) -> None:
        try:
            super().__call__(*args)
        except (RuntimeError, SystemError):  # Triton's launcher goes on with its error set
            failure = hip.library().take_failure()
            if failure is None:
                raise
            raise failure from None
        except ValueError as error:
            problem = self._describe_pointer(args[-len(self._parameters) :])
            raise (UnreachablePointer(problem) if problem else error) from None

    def _describe_problem(self, args: Sequence[Any]) -> list[object]:
        """The arguments that are not constants of the build: addresses of tensors, and plain values."""
        values = args[len(args) - len(self._parameters) :]
        with torch._C.DisableTorchFunction():
            return [
                int(value.data_ptr()) if hasattr(value, "data_ptr") else repr(value)
                for value, is_constant in zip(values, self._constant, strict=False)
                if not is_constant
            ]

    def _describe_pointer(self, arguments: Sequence[Any]) -> str:
        """Which argument of a launch points elsewhere than to device memory, and where to; "" if none does."""
        device = hip.library()
        for name, argument in zip(self._parameters, arguments, strict=False):
            if not hasattr(argument, "data_ptr"):
                continue
            with torch._C.DisableTorchFunction():
                address = int(argument.data_ptr())
            if address and not device.has_allocated(address):
                is_on_device = device.memory_start <= address < device.memory_end
                place = (
                    "device memory that was freed" if is_on_device else "host memory (tensor.cuda() is on the device)"
                )
                return f"argument {name} of kernel {self._name} is at {address:#x}, in {place}"
        return ""


def kernel_meta(src: Any, metadata: Any) -> dict[str, bool | int | str]:
    """What a build of a kernel was specialized for: the types of its arguments, as TYPES, the values of its constexpr
    parameters, and its compile options."""
    types = [str(kind) for kind in getattr(src, "signature", {}).values() if kind != "constexpr"]
    meta: dict[str, bool | int | str] = {TYPES: " ".join(types)} if types else {}
    for path, value in getattr(src, "constants", {}).items():
        parameter = src.fn.params[path[0]] if isinstance(path, tuple) else None
        if parameter is not None and parameter.is_constexpr:
            meta[parameter.name] = plain_value(value)
    for name in OPTIONS:
        if hasattr(metadata, name):
            meta[name] = plain_value(getattr(metadata, name))
    return meta


def plain_value(value: object) -> bool | int | str:
    """A parameter as the result has it: other values than small numbers and truths as text."""
    if isinstance(value, bool) or (isinstance(value, int) and 0 <= value <= LARGEST):
        return value
    return str(getattr(value, "__name__", value))


def activate_triton(before_launch: Callable[[], None]) -> None:
    """Makes Triton's HIP driver the active one, with the launcher module that was built beforehand. Raises
    LauncherUnusable."""
    Launcher.before_launch = staticmethod(before_launch)
    built = os.environ["HIPSYNTH_TRITON_LAUNCHER"]
    triton.knobs.build.impl = lambda name, *_: built
    try:
        active = driver.HIPDriver()
    except (RuntimeError, ImportError, OSError) as error:
        raise LauncherUnusable(f"Triton's launcher module {built} cannot be loaded: {error}") from error
    active.launcher_cls = Launcher
    triton.runtime.driver.set_active(active)
    triton.runtime.driver._default = active


def keep_code_objects() -> None:
    """From here on, keeps the code objects that are loaded, in Launcher.code_objects."""
    utils = triton.runtime.driver.active.utils
    load_binary = utils.load_binary

    def keep_and_load(name: str, binary: bytes, *rest: object) -> object:
        Launcher.code_objects.add(binary)
        return load_binary(name, binary, *rest)

    utils.load_binary = keep_and_load
