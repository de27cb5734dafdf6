"""The virtual GPU in this process, for Triton kernels in scripts, notebooks and tests: `import hipsynth.triton`.

Nothing is isolated: the code that launches the kernels is the caller's own. `synth profile SCRIPT.py` runs the scripts
of others, in the sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.errors import BadInput, MissingDependency, UsageError
from hipsynth.core.installation import set_up_by
from hipsynth.library.device_profile import DeviceProfile

if TYPE_CHECKING:
    from hipsynth.simulator.channel import Channel
    from hipsynth.simulator.devices import DeviceTable
    from hipsynth.simulator.run_result import RunResult

DEFAULT_DEVICE = "mi300x"


class KernelFailed(BadInput, RuntimeError):
    """A kernel was stopped: it left its tensors, or did not end. A RuntimeError, as PyTorch's on a GPU."""


@dataclass
class _VirtualDevice:
    """The device of this process. `forget_operators`: PyTorch's operators are counted from nothing again;
    `resources`: what ends with the process."""

    table: DeviceTable
    channel: Channel
    resources: ExitStack
    forget_operators: Callable[[], None]
    report_operators: Callable[[], None]
    is_profiling: bool = False


_device: _VirtualDevice | None = None


def activate(device: str = DEFAULT_DEVICE) -> None:
    """Make a virtual GPU this process's `cuda:0`, for Triton and PyTorch; it stays until the process ends.

    `device` is one of `synth doctor`'s, such as "mi300x" or "mi250". Calling it again with the same name does nothing.

    Raises UsageError for an unknown device, or if the process has another one already; MissingDependency if Triton,
    PyTorch or the simulator is not installed.
    """
    global _device
    from hipsynth.simulator.devices import load_device

    table = load_device(device)
    if _device is None:
        _device = _start_device(table)
    elif _device.table.name != device:
        problem = f"the virtual GPU is an {_device.table.title} already, and a process has one"
        raise UsageError(problem, remedy="start another process for the other device")


def is_active() -> bool:
    """Whether activate() has been called."""
    return _device is not None


@contextmanager
def profile(*, exact: bool = True, lines: bool = False) -> Iterator[DeviceProfile]:
    """Count what the kernels do that are launched in the block: `with profile() as p: kernel[grid](...)`.

    It begins with empty caches. `p` is filled in when the block ends, also by an exception. `exact=False` samples
    large grids, which is much faster and computes no results: tensors hold anything afterwards. `lines` attributes the
    counts to source lines.

    Activates the default device if none is. Raises UsageError inside another block.
    """
    from hipsynth.simulator.limits import SAMPLING_UNITS
    from hipsynth.simulator.scripts.inside import hip

    if _device is None:
        activate()
    device = _active_device()
    if device.is_profiling:
        raise UsageError("a profile is being taken already", remedy="end the other `with` block before")
    block_profile = DeviceProfile(device.table, lines)
    device.is_profiling = True
    device.forget_operators()
    hip.library().begin_results(0 if exact else SAMPLING_UNITS, lines)
    try:
        yield block_profile
    finally:
        device.is_profiling = False
        device.report_operators()
        hip.library().publish_results()
        block_profile.fill_in(_read_results(device.channel))
        hip.library().begin_results(0, False)


def _active_device() -> _VirtualDevice:
    assert _device is not None
    return _device


def _read_results(channel: Channel) -> RunResult:
    from hipsynth.simulator.program_results import parse_document
    from hipsynth.simulator.scripts.inside.triton_driver import Launcher

    document = channel.document()
    if document is None:
        remedy = "activate the virtual GPU in the process that launches the kernels"
        raise UsageError("this process was forked from the one that has the virtual GPU", remedy=remedy)
    return replace(parse_document(document), code_objects=tuple(sorted(Launcher.code_objects)))


def _start_device(table: DeviceTable) -> _VirtualDevice:
    from hipsynth import toolchain
    from hipsynth.simulator import api, channel
    from hipsynth.simulator.artefacts import Artefacts
    from hipsynth.simulator.limits import RunLimits
    from hipsynth.simulator.scripts import prepare

    prepare.require_packages()
    environment = prepare.device_environment(prepare.build_launcher())
    program = Artefacts(Path(os.devnull), objdump=toolchain.find_toolchain().objdump)
    settings = channel.encode_configuration(program, table, RunLimits(time_s=0, sampling_units=0), embedded=True)
    resources = ExitStack()
    opened = resources.enter_context(channel.open_channel(settings))
    os.environ |= {**environment, channel.VARIABLE: str(os.dup(opened.fd))}
    try:
        refusal = channel.configuration_refusal(api.library_path(), settings)
    finally:
        os.environ.pop(channel.VARIABLE, None)
    if refusal:
        problem = f"{api.library_path()} does not fit this version of hipsynth"
        raise MissingDependency(problem, cause=refusal, remedy=set_up_by())
    return _attach_device(table, opened, resources)


def _attach_device(table: DeviceTable, opened: Channel, resources: ExitStack) -> _VirtualDevice:
    from hipsynth.simulator.scripts.inside import hip, session, triton_driver

    hip.make_failure = _make_failure
    if not hip.library().memory_start:
        problem = "the HIP runtime library of this process was loaded before the virtual GPU"
        raise MissingDependency(problem, remedy="call activate() at the start of a new process")
    try:
        placement = session.activate_device().placement
    except triton_driver.LauncherUnusable as error:
        raise MissingDependency("no kernel can be launched", cause=str(error), remedy="synth doctor") from None
    triton_driver.keep_code_objects()
    return _VirtualDevice(table, opened, resources, placement.forget_operators, placement.report_operators)


def _make_failure(reason: str, message: str) -> Exception:
    from hipsynth.simulator.errors import reason_of_core

    return KernelFailed(message, reason=reason_of_core(reason))
