"""Prints modules as HIP source: kernel bodies from the typed language, the rest from the family's template."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jinja2

from hipsynth.synth.generate import ir
from hipsynth.synth.generate.extent import Extent, cpp
from hipsynth.synth.generate.headers import Template, templates_dir
from hipsynth.synth.generate.ir import Buffer, Expr, HostBuffer, Kernel, Module, Statement
from hipsynth.synth.generate.ops import ATOM, OPS, ORDER, SYMMETRIC, UNARY
from hipsynth.synth.generate.oracle import SAMPLES
from hipsynth.synth.generate.types import BOOL, EXTENDED, DType

INVERSE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
UNROLL = {0: [], 1: ["#pragma unroll"]}


def literal(value: float, dtype: DType) -> str:
    """A C++ literal of exactly this value and type."""
    if not dtype.is_float:
        return f"{int(value)}{dtype.suffix}"
    text = repr(float(value)) + dtype.suffix
    return f"static_cast<{dtype.cpp}>({text})" if dtype.name == "f16" else text


def expression(e: Expr, outer: int = 0, right: bool = False) -> str:
    """C++ text of a value. `outer` is the precedence of the surrounding operator, `right` whether the value is its
    right operand; parentheses are added if that operator binds tighter (or equally, on its right)."""
    text, precedence = _expression(e)
    tight = precedence < outer or (precedence == outer and right)
    return f"({text})" if tight else text


def _expression(e: Expr) -> tuple[str, int]:
    if e.op in SPECIAL:
        return SPECIAL[e.op](e)
    op = OPS[e.op]
    form = op.text(e.args[-1].dtype)
    if op.precedence == ATOM and not form.startswith("("):
        return form.format(*(expression(a) for a in e.args)), ATOM
    if op.precedence == ATOM:
        return form.format(*(expression(a, UNARY) for a in e.args)), ATOM
    parts = [expression(a, _inner(op.precedence, a), _strict(e, a, k)) for k, a in enumerate(e.args)]
    return form.format(*parts), op.precedence


def _inner(precedence: int, argument: Expr) -> int:
    """The precedence to print an operand with: mixed bitwise and shift operators get explicit parentheses, as compilers
    recommend (-Wparentheses)."""
    mixed = argument.op in OPS and OPS[argument.op].precedence != precedence and precedence < ATOM
    bitwise = argument.op in ("and", "or", "xor", "shl", "shr") or precedence in range(3, 9)
    return UNARY if mixed and bitwise and precedence != ORDER else precedence


def _strict(e: Expr, argument: Expr, position: int) -> bool:
    return position > 0 and not (e.op in SYMMETRIC and argument.op == e.op)


def _element(buffer: Buffer, index: tuple[Expr, ...]) -> str:
    return buffer.name + "".join(f"[{expression(x)}]" for x in index)


def _const(e: Expr) -> tuple[str, int]:
    return literal(e.attr, e.dtype), ATOM if e.attr >= 0 else UNARY


def _shuffle(e: Expr) -> tuple[str, int]:
    return f"__shfl_{e.attr}({expression(e.args[0])}, {expression(e.args[1])})", ATOM


def _pack(e: Expr) -> tuple[str, int]:
    if e.dtype in EXTENDED:
        if all(a.op == "const" and a.attr == 0 for a in e.args):
            return "{}", ATOM
        return "{" + ", ".join(expression(a) for a in e.args) + "}", ATOM
    return f"make_{e.dtype.cpp}({', '.join(expression(a) for a in e.args)})", ATOM


def _component(e: Expr) -> str:
    return f"[{e.attr}]" if e.args[0].dtype.lanes > 4 else f".{'xyzw'[e.attr]}"


SPECIAL: dict[str, Callable[[Expr], tuple[str, int]]] = {
    "const": _const,
    "name": lambda e: (e.attr[0], ATOM),
    "size": lambda e: (e.attr.name, ATOM),
    "builtin": lambda e: (e.attr, ATOM),
    "inside": lambda e: _expression(e.args[0]),
    "load": lambda e: (_element(e.attr, e.args), ATOM),
    "cast": lambda e: (f"static_cast<{e.dtype.cpp}>({expression(e.args[0])})", ATOM),
    "part": lambda e: (expression(e.args[0], ATOM) + _component(e), ATOM),
    "pack": _pack,
    "shuffle": _shuffle,
}


class Printer:
    """Prints the statements of one kernel as indented lines."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.lines: list[str] = []
        self.depth = 1

    def put(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def block(self, statements: Any) -> None:
        for statement in statements:
            PRINT[type(statement)](self, statement)

    def nested(self, statements: list[Statement]) -> None:
        self.depth += 1
        self.block(statements)
        self.depth -= 1

    def let(self, s: ir.Let) -> None:
        # `auto` would deduce another type.
        exact = s.value.raw or s.target.dtype in EXTENDED or s.value.op in ("const", "builtin", "cast")
        spelled = s.target.dtype.cpp if exact or not self.kernel.auto else "auto"
        spelled = spelled if s.mutable or self.kernel.auto else f"const {spelled}"
        self.put(f"{spelled} {s.target.attr[0]} = {expression(s.value)};")

    def assign(self, s: ir.Assign) -> None:
        self.put(f"{s.target.attr[0]} {s.compound}= {expression(s.value)};")

    def store(self, s: ir.Store) -> None:
        self.put(f"{_element(s.buffer, s.index)} = {expression(s.value)};")

    def atomic(self, s: ir.Atomic) -> None:
        name = "atomic" + s.op.capitalize()
        self.put(f"{name}(&{_element(s.buffer, s.index)}, {expression(s.value)});")

    def matrix_fma(self, s: ir.MatrixFma) -> None:
        name = s.target.attr[0]
        self.put(f"{name} = {s.matrix.builtin}({expression(s.left)}, {expression(s.right)}, {name}, 0, 0, 0);")

    def branch(self, s: ir.If) -> None:
        if s.early:
            self.put(f"if ({inverse(s.condition)}) return;")
            self.block(s.then)
            return
        self.put(f"if ({expression(s.condition)}) {{")
        self.nested(s.then)
        if s.otherwise:
            self.put("} else {")
            self.nested(s.otherwise)
        self.put("}")

    def loop(self, s: ir.For) -> None:
        for line in UNROLL.get(s.unroll, [f"#pragma unroll {s.unroll}"]):
            self.put(line)
        name = s.var.attr[0]
        step = f"{name} += {expression(s.step)}"
        if s.kind == "up" and s.step.op == "const" and s.step.attr == 1:
            step = f"++{name}"
        test = f"{name} < {expression(s.stop, ORDER, True)}"
        if s.kind == "halve":
            test, step = f"{name} > 0", f"{name} >>= 1"
        elif s.kind == "double":
            step = f"{name} <<= 1"
        self.put(f"for (int {name} = {expression(s.start)}; {test}; {step}) {{")
        self.nested(s.body)
        self.put("}")

    def leave(self, s: ir.Break) -> None:
        self.put(f"if ({expression(s.condition)}) break;")

    def barrier(self, s: ir.Barrier) -> None:
        self.put("__syncthreads();")


PRINT: dict[Any, Any] = {
    ir.Let: Printer.let, ir.Assign: Printer.assign, ir.Store: Printer.store, ir.Atomic: Printer.atomic,
    ir.If: Printer.branch, ir.For: Printer.loop, ir.Barrier: Printer.barrier, ir.MatrixFma: Printer.matrix_fma,
    ir.Break: Printer.leave,
}  # fmt: skip


def inverse(condition: Expr) -> str:
    """C++ text of the negated condition."""
    if condition.op in INVERSE:
        return expression(ir.Expr(INVERSE[condition.op], BOOL, condition.args))
    return "!" + expression(condition, UNARY)


def kernel_body(kernel: Kernel) -> str:
    """LDS declarations and statements of a kernel."""
    printer = Printer(kernel)
    for tile in kernel.lds:
        dims = "[]" if tile.dynamic else "".join(f"[{extent}]" for extent in tile.shape)
        printer.put(f"{'extern ' if tile.dynamic else ''}__shared__ {tile.dtype.cpp} {tile.name}{dims};")
    for array in kernel.private:
        printer.put(f"{array.dtype.cpp} {array.name}[{array.size}];")
    printer.block(kernel.body)
    return "\n".join(printer.lines)


def signature(kernel: Kernel) -> str:
    """`__global__ void name(parameters)`."""
    parameters = [
        f"{'const ' if b.const else ''}{b.dtype.cpp}*{' __restrict__' if b.restrict else ''} {b.name}"
        for b in kernel.buffers
        if b.space == "global"
    ]
    parameters += [f"int {name}" for name, _ in kernel.scalars]
    bounds = f" __launch_bounds__({math.prod(kernel.block)})" if kernel.launch_bounds else ""
    head = f"__global__ void{bounds} {kernel.name}("
    line = head + ", ".join(parameters) + ")"
    return line if len(line) <= 118 else head + (",\n" + " " * len(head)).join(parameters) + ")"


def launch_arguments(launch: ir.Launch, device: str) -> list[str]:
    """The arguments of a launch: device pointers (`device` formats a buffer name), then the values of the scalars."""
    arguments = []
    for buffer in (b for b in launch.kernel.buffers if b.space == "global"):
        pointer = device.format(launch.arguments[buffer.name])
        constant = "const " if buffer.const else ""
        arguments.append(
            pointer if buffer.dtype.lanes == 1 else f"reinterpret_cast<{constant}{buffer.dtype.cpp}*>({pointer})"
        )
    return arguments + [cpp(value) for _, value in launch.kernel.scalars]


def init_expression(host: HostBuffer) -> str:
    """The C++ expression with which the host initialises element i."""
    init = host.init
    if init.kind == "ramp":
        product = "i" if init.mul == 1 else f"i * {init.mul}"
        total = product if init.add == 0 else f"{product} + {init.add}"
        steps = f"{total} % {_period(init.mod)}" if total == "i" else f"({total}) % {_period(init.mod)}"
    else:
        period = _period(init.mod) if isinstance(init.mod, Extent) else f"{init.mod}u"
        steps = f"mix(static_cast<unsigned int>(i) + {init.add}u) % {period}"
    wide = "double" if host.dtype.is_float else host.dtype.cpp
    text = f"static_cast<{wide}>({steps})"
    if init.step != 1:
        text = f"{_plain(init.step, host.dtype)} * {text}"
    if init.lo != 0:
        text = f"{_plain(init.lo, host.dtype)} + {text}"
    return text if host.dtype.name not in ("f16", "f32") else f"static_cast<{host.dtype.cpp}>({text})"


def _period(mod: int) -> str:
    """The number of different values of an initialiser, as an unsigned operand of a remainder."""
    return f"static_cast<unsigned int>({cpp(mod)})" if isinstance(mod, Extent) else str(mod)


def _plain(value: float, dtype: DType) -> str:
    return repr(float(value)) if dtype.is_float else f"{int(value)}{dtype.suffix}"


def dynamic_bytes(kernel: Kernel) -> int:
    """Bytes of dynamic LDS that a launch must request."""
    return sum(b.size * b.dtype.bytes for b in kernel.lds if b.dynamic)


def dims(kernel: Kernel, extents: ir.Dims) -> str:
    """The grid or the block of a launch as a `dim3` of as many dimensions as the kernel has."""
    used = [a for a in range(3) if kernel.grid[a] != 1 or kernel.block[a] != 1 or isinstance(kernel.grid[a], Extent)]
    return f"dim3({', '.join(cpp(extent) for extent in extents[: max(used, default=0) + 1])})"


def element_count(buffer: HostBuffer) -> str:
    """A buffer's size as an operand of a product."""
    bare = not isinstance(buffer.size, Extent) or not buffer.size.op
    return cpp(buffer.size) if bare else f"({cpp(buffer.size)})"


def extended_types(module: Module) -> list[DType]:
    """The extended vector types that its kernels declare."""
    used = {s.target.dtype for k in module.kernels for s in ir.statements(k.body) if isinstance(s, ir.Let)}
    return [t for t in EXTENDED if t in used]


def constant_tables(module: Module) -> list[HostBuffer]:
    """The buffers in constant memory."""
    return [host for host in module.buffers if host.constant]


def shared_constants(module: Module) -> list[tuple[str, int]]:
    """The `constexpr int`s (name, value) of all kernels, without duplicates."""
    return list({name: (name, value) for k in module.kernels for name, value in k.constants}.values())


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """The Jinja environment, with the functions that templates may call; an undefined name is an error."""
    loader = jinja2.FileSystemLoader(templates_dir())
    env = jinja2.Environment(
        loader=_Headless(loader), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True, autoescape=False,
    )  # fmt: skip
    for function in (
        kernel_body, signature, launch_arguments, init_expression, dynamic_bytes, shared_constants, constant_tables,
        extended_types,
        literal, cpp, dims, element_count,
    ):  # fmt: skip
        env.globals[function.__name__] = function
    env.globals["sample_count"] = SAMPLES
    env.globals["tile"] = ir.TILE
    return env


class _Headless(jinja2.BaseLoader):
    """Loads templates and strips their front matter."""

    def __init__(self, inner: jinja2.BaseLoader) -> None:
        self.inner = inner

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str | None, Any]:
        source, filename, fresh = self.inner.get_source(environment, template)
        return source.split("+++\n", 2)[-1].lstrip("\n"), filename, fresh


def render(template: Template, module: Module, params: dict[str, Any]) -> str:
    """The program's source text, without trailing spaces or repeated blank lines."""
    text = environment().get_template(template.path).render(module=module, params=params, style=module.style)
    lines = [line.rstrip() for line in text.split("\n")]
    kept = [line for k, line in enumerate(lines) if line or (k and lines[k - 1])]
    return "\n".join(kept).rstrip("\n") + "\n"
