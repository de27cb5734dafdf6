"""Prints kernels that compute a matrix product as Triton with `tl.dot`: a program computes a block of the result."""

from __future__ import annotations

from hipsynth.synth.generate import ir
from hipsynth.synth.generate.ir import Expr, Kernel, Product
from hipsynth.synth.generate.traversal import names_in, values_of, walk_statements
from hipsynth.synth.generate.triton_kernel import TritonPrinter, print_function, python_name
from hipsynth.synth.generate.types import F64, IRError

BLOCKS = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
ROWS, INSIDE, STEPS = "rows", "inside", "steps"  # names of a program's own
_TAKEN = frozenset({ROWS, INSIDE, STEPS, "left", "right", "start", "across", "down", *BLOCKS})


def triton_product(kernel: Kernel) -> str:
    """A kernel with a product as a @triton.jit function, which has the number of rows as a parameter of its own. Raises
    IRError if Triton cannot express it."""
    assert kernel.product is not None
    printer = ProductPrinter(kernel, kernel.product)
    return print_function(printer, BLOCKS, f"{STEPS} = tl.arange(0, BLOCK_K)", (ROWS,))


class ProductPrinter(TritonPrinter):
    """Blocks have two dimensions: work-items along y are rows, those along x columns. The loop over products becomes
    one over blocks; what follows it is masked, as blocks need not divide the result."""

    shape = "[BLOCK_M, BLOCK_N]"

    def __init__(self, kernel: Kernel, product: Product) -> None:
        super().__init__(kernel)
        self.product = product
        rest = [s for s in kernel.body if not self._is_product(s)]
        self.used = {name for s in walk_statements(rest) for name in names_in(*values_of(s))}
        self.used |= names_in(product.row, product.column)
        named = {s.target.attr[0] for s in walk_statements(kernel.body) if isinstance(s, ir.Let)}
        named |= {buffer.name for buffer in kernel.buffers} | {name for name, _ in kernel.scalars}
        if named & _TAKEN:
            raise IRError(f"{kernel.name}: a name of a product's own")

    def _is_product(self, s: ir.Statement) -> bool:
        target = self.product.target.attr[0]
        inner = walk_statements(s.body) if isinstance(s, ir.For) else ()
        return any(isinstance(a, ir.Assign) and a.target.attr[0] == target for a in inner)

    def builtin(self, e: Expr) -> str:
        """A row's or column's number in the block, or in the grid of blocks."""
        kind, axis = e.attr.split(".")
        if kind == "threadIdx":
            return "tl.arange(0, BLOCK_N)[None, :]" if axis == "x" else "tl.arange(0, BLOCK_M)[:, None]"
        if kind == "blockDim":
            return "BLOCK_N" if axis == "x" else "BLOCK_M"
        return super().builtin(e)

    def let(self, s: ir.Let) -> None:
        """A local, unless only the loop that was replaced reads it."""
        name = s.target.attr[0]
        if s.mutable or name in self.used:
            super().let(s)

    def loop(self, s: ir.For) -> None:
        """The loop over products."""
        if not self._is_product(s):
            raise IRError(f"{self.kernel.name}: a loop beside the product")
        product = self.product
        row, column = self.text(product.row, inner=True), self.text(product.column, inner=True)
        _, width, depth = (self.text(ir.size_value(size), inner=True) for size in product.sizes)
        left, right, acc = (python_name(x) for x in (product.left.name, product.right.name, product.target.attr[0]))
        options = f"out_dtype=tl.{self.type(F64)}" if product.target.dtype is F64 else 'input_precision="ieee"'
        self.put(f"for start in range(0, {depth}, BLOCK_K):")
        self.depth += 1
        self.put(f"across = start + {STEPS}[None, :]")
        self.put(f"down = start + {STEPS}[:, None]")
        masks = f"({row} < {ROWS}) & (across < {depth})", f"(down < {depth}) & ({column} < {width})"
        self.put(f"left = tl.load({left} + {row} * {depth} + across, mask={masks[0]}, other=0)")
        self.put(f"right = tl.load({right} + down * {width} + {column}, mask={masks[1]}, other=0)")
        self.put(f"{acc} = tl.dot(left, right, {acc}, {options})")
        self.depth -= 1
        self.put(f"{INSIDE} = ({row} < {ROWS}) & ({column} < {width})")
        self.mask = INSIDE
