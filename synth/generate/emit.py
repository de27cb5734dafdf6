"""Prints modules as HIP source: kernels from `source`, the rest from the family's template."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import jinja2

from hipsynth.core.kernel_record import Dim
from hipsynth.synth.generate import ir
from hipsynth.synth.generate.extent import Extent, cpp
from hipsynth.synth.generate.headers import FamilyTemplate, ParameterValues, templates_dir
from hipsynth.synth.generate.ir import HostBuffer, Kernel, Module, Style
from hipsynth.synth.generate.kernel_source import (
    extended_types,
    generic_type,
    kernel_source,
    literal,
    packed_struct_name,
)
from hipsynth.synth.generate.oracle import SAMPLES
from hipsynth.synth.generate.types import DType


def launched(kernel: Kernel, style: Style) -> str:
    """A kernel's name where it is launched."""
    generic = generic_type(kernel, style)
    return f"{kernel.name}<{generic.cpp}>" if generic else kernel.name


def launch_arguments(launch: ir.Launch, device: str, style: Style) -> list[str]:
    """The arguments of a launch: device pointers (`device` formats a buffer name), then the values of the scalars."""
    arguments = []
    for buffer in (b for b in launch.kernel.buffers if b.space == "global"):
        pointer = device.format(launch.arguments[buffer.name])
        constant = "const " if buffer.const else ""
        arguments.append(
            pointer if buffer.dtype.lanes == 1 else f"reinterpret_cast<{constant}{buffer.dtype.cpp}*>({pointer})"
        )
    scalars = [cpp(value) for _, value in launch.kernel.scalars]
    if name := packed_struct_name(launch.kernel, style):
        scalars = [f"{name}{{{', '.join(scalars)}}}"]
    return arguments + scalars


def init_expression(host: HostBuffer) -> str:
    """The C++ expression with which the host initialises element i."""
    init = host.init
    if init.kind == "ramp":
        product = "i" if init.mul == 1 else f"i * {init.mul}"
        total = product if init.add == 0 else f"{product} + {init.add}"
        steps = f"{total} % {_init_period(init.mod)}" if total == "i" else f"({total}) % {_init_period(init.mod)}"
    else:
        period = _init_period(init.mod) if isinstance(init.mod, Extent) else f"{init.mod}u"
        steps = f"mix(static_cast<unsigned int>(i) + {init.add}u) % {period}"
    wide = "double" if host.dtype.is_float else host.dtype.cpp
    text = f"static_cast<{wide}>({steps})"
    if init.step != 1:
        text = f"{_plain_number(init.step, host.dtype)} * {text}"
    if init.lo != 0:
        text = f"{_plain_number(init.lo, host.dtype)} + {text}"
    return text if host.dtype.name not in ("f16", "f32") else f"static_cast<{host.dtype.cpp}>({text})"


def _init_period(mod: int) -> str:
    """The number of different values of an initialiser, as an unsigned operand of a remainder."""
    return f"static_cast<unsigned int>({cpp(mod)})" if isinstance(mod, Extent) else str(mod)


def _plain_number(value: float, dtype: DType) -> str:
    return repr(float(value)) if dtype.is_float else f"{int(value)}{dtype.suffix}"


def dynamic_bytes(kernel: Kernel) -> int:
    """Bytes of dynamic LDS that a launch must request."""
    return sum(b.size * b.dtype.bytes for b in kernel.lds if b.dynamic)


def dims(kernel: Kernel, extents: Dim) -> str:
    """The grid or the block of a launch as a `dim3` of as many dimensions as the kernel has."""
    used = [a for a in range(3) if kernel.grid[a] != 1 or kernel.block[a] != 1 or isinstance(kernel.grid[a], Extent)]
    return f"dim3({', '.join(cpp(extent) for extent in extents[: max(used, default=0) + 1])})"


def element_count(buffer: HostBuffer) -> str:
    """A buffer's size as an operand of a product."""
    bare = not isinstance(buffer.size, Extent) or not buffer.size.op
    return cpp(buffer.size) if bare else f"({cpp(buffer.size)})"


def constant_tables(module: Module) -> list[HostBuffer]:
    """The buffers in constant memory."""
    return [host for host in module.buffers if host.constant]


def shared_constants(module: Module) -> list[tuple[str, int]]:
    """The `constexpr int`s (name, value) of all kernels, without duplicates."""
    return list({name: (name, value) for k in module.kernels for name, value in k.constants}.values())


@lru_cache(maxsize=1)
def template_environment() -> jinja2.Environment:
    """The Jinja environment, with the functions that templates may call; an undefined name is an error."""
    loader = jinja2.FileSystemLoader(templates_dir())
    env = jinja2.Environment(
        loader=_TemplateLoader(loader), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True, autoescape=False, auto_reload=False,
    )  # fmt: skip
    for function in (
        kernel_source, launched, launch_arguments, init_expression, dynamic_bytes, shared_constants, constant_tables,
        extended_types,
        literal, cpp, dims, element_count,
    ):  # fmt: skip
        env.globals[function.__name__] = function
    env.globals["sample_count"] = SAMPLES
    env.globals["tile"] = ir.TILE
    return env


class _TemplateLoader(jinja2.BaseLoader):
    """Loads templates and strips their front matter."""

    def __init__(self, inner: jinja2.BaseLoader) -> None:
        self.inner = inner

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> tuple[str, str | None, Callable[[], bool] | None]:
        source, filename, fresh = self.inner.get_source(environment, template)
        return source.split("+++\n", 2)[-1].lstrip("\n"), filename, fresh


def render_program(template: FamilyTemplate, module: Module, params: ParameterValues) -> str:
    """The program's source text, without trailing spaces or repeated blank lines."""
    text = template_environment().get_template(template.path).render(module=module, params=params, style=module.style)
    lines = [line.rstrip() for line in text.split("\n")]
    printed = [line for k, line in enumerate(lines) if line or (k and lines[k - 1])]
    return "\n".join(printed).rstrip("\n") + "\n"
