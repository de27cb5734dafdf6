"""The inputs of a model besides the source, and the form of its answers: the recipe's part for prompts and decoding."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache

from hipsynth.core.errors import BadInput, UsageError
from hipsynth.profiling.preview.interpret import BUFFER, Interpreter, explicit_arguments
from hipsynth.profiling.preview.launch import DeviceLaunch, parameter_types, unpacked_number
from hipsynth.profiling.preview.programs import device_code, find_launches
from hipsynth.simulator.devices import default_device, load_device
from hipsynth.simulator.native_core import KernelDescriptor
from hipsynth.training.data.number_formats import number_format

ANY_TARGET = "any"  # stands for architecture and flags where a model must not read them
LARGE = 1000  # from which an argument is shown as a magnitude
MOST_LAUNCHES = 6  # shown in a prompt


@dataclass(frozen=True)
class PromptOptions:
    """`targets`: the question names architecture and flags. `launches`: it lists the launches that the host code makes.
    `auxiliary`: the answer says the facts of data.auxiliary first. `parallel`: values of a stage are decoded at once
    (each sees the question, the stages before and its own key)."""

    targets: bool = True
    launches: bool = False
    auxiliary: bool = False
    parallel: bool = False

    @classmethod
    def of(cls, record: Mapping[str, object]) -> PromptOptions:
        """The options in a recipe's or a model's table of settings; absent ones have their defaults."""
        return cls(**{f.name: bool(record[f.name]) for f in fields(cls) if f.name in record})


@lru_cache(maxsize=65536)
def launch_lines(source: str, arch: str) -> str:
    """The launches of a program as comment lines, for example "// launch axpy grid 4096 1 1 +3410 block 256 1 1 +2256
    items +6105 arguments +6105, +6419 bytes". Products and large numbers are in the form "exp3" of answers
    (data.numbers), so that a small model can copy them.

    Runs the program's host code in the sandbox. "" where it does not compile or launches nothing.
    """
    try:
        interpreter = Interpreter(device_code(source, arch, "-O3"), load_device(default_device(arch)))
        launches = find_launches(source, interpreter).launches
    except (BadInput, UsageError):
        return ""
    return "".join(_launch_line(launch, interpreter.kernel_of(launch)) for launch in launches[:MOST_LAUNCHES])


def _launch_line(launch: DeviceLaunch, kernel: KernelDescriptor | None) -> str:
    groups, size = math.prod(launch.grid), math.prod(launch.block)
    grid, block = (" ".join(map(str, shape)) for shape in (launch.grid, launch.block))
    numbers = [_format_magnitude(count) for count in (groups, size, groups * size)]
    shape = f"grid {grid} {numbers[0]} block {block} {numbers[1]} items {numbers[2]}"
    arguments = ", ".join(_format_arguments(launch, kernel)) if kernel is not None else ""
    return f"// launch {launch.kernel} {shape}{f' arguments {arguments}' if arguments else ''}\n"


def _format_magnitude(value: float) -> str:
    return number_format("exp3").written(value)


def _format_arguments(launch: DeviceLaunch, kernel: KernelDescriptor) -> Iterator[str]:
    explicit, types = explicit_arguments(kernel), parameter_types(launch.signature)
    for i, (offset, size, kind) in enumerate(explicit):
        data = launch.arguments[offset : offset + size]
        if kind == BUFFER:
            buffer = launch.buffer_at(int.from_bytes(data, "little"))
            yield f"{_format_magnitude(buffer.bytes)} bytes" if buffer else "buffer"
        else:
            yield _number(unpacked_number(data, types[i] if i < len(types) else ""))


def _number(value: float | None) -> str:
    if value is None:
        return "?"
    return _format_magnitude(value) if isinstance(value, int) and value >= LARGE else f"{value}"
