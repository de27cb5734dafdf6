"""Writes what kernels have in common whose groups compute tiles: declarations, conditions and launches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hipsynth.source.edits import Edit, apply_edits
from hipsynth.tuning.optimize.analysis.program_model import (
    KernelDefinition,
    LaunchStatement,
    ParsedProgram,
)
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.launch_shape import read_shape_component
from hipsynth.tuning.optimize.transformation_plan import AXES
from hipsynth.tuning.optimize.transformations.hints import restrict_pointer
from hipsynth.tuning.optimize.transformations.lds_tile.tiled_loop import Condition, Definition, StagedLoad, TiledLoop


def indent_lines(text: str, by: int) -> str:
    """The lines moved right by `by` columns; directives and empty lines stay."""
    lines = text.splitlines()
    return "\n".join(line if line.startswith("#") or not line else " " * by + line for line in lines)


@dataclass(frozen=True)
class GroupWriter:
    """`widths`: results of a group along x and y; `lanes`: of a group along x and y of the hardware."""

    program: ParsedProgram
    kernel: KernelDefinition
    tiling: TiledLoop
    widths: tuple[int, int]
    lanes: tuple[int, int]

    def has_names(self, names: Iterable[str]) -> bool:
        """Whether the kernel or a macro has one of these names."""
        words = {t.text for t in self.program.tokens[self.kernel.first : self.kernel.last]}
        words |= {parameter.name for parameter in self.kernel.parameters} | self.program.macros.keys()
        names = [*names, *self._tile_names.values(), *self._item_names.values()]
        return bool(words & set(names)) or len(set(self._tile_names.values())) < len(self._tile_names)

    def _write_head(self) -> str:
        parameters = [restrict_pointer(parameter) for parameter in self.kernel.parameters]
        parameters += [f"unsigned {name}" for name in self._item_names.values()]
        template = f"{self.kernel.template}\n" if self.kernel.template else ""
        bounds = f"__launch_bounds__({self.lanes[0] * self.lanes[1]})"
        return f"{template}__global__ {bounds} void {self.kernel.name}({', '.join(parameters)})"

    def _write_shared(self) -> list[str]:
        """What is the same for all work-items of a group."""
        lines = self._write_definitions({local.place for local in self._shared_definitions}, {})
        common = [local for local in self.tiling.conditions if not local.axes]
        return lines + [f"if (!({self._write_condition(local, {})})) return;" for local in common]

    def _launch_edits(self) -> Iterator[Edit]:
        for launch in self.kernel.launches:
            yield Edit(launch.start, launch.end, self._write_launch(launch))

    @cached_property
    def _tile_names(self) -> dict[StagedLoad, str]:
        return {load: f"{load.pointer}_tile" for load in self.tiling.loads}

    @cached_property
    def _item_names(self) -> dict[int, str]:
        """Parameters with the number of work-items along axes that no condition bounds."""
        bounded = {axis for condition in self.tiling.conditions for axis in condition.axes}
        return {axis: f"items_{AXES[axis]}" for axis in (0, 1) if axis not in bounded}

    def _rewrite(self, span: tuple[int, int], indices: Mapping[int, str], others: Iterable[Edit] = ()) -> str:
        """The text of tokens with the numbers of work-items along the axes replaced, and other edits applied."""
        tokens, unit = self.program.tokens, self.program.unit
        base, end = tokens[span[0]].start, tokens[span[1] - 1].end
        edits = [Edit(edit.start - base, edit.end - base, edit.text) for edit in others]
        for (a, b), axis in self.tiling.indices.items():
            is_replaced = any(edit.start <= tokens[a].start - base < edit.end for edit in edits)
            if span[0] <= a and b <= span[1] and not is_replaced:
                if axis not in indices:
                    raise NotUnderstood("a work-item's own number among what its group shares")
                edits.append(Edit(tokens[a].start - base, tokens[b - 1].end - base, indices[axis]))
        return apply_edits(unit.text[base:end], edits).decode(errors="surrogateescape")

    def _write_definitions(
        self,
        places: Iterable[int],
        indices: Mapping[int, str],
        known: Iterable[int] = (),
        more: Iterable[Definition] = (),
    ) -> list[str]:
        """The declarations of local constants, in the order of the source, with those that they are made of; `more`:
        definitions besides those around the loop."""
        definitions = [*self.tiling.definitions, *more]
        needed = self._close_over(set(places), definitions) - set(known)
        return [
            f"{local.type} {local.name} = {self._rewrite(local.value, indices)};"
            for local in definitions
            if local.place in needed
        ]

    def _close_over(self, places: set[int], definitions: Sequence[Definition] = ()) -> set[int]:
        """Places of the definitions that these definitions are made of, themselves included."""
        by_place = {local.place: local for local in definitions or self.tiling.definitions}
        waiting, closed = [place for place in places if place in by_place], set()
        while waiting:
            place = waiting.pop()
            closed.add(place)
            waiting += [p for p in self._named(by_place[place].value) if p in by_place and p not in closed]
        return closed

    def _named(self, span: tuple[int, int]) -> set[int]:
        """The local variables that tokens name."""
        return {self.tiling.body.local(self.program.tokens[i]) for i in range(*span)} - {-1}

    @property
    def _shared_definitions(self) -> list[Definition]:
        return [local for local in self.tiling.definitions if not local.axes]

    def _write_condition(self, condition: Condition, indices: Mapping[int, str]) -> str:
        text = self._rewrite(condition.span, indices)
        if not condition.negated:
            return text
        words = [t.text for t in self.program.tokens[slice(*condition.span)]]
        flips = {"<": ">=", ">=": "<", ">": "<=", "<=": ">"}
        signs = [word for word in words if word in flips]
        if len(signs) == 1 and not {"?", "&&", "||", "(", "==", "!="} & set(words):
            return text.replace(signs[0], flips[signs[0]], 1)
        return f"!({text})"

    def _conditions_of(self, axes: set[int], indices: Mapping[int, str]) -> list[str]:
        """The conditions on work-items along these axes."""
        texts = [
            self._write_condition(local, indices)
            for local in self.tiling.conditions
            if local.axes and local.axes <= axes
        ]
        for axis, name in self._item_names.items():
            if axis in axes:
                texts.append(f"{indices[axis]} < {name}")
        return texts

    def _write_launch(self, launch: LaunchStatement) -> str:
        items = {axis: self._count_items(launch, axis) for axis in (0, 1)}
        groups = [self._count_groups(launch, axis, items[axis]) for axis in (0, 1)]
        third = read_shape_component(self.program, launch.grid, 2)
        grid = ", ".join([*groups, third] if third != "1" else groups)
        lanes = ", ".join(map(str, self.lanes))
        rest = "".join(f", {part}" for part in launch.rest)
        arguments = ", ".join([*launch.arguments, *(items[axis] for axis in self._item_names)])
        return f"{self.kernel.name}{launch.template}<<<dim3({grid}), dim3({lanes}){rest}>>>({arguments});"

    def _count_groups(self, launch: LaunchStatement, axis: int, items: str) -> str:
        """Groups of the new kernel along an axis: rounded up from the work-items, or from what they are rounded up
        from."""
        width = self.widths[axis]
        grid, block = (read_shape_component(self.program, shape, axis) for shape in (launch.grid, launch.block))
        if block.isdigit() and width % int(block) == 0:
            rounded = re.fullmatch(rf"\((.+) \+ {int(block) - 1}\) / {block}", grid)
            if rounded and rounded[1].count("(") == rounded[1].count(")"):
                return f"({rounded[1]} + {width - 1}) / {width}"
        return f"({items} + {width - 1}) / {width}"

    def _count_items(self, launch: LaunchStatement, axis: int) -> str:
        sizes = [read_shape_component(self.program, shape, axis) for shape in (launch.grid, launch.block)]
        factors = [size if re.fullmatch(r"[\w.]+", size) else f"({size})" for size in sizes if size != "1"]
        return " * ".join(factors) or "1"
