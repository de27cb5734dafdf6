"""Writes a kernel whose wavefronts compute blocks of results with matrix instructions, and its launches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from hipsynth.source.edits import Edit
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.transformation_plan import AXES, Shape
from hipsynth.tuning.optimize.transformations.lds_tile.group_source import indent_lines
from hipsynth.tuning.optimize.transformations.lds_tile.staged_source import ZERO, StagedTile, StagedWriter
from hipsynth.tuning.optimize.transformations.lds_tile.tiled_loop import Definition, StagedLoad, find_tiled_loop
from hipsynth.tuning.optimize.transformations.matrix_cores.matrix_instruction import (
    INSTRUCTIONS,
    WAVE,
    ProductInstruction,
    choose_operands,
)
from hipsynth.tuning.optimize.transformations.matrix_cores.product_sums import ProductFinder, ProductSum

WAVES = 2  # of a group along each of x and y
WIDE = 16  # bytes of the widest load from the LDS, by which rows of tiles are padded
_SIZES = {"float": 4, "double": 8}  # others: 2


def edit_product(program: ParsedProgram, kernel: KernelDefinition, matrix: Shape, block: Shape) -> list[Edit]:
    """The edits of a kernel and its launches. Raises NotUnderstood."""
    return list(_make_writer(program, kernel, matrix, block).edits())


def find_operands(program: ParsedProgram, kernel: KernelDefinition, block: Shape) -> str:
    """The type of the operands of a kernel's sums of products; raises NotUnderstood where it has none."""
    return _make_writer(program, kernel, (0, 0, 0), block).operands


def _make_writer(program: ParsedProgram, kernel: KernelDefinition, matrix: Shape, block: Shape) -> _MatrixWriter:
    loop = find_tiled_loop(program, kernel, block)
    return _MatrixWriter(program, kernel, loop, matrix[:2], (WAVE, WAVES * WAVES), matrix[2])


