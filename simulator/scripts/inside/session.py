"""Runs a script on the virtual device, and says in the result why it failed where that has a name."""

from __future__ import annotations

import atexit
import multiprocessing.popen_spawn_posix
import os
import re
import runpy
import sys
import threading
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from triton.backends.amd import driver
from triton.compiler.errors import CompilationError
from triton.runtime import jit
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import _triton_jit_function_registry

from . import autotuning, benchmark, hip, torch_cuda, trial, triton_driver
from .custom_operators import CustomOperators, activate_operators
from .device_mode import DeviceMode, InvalidDevice, activate_backward
from .mixed_places import refuse_mixed_places
from .placement import Placement, keep_places_of_files
from .tensor_types import activate_types

ONE_PROCESS = "launch kernels in the script's own process; its threads may, too"
FOLDER = str(Path(__file__).resolve().parent)
# What Triton's launching functions themselves raise is of their arguments and grid.
_LAUNCHING_FILES = (jit.__file__, driver.__file__)
_NVIDIA = re.compile(r"inline_asm_elementwise|\bextra\.cuda\b|\blibdevice\b")
_REFUSALS = (TypeError, IndexError, OverflowError)


def activate_device() -> DeviceMode:
    """Makes the virtual device this process's GPU, in all its threads."""
    placement = Placement(refuse_mixed_places)
    mode = DeviceMode(placement)
    torch_cuda.activate_torch()
    triton_driver.activate_triton(placement.report_operators)
    atexit.register(placement.report_operators)
    benchmark.activate_benchmarks()
    autotuning.activate_autotuning()
    activate_backward(mode)
    placement.custom_operators = CustomOperators(mode, placement)
    activate_operators(placement.custom_operators)
    keep_places_of_files()
    activate_types()
    run = threading.Thread.run

    def run_with_device(thread: threading.Thread) -> None:
        with placement, mode:
            run(thread)

    threading.Thread.run = run_with_device  # type: ignore[method-assign,assignment]
    placement.__enter__()  # type: ignore[no-untyped-call]
    mode.__enter__()  # type: ignore[no-untyped-call]
    return mode


def _refuse_launches() -> None:
    """In a forked process, whose threads and results are not the device's."""

    def refuse() -> None:
        raise torch_cuda.UnsupportedOnDevice(f"a forked process has no virtual device: {ONE_PROCESS}")

    triton_driver.Launcher.before_launch = staticmethod(refuse)


def _refuse_processes(*_: object) -> None:
    raise torch_cuda.UnsupportedOnDevice(f"a new Python process would have no virtual device: {ONE_PROCESS}")


def run_script(path: str) -> None:
    """Runs the script. An uncaught error ends the process as Python would, or with its reason in the result."""
    sys.excepthook = report_error
    activate_device()
    os.register_at_fork(after_in_child=_refuse_launches)
    multiprocessing.popen_spawn_posix.Popen._launch = _refuse_processes  # type: ignore[attr-defined]
    trial.activate_trial()
    runpy.run_path(path, run_name="__main__")


def report_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Prints an uncaught error without our own frames, and ends the process if the error has a reason."""
    reason, message = failure_of(error)
    frames = [frame for frame in traceback.extract_tb(trace) if not _is_ours(frame.filename)]
    if not reason:
        sys.stderr.write("".join(["Traceback (most recent call last):\n", *traceback.format_list(frames)]))
        sys.stderr.write("".join(traceback.format_exception_only(kind, error)))
        return
    script = [frame for frame in frames if not _is_library(frame.filename)]
    where = f", called at {script[-1].filename}:{script[-1].lineno}" if script else ""
    sys.stdout.flush()
    hip.library().stop_process(reason, message + where)


def failure_of(error: BaseException) -> tuple[str, str]:
    """(reason, message) of an error that has a reason of ours, else two empty texts."""
    if isinstance(error, SyntaxError):
        return "syntax_error", "".join(traceback.format_exception_only(error)).strip()
    if isinstance(error, triton_driver.LauncherUnusable):
        return "missing", str(error)
    if isinstance(error, triton_driver.UnreachablePointer):
        return "illegal_access", str(error)
    if isinstance(error, CompilationError):
        return "compile_failed", f"Triton cannot compile a kernel{_kernel_line(error)}: {error}"
    if isinstance(error, OutOfResources):
        return "compile_failed", f"a kernel does not fit the device: {error}"
    if isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator: can't allocate memory" in str(error):
        return "out_of_memory", str(error)
    if isinstance(error, ModuleNotFoundError) or (isinstance(error, ImportError) and _is_library(error.path or "")):
        return "needs_library", f"{error}"
    if isinstance(error, InvalidDevice):
        return "needs_devices", str(error)
    if isinstance(error, torch_cuda.UnsupportedOnDevice):
        return "unsupported_service", str(error)
    return _failure_in_triton(error)


def _failure_in_triton(error: BaseException) -> tuple[str, str]:
    """(reason, message) of an error that Triton raises without a type of its own, by the function that raised it."""
    frames = list(traceback.extract_tb(error.__traceback__))
    functions = {frame.name for frame in frames if "triton" in Path(frame.filename).parts}
    text = str(error.args[0]) if error.args else type(error).__name__  # a KeyError's own text has quotes
    kernel = _launched_kernel(error)
    name = kernel.__name__ if kernel else "a kernel"
    if "_do_compile" in functions:
        where = f" ({kernel.file_name}:{kernel.def_file_line_number})" if kernel else ""
        hint = "; PTX and the functions of tl.extra.cuda are NVIDIA's" if kernel and _NVIDIA.search(kernel.src) else ""
        return "compile_failed", f"Triton cannot compile {name}{where}: {type(error).__name__}: {text}{hint}"
    refused_by_triton = isinstance(error, _REFUSALS) and frames and frames[-1].filename in _LAUNCHING_FILES
    if "_pack_args" in functions or refused_by_triton:
        text = text.replace("dynamic_func()", name)  # Triton's wrapper of every kernel
        return "bad_configuration", f"{name} is launched with options, arguments or a grid that it cannot take: {text}"
    return "", ""


def _launched_kernel(error: BaseException) -> Any:
    """The JITFunction whose launch raised the error; None if no launch did."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        launched = frame.f_locals.get("self")
        if isinstance(launched, jit.JITFunction):
            return launched
    return None


def _kernel_line(error: CompilationError) -> str:
    """Where in its file a kernel, or a function that it calls, does not compile."""
    for function in _triton_jit_function_registry.values():
        if function.src == error.src and hasattr(error.node, "lineno"):
            return f" ({function.file_name}:{function.def_file_line_number + error.node.lineno - 1})"
    return ""


def _is_ours(file: str) -> bool:
    return file.startswith((FOLDER, "<frozen runpy>"))


def _is_library(file: str) -> bool:
    return "site-packages" in file or file.startswith((sys.base_prefix, "<"))
