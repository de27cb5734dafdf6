"""Writes plans as source: a kernel whose lanes run the original work-items in another assignment, and its launches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hipsynth.source.coordinates import COORDINATES
from hipsynth.source.declarations import KERNEL_MARK
from hipsynth.source.edits import Edit, apply_edits, edit_text, join_insertions
from hipsynth.source.layout import find_depth, find_spaces, lay_out
from hipsynth.tuning.optimize.analysis.pointer_copies import has_distinct_pointers
from hipsynth.tuning.optimize.analysis.program_model import (
    KernelDefinition,
    LaunchStatement,
    ParsedProgram,
)
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.function_text import choose_free_name, wrap_parameters
from hipsynth.tuning.optimize.helper_text import find_head, select_helpers
from hipsynth.tuning.optimize.launch_shape import has_one_along, read_numbers, write_dim3
from hipsynth.tuning.optimize.program_edits import declare_early
from hipsynth.tuning.optimize.shape_dispatch import SizeGuard, guard_edits
from hipsynth.tuning.optimize.transformation_plan import AXES, Plans, Shape, TransformationPlan
from hipsynth.tuning.optimize.transformations import list_planned
from hipsynth.tuning.optimize.transformations.halo_tile.window_source import edit_windows
from hipsynth.tuning.optimize.transformations.hints import restrict_pointer
from hipsynth.tuning.optimize.transformations.jam.jammed_body import jammed
from hipsynth.tuning.optimize.transformations.kernel_view import MOST_GROUPS
from hipsynth.tuning.optimize.transformations.lds_tile.tile_source import edit_kernel
from hipsynth.tuning.optimize.transformations.lds_transpose.transpose_source import edit_transposition
from hipsynth.tuning.optimize.transformations.matrix_cores.matrix_source import edit_product
from hipsynth.tuning.optimize.transformations.occupancy import ANY_BLOCK, launch_bounds
from hipsynth.tuning.optimize.transformations.split_loops.loop_source import LANE
from hipsynth.tuning.optimize.transformations.transformation import RestFunction

_COORDINATES = tuple(f"const dim3 {name}" for name in ("threadIdx", "blockIdx", "blockDim", "gridDim"))
_COORDINATE_NAMES = {
    "threadIdx": "thread_idx", "blockIdx": "block_idx", "blockDim": "block_dim", "gridDim": "grid_dim",
}  # fmt: skip
_GROUPS = tuple(f"unsigned lane_groups_{axis}" for axis in AXES)  # of the original launch
_WORD = re.compile(r"[A-Za-z_]\w*")
_BOUNDS = re.compile(r"\s*__launch_bounds__\s*\((?:[^()]|\([^()]*\))*\)")
_BEFORE_PRAGMA = re.compile(r"(?m)^[ \t]+\n(?=#pragma)")

# For the last work-items of vectorised ones: the compiler would share statements of the unrolled iterations with the
# others, whose loads do not all become wide then.
_NOT_UNROLLED = "#pragma unroll 1  // unrolled, it would share loads with those above, which stay narrow then\n"


def emit_program(
    program: ParsedProgram, plans: Plans, blocks: dict[str, Shape], guards: Mapping[str, SizeGuard] | None = None
) -> str:
    """The program with its kernels changed as planned. `blocks`: the group shape of each kernel's original launches;
    `guards`: the sizes for which a changed kernel is launched, where it is not for all.

    Raises NotUnderstood if a plan needs what the kernel does not have.
    """
    edits: list[Edit] = []
    helpers: set[str] = set()
    for kernel in program.kernels:
        plan = plans.get(kernel.name, TransformationPlan())
        if plan == TransformationPlan():
            continue
        helpers |= {transformation.helper for transformation in list_planned(plan) if transformation.helper}
        changed = _PlanWriter(program, kernel, plan, blocks.get(kernel.name, (1, 1, 1))).edits()
        guard = (guards or {}).get(kernel.name)
        changed = changed if guard is None else guard_edits(program, kernel, changed, guard)
        edits += changed
    edits += declare_early(program, edits)
    if helpers:
        start = min(find_head(program.unit.text, kernel.start) for kernel in program.kernels)
        used = " ".join(edit.text for edit in edits)
        text = select_helpers("".join(sorted(helpers)), used, program.text)
        edits = _join_insertions([*edits, Edit(start, start, text)])
    return apply_edits(program.text.encode(), edits).decode()


def _join_insertions(edits: Sequence[Edit]) -> list[Edit]:
    """Insertions at the beginning of an edit become part of it."""
    *others, first = edits
    at = next((e for e in others if e.start == first.start), None)
    if at is None:
        return list(edits)
    return [Edit(e.start, e.end, first.text + e.text) if e is at else e for e in others]


def _name_coordinates(function: str, program: str) -> str:
    """A function whose parameters stand for the built-in coordinates, with names that do not hide these."""
    names = {name: choose_free_name(parameter, program) for name, parameter in _COORDINATE_NAMES.items()}
    return _WORD.sub(lambda word: names.get(word[0], word[0]), function)


def _has_coordinate_macro(program: ParsedProgram, kernel: KernelDefinition) -> bool:
    """Whether a kernel's body names a built-in coordinate in a macro, which finds parameters by that name alone."""
    words = {token.text for token in program.tokens[kernel.first : kernel.last]}
    visited: set[str] = set()
    while more := (words & program.macros.keys()) - visited:
        visited |= more
        words = {word for name in more for word in program.macros[name]}
        if words & COORDINATES:
            return True
    return False


