"""Steps of halving distances, as those of a bitonic sort: once a group's work-items exchange elements only among those
of their own group, one launch takes all steps that are left, with a barrier after each.

It applies to a loop `for (T d = ...; d > 0; d /= 2)` that does nothing but launch a kernel with `d`. From which
distance on the groups keep to themselves is found by evaluating the kernel's subscripts for all work-items of several
groups.
"""

from __future__ import annotations

import ast
import operator
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hipsynth.source.edits import Edit, apply_edits
from hipsynth.source.tokens import find_closing, split_at
from hipsynth.tuning.optimize.kernel_fusion_launches import FusedLaunch
from hipsynth.tuning.optimize.kernel_fusion_text import Fusion, choose_free_name
from hipsynth.tuning.optimize.program_model import ParsedProgram
from hipsynth.tuning.optimize.statements import NotUnderstood

GROUPS = (0, 1, 2, 5, 1022)  # whose work-items' elements are looked at
MOST_DISTANCE = 2048
LEAST_DISTANCE = 4  # from which on it is worth a kernel
_NAME = re.compile(r"[A-Za-z_]\w*((\.data\(\))?\.get\(\))?")
_STEPS = ("{0}/=2", "{0}>>=1", "{0}={0}/2", "{0}={0}>>1")
_ENDS = ("{0}>0", "0<{0}", "{0}>=1")
_COORDINATES = {"blockIdx.x": "group", "threadIdx.x": "lane", "blockDim.x": "lanes"}
Integers = npt.NDArray[np.int64]
_OPERATORS: Mapping[type[ast.operator], Callable[[Integers, Integers], Integers]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}


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
        if not call.fits() or not call.launch.block.isdecimal():
            raise NotUnderstood("a kernel whose work-items depend on their group, or a size that is no number")
        distance, alone = self._read_loop()
        parameters = [name for name, passed in call.passed.items() if passed == distance]
        shape = re.findall(r"\w+", call.launch.grid)
        mentioned = sum(distance in re.findall(r"\w+", passed) for passed in call.passed.values())
        if len(parameters) != 1 or mentioned != 1 or distance in shape:
            raise NotUnderstood("a distance that is passed in another way")
        self._check_body(parameters[0])
        last = self._find_distance(distance)
        name = choose_free_name(f"{call.kernel.name}_rest", program.text)
        end = call.kernel.end
        edits = [
            Edit(end, end, f"\n\n{self._write_kernel(name, parameters[0])}"),
            Edit(call.launch.start, call.launch.end, self._write_launches(name, distance, last, alone)),
        ]
        text = apply_edits(program.unit.text, edits).decode(errors="surrogateescape")
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

    def _check_body(self, distance: str) -> None:
        """Raises NotUnderstood for a kernel that changes the distance, or what is no array of its own."""
        call, body = self.call, self.call.body
        tokens, kernel = call.program.tokens, call.kernel
        arrays = {parameter.name for parameter in kernel.parameters if parameter.base}
        functions = {function.name for function in call.program.functions}
        for i in range(kernel.first, kernel.last):
            text = tokens[i].text
            outside = body.assigns(i, kernel.last) and body.local(tokens[i]) < 0 and text not in arrays
            if not tokens[i].identifier or tokens[i - 1].text == ".":
                continue
            is_address = tokens[i - 1].text == "&" and tokens[i - 2].text in ("(", ",", "=")
            if outside or (is_address and text == distance):
                raise NotUnderstood("something else is changed")
            if "tomic" in text or text in functions or text in ("printf", "assert", "gridDim"):
                raise NotUnderstood(f"it uses {text}")

    def _find_distance(self, distance: str) -> int:
        """The largest distance from which on all groups keep to elements of their own. Raises NotUnderstood."""
        uses = self.call.uses()
        written = [array.subscripts for array in uses.values() if array.written]
        if not written or not all(_NAME.fullmatch(array) for array in uses):
            raise NotUnderstood("arrays that may overlap")
        trees = [_parse_subscript(text) for subscripts in written for text in subscripts]
        lanes = int(self.call.launch.block)
        elements = 0  # of a group
        last = 0
        for value in range(1, MOST_DISTANCE + 1):
            names: dict[str, Integers] = {
                distance: np.array(value),
                "lanes": np.array(lanes),
                "lane": np.arange(lanes)[None, :],
                "group": np.array(GROUPS)[:, None],
            }
            places = [np.broadcast_to(_evaluate_subscript(tree, names), (len(GROUPS), lanes)) for tree in trees]
            smallest, largest = np.min(places, axis=(0, 2)), np.max(places, axis=(0, 2))
            elements = elements or int(largest[0]) + 1
            starts = np.array(GROUPS) * elements
            if (smallest < starts).any() or (largest >= starts + elements).any():
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


def _parse_subscript(text: str | None) -> ast.expr:
    """A subscript in coordinates and parameters. Raises NotUnderstood for one that Python would compute otherwise."""
    words = text or "?"
    for coordinate, name in _COORDINATES.items():
        words = words.replace(coordinate, name)
    if not re.fullmatch(r"[\w()+*/%&|^-]+", words) or ("-" in words and re.search(r"[/%]", words)):
        raise NotUnderstood("a subscript of another form")
    try:
        return ast.parse(words.replace("/", "//"), mode="eval").body
    except SyntaxError:
        raise NotUnderstood("a subscript of another form") from None


def _evaluate_subscript(tree: ast.expr, names: Mapping[str, Integers]) -> Integers:
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return np.asarray(tree.value, np.int64)
    if isinstance(tree, ast.Name) and tree.id in names:
        return names[tree.id]
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        return _OPERATORS[type(tree.op)](_evaluate_subscript(tree.left, names), _evaluate_subscript(tree.right, names))
    raise NotUnderstood("a subscript of another form")
