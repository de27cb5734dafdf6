"""Writes a kernel that moves square tiles through the LDS, and its launches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hipsynth.source.edits import Edit
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.transformation_plan import AXES, Shape
from hipsynth.tuning.optimize.transformations.lds_tile.group_source import GroupWriter, indent_lines
from hipsynth.tuning.optimize.transformations.lds_tile.tiled_loop import find_transposed_loads

LANES = 256  # of a group


def edit_transposition(program: ParsedProgram, kernel: KernelDefinition, side: int, block: Shape) -> list[Edit]:
    """The edits of a kernel and its launches. Raises NotUnderstood."""
    tiling = find_transposed_loads(program, kernel, block)
    return list(_TransposeWriter(program, kernel, tiling, (side, side), (side, LANES // side)).edits())


@dataclass(frozen=True)
class _TransposeWriter(GroupWriter):
    def edits(self) -> Iterator[Edit]:
        if self.has_names(("pass", "line")):
            raise NotUnderstood("names that the new code uses")
        yield Edit(self.kernel.start, self.kernel.end, self._write_kernel())
        yield from self._launch_edits()

    def _write_kernel(self) -> str:
        side = self.widths[0]
        store_axis = self.tiling.fast_axis
        arrays = [f"__shared__ {load.type} {name}[{side}][{side} + 1];" for load, name in self._tile_names.items()]
        body = [*self._write_shared(), *arrays]
        body += self._write_pass(1 - store_axis, staging=True)
        body += ["__syncthreads();", *self._write_pass(store_axis, staging=False)]
        return (
            f"// Tiles of {side} x {side} elements go through the LDS, so that lanes load and store along memory.\n"
            f"{self._write_head()} {{\n" + indent_lines("\n".join(body), 2) + "\n}"
        )

    def _write_pass(self, lane_axis: int, staging: bool) -> list[str]:
        """A loop over the lines of a tile whose lanes run along an axis of the work: loads to the LDS, or stores."""
        side, lines = self.widths[0], self.lanes[1]
        within = {lane_axis: "threadIdx.x", 1 - lane_axis: "line"}
        indices = {axis: f"blockIdx.{AXES[axis]} * {side} + {within[axis]}" for axis in (0, 1)}
        (store,) = self.tiling.after
        spans = [load.span for load in self.tiling.loads] if staging else [(store.start, store.end)]
        places = {place for span in spans for place in self._named(span)}
        for condition in self.tiling.conditions:
            places |= self._named(condition.span)
        shared = {local.place for local in self._shared_definitions}
        inside = [f"const int line = threadIdx.y + {lines} * pass;"]
        inside += self._write_definitions(places, indices, shared)
        conditions = " && ".join(self._conditions_of({0, 1}, indices))
        statements = self._write_stagings(indices) if staging else [self._write_store(indices)]
        inside += [f"if ({conditions}) {{", *(indent_lines(text, 2) for text in statements), "}"]
        head = f"for (int pass = 0; pass < {side // lines}; ++pass) {{"
        return ["#pragma unroll", head, *(indent_lines(text, 2) for text in inside), "}"]

    def _write_stagings(self, indices: dict[int, str]) -> list[str]:
        return [
            f"{name}[line][threadIdx.x] = {self._rewrite(load.span, indices)};"
            for load, name in self._tile_names.items()
        ]

    def _write_store(self, indices: dict[int, str]) -> str:
        (store,) = self.tiling.after
        tokens = self.program.tokens
        edits = [
            Edit(tokens[at].start, tokens[at + load.span[1] - load.span[0] - 1].end, f"{name}[threadIdx.x][line]")
            for load, name in self._tile_names.items()
            for at in load.places
        ]
        return self._rewrite((store.start, store.end), indices, edits)
