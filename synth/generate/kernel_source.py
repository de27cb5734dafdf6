"""Prints kernels as HIP source: expressions, statements, signatures, and the functions that kernels call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from hipsynth.synth.generate import ir
from hipsynth.synth.generate.ir import Buffer, Expr, Kernel, Module, Statement, Style
from hipsynth.synth.generate.ops import ATOM, OPS, ORDER, SYMMETRIC, UNARY
from hipsynth.synth.generate.outlining import OutlinedFunction, outline_arithmetic
from hipsynth.synth.generate.traversal import names_in, values_of, walk_statements
from hipsynth.synth.generate.types import BOOL, EXTENDED, DType

BITWISE = frozenset({"and", "or", "xor", "shl", "shr"})
INVERSE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
GLOBAL_INDEX = "blockIdx.x * blockDim.x + threadIdx.x"
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
    text, precedence = _unwrapped_expression(e)
    tight = precedence < outer or (precedence == outer and right)
    return f"({text})" if tight else text


def _unwrapped_expression(e: Expr) -> tuple[str, int]:
    if e.op in SPECIAL:
        return SPECIAL[e.op](e)
    op = OPS[e.op]
    form = op.text(e.args[-1].dtype)
    if op.precedence == ATOM and not form.startswith("("):
        return form.format(*(expression(a) for a in e.args)), ATOM
    if op.precedence == ATOM:
        return form.format(*(expression(a, UNARY) for a in e.args)), ATOM
    parts = [
        expression(a, _operand_precedence(op.precedence, a), _needs_parentheses(e, a, k)) for k, a in enumerate(e.args)
    ]
    text = form.format(*parts)
    if e.dtype.narrow:  # int would overflow in products, and keep bits that the type has not
        return f"static_cast<{e.dtype.cpp}>({'1u * ' if op.name == 'mul' else ''}{text})", ATOM
    return text, op.precedence


def _operand_precedence(precedence: int, argument: Expr) -> int:
    """The precedence to print an operand with: mixed bitwise and shift operators get explicit parentheses, as compilers
    recommend (-Wparentheses)."""
    if precedence >= ATOM or precedence == ORDER or argument.op not in OPS:
        return precedence
    bitwise = 3 <= precedence < 9 or argument.op in BITWISE
    return UNARY if bitwise and OPS[argument.op].precedence != precedence else precedence


def _needs_parentheses(e: Expr, argument: Expr, position: int) -> bool:
    return position > 0 and not (e.op in SYMMETRIC and argument.op == e.op)


def _element_text(buffer: Buffer, index: tuple[Expr, ...]) -> str:
    return buffer.name + "".join(f"[{expression(x)}]" for x in index)


def _const_text(e: Expr) -> tuple[str, int]:
    return literal(e.attr, e.dtype), ATOM if e.attr >= 0 else UNARY


def _shuffle_text(e: Expr) -> tuple[str, int]:
    return f"__shfl_{e.attr}({expression(e.args[0])}, {expression(e.args[1])})", ATOM


def _pack_text(e: Expr) -> tuple[str, int]:
    if e.dtype in EXTENDED:
        if all(a.op == "const" and a.attr == 0 for a in e.args):
            return "{}", ATOM
        return "{" + ", ".join(expression(a) for a in e.args) + "}", ATOM
    return f"make_{e.dtype.cpp}({', '.join(expression(a) for a in e.args)})", ATOM


def _component_text(e: Expr) -> str:
    return f"[{e.attr}]" if e.args[0].dtype.lanes > 4 else f".{'xyzw'[e.attr]}"


SPECIAL: dict[str, Callable[[Expr], tuple[str, int]]] = {
    "const": _const_text,
    "name": lambda e: (e.attr[0], ATOM),
    "size": lambda e: (e.attr.name, ATOM),
    "builtin": lambda e: (e.attr, ATOM),
    "inside": lambda e: _unwrapped_expression(e.args[0]),
    "load": lambda e: (_element_text(e.attr, e.args), ATOM),
    "cast": lambda e: (f"static_cast<{e.dtype.cpp}>({expression(e.args[0])})", ATOM),
    "part": lambda e: (expression(e.args[0], ATOM) + _component_text(e), ATOM),
    "pack": _pack_text,
    "shuffle": _shuffle_text,
    "ballot": lambda e: (f"__popcll(__ballot({expression(e.args[0])}))", ATOM),
    "call": lambda e: (f"{e.attr[0]}({', '.join(e.attr[1])})", ATOM),
}


class Printer:
    """Prints statements as indented lines; `generic` is the type that is printed as T, `wide` the names of locals that
    are declared with 64 bits."""

    def __init__(self, auto: bool, generic: DType | None = None, wide: frozenset[str] = frozenset()) -> None:
        self.auto = auto
        self.generic = generic
        self.wide = wide
        self.lines: list[str] = []
        self.depth = 1

    def put(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def block(self, statements: Iterable[Statement]) -> None:
        for statement in statements:
            PRINT[type(statement)](self, statement)

    def nested(self, statements: list[Statement]) -> None:
        self.depth += 1
        self.block(statements)
        self.depth -= 1

    def let(self, s: ir.Let) -> None:
        """Prints a declaration: with `auto` where the style asks for it and it deduces the same type."""
        # `auto` would deduce another type.
        exact = (
            s.value.raw
            or s.target.dtype in EXTENDED
            or s.target.dtype.narrow
            or s.value.op in ("const", "builtin", "cast")
        )
        spelled = spell_type(s.target.dtype, self.generic) if exact or not self.auto else "auto"
        spelled = spelled if s.mutable or self.auto else f"const {spelled}"
        text = expression(s.value)
        if s.target.attr[0] in self.wide:
            spelled, text = "const long long", text.replace("blockIdx.x", "static_cast<long long>(blockIdx.x)", 1)
        self.put(f"{spelled} {s.target.attr[0]} = {text};")

    def assign(self, s: ir.Assign) -> None:
        self.put(f"{s.target.attr[0]} {s.compound}= {expression(s.value)};")

    def store(self, s: ir.Store) -> None:
        self.put(f"{_element_text(s.buffer, s.index)} = {expression(s.value)};")

    def atomic(self, s: ir.Atomic) -> None:
        name = "atomic" + s.op.capitalize()
        value = "0xffffffffu" if s.op in ("inc", "dec") else expression(s.value)
        self.put(f"{name}(&{_element_text(s.buffer, s.index)}, {value});")

    def matrix_fma(self, s: ir.MatrixFma) -> None:
        name = s.target.attr[0]
        self.put(f"{name} = {s.matrix.builtin}({expression(s.left)}, {expression(s.right)}, {name}, 0, 0, 0);")

    def branch(self, s: ir.If) -> None:
        """Prints a condition and its branches, or an early return."""
        if s.early:
            self.put(f"if ({negate_condition(s.condition)}) return;")
            self.block(s.then)
            return
        self.put(f"if ({expression(s.condition)}) {{")
        self.nested(s.then)
        if s.otherwise:
            self.put("} else {")
            self.nested(s.otherwise)
        self.put("}")

    def loop(self, s: ir.For) -> None:
        """Prints a loop, with its pragma to unroll."""
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


PRINT: dict[type, Callable[..., None]] = {
    ir.Let: Printer.let, ir.Assign: Printer.assign, ir.Store: Printer.store, ir.Atomic: Printer.atomic,
    ir.If: Printer.branch, ir.For: Printer.loop, ir.Barrier: Printer.barrier, ir.MatrixFma: Printer.matrix_fma,
    ir.Break: Printer.leave,
}  # fmt: skip


def negate_condition(condition: Expr) -> str:
    """C++ text of the negated condition."""
    if condition.op in INVERSE:
        return expression(ir.Expr(INVERSE[condition.op], BOOL, condition.args))
    return "!" + expression(condition, UNARY)


def spell_type(t: DType, generic: DType | None) -> str:
    """A type's name, or T."""
    return "T" if t is generic else t.cpp


