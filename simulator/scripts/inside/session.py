"""Runs a script on the virtual device, and says in the result why it failed where that has a name."""

from __future__ import annotations

import atexit
import multiprocessing.popen_spawn_posix
import os
import runpy
import sys
import threading
import traceback
from pathlib import Path
from types import TracebackType

import torch
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import _triton_jit_function_registry

from . import autotuning, benchmark, hip, torch_cuda, trial, triton_driver
from .device_mode import DeviceMode, activate_backward
from .placement import Placement, keep_places_of_files

ONE_PROCESS = "launch kernels in the script's own process; its threads may, too"
FOLDER = str(Path(__file__).resolve().parent)


def activate_device() -> DeviceMode:
    """Makes the virtual device this process's GPU, in all its threads."""
    placement = Placement()
    mode = DeviceMode(placement)
    torch_cuda.activate_torch()
    triton_driver.activate_triton(placement.report_operators)
    atexit.register(placement.report_operators)
    benchmark.activate_benchmarks()
    autotuning.activate_autotuning()
    activate_backward(mode)
    keep_places_of_files()
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
        lines = traceback.format_list(frames)
        sys.stderr.write("".join(["Traceback (most recent call last):\n", *lines]))
        sys.stderr.write("".join(traceback.format_exception_only(kind, error)))
        return
    script = [frame for frame in frames if not _is_library(frame.filename)]
    where = f", called at {script[-1].filename}:{script[-1].lineno}" if script else ""
    sys.stdout.flush()
    hip.library().stop_process(reason, message + where)


def failure_of(error: BaseException) -> tuple[str, str]:
    """(reason, message) of an error that has a reason of ours, else two empty texts."""
    if isinstance(error, CompilationError):
        return "compile_failed", f"Triton cannot compile a kernel{_kernel_line(error)}: {error}"
    if isinstance(error, OutOfResources):
        return "compile_failed", f"a kernel does not fit the device: {error}"
    if isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator: can't allocate memory" in str(error):
        return "out_of_memory", str(error)
    if isinstance(error, ModuleNotFoundError):
        return "needs_library", f"{error}"
    if isinstance(error, torch_cuda.UnsupportedOnDevice):
        return "unsupported_service", str(error)
    return _failure_in_triton(error)


def _failure_in_triton(error: BaseException) -> tuple[str, str]:
    """(reason, message) of an error that Triton raises without a type of its own, by the function that raised it."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "triton" in Path(frame.filename).parts]
    functions = {frame.name for frame in frames}
    text = str(error.args[0]) if error.args else type(error).__name__  # a KeyError's own text has quotes
    if "_pack_args" in functions:
        return "bad_configuration", f"a launch has options or arguments that Triton does not take: {text}"
    if "_do_compile" in functions:
        return "compile_failed", f"Triton's compiler fails: {type(error).__name__}: {text}"
    if "cannot be accessed from Triton" in text:
        return "illegal_access", f"a kernel gets a tensor that is not on the device (tensor.cuda() is): {text}"
    return "", ""


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
