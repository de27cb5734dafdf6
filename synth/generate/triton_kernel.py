"""Prints kernels of the typed language as Triton: a work-group becomes a program, a value of a work-item a block.

Not every kernel can be: work-items of a program share no memory and do not talk to each other, but for a sum or another
reduction of the whole work-group. What cannot be raises IRError.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Sequence

from hipsynth.synth.generate import ir
from hipsynth.synth.generate.ir import Buffer, Expr, Kernel, Statement
from hipsynth.synth.generate.traversal import walk_statements
from hipsynth.synth.generate.types import F16, F32, F64, I32, I64, U32, U64, DType, IRError

TYPES = {F16: "float16", F32: "float32", F64: "float64", I32: "int32", I64: "int64", U32: "uint32", U64: "uint64"}
ATOMIC_TYPES = frozenset({F32, F64, I32, U32})
LANES = "lane"  # the block of the work-items' numbers
_TAKEN = frozenset({"tl", "triton", "torch", "np", "sys", "range", "print", "int", "len", "max", LANES, "BLOCK"})
INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "idiv": "//", "mod": "%", "and": "&", "or": "|", "xor": "^",
    "shl": "<<", "shr": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "land": "&",
    "lor": "|",
}  # fmt: skip
CALLS = {
    "min": "tl.minimum", "max": "tl.maximum", "select": "tl.where", "fma": "tl.fma", "abs": "tl.abs", "sqrt": "tl.sqrt",
    "rsqrt": "tl.rsqrt", "exp": "tl.exp", "exp2": "tl.exp2", "log": "tl.log", "log2": "tl.log2", "sin": "tl.sin",
    "cos": "tl.cos", "erf": "tl.erf", "floor": "tl.floor", "ceil": "tl.ceil", "fast_exp": "tl.exp",
    "fast_log": "tl.log", "fast_sin": "tl.sin", "fast_cos": "tl.cos",
}  # fmt: skip
REDUCTIONS = {"add": "tl.sum", "min": "tl.min", "max": "tl.max"}
_AXES = "xyz"


def python_name(name: str) -> str:
    """A name of the typed language as one of Python that hides nothing."""
    return f"{name}_" if keyword.iskeyword(name) or name in _TAKEN else name


def triton_kernel(kernel: Kernel) -> str:
    """A kernel as a @triton.jit function. Raises IRError if Triton cannot express it."""
    return print_function(TritonPrinter(kernel), ("BLOCK",), f"{LANES} = tl.arange(0, BLOCK)")


def print_function(printer: TritonPrinter, blocks: Sequence[str], first: str, extra: Sequence[str] = ()) -> str:
    """The kernel of a printer as a function: its constexpr parameters `blocks`, parameters beside those of the typed
    language (`extra`), and its `first` line."""
    kernel = printer.kernel
    printer.block(list(kernel.body))
    parameters = [python_name(buffer.name) for buffer in kernel.buffers]
    parameters += [python_name(name) for name, _ in kernel.scalars]
    parameters += [*extra, *(f"{name}: tl.constexpr" for name in blocks)]
    head = f"@triton.jit\ndef {python_name(kernel.name)}({', '.join(parameters)}):"
    return "\n".join([head, f"    {first}", *printer.lines]) + "\n"


class TritonPrinter:
    """Prints statements as indented lines. `mask` is the name of the block that says which work-items are active, ""
    where all are; `shape` that of a block; `reduced` the values that stand for arrays in LDS which hold a reduction."""

    shape = "[BLOCK]"

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.lines: list[str] = []
        self.depth = 1
        self.mask = ""
        self.blocks: set[str] = set()  # the locals that differ between work-items
        self.reduced: dict[str, str] = {}
        self.masks = 0
        items = math.prod(kernel.block)
        if items & (items - 1) or not 64 <= items <= 1024:
            raise IRError(f"{kernel.name}: Triton has no blocks of {items}")
        if kernel.private:
            raise IRError(f"{kernel.name}: Triton has no arrays of a work-item")
        for statement in walk_statements(kernel.body):
            if isinstance(statement, ir.MatrixFma | ir.Break):
                raise IRError(f"{kernel.name}: not in Triton: {type(statement).__name__}")

    def put(self, text: str) -> None:
        """Adds a line at the current depth."""
        self.lines.append("    " * self.depth + text)

    # ---- values

    def is_block(self, e: Expr) -> bool:
        """Whether a value is printed as a block."""
        if e.op == "builtin":
            return bool(e.attr.startswith("threadIdx")) and self._axis_size(e) > 1
        if e.op == "name":
            return e.attr[0] in self.blocks
        return any(map(self.is_block, e.args))

    def _axis_size(self, e: Expr) -> int:
        return int(self.kernel.block[_AXES.index(e.attr[-1])])

    def text(self, e: Expr, inner: bool = False) -> str:
        """A value; `inner`: as an operand, in parentheses unless it is one word or call."""
        if e.op in INFIX:
            left, right = (self.text(a, inner=True) for a in e.args)
            printed = f"{left} {INFIX[e.op]} {right}"
            return f"({printed})" if inner else printed
        if e.op in CALLS:
            return f"{CALLS[e.op]}({', '.join(self._operand(a) for a in e.args)})"
        if e.op == "neg":
            return f"(-{self.text(e.args[0], inner=True)})"
        if e.op not in _VALUES:
            raise IRError(f"{self.kernel.name}: Triton has no {e.op}")
        printed_value: str = getattr(self, e.op)(e)
        return printed_value

    def _operand(self, e: Expr) -> str:
        """The operand of a function, which wants a tensor."""
        printed = self.text(e)
        return f"tl.full([], {printed}, tl.{self.type(e.dtype)})" if e.op == "const" else printed

    def type(self, dtype: DType) -> str:
        """The name of a type in Triton."""
        if dtype not in TYPES:
            raise IRError(f"{self.kernel.name}: not in Triton: {dtype.cpp}")
        return TYPES[dtype]

    def const(self, e: Expr) -> str:
        """A literal."""
        value = repr(float(e.attr)) if e.dtype.is_float else str(int(e.attr))
        return f"({value})" if e.attr < 0 else value

    def builtin(self, e: Expr) -> str:
        """A work-item's or work-group's number, or a size of the launch."""
        kind, axis = e.attr.split(".")
        number = _AXES.index(axis)
        if kind == "blockIdx":
            return f"tl.program_id({number})"
        if kind == "gridDim":
            return f"tl.num_programs({number})"
        if kind == "blockDim":
            return "BLOCK" if self._axis_size(e) == math.prod(self.kernel.block) else str(self._axis_size(e))
        before, size = math.prod(self.kernel.block[:number]), self._axis_size(e)
        if size == 1:
            return "0"
        divided = LANES if before == 1 else f"{LANES} // {before}"
        is_last = before * size == math.prod(self.kernel.block)
        return divided if is_last and before == 1 else f"({divided})" if is_last else f"({divided} % {size})"

    def cast(self, e: Expr) -> str:
        """A conversion."""
        return f"tl.cast({self.text(e.args[0])}, tl.{self.type(e.dtype)})"

    def inside(self, e: Expr) -> str:
        """A value whose range a branch narrowed: itself."""
        return self.text(e.args[0], inner=True)

    def name(self, e: Expr) -> str:
        """A local."""
        return python_name(e.attr[0])

    def size(self, e: Expr) -> str:
        """A problem size, which is a parameter."""
        return python_name(e.attr.name)

    def load(self, e: Expr) -> str:
        """A load, of the active work-items only; of an array in LDS, the reduction that it holds."""
        buffer: Buffer = e.attr
        self.type(buffer.dtype)
        if buffer.space == "lds":
            return self._load_reduced(e)
        masked = f", mask={self.mask}, other=0" if self.mask and any(map(self.is_block, e.args)) else ""
        return f"tl.load({self.address(buffer, e.args)}{masked})"

    def _load_reduced(self, e: Expr) -> str:
        first = len(e.args) == 1 and e.args[0].op == "const" and e.args[0].attr == 0
        if not first or e.attr.name not in self.reduced:
            raise IRError(f"{self.kernel.name}: Triton's programs have no shared memory of their own")
        return self.reduced[e.attr.name]

    def address(self, buffer: Buffer, index: Sequence[Expr]) -> str:
        """The pointer to an element in global memory."""
        if len(index) != 1 or buffer.space == "lds":
            raise IRError(f"{self.kernel.name}: {buffer.name} is not in global memory")
        return f"{python_name(buffer.name)} + {self.text(index[0], inner=True)}"

    # ---- statements

    def block(self, statements: Sequence[Statement]) -> None:
        """Statements in order; a reduction in LDS is one line."""
        at = 0
        while at < len(statements):
            reduction = self._find_reduction(statements[at : at + 3])
            if reduction is not None:
                store, op = reduction
                name = f"{python_name(store.buffer.name)}_total"
                self.put(f"{name} = {REDUCTIONS[op]}({self.text(store.value)}, axis=0)")
                self.reduced[store.buffer.name] = name
                at += 3
                continue
            getattr(self, _STATEMENTS[type(statements[at])])(statements[at])
            at += 1

    def _find_reduction(self, statements: Sequence[Statement]) -> tuple[ir.Store, str] | None:
        """The store and the operation of `lds[threadIdx.x] = value; barrier; loop that combines its elements`."""
        if len(statements) < 3 or self.mask:
            return None
        store, barrier, loop = statements
        if not isinstance(store, ir.Store) or not isinstance(barrier, ir.Barrier) or not isinstance(loop, ir.For):
            return None
        tile = store.buffer
        one_row = tile.space == "lds" and tile.size == math.prod(self.kernel.block) == self.kernel.block[0]
        if not one_row or loop.kind not in ("halve", "double") or not self.is_block(store.value):
            return None
        stores = [s for s in walk_statements(loop.body) if isinstance(s, ir.Store)]
        combined = {s.value.op for s in stores if s.buffer == tile and all(a.op == "load" for a in s.value.args)}
        if len(stores) != 1 or len(combined) != 1 or not combined <= set(REDUCTIONS) or store.value.dtype is F16:
            return None
        return store, combined.pop()

    def let(self, s: ir.Let) -> None:
        """A local; one that changes is a block, as loops want one type."""
        name = s.target.attr[0]
        self.type(s.target.dtype)
        if s.mutable:
            self.blocks.add(name)
            self.put(f"{python_name(name)} = {self._as_block(s.value)}")
            return
        if self.is_block(s.value):
            self.blocks.add(name)
        self.put(f"{python_name(name)} = {self.text(s.value)}")

    def _as_block(self, value: Expr) -> str:
        kind = f"tl.{self.type(value.dtype)}"
        if value.op == "const":
            return f"tl.full({self.shape}, {self.text(value)}, {kind})"
        if self.is_block(value):
            return self.text(value)
        return f"tl.zeros({self.shape}, {kind}) + {self.text(value, inner=True)}"

    def assign(self, s: ir.Assign) -> None:
        """A new value of a local, of the active work-items."""
        name = python_name(s.target.attr[0])
        value = f"{name} {s.compound} {self.text(s.value, inner=True)}" if s.compound else self._as_block(s.value)
        self.put(f"{name} = tl.where({self.mask}, {value}, {name})" if self.mask else f"{name} = {value}")

    def store(self, s: ir.Store) -> None:
        """A store of the active work-items."""
        self.type(s.buffer.dtype)
        self.put(f"tl.store({self._written(s.buffer, s.index, s.value)})")

    def atomic(self, s: ir.Atomic) -> None:
        """An atomic of the active work-items."""
        if s.op not in ("add", "min", "max", "and", "or", "xor") or s.buffer.dtype not in ATOMIC_TYPES:
            raise IRError(f"{self.kernel.name}: no atomic {s.op} of {s.buffer.dtype.cpp} in Triton")
        self.put(f"tl.atomic_{s.op}({self._written(s.buffer, s.index, s.value)})")

    def _written(self, buffer: Buffer, index: Sequence[Expr], value: Expr) -> str:
        """Address, value and mask of what is written: by all work-items, or by the program as a whole."""
        address = self.address(buffer, index)
        if any(map(self.is_block, index)):
            return f"{address}, {self.text(value)}" + (f", mask={self.mask}" if self.mask else "")
        if not self.is_block(value) and self.mask == _FIRST:
            return f"{address}, {self.text(value)}"
        masked = f", mask={self.mask}" if self.mask and self.mask != _FIRST else ""
        if not self.is_block(value) or self.mask == _FIRST:
            raise IRError(f"{self.kernel.name}: all work-items write one element")
        return f"{address} + tl.zeros([BLOCK], tl.int32), {self.text(value)}{masked}"

    def branch(self, s: ir.If) -> None:
        """A branch of Python, or a mask where work-items differ."""
        before = self.mask
        if not self.is_block(s.condition):
            self._uniform_branch(s)
            return
        if self._is_first(s.condition) and not before and not s.otherwise:
            self.mask = _FIRST  # what one work-item does is done once by the program
            self.block(s.then)
            self.mask = before
            return
        if before == _FIRST:
            raise IRError(f"{self.kernel.name}: a branch of one work-item")
        taken = self._new_mask(self.text(s.condition, inner=True))
        self.block(s.then)
        self.mask = before
        if s.otherwise:
            self._new_mask(f"(~{taken})")
            self.block(s.otherwise)
            self.mask = before

    def _uniform_branch(self, s: ir.If) -> None:
        for head, body in ((f"if {self.text(s.condition)}:", s.then), ("else:", s.otherwise)):
            if body:
                self.put(head)
                self.depth += 1
                self.block(body)
                self.depth -= 1

    def _is_first(self, condition: Expr) -> bool:
        """Whether a condition is `threadIdx.x == 0` of a work-group in one dimension."""
        left, right = condition.args if condition.op == "eq" else (None, None)
        if left is None or right is None or right.op != "const" or right.attr != 0:
            return False
        return self.text(left) in (LANES, *self._first_names())

    def _first_names(self) -> set[str]:
        builtins = (s for s in self.kernel.body if isinstance(s, ir.Let) and s.value.op == "builtin")
        return {python_name(s.target.attr[0]) for s in builtins if self.text(s.value) == LANES}

    def _new_mask(self, condition: str) -> str:
        self.masks += 1
        name = f"active{self.masks}"
        self.put(
            f"{name} = {f'{self.mask} & {condition}' if self.mask else condition.removeprefix('(').removesuffix(')')}"
        )
        self.mask = name
        return name

    def loop(self, s: ir.For) -> None:
        """A loop of Python; where work-items differ, as many rounds as the longest needs."""
        if s.kind != "up" or self.is_block(s.step) or self.mask == _FIRST:
            raise IRError(f"{self.kernel.name}: a loop that Triton does not have")
        name, before = python_name(s.var.attr[0]), self.mask
        start, stop, step = (self.text(value, inner=True) for value in (s.start, s.stop, s.step))
        if not self.is_block(s.start) and not self.is_block(s.stop):
            self.put(
                f"for {name} in range({start}, {stop}, {step}):"
                if step != "1"
                else f"for {name} in range({start}, {stop}):"
            )
            self._loop_body(s.body)
            return
        self.blocks.add(s.var.attr[0])
        self.put(f"for {name}_step in range(0, tl.max(tl.cdiv({stop} - {start}, {step}), axis=0)):")
        self.depth += 1
        self.put(f"{name} = {start} + {name}_step * {step}")
        self._new_mask(f"({name} < {stop})")
        self.depth -= 1
        self._loop_body(s.body)
        self.mask = before

    def _loop_body(self, body: list[Statement]) -> None:
        self.depth += 1
        self.block(body)
        self.depth -= 1

    def barrier(self, s: ir.Barrier) -> None:
        """Nothing: without shared memory, work-items of a program need not wait for each other."""


_FIRST = "<the first work-item>"
# The operations that a method of their name prints; the methods that print statements.
_VALUES = frozenset({"const", "name", "size", "builtin", "cast", "inside", "load"})
_STATEMENTS = {
    ir.Let: "let", ir.Assign: "assign", ir.Store: "store", ir.Atomic: "atomic", ir.If: "branch", ir.For: "loop",
    ir.Barrier: "barrier",
}  # fmt: skip