def generic_type(kernel: Kernel, style: Style) -> DType | None:
    """The type that a kernel has as template parameter, if it is a template."""
    return kernel.buffers[0].dtype.base if style["template"] and kernel.buffers else None


def packed_struct_name(kernel: Kernel, style: Style) -> str:
    """The name of the structure that holds a kernel's scalars, "" if they are parameters."""
    # hipLaunchKernelGGL is a macro, which a structure in braces would confuse.
    if not style["struct"] or style["ggl"] or len(kernel.scalars) < 2:
        return ""
    return "".join(word.capitalize() for word in kernel.name.split("_")) + "Args"


def kernel_source(kernel: Kernel, style: Style) -> str:
    """A kernel, with the function that it calls and the structure that it is passed, if any."""
    generic = generic_type(kernel, style)
    function = None
    if style["device_function"]:
        kernel, function = outline_arithmetic(kernel, _helper_name(kernel))
    parts = [function_source(function, kernel.auto, style, generic)] if function else []
    if name := packed_struct_name(kernel, style):
        members = "".join(f"  int {scalar};\n" for scalar, _ in kernel.scalars)
        parts.append(f"struct {name} {{\n{members}}};\n")
    return "\n".join([*parts, f"{kernel_signature(kernel, style)} {{\n{kernel_body(kernel, style)}\n}}\n"])


