"""Passes of a loop, as those of a transform or a sort: if the work-items of each group exchange elements among
themselves alone, one launch takes all passes, with a barrier after each.

It applies to a loop `for (int v = A; v < B; v *= 2)`, or in other steps, over constants that does nothing but launch a
kernel with `v` and, for passes from one array to another one, swap both. That the groups keep to themselves is found by
evaluating the kernel's subscripts for all work-items of several groups and all values of `v`; groups may be larger than
those of the launch. The other launches remain for grids that these do not divide. Where they fit, the elements lie in
the LDS meanwhile.
"""

from __future__ import annotations

import contextlib
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hipsynth.source.arithmetic import compute_operation
from hipsynth.source.edits import Edit
from hipsynth.source.tokens import find_closing, split_at
from hipsynth.tuning.optimize.analysis.program_constants import find_constants, read_number
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.function_text import choose_free_name
from hipsynth.tuning.optimize.kernel_fusion.fused_launches import FusedLaunch
from hipsynth.tuning.optimize.kernel_fusion.fused_program import Fusion
from hipsynth.tuning.optimize.kernel_fusion.group_places import (
    OWN_NUMBER,
    check_repeatable_body,
    keeps_apart,
    parse_subscript,
)
from hipsynth.tuning.optimize.kernel_fusion.host_loop import SWAP
from hipsynth.tuning.optimize.kernel_fusion.staged_passes import StagedPasses, stage_passes
from hipsynth.tuning.optimize.program_edits import edit_program

MOST_PASSES = 64
MOST_LANES = 1024
MOST_VALUE = 1 << 31  # of a loop's variable
_PLAIN = re.compile(r"[A-Za-z_]\w*")
_HEAD = re.compile(r"(int|unsigned|unsignedint)(\w+)=(\w+)")
_CONDITION = re.compile(r"(\w+)(<=|>=|<|>)(\w+)")
_STEP = re.compile(r"(?:(\w+)(\*=|/=|\+=|-=|<<=|>>=)(\w+)|(\+\+|--)(\w+)|(\w+)(\+\+|--))")


def find_passes(program: ParsedProgram) -> Iterator[Fusion]:
    """The program with all passes of one such loop in one launch, for each loop: with elements in the LDS, and without
    that."""
    constants = find_constants(program)
    for kernel in program.kernels:
        for launch in kernel.launches:
            repeated = _RepeatedLaunch(FusedLaunch(program, launch, kernel), constants)
            for staged in (True, False):
                with contextlib.suppress(NotUnderstood):
                    yield repeated.write_program(staged)


@dataclass(frozen=True)
class _PassLoop:
    """A loop over passes: bytes [start, end) of it, its head as it is written, its variable and the values that this
    takes; `swap`: the statement that swaps the arrays, and their names."""

    start: int
    end: int
    head: str
    variable: str
    values: tuple[int, ...]
    swap: str = ""
    swapped: tuple[str, ...] = ()