@dataclass(frozen=True)
class _MatrixWriter(StagedWriter):
    """`widths`: results of a group; each wavefront has half of them along x and along y. Lanes run along `fast_axis`:
    the instruction's columns."""

    @cached_property
    def products(self) -> tuple[ProductSum, ...]:
        subscripts = tuple(step for step in self.tiling.steps if self._only_subscripts(step))
        return ProductFinder(self.tiling, subscripts).find()

    @cached_property
    def _sums(self) -> list[Definition]:
        """The sums of products; other variables that are written belong to one result."""
        places = {product.sum.place for product in self.products}
        return [local for local in self.tiling.sums if local.place in places]

    @cached_property
    def operands(self) -> str:
        """The type of what is multiplied."""
        loads = (load for product in self.products for load in product.factors.values())
        loaded = frozenset(self.kernel.resolve_type(load.type) for load in loads)
        return choose_operands(self._sum_type, loaded, self.program.arch)

    @property
    def _sum_type(self) -> str:
        return self.kernel.resolve_type(self._sums[0].type)

    def _write_assertion(self) -> list[str]:
        """That a template's sums have the type of the instructions."""
        written = self._sums[0].type.removeprefix("const ")
        return [f"static_assert(__is_same({written}, {self._sum_type}));"] if written != self._sum_type else []

    @property
    def _instruction(self) -> ProductInstruction:
        return INSTRUCTIONS[self.operands]

    # --- parts -------------------------------------------------------------------------------------------------------

    def _list_names(self) -> Iterable[str]:
        return (
            "across",
            "down",
            "part",
            "step",
            "item",
            "lane",
            "place",
            "slice",
            "turn",
            "wave_x",
            "wave_y",
            "results",
            "operands",
            "load_tiles",
            *(f"{load.pointer}_next" for load in self.tiling.loads),
        )

    @property
    def _block_loops(self) -> list[tuple[str, int]]:
        """The loops over the blocks of a wavefront."""
        side = WAVES * self._instruction.side
        return [("down", self.widths[1] // side), ("across", self.widths[0] // side)]

    def _list_result_loops(self) -> list[tuple[str, int]]:
        return [*self._block_loops, ("part", self._instruction.parts)]

    def _block_index(self, axis: int) -> str:
        """Where a block begins among the results of its group."""
        name, count = self._block_loops[1 - axis]
        return f"wave_{AXES[axis]}" + (f" + {self._instruction.side} * {name}" if count > 1 else "")

    def _result_index(self, axis: int) -> str:
        within = "place" if axis == self.tiling.fast_axis else self._instruction.row
        return f"{self._block_index(axis)} + {within}"

    def _tile(self, load: StagedLoad) -> StagedTile:
        """Rows along the memory, so that neither loads nor stores of the staging meet in one bank; along the loop where
        an operand has several iterations."""
        kind, name = self.operands, self._tile_names[load]
        depth, width, padding = str(self.depth), str(self.widths[load.axis]), f" + {WIDE // _SIZES.get(kind, 2)}"
        if load.along_loop or self._instruction.each > 1:
            return StagedTile(load, name, kind, depth + padding, width, loop_first=False)
        return StagedTile(load, name, kind, depth, width + padding, loop_first=True)

    def _staged_value(self, load: StagedLoad, value: str) -> str:
        return value if self.kernel.resolve_type(load.type) == self.operands else f"({self.operands}){value}"

    # --- the kernel --------------------------------------------------------------------------------------------------

    def _write_kernel(self) -> str:
        others = [local for local in self.tiling.sums if local not in self._sums]
        single = [f"{local.type} {local.name} = {self._text(local.value)};" for local in others]
        body = self._write_assertion() + self._write_shared() + self._write_declarations() + self._write_loop()
        body += self._write_results(self._sums, single)
        shape = f"{self.widths[0]} x {self.widths[1]}"
        share = f"{self.widths[0] // WAVES} x {self.widths[1] // WAVES}"
        return (
            f"// A group computes {shape} results, each wavefront {share} of them with matrix instructions; what they\n"
            "// share is loaded once.\n"
            f"{self._write_head()} {{\n" + indent_lines("\n".join(body), 2) + "\n}"
        )

    def _write_declarations(self) -> list[str]:
        instruction = self._instruction
        side = instruction.side
        aligned = f"alignas({WIDE}) " if instruction.each > 1 else ""
        lines = [aligned + self._tile(load).declaration for load in self.tiling.loads]
        lines += [
            f"// Lane l of v_mfma_{instruction.name} has row l % {side} of one operand and column l % {side} of the",
            f"// other one, at {instruction.iterations}. Of the results it has column l % {side},",
            f"// in {instruction.rows}.",
            f"const int lane = threadIdx.y * {WAVE} + threadIdx.x;",
            f"const int place = threadIdx.x % {side}, slice = threadIdx.x / {side};",
            f"const int wave_x = threadIdx.y % {WAVES} * {self.widths[0] // WAVES}, "
            f"wave_y = threadIdx.y / {WAVES} * {self.widths[1] // WAVES};",
            f"using results = __attribute__((ext_vector_type({instruction.parts}))) {instruction.type};",
        ]
        if instruction.each > 1:
            lines.append(
                f"using operands = __attribute__((ext_vector_type({instruction.each}))) {instruction.operand};"
            )
        for local in self._sums:
            counts = "".join(f"[{count}]" for _, count in self._block_loops)
            value = self._text(local.value)
            value = value if ZERO.fullmatch(value) else f"{local.type}({value})"
            lines += self._write_sum(local, f"results {local.name}{counts}", value, self._block_loops)
        return lines

    def _write_loop(self) -> list[str]:
        """While the matrix cores work on tiles, the next ones are loaded into registers, all loads at the same time."""
        tiling, kind = self.tiling, self.operands
        variable, bound = tiling.variable, self._text(tiling.bound)
        first, init = f"{variable.name}0", self._text(variable.value)
        plain = variable.type.removeprefix("const ")
        arrays = ", ".join(f"{load.pointer}_next[{self._count_turns(load)}]" for load in tiling.loads)
        loading = [line for load in tiling.loads for line in self._write_loading(load, first, bound)]
        storing = [line for load in tiling.loads for line in self._write_storing(load)]
        inside = [*storing, "__syncthreads();", f"load_tiles({first} + {self.depth});"]
        inside += [*self._write_iterations(first, bound), "__syncthreads();"]
        return [
            f"{kind} {arrays};  // of the tiles: loaded while the matrix cores work on those before",
            f"const auto load_tiles = [&]({plain} {first}) {{",
            *(indent_lines(line, 2) for line in loading),
            "};",
            f"load_tiles({init});",
            f"for ({variable.type} {first} = {init}; {first} < {bound}; {first} += {self.depth}) {{",
            *(indent_lines(line, 2) for line in inside),
            "}",
        ]

    def _count_turns(self, load: StagedLoad) -> int:
        """Elements of a tile that each lane loads."""
        return self.widths[load.axis] * self.depth // (self.lanes[0] * self.lanes[1])

    def _write_turns(self, load: StagedLoad, lines: list[str]) -> list[str]:
        item = f"const int item = lane + {self.lanes[0] * self.lanes[1]} * turn;"
        return self._write_loops([("turn", self._count_turns(load))], [item, *lines])

    def _write_loading(self, load: StagedLoad, first: str, bound: str) -> list[str]:
        definitions, value = self._stage(load, first, bound)
        return self._write_turns(load, [*definitions, f"{load.pointer}_next[turn] = {value};"])

    def _write_storing(self, load: StagedLoad) -> list[str]:
        place = self._tile(load).at(*self._item_place(load))
        return self._write_turns(load, [f"{place} = {load.pointer}_next[turn];"])

    def _write_iterations(self, first: str, bound: str) -> list[str]:
        """Lanes take other iterations than the instruction numbers, but the same ones of both operands: neighbours,
        which one wide load reads."""
        instruction = self._instruction
        count, each = self.depth // instruction.slices, instruction.each
        along = f"{count} * slice + " + (f"{each} * step" if each > 1 else "step")
        taken = "*(const operands*)&" if each > 1 else ""
        fast = self.tiling.fast_axis
        lines = []
        for product in self.products:
            operands = [
                taken + self._tile(product.factors[axis]).at(along, f"{self._block_index(axis)} + place")
                for axis in (1 - fast, fast)
            ]
            block = f"{product.sum.name}[down][across]"
            lines += [f"{block} = {instruction.builtin}(", f"    {operands[0]},", f"    {operands[1]},"]
            lines.append(f"    {block}, 0, 0, 0);")
        return self._write_loops([("step", count // each), *self._block_loops], lines)