def _helper_name(kernel: Kernel) -> str:
    return kernel.name.rpartition("_")[2] + "_value"


def function_source(function: OutlinedFunction, auto: bool, style: Style, generic: DType | None) -> str:
    """A `__device__` function: a template where a parameter tells the type."""
    parameters = ", ".join(f"{spell_type(t, generic)} {name}" for name, t in function.parameters)
    is_generic = any(t is generic for _, t in function.parameters)
    head = "template <typename T>\n" if generic and is_generic else ""
    keyword = "__device__ __forceinline__" if style["inline"] else "__device__"
    printer = Printer(auto, generic if is_generic else None)
    printer.block(function.body)
    printer.put(f"return {expression(function.value)};")
    lines = "\n".join(printer.lines)
    returned = spell_type(function.value.dtype, generic if is_generic else None)
    return f"{head}{keyword} {returned} {function.name}({parameters}) {{\n{lines}\n}}\n"


def kernel_body(kernel: Kernel, style: Style) -> str:
    """Declarations of arrays, and the statements of a kernel."""
    generic = generic_type(kernel, style)
    printer = Printer(kernel.auto, generic, wide_indices(kernel) if style["wide_index"] else frozenset())
    for tile in kernel.lds:
        dims = "[]" if tile.dynamic else "".join(f"[{extent}]" for extent in tile.shape)
        printer.put(
            f"{'extern ' if tile.dynamic else ''}__shared__ {spell_type(tile.dtype, generic)} {tile.name}{dims};"
        )
    for array in kernel.private:
        printer.put(f"{spell_type(array.dtype, generic)} {array.name}[{array.size}];")
    if packed_struct_name(kernel, style):
        for scalar, _ in kernel.scalars:
            printer.put(f"const int {scalar} = args.{scalar};")
    printer.block(kernel.body)
    return "\n".join(printer.lines)


def wide_indices(kernel: Kernel) -> frozenset[str]:
    """The global indices that may be declared with 64 bits: no function of theirs exists for int only."""
    if kernel.auto:
        return frozenset()
    wide_names = {
        s.target.attr[0] for s in kernel.body if isinstance(s, ir.Let) and expression(s.value) == GLOBAL_INDEX
    }
    return frozenset(
        wide_names
        - {name for s in walk_statements(kernel.body) for value in values_of(s) for name in _called_names(value)}
    )


def _called_names(value: Expr) -> Iterator[str]:
    """The names that are arguments of functions, or parts of them."""
    op = OPS.get(value.op)
    if value.op in ("shuffle", "call") or (op is not None and op.precedence == ATOM):
        yield from names_in(value)
    for argument in value.args:
        yield from _called_names(argument)


def kernel_signature(kernel: Kernel, style: Style) -> str:
    """`__global__ void name(parameters)`."""
    generic = generic_type(kernel, style)
    parameters = [
        f"{'const ' if b.const else ''}{spell_type(b.dtype, generic)}*{' __restrict__' if b.restrict else ''} {b.name}"
        for b in kernel.buffers
        if b.space == "global"
    ]
    if name := packed_struct_name(kernel, style):
        parameters.append(f"{name} args")
    else:
        parameters += [f"int {scalar}" for scalar, _ in kernel.scalars]
    bounds = f" __launch_bounds__({math.prod(kernel.block)})" if kernel.launch_bounds else ""
    template = "template <typename T>\n" if generic else ""
    head = f"__global__ void{bounds} {kernel.name}("
    line = head + ", ".join(parameters) + ")"
    return template + (line if len(line) <= 118 else head + (",\n" + " " * len(head)).join(parameters) + ")")


def extended_types(module: Module) -> list[DType]:
    """The extended vector types that its kernels declare."""
    used = {s.target.dtype for k in module.kernels for s in walk_statements(k.body) if isinstance(s, ir.Let)}
    return [t for t in EXTENDED if t in used]