@dataclass(frozen=True)
class _RepeatedLaunch:
    call: FusedLaunch
    constants: Mapping[str, int]

    def write_program(self, staged: bool) -> Fusion:
        """The program with all passes in one launch; `staged`: with elements in the LDS. Raises NotUnderstood for loops
        and kernels of another form."""
        call, program = self.call, self.call.program
        if not call.fits() or not re.fullmatch(r"[1-9]\d*", call.launch.block):
            raise NotUnderstood("a kernel whose work-items depend on their group, or a size that is no number")
        loop = self._read_loop()
        parameter = self._find_parameter(loop)
        check_repeatable_body(call, parameter)
        lanes, elements = self._find_lanes(loop)
        stages = self._stage_passes(loop, lanes, elements) if staged else None
        name = f"{call.kernel.name}_passes"
        if choose_free_name(name, program.text) != name:
            raise NotUnderstood("launches that remain beside those of all passes")
        end = call.kernel.end
        edits = [
            Edit(end, end, f"\n\n{self._write_kernel(name, parameter, loop, stages)}"),
            Edit(loop.start, loop.end, self._write_launches(name, loop, lanes)),
        ]
        text = edit_program(program, edits)
        return Fusion(text, name, (call.kernel.name,))

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read_loop(self) -> _PassLoop:
        tokens, launch = self.call.program.tokens, self.call.launch
        at = bisect_left(tokens, launch.start, key=lambda token: token.start)
        after = bisect_left(tokens, launch.end, key=lambda token: token.start)
        if tokens[at - 1].text == ")":
            close, end, swap = at - 1, launch.end, ""
        elif tokens[at - 1].text == "{" and tokens[at - 2].text == ")":
            brace = find_closing(tokens, at - 1)
            close, end = at - 2, tokens[brace].end
            swap = "".join(token.text for token in tokens[after:brace])
        else:
            raise NotUnderstood("a launch that is not all that a loop does")
        opening = next((i for i in range(close, 0, -1) if find_closing(tokens, i) == close), 1)
        parts = split_at(tokens, opening + 1, close, ";")
        pair = SWAP.fullmatch(swap)
        if tokens[opening - 1].text != "for" or len(parts) != 3 or (swap and pair is None):
            raise NotUnderstood("no loop of passes")
        texts = ["".join(token.text for token in tokens[a:b]) for a, b in parts]
        source = self.call.program.unit.text
        head = source[tokens[opening].start : tokens[close].end].decode(errors="surrogateescape")
        statement = source[tokens[after].start : tokens[brace - 1].end].decode(errors="surrogateescape") if swap else ""
        variable, values = self._read_values(*texts)
        swapped = pair.groups() if pair else ()
        return _PassLoop(tokens[opening - 1].start, end, head, variable, values, statement, swapped)

    def _read_values(self, head: str, condition: str, step: str) -> tuple[str, tuple[int, ...]]:
        """The variable of a loop over constants, and its values. Raises NotUnderstood."""
        begin, test, change = _HEAD.fullmatch(head), _CONDITION.fullmatch(condition), _STEP.fullmatch(step)
        if begin is None or test is None or change is None or test[1] != begin[2]:
            raise NotUnderstood("a loop of another form")
        name, sign, amount = next(
            (name, sign, amount)
            for name, sign, amount in (change.group(1, 2, 3), (change[5], change[4], "1"), (change[6], change[7], "1"))
            if name
        )
        value, bound, by = (self._read_constant(text) for text in (begin[3], test[3], amount))
        if name != begin[2]:
            raise NotUnderstood("a loop of another form")
        least = -MOST_VALUE if begin[1] == "int" else 0
        values: list[int] = []
        while compute_operation(test[2], value, bound):
            values.append(value)
            value = compute_operation(sign[: max(1, len(sign) - 1)], value, by)
            if len(values) > MOST_PASSES or value is None or not least <= value < MOST_VALUE or value == values[-1]:
                raise NotUnderstood("too many passes, or numbers that the variable cannot be")
        if len(values) < 2:
            raise NotUnderstood("no passes")
        return name, tuple(values)

    def _read_constant(self, text: str) -> int:
        number = read_number(text)
        if number is None and text not in self.constants:
            raise NotUnderstood(f"{text} is no constant")
        return self.constants[text] if number is None else number

    def _find_parameter(self, loop: _PassLoop) -> str:
        """The kernel's parameter that the loop's variable is passed for. Raises NotUnderstood."""
        call = self.call
        parameters = [name for name, passed in call.passed.items() if passed == loop.variable]
        mentioned = sum(loop.variable in re.findall(r"\w+", passed) for passed in call.passed.values())
        if len(parameters) != 1 or mentioned != 1 or loop.variable in re.findall(r"\w+", call.launch.grid):
            raise NotUnderstood("a number of the pass that is passed in another way")
        return parameters[0]

    def _find_lanes(self, loop: _PassLoop) -> tuple[int, int]:
        """The fewest work-items of a group, a multiple of the launch's, with elements of their own in all passes, and
        how many elements that are."""
        uses = self.call.uses()
        written = {array for array, use in uses.items() if use.written}
        is_known = all(map(_PLAIN.fullmatch, uses)) and set(loop.swapped) <= uses.keys()
        if not written or not is_known or self.call.has_copies(loop.swapped):
            raise NotUnderstood("arrays that may overlap")
        exchanged = written | set(loop.swapped)
        if loop.swapped and exchanged != set(loop.swapped):
            raise NotUnderstood("another array is written")
        trees = [parse_subscript(text) for array in sorted(exchanged) for text in uses[array].subscripts]
        lanes = block = int(self.call.launch.block)
        while lanes <= (MOST_LANES if self._knows_number_alone() else block):
            elements = 0
            for value in loop.values:
                elements = keeps_apart(trees, lanes, {**self.constants, loop.variable: value}, elements)
                if not elements:
                    break
            if elements:
                return lanes, elements
            lanes += block
        raise NotUnderstood("groups that do not keep to elements of their own")

    def _knows_number_alone(self) -> bool:
        """Whether a work-item knows its number in the grid alone, so that groups may have another size."""
        tokens = self.call.program.tokens[self.call.kernel.first : self.call.kernel.last]
        rest = OWN_NUMBER.sub("", "".join(token.text for token in tokens))
        return not re.search(r"threadIdx|blockIdx|blockDim", rest)

    def _stage_passes(self, loop: _PassLoop, lanes: int, elements: int) -> StagedPasses:
        """The arrays that are exchanged as tiles in the LDS. Raises NotUnderstood."""
        call, uses = self.call, self.call.uses()
        exchanged = loop.swapped or tuple(array for array, use in uses.items() if use.written)
        arrays = [name for name, passed in call.passed.items() if passed in exchanged]
        if len(arrays) != len(exchanged):
            raise NotUnderstood("an array that is passed twice")
        arrays.sort(key=lambda name: uses[call.passed[name]].written)  # the one that is read first
        return stage_passes(call, uses, arrays, elements, lanes, {**self.constants, loop.variable: loop.values[0]})

    # --- text --------------------------------------------------------------------------------------------------------

    def _write_kernel(self, name: str, parameter: str, loop: _PassLoop, stages: StagedPasses | None) -> str:
        call = self.call
        swapped = [name for name, passed in call.passed.items() if passed in loop.swapped]
        declared = []
        for array in call.kernel.parameters:
            text = array.text
            if array.name in swapped:
                text = re.sub(r"\bconst\s+(?=\w)|\s*\b__restrict(?:__)?\b", "", text)
                text = re.sub(r"\*\s*const\b", "*", text)
            if array.name != parameter:
                declared.append(text)
        head = re.sub(rf"\b{re.escape(loop.variable)}\b", parameter, loop.head)
        before, body, behind = ([], call.text(), []) if stages is None else stages.write_text()
        where = "" if stages is None else ", which lie in the LDS meanwhile"
        lines = [
            f"// All passes of `{call.kernel.name}`: groups keep to elements of their own{where}.",
            f"__global__ void {name}({', '.join(declared)}) {{",
            *before,
            f"  for {head} {{",
            body,
            "    __syncthreads();",
        ]
        if swapped:
            first, second = swapped if stages is None else map(stages.find_names().__getitem__, swapped)
            other = choose_free_name("other", call.program.text)
            lines.append(f"    auto* const {other} = {first};\n    {first} = {second};\n    {second} = {other};")
        return "\n".join([*lines, "  }", *behind, "}"])

    def _write_launches(self, name: str, loop: _PassLoop, lanes: int) -> str:
        launch, source = self.call.launch, self.call.program.unit.text
        line = source[source.rfind(b"\n", 0, loop.start) + 1 : loop.start].decode(errors="surrogateescape")
        indent = line[: len(line) - len(line.lstrip())]
        arguments = [passed for passed in launch.arguments if passed != loop.variable]
        grid = launch.grid if re.fullmatch(r"\w+", launch.grid) else f"({launch.grid})"
        times = lanes // int(launch.block)
        swap = [loop.swap] if len(loop.values) % 2 and loop.swap else []
        if times == 1:
            lines = [f"{name}<<<{launch.grid}, {lanes}>>>({', '.join(arguments)});", *swap]
            return f"\n{indent}".join(lines)
        original = source[loop.start : loop.end].decode(errors="surrogateescape").replace("\n", "\n  ")
        lines = [
            f"if ({grid} % {times} == 0) {{",
            f"  {name}<<<{grid} / {times}, {lanes}>>>({', '.join(arguments)});",
            *(f"  {statement}" for statement in swap),
            "} else {",
            f"  {original}",
            "}",
        ]
        return f"\n{indent}".join(lines)
