"""Writes a generated program again, as a Python script with Triton kernels: the same kernels, sizes and data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from hipsynth.core.program import Program
from hipsynth.source.arguments import with_defaults
from hipsynth.synth.generate import ir
from hipsynth.synth.generate.build import build_module
from hipsynth.synth.generate.choices import Choices
from hipsynth.synth.generate.extent import Extent
from hipsynth.synth.generate.ir import HostBuffer, Module
from hipsynth.synth.generate.oracle import SAMPLES
from hipsynth.synth.generate.triton_kernel import TYPES, python_name, triton_kernel
from hipsynth.synth.generate.triton_product import BLOCKS, triton_product
from hipsynth.synth.generate.types import IRError

DERIVATION = "triton"  # in Program.derivation
_OPERATORS = {"*": "*", "+": "+", "-": "-", "/": "//"}
_HELPERS = '''
def mix(x):
    """A hash of 32 bits."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


'''
_DEVICE_BUFFER = '''
def device_buffer(tile, n):
    """A tensor of n elements that repeat those of `tile`."""
    tile = torch.from_numpy(tile)
    tensor = torch.empty(n, dtype=tile.dtype, device="cuda")
    whole = n // len(tile) * len(tile)
    tensor[:whole].view(-1, len(tile)).copy_(tile)
    tensor[whole:].copy_(tile[: n - whole])
    return tensor


def show(name, tensor):
    """Prints a checksum and some elements."""
    values = tensor.cpu().numpy()
    wide = np.float64 if values.dtype.kind == "f" else np.uint64
    total = sum(k * values[k - 1 :: 7].sum(dtype=wide).item() for k in range(1, 8))
    print(name, "checksum", f"{total:.9g}" if wide is np.float64 else total % (1 << 64))
    for i in sorted({(len(values) - 1) * k // (SAMPLES - 1) for k in range(SAMPLES)}):
        print(name, i, f"{values[i]:.9g}" if wide is np.float64 else values[i])


'''


def triton_program(program: Program) -> Program:
    """The same program in Triton, with its runs; its lineage is the HIP program. Raises IRError if Triton cannot
    express it."""
    module = build_module(program.family, Choices(replay=program.choices))[1]
    text = script_text(module)
    for run in program.runs:
        other = build_module(program.family, Choices(replay=program.choices), sizes=run.params)[1]
        if script_text(other) != with_defaults(text, run.arguments):
            raise IRError("the script depends on the problem size")
    lineage = program.lineage or program.id
    name = f"{program.name}_triton"
    return replace(program, text=text, name=name, lineage=lineage, derivation=(*program.derivation, DERIVATION))


def script_text(module: Module) -> str:
    """A module as a Python script. Raises IRError if Triton cannot express it."""
    kernels = [triton_product(kernel) if kernel.product else triton_kernel(kernel) for kernel in module.kernels]
    constants = {name: value for kernel in module.kernels for name, value in kernel.constants}
    lines = [
        "import sys",
        "",
        "import numpy as np",
        "import torch",
        "import triton",
        "import triton.language as tl",
        "",
    ]
    lines += [f"{python_name(name)} = tl.constexpr({value})" for name, value in constants.items()]
    parts = ["\n".join(lines), *kernels]
    helpers = _DEVICE_BUFFER.replace("SAMPLES", str(SAMPLES)).strip("\n")
    if any(buffer.init.kind == "hash" for buffer in module.buffers):
        helpers = f"{_HELPERS.strip()}\n\n\n{helpers}"
    return "\n\n".join([*parts, helpers, "\n" + "\n".join(_host_lines(module))]) + "\n"


def _host_lines(module: Module) -> Iterator[str]:
    """The sizes, buffers, launches and outputs of a program."""
    for position, size in enumerate(module.arguments, 1):
        yield (f"{python_name(size.name)} = int(sys.argv[{position}]) if len(sys.argv) > {position} else {int(size)}")
    for host in module.buffers:
        yield f"{_device_name(host.name)} = {_fill_expression(host, module.tiled)}"
    launches = list(_launch_lines(module))
    if module.repeat > 1:
        yield f"for _ in range({module.repeat}):"
        launches = [f"    {line}" for line in launches]
    yield from launches
    yield "torch.cuda.synchronize()"
    for host in module.outputs:
        part = f"[:{ir.TILE}]" if module.tiled else ""
        yield f'show("{host.name}", {_device_name(host.name)}{part})'


def _launch_lines(module: Module) -> Iterator[str]:
    for launch in module.launches:
        kernel, product = launch.kernel, launch.kernel.product
        items = math.prod(kernel.block)
        grid = ", ".join(python_size(extent) for extent in kernel.grid)
        arguments = [_device_name(launch.arguments[buffer.name]) for buffer in kernel.buffers]
        arguments += [python_size(value) for _, value in kernel.scalars]
        options = f"BLOCK={items}, num_warps={items // 64}"
        if product is not None:
            rows, columns, _ = map(python_size, product.sizes)
            grid = f"triton.cdiv({columns}, {product.blocks[1]}), triton.cdiv({rows}, {product.blocks[0]})"
            arguments.append(rows)
            sizes = (f"{name}={size}" for name, size in zip(BLOCKS, product.blocks, strict=True))
            options = f"{', '.join(sizes)}, num_warps={product.warps}"
        yield f"{python_name(kernel.name)}[({grid})]({', '.join([*arguments, options])})"


def _device_name(name: str) -> str:
    return f"d_{name}"


def _fill_expression(host: HostBuffer, tiled: bool) -> str:
    """The tensor of a buffer with its initial contents."""
    init, size = host.init, python_size(host.size)
    if host.dtype not in TYPES:
        raise IRError(f"{host.name}: not in Triton: {host.dtype.cpp}")
    kind = TYPES[host.dtype]
    if init.kind in ("zero", "constant"):
        return f'torch.full(({size},), {init.lo!r}, dtype=torch.{kind}, device="cuda")'
    count = f"min({size}, {ir.TILE})" if tiled else size
    if init.kind == "ramp":
        steps = f"(np.arange({count}, dtype=np.uint64) * {init.mul} + {init.add}) % {python_size(init.mod)}"
    else:
        steps = f"mix(np.arange({count}, dtype=np.uint32) + np.uint32({init.add})) % np.uint32({python_size(init.mod)})"
    wide = "np.float64" if host.dtype.is_float else "np.int64"
    lo, step = (repr(float(x)) if host.dtype.is_float else str(int(x)) for x in (init.lo, init.step))
    values = f"({lo} + {step} * ({steps}).astype({wide})).astype(np.{kind})"
    return f"device_buffer({values}, {size})"


def python_size(value: int, level: int = 0) -> str:
    """The expression of a size in Python, or the number."""
    if not isinstance(value, Extent):
        return str(int(value))
    if not value.op:
        return python_name(value.name)
    left, right = python_size(value.left, 1), python_size(value.right, 1)
    if value.op == "max":
        return f"max({left}, {right})"
    text = f"{left} {_OPERATORS[value.op]} {right}"
    return f"({text})" if level else text
