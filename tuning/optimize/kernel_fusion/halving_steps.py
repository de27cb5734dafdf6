"""Steps of halving distances, as those of a bitonic sort: once a group's work-items exchange elements only among those
of their own group, one launch takes all steps that are left, with a barrier after each.

It applies to a loop `for (T d = ...; d > 0; d /= 2)` that does nothing but launch a kernel with `d`. From which
distance on the groups keep to themselves is found by evaluating the kernel's subscripts for all work-items of several
groups.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from hipsynth.source.edits import Edit
from hipsynth.source.tokens import find_closing, split_at
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.function_text import choose_free_name
from hipsynth.tuning.optimize.kernel_fusion.fused_launches import FusedLaunch
from hipsynth.tuning.optimize.kernel_fusion.fused_program import Fusion
from hipsynth.tuning.optimize.kernel_fusion.group_places import check_repeatable_body, keeps_apart, parse_subscript
from hipsynth.tuning.optimize.program_edits import edit_program

MOST_DISTANCE = 2048
LEAST_DISTANCE = 4  # from which on it is worth a kernel
_NAME = re.compile(r"[A-Za-z_]\w*((\.data\(\))?\.get\(\))?")
_STEPS = ("{0}/=2", "{0}>>=1", "{0}={0}/2", "{0}={0}>>1")
_ENDS = ("{0}>0", "0<{0}", "{0}>=1")


def find_steps(program: ParsedProgram) -> Iterator[Fusion]:
    """The program with the last steps of one such loop in one launch, for each loop."""
    for kernel in program.kernels:
        for launch in kernel.launches:
            try:
                fusion = _SteppedLaunch(FusedLaunch(program, launch, kernel)).write_program()
            except NotUnderstood:
                continue
            yield fusion


@dataclass(frozen=True)
class _SteppedLaunch:
    call: FusedLaunch

    def write_program(self) -> Fusion:
        """Raises NotUnderstood for loops and kernels of another form."""
        call, program = self.call, self.call.program
        if not call.fits() or not re.fullmatch(r"[1-9]\d*", call.launch.block):
            raise NotUnderstood("a kernel whose work-items depend on their group, or a size that is no number")
        distance, alone = self._read_loop()
        parameters = [name for name, passed in call.passed.items() if passed == distance]
        shape = re.findall(r"\w+", call.launch.grid)
        mentioned = sum(distance in re.findall(r"\w+", passed) for passed in call.passed.values())
        if len(parameters) != 1 or mentioned != 1 or distance in shape:
            raise NotUnderstood("a distance that is passed in another way")
        check_repeatable_body(call, parameters[0])
        last = self._find_distance(distance)
        name = choose_free_name(f"{call.kernel.name}_rest", program.text)
        end = call.kernel.end
        edits = [
            Edit(end, end, f"\n\n{self._write_kernel(name, parameters[0])}"),
            Edit(call.launch.start, call.launch.end, self._write_launches(name, distance, last, alone)),
        ]
        text = edit_program(program, edits)
        return Fusion(text, name, (call.kernel.name,))

    def _read_loop(self) -> tuple[str, bool]:
        """The variable of the loop that halves it, and whether the launch is the loop's body without braces."""
        tokens, launch = self.call.program.tokens, self.call.launch
        at = bisect_left(tokens, launch.start, key=lambda token: token.start)
        after = bisect_left(tokens, launch.end, key=lambda token: token.start)
        alone = tokens[at - 1].text == ")"
        in_block = tokens[at - 1].text == "{" and tokens[at - 2].text == ")" and tokens[after].text == "}"
        if not alone and not in_block:
            raise NotUnderstood("a launch that is not all that a loop does")
        close = at - 1 if alone else at - 2
        opening = next((i for i in range(close, 0, -1) if find_closing(tokens, i) == close), 1)
        parts = split_at(tokens, opening + 1, close, ";")
        if tokens[opening - 1].text != "for" or len(parts) != 3:
            raise NotUnderstood("no loop")
        head, condition, step = ("".join(t.text for t in tokens[a:b]) for a, b in parts)
        begin, _, _ = head.partition("=")
        variable = tokens[parts[0][0] + 1].text
        halves = condition in [end.format(variable) for end in _ENDS] and step in [s.format(variable) for s in _STEPS]
        if not halves or begin not in (f"int{variable}", f"unsigned{variable}"):
            raise NotUnderstood("a loop that does not halve a variable")
        return variable, alone

    def _find_distance(self, distance: str) -> int:
        """The largest distance from which on all groups keep to elements of their own. Raises NotUnderstood."""
        uses = self.call.uses()
        written = [array.subscripts for array in uses.values() if array.written]
        if not written or not all(_NAME.fullmatch(array) for array in uses) or self.call.has_copies():
            raise NotUnderstood("arrays that may overlap")
        trees = [parse_subscript(text) for subscripts in written for text in subscripts]
        lanes = int(self.call.launch.block)
        elements = last = 0
        for value in range(1, MOST_DISTANCE + 1):
            elements = keeps_apart(trees, lanes, {distance: value}, elements)
            if not elements:
                break
            last = value
        last = 1 << (last.bit_length() - 1) if last else 0
        if last < LEAST_DISTANCE:
            raise NotUnderstood("groups that do not keep to elements of their own")
        return last

    # --- text --------------------------------------------------------------------------------------------------------

    def _write_kernel(self, name: str, distance: str) -> str:
        kernel = self.call.kernel
        declared = [
            re.sub(r"\bconst\s+", "", parameter.text) if parameter.name == distance else parameter.text
            for parameter in kernel.parameters
        ]
        return (
            f"// `{kernel.name}` for this distance and all that are left: groups keep to elements of their own.\n"
            f"__global__ void {name}({', '.join(declared)}) {{\n  for (; {distance} > 0; {distance} /= 2) {{\n"
            f"{self.call.text()}\n    __syncthreads();\n  }}\n}}"
        )

    def _write_launches(self, name: str, distance: str, last: int, alone: bool) -> str:
        launch, text = self.call.launch, self.call.program.unit.text
        line = text[text.rfind(b"\n", 0, launch.start) + 1 : launch.start].decode(errors="surrogateescape")
        outer = line[: len(line) - len(line.lstrip())]
        indent = f"{outer}  " if alone else outer
        shape = f"<<<{launch.grid}, {launch.block}>>>({', '.join(launch.arguments)});"
        before = text[launch.start : launch.end].decode(errors="surrogateescape")
        lines = [f"if ({distance} <= {last}) {{", f"  {name}{shape}", "  break;", "}", before]
        inside = f"\n{indent}".join(lines)
        return f"{{\n{indent}{inside}\n{outer}}}" if alone else inside
