"""Previews of the launches of a program text, for an architecture, flags and a device."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hipsynth.core.errors import BadInput, TimeLimitReached
from hipsynth.core.program import text_id
from hipsynth.core.scratch import scratch_folder
from hipsynth.core.time_limit import OutOfTime
from hipsynth.profiling.preview.host import host_launches
from hipsynth.profiling.preview.interpret import MOST_SWAY, Code, Interpreter, Preview
from hipsynth.profiling.preview.launching import HostLaunch
from hipsynth.simulator.devices import DeviceTable, load_device
from hipsynth.simulator.errors import SimError
from hipsynth.source.arguments import stated_arguments
from hipsynth.toolchain import CompileLimits, compile_device

INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b", re.MULTILINE)
FRAGMENT = "#include <hip/hip_runtime.h>\n#line 1\n"
MOST_PREVIEWS = 32  # launches of a program
ENOUGH = 2  # launches of one kernel and shape that tell how much unknown data matter to it


@dataclass(frozen=True)
class Failure:
    """Why a launch, or the whole program (`kernel` is empty), has no preview."""

    kernel: str
    reason: str
    code: str  # a typed reason: unknown_argument, unknown_shape, or that of an error


@dataclass(frozen=True)
class Found:
    previews: list[Preview]
    failures: list[Failure]


def device_code(text: str, arch: str, flags: str, limits: CompileLimits | None = None) -> Code:
    """Compiles the device code of a program in the sandbox, or takes it from the build cache; a fragment without any
    #include gets HIP's header. Raises CompileFailed, and BadInput without a kernel."""
    with scratch_folder() as scratch:
        path = scratch / f"{text_id(text)}.hip"
        path.write_text(text if INCLUDE.search(text) else FRAGMENT + text)
        return code_of(path, arch, flags, scratch / "out", limits)


def code_of(path: Path, arch: str, flags: str, out: Path, limits: CompileLimits | None = None) -> Code:
    build = compile_device(path, arch, flags, out, limits=limits)
    return Code(build.code_object.read_bytes(), build.disassembly.read_text())


def properties(table: DeviceTable) -> dict[str, int]:
    """What a program can ask the device and size its launches by."""
    cus = int(table["topology.cus"])
    names = {"warpSize": 64, "multiProcessorCount": cus, "maxThreadsPerBlock": 1024, "sharedMemPerBlock": 65536}
    return names | {"maxThreadsPerMultiProcessor": 2048}


def previews(text: str, code: Code, device: str, arguments: Sequence[str] = ()) -> Found:
    """Interprets the launches that the host code of `text` makes when it is run with `arguments`; without any, with
    those that the text states."""
    launches, shapeless = host_launches(text, arguments or stated_arguments(text), properties(load_device(device)))
    return interpret_all(launches, Interpreter(code, load_device(device)), shapeless)


def interpret_all(launches: Sequence[HostLaunch], interpreter: Interpreter, shapeless: Sequence[str] = ()) -> Found:
    """A preview, or the reason why there is none, of each launch; of those after a limit of time was reached, the
    reason is that. `shapeless`: kernels that are also launched in shapes that nobody knows before the program runs."""
    found: list[Preview] = []
    failures: list[Failure] = []
    alike: dict[tuple[Any, ...], list[float]] = {}
    todo = list(launches[:MOST_PREVIEWS])
    while todo:
        sways = alike.setdefault(todo[0].shape, [])
        try:
            one = interpret(interpreter, todo[0], max(sways) if len(sways) == ENOUGH else None)
        except OutOfTime:
            failures += [out_of_time(launch.kernel) for launch in todo]
            break
        launch = todo.pop(0)
        if isinstance(one, Failure):
            failures.append(one)
            continue
        if len(sways) < ENOUGH:
            sways.append(one.sway)
        found.append(replace(one, sway=MOST_SWAY) if launch.kernel in shapeless else one)
    failures += [
        Failure(name, "its launch shape is not known before the program runs", "unknown_shape")
        for name in dict.fromkeys(shapeless)
    ]
    return Found(found, failures)


def interpret(interpreter: Interpreter, launch: HostLaunch, sway: float | None = None) -> Preview | Failure:
    """The preview of a launch, or why it has none; `sway` as Interpreter.preview() takes it."""
    try:
        return interpreter.preview(launch, sway) or unknown_argument(launch.kernel)
    except BadInput as error:
        return no_interpretation(launch.kernel, error)


def unknown_argument(kernel: str) -> Failure:
    return Failure(kernel, "an argument is not known before the program runs", "unknown_argument")


def no_interpretation(kernel: str, error: BadInput) -> Failure:
    """Why a launch has no preview, from the error that its interpretation raised."""
    words = f"its code cannot be interpreted ({error.reason})" if isinstance(error, SimError) else error.what
    return Failure(kernel, words, error.reason)


def out_of_time(kernel: str) -> Failure:
    return Failure(kernel, "the limit of time was reached before its turn", TimeLimitReached.reason)