@dataclass(frozen=True)
class _PlanWriter:
    program: ParsedProgram
    kernel: KernelDefinition
    plan: TransformationPlan
    block: Shape

    def edits(self) -> list[Edit]:
        if self.plan.tile is not None:
            return edit_kernel(self.program, self.kernel, self.plan.tile, self.block)
        if self.plan.matrix is not None:
            return edit_product(self.program, self.kernel, self.plan.matrix, self.block)
        if self.plan.transpose:
            return edit_transposition(self.program, self.kernel, self.plan.transpose, self.block)
        if self.plan.halo:
            return edit_windows(self.program, self.kernel, self.plan.halo, self.block)
        if self.plan.shape is None:
            return self._in_place()
        launches = [Edit(launch.start, launch.end, self._write_launch(launch)) for launch in self.kernel.launches]
        original = self._original_text() + "\n\n" if self._keeps_original else ""
        return [Edit(self.kernel.start, self.kernel.end, original + self._write_definition()), *launches]

    @property
    def _literal(self) -> bool:
        """Whether every launch's group shape is this one in the source, so that no other can occur."""
        return all(read_numbers(launch.block) == self.block for launch in self.kernel.launches)

    @property
    def _keeps_original(self) -> bool:
        """Whether some launch may need the original kernel: for groups of another shape, or for too many of them."""
        return not self._literal or any(map(self._list_limits, self.kernel.launches))

    @property
    def _name(self) -> str:
        return f"{self.kernel.name}_tuned" if self._keeps_original else self.kernel.name

    def _in_place(self) -> list[Edit]:
        """Hints and unrolling alone leave the launch as it is."""
        tokens = self.program.tokens
        body = self._write_body()
        head_end = tokens[self.kernel.first - 1].start
        head = self.program.unit.text[self.kernel.start : head_end].decode(errors="surrogateescape")
        for parameter, text in zip(self.kernel.parameters, self._write_parameters(), strict=True):
            head = head.replace(parameter.text, text, 1)
        if self.plan.waves:
            bounds = launch_bounds(self.block if self._literal else ANY_BLOCK, self.plan.waves)
            head = _BOUNDS.sub("", head).replace(KERNEL_MARK, f"{KERNEL_MARK} {bounds}", 1)
        return [Edit(self.kernel.start, self.kernel.end, f"{head}{{{body}}}")]

    # --- the kernel --------------------------------------------------------------------------------------------------

    def _original_text(self) -> str:
        return self.program.unit.text[self.kernel.start : self.kernel.end].decode(errors="surrogateescape")

    def _write_parameters(self) -> list[str]:
        """With what the plan says of pointers, where launches pass no array twice: lanes that execute several
        work-items together need it for their speed alone."""
        restrict = self.plan.restrict and has_distinct_pointers(self.program, self.kernel)
        return [restrict_pointer(each) if restrict else each.text for each in self.kernel.parameters]

    def _write_definition(self) -> str:
        kernel, plan = self.kernel, self.plan
        head = f"{kernel.template}\n" if kernel.template else ""
        more = [line for declaration, _ in self._list_parameters() for line in declaration.split("\n")]
        item = f"{head}static __device__ __forceinline__ void {kernel.name}_item("
        parts = [
            f"// One work-item of `{kernel.name}`; the last parameters stand for the built-in coordinates.\n"
            f"{wrap_parameters(item, [*self._write_parameters(), *more, *_COORDINATES])} "
            f"{{{self._write_item_body()}}}\n"
        ]
        if plan.jam:
            parts.append(self._write_jammed(head, more))
        if (rest := self._find_rest()) is not None:
            parts.append(self._write_rest(head, rest))
        if not _has_coordinate_macro(self.program, kernel):
            parts = [_name_coordinates(part, self.program.text) for part in parts]
        assert plan.shape is not None
        lanes = f"{head}__global__ {launch_bounds(plan.shape, plan.waves)} void {self._name}("
        parts.append(f"{wrap_parameters(lanes, [*self._write_parameters(), *_GROUPS])} {{\n{self._write_lanes()}}}")
        return "\n".join(parts)

    def _list_parameters(self) -> list[tuple[str, str]]:
        """What transformations pass to the function of a work-item: (declaration, value)."""
        parameters = []
        for each in list_planned(self.plan):
            if each.parameter:
                declaration, value = each.fill_in(each.parameter, self.program, self.kernel, self.plan)
                parameters.append((declaration, value))
        return parameters

    def _write_body(self) -> str:
        """The original body with the plan's changes within it."""
        tokens = self.program.tokens
        first, last = self.kernel.first, self.kernel.last
        start, end = tokens[first - 1].end, tokens[last].start
        edits = [Edit(e.start - start, e.end - start, e.text) for e in self._body_changes()]
        text = edit_text(self.program.unit.text[start:end], edits)
        return _BEFORE_PRAGMA.sub("", text)

    @property
    def _spaces(self) -> int:
        """The columns by which the program's author indents."""
        tokens, kernel = self.program.tokens, self.kernel
        body = self.program.unit.text[tokens[kernel.first - 1].end : tokens[kernel.last].start]
        return find_spaces(body.decode(errors="surrogateescape"))

    def _body_changes(self) -> list[Edit]:
        planned = list_planned(self.plan)
        return join_insertions(
            [
                edit
                for transformation in planned
                for edit in transformation.edit_body(self.program, self.kernel, self.plan)
            ]
        )

    def _write_item_body(self) -> str:
        """The body of one work-item, laid out anew if it is not the original one."""
        body = self._write_body()
        return body if body in self._original_text() else lay_out(body, 1, self._spaces)

    def _find_rest(self) -> RestFunction | None:
        """What work-items execute in a second loop."""
        writers = (each.rest for each in list_planned(self.plan) if each.rest is not None)
        return next((write(self.program, self.kernel, self.plan) for write in writers), None)

    def _write_rest(self, head: str, rest: RestFunction) -> str:
        function = f"{head}static __device__ __forceinline__ void {self.kernel.name}_rest("
        parameters = wrap_parameters(function, [*self._write_parameters(), *rest.parameters, *_COORDINATES])
        return f"// The rest of a work-item.\n{parameters} {{\n{lay_out(rest.text, 1, self._spaces)}\n}}\n"

    def _write_jammed(self, head: str, more: list[str]) -> str:
        plan, kernel = self.plan, self.kernel
        copies = plan.copies
        text = jammed(self.program, kernel, copies, plan.unroll).text
        for transformation in list_planned(plan):
            text = transformation.edit_jammed(text)
        lines = []
        for axis, count in copies.items():
            x, size = AXES[axis], self.block[axis]
            for k in range(count):
                item = f"item_{x}{k}"
                lines.append(f"const unsigned {item} = {_step_from(f'first_{x}', k, f'step_{x}')};")
                inside, group = (f"{item} % {size}", f"{item} / {size}") if size > 1 else ("0", item)
                lines.append(f"const unsigned thread_{x}{k} = {inside}, block_{x}{k} = {group};")
        places = [f"const unsigned {name}_{AXES[axis]}" for axis in copies for name in ("first", "step")]
        parameters = [*self._write_parameters(), *more, *_COORDINATES, *places]
        items = f"{head}static __device__ __forceinline__ bool {kernel.name}_items("
        shape = " x ".join(f"{count} along {AXES[axis]}" for axis, count in copies.items())
        return (
            f"// Work-items of `{kernel.name}` together, {shape}.\n"
            f"// Returns false, and does nothing, if a condition does not hold for all of them.\n"
            f"{wrap_parameters(items, parameters)} {{\n"
            + lay_out("\n".join([*lines, text, "return true;"]), 1, self._spaces)
            + "\n}\n"
        )

    def _write_lanes(self) -> str:
        """The body of the kernel: which work-items a lane executes."""
        plan, block = self.plan, self.block
        planned = list(list_planned(plan))
        lines = [f"  {line}" for each in planned for line in each.fill_in(each.first, self.program, self.kernel, plan)]
        shape = ", ".join(map(str, block))
        lines.append(f"  const dim3 lane_block({shape}), lane_groups(lane_groups_x, lane_groups_y, lane_groups_z);")
        lines += self._write_places()
        guards = [
            f"lane_{AXES[a]} < {self._axis_width(a)}"
            for a in range(3)
            if a not in plan.copies and block[a] % self._items_per_group(a)
        ]
        run = self._write_items()
        items = f"  if ({' && '.join(guards)}) {{\n{run}  }}" if guards else run.rstrip("\n")
        again = [f"  {line}" for each in planned for line in each.fill_in(each.again, self.program, self.kernel, plan)]
        rest = self._find_rest()
        lines += [items] if rest is None else [items, *again, self._write_items(rest).rstrip("\n")]
        lines += ["}"] if plan.turns > 1 else []
        lines += [f"  {line}" for each in planned for line in each.fill_in(each.last, self.program, self.kernel, plan)]
        return lay_out("\n".join(lines), 1, self._spaces) + "\n"

    def _write_places(self) -> list[str]:
        """Which place a lane has along each axis of the grid, in a loop if its group takes turns."""
        plan, names, lines = self.plan, self._hardware_axes(), []
        assert plan.shape is not None
        if plan.turns > 1:
            if plan.axis not in plan.copies or plan.split or plan.places:
                raise NotUnderstood("turns of lanes that do not execute several work-items each")
            lines.append(f"for (unsigned turn = 0; turn < {plan.turns}; ++turn) {{")
        for axis in range(3):
            width = plan.shape[axis]
            real = AXES[names[axis]]
            group, lane = f"blockIdx.{real}", f"threadIdx.{real}"
            if plan.turns > 1 and axis == plan.axis:
                group = f"({group} * {plan.turns} + turn)"
            if plan.split and axis == 0:
                lines.append(f"  const unsigned lane_x = ({group} * {width} + {lane}) / {plan.split};")
                lines.append(f"  const unsigned {LANE} = {lane} % {plan.split};")
                continue
            x = AXES[axis]
            if axis not in plan.copies:
                lines.append(f"  const unsigned lane_{x} = {group}{f' * {width} + {lane}' if width > 1 else ''};")
            elif plan.adjacent or axis == plan.across:
                first = f"({group} * {width} + {lane}) * {plan.copies[axis]}"
                lines.append(f"  const unsigned first_{x} = {first}, step_{x} = 1;")
            else:
                spread = f"{group} * {width * plan.coarsen}" + (f" + {lane}" if width > 1 else "")
                lines.append(f"  const unsigned first_{x} = {spread}, step_{x} = {width};")
        return lines

    def _items_per_group(self, axis: int) -> int:
        """Work-items of a group along an axis, of which each lane executes one at a time."""
        assert self.plan.shape is not None
        return self.plan.shape[axis] // (self.plan.split if self.plan.split and axis == 0 else 1)

    def _write_items(self, rest: RestFunction | None = None) -> str:
        """The calls for a lane's work-items, or for their rest."""
        plan, block, name = self.plan, self.block, self.kernel.name
        template = f"<{', '.join(self.kernel.template_names)}>" if self.kernel.template_names else ""
        values = [parameter.name for parameter in self.kernel.parameters]
        values += [value for _, value in self._list_parameters()] if rest is None else rest.values

        def coordinates(position: str) -> str:
            at = [f"{position if a in plan.copies else 'lane'}_{AXES[a]}" for a in range(3)]
            inside = ", ".join(f"{p} % {block[a]}" if block[a] > 1 else "0" for a, p in enumerate(at))
            outside = ", ".join(f"{p} / {block[a]}" if block[a] > 1 else p for a, p in enumerate(at))
            return f"dim3({inside}), dim3({outside}), lane_block, lane_groups"

        if not plan.copies:
            return f"    {name}_item{template}({', '.join([*values, coordinates('lane')])});\n"
        loop = f"{name}_{'item' if rest is None else 'rest'}{template}({', '.join([*values, coordinates('item')])});"
        condition = "" if rest is None else f"if ({rest.condition}) "
        for axis, count in plan.copies.items():
            x = AXES[axis]
            loop = (
                f"{_NOT_UNROLLED if plan.adjacent and plan.jam else ''}"
                f"    for (unsigned at_{x} = 0; at_{x} < {count}; ++at_{x}) {{\n"
                f"      const unsigned item_{x} = first_{x} + at_{x} * step_{x};\n"
                f"      {condition or f'if (item_{x} < {self._axis_width(axis)}) '}{loop.strip()}\n    }}\n"
            )
        if not plan.jam:
            return "#pragma unroll\n" + loop
        places = [f"{place}_{AXES[axis]}" for axis in plan.copies for place in ("first", "step")]
        jam = f"{name}_items{template}({', '.join([*values, coordinates('first'), *places])})"
        conditions = [
            f"{_step_from(f'first_{AXES[axis]}', count - 1, f'step_{AXES[axis]}')} < {self._axis_width(axis)}"
            for axis, count in plan.copies.items()
        ]
        return f"    if (!({' && '.join(conditions)} && {jam})) {{\n{loop}    }}\n"

    def _axis_width(self, axis: int) -> str:
        """Work-items of the original launch along an axis."""
        return f"lane_groups.{AXES[axis]}" + (f" * {self.block[axis]}" if self.block[axis] > 1 else "")

    def _hardware_axes(self) -> tuple[int, int, int]:
        """The hardware's axis of each axis of the program: x of the hardware is along the lanes."""
        lanes = self.plan.lanes
        return {0: (0, 1, 2), 1: (1, 0, 2), 2: (2, 1, 0)}[lanes]

    # --- its launches ------------------------------------------------------------------------------------------------

    def _write_launch(self, launch: LaunchStatement) -> str:
        plan, block, names = self.plan, self.block, self._hardware_axes()
        assert plan.shape is not None
        groups, threads = [""] * 3, [0] * 3
        for axis in range(3):
            groups[names[axis]], threads[names[axis]] = self._write_groups(axis), plan.shape[axis]
        rest = "".join(f", {part}" for part in launch.rest)
        shape = f"dim3({', '.join(groups)}), dim3({', '.join(map(str, threads))}){rest}"
        arguments = ", ".join([*launch.arguments, "lane_groups.x, lane_groups.y, lane_groups.z"])
        tuned = f"{self._name}{launch.template}<<<{shape}>>>({arguments});"
        same = [] if self._literal else [f"lane_group.{AXES[a]} == {block[a]}" for a in range(3)]
        conditions = [*same, *(f"{groups[axis]} <= {MOST_GROUPS}" for axis in self._list_limits(launch))]
        depth = find_depth(self.program.unit.text, launch.start, self._spaces)
        if not conditions:
            lines = ["{", f"const dim3 lane_groups = {write_dim3(launch.grid)};", tuned, "}"]
            return lay_out("\n".join(lines), depth, self._spaces).lstrip()
        plain = (
            f"{self.kernel.name}{launch.template}<<<lane_groups, lane_group{rest}>>>({', '.join(launch.arguments)});"
        )
        shapes = f"lane_groups = {write_dim3(launch.grid)}, lane_group = {write_dim3(launch.block)}"
        lines = ["{", f"const dim3 {shapes};", f"if ({' && '.join(conditions)}) {{", tuned, "} else {", plain, "}", "}"]
        return lay_out("\n".join(lines), depth, self._spaces).lstrip()

    def _group_items(self, axis: int) -> int:
        """Work-items of the original launch that a group executes along an axis."""
        per_group = self._items_per_group(axis) * self.plan.copies.get(axis, 1)
        return per_group * (self.plan.turns if axis == self.plan.axis else 1)

    def _write_groups(self, axis: int) -> str:
        """How many groups there are along an axis of the program."""
        block, per_group = self.block[axis], self._group_items(axis)
        items = f"lane_groups.{AXES[axis]}" + (f" * {block}" if block > 1 else "")
        if per_group == block:
            return f"lane_groups.{AXES[axis]}"
        return f"({items} + {per_group - 1}) / {per_group}" if per_group > 1 else items

    def _list_limits(self, launch: LaunchStatement) -> list[int]:
        """The axes of the hardware along which a launch may have more groups than a device takes: y and z, if these
        have more groups than before, and the source does not show how few they are."""
        limited, numbers = [], read_numbers(launch.grid)
        for axis, real in enumerate(self._hardware_axes()):
            per_group = self._group_items(axis)
            is_one = numbers is None and has_one_along(self.program, launch.grid.strip(), axis)
            most = numbers[axis] if numbers is not None else 1 if is_one else None
            fits = most is not None and -(-most * self.block[axis] // per_group) <= MOST_GROUPS
            if real and not fits and (real != axis or per_group < self.block[axis]):
                limited.append(real)
        return sorted(limited)


def _step_from(first: str, count: int, step: str) -> str:
    """`first + count * step`, as one would write it."""
    return first if count == 0 else f"{first} + {step}" if count == 1 else f"{first} + {count} * {step}"
