"""Groups that take turns: where each group of a large grid adds its result to one number, as losses do, the additions
wait for each other, however fast the groups are.

Fewer groups each do the work of several, one after the other, add up in registers what those would add to memory, and
add once at the end. For `atomicAdd(sum, value);` and `if (threadIdx.x == 0) atomicAdd(sum, value);`, statements of the
kernel itself that add to a parameter of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hipsynth.profiling.backends.protocol import Target
from hipsynth.source.edits import Edit, edit_text
from hipsynth.source.layout import find_spaces, lay_out
from hipsynth.source.tokens import Span, find_closing, split_at, text_between
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_model import (
    ATOMIC_ADDS,
    KernelDefinition,
    LaunchStatement,
    ParsedProgram,
)
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.function_text import choose_free_name
from hipsynth.tuning.optimize.launch_shape import cap_groups, read_shape_component
from hipsynth.tuning.optimize.source_changes.group_statements import spell_expression
from hipsynth.tuning.optimize.source_changes.source_change import LEAST_CHANGED_SHARE, SourceChange, SourceChanger

GROUPS = (4096, 2048, 1024)  # that are launched at most
LEAST_TURNS = 2
TYPES = frozenset({"float", "double", "int", "unsigned", "unsigned int"})
_LOOPS = frozenset({"for", "while"})
# A number of groups that may be written twice: without calls, but for those of size() and dim3().
_REPEATABLE_COUNT = re.compile(r"(?!.*(?:\+\+|--))(?:\bdim3\(|\.size\(\)|(?<!\w)(?<!\w )\(|[\w\s.+*/%)-])+")


def list_changes(program: ParsedProgram, timed: CandidateMeasurement, target: Target) -> Iterator[SourceChange]:
    """The program with turns of a slow kernel's groups, for each kernel that has such additions."""
    for kernel in program.kernels:
        run = timed.of(kernel.name)
        if run is None or run.duration_ns < LEAST_CHANGED_SHARE * timed.duration_ns:
            continue
        for most in GROUPS:
            if run.grid[0] < LEAST_TURNS * most:
                continue
            try:
                text = _GroupTurns(Body(program, kernel), most).write()
            except NotUnderstood:
                break
            yield SourceChange(kernel.name, text, "groups wait for each other's additions to one number")


CHANGER = SourceChanger("TCC_ATOMIC", list_changes, alternatives=True)


@dataclass(frozen=True)
class _Addition:
    """An addition to what all groups add to. `by_first`: the first work-item of a group adds."""

    statement: Statement
    function: str
    address: str
    value: str
    type: str
    by_first: bool


@dataclass(frozen=True)
class _GroupTurns:
    body: Body
    most: int

    @property
    def kernel(self) -> KernelDefinition:
        return self.body.kernel

    def write(self) -> str:
        """The program. Raises NotUnderstood."""
        program, kernel = self.body.program, self.kernel
        self.body.check_plain()
        if kernel.fixed or not kernel.launches or any(map(self._knows_group, program.functions)):
            raise NotUnderstood("a kernel whose launches or functions know their groups")
        if self.body.changes_parameter():
            raise NotUnderstood("a parameter that the next turn would find changed")
        statements = parse_statements(program.tokens, kernel.first, kernel.last)
        additions = [each for statement in statements if (each := self._read_addition(statement)) is not None]
        if not additions or any(self._is_seen(addition) for addition in additions):
            raise NotUnderstood("no addition to a number that the kernel does not read")
        group, groups = (choose_free_name(name, program.text) for name in ("group", "groups"))
        edits = [*self._edit_head(groups), *(self._edit_launch(launch) for launch in kernel.launches)]
        edits.append(self._edit_body(statements, additions, group, groups))
        return edit_text(program.unit.text, edits)

    def _knows_group(self, function: KernelDefinition) -> bool:
        words = {token.text for token in self.body.tokens[function.first : function.last]}
        return bool(words & {"blockIdx", "gridDim"})

    # --- additions ----------------------------------------------------------------------------------------------------

    def _read_addition(self, statement: Statement) -> _Addition | None:
        tokens, inner, by_first = self.body.tokens, statement, False
        if statement.kind == "if" and len(statement.parts) == 1:
            sides = [spell_expression(self.body, side) for side in split_at(tokens, *statement.head, "==")]
            inner, by_first = statement.parts[0], sorted(sides) == ["0", "threadIdx.x"]
            inner = inner.parts[0] if inner.kind == "block" and len(inner.parts) == 1 else inner
            if not by_first:
                return None
        at = inner.start
        if inner.kind != "simple" or tokens[at].text not in ATOMIC_ADDS or tokens[at + 1].text != "(":
            return None
        close = find_closing(tokens, at + 1)
        parts = split_at(tokens, at + 2, close, ",")
        if len(parts) != 2 or close != inner.end - 2:
            return None
        kind = self._find_type(parts[0])
        unit = self.body.program.unit
        address, value = (text_between(unit, tokens, *part) for part in parts)
        return _Addition(statement, tokens[at].text, address, value, kind, by_first) if kind in TYPES else None

    def _find_type(self, address: Span) -> str:
        """The type of what a parameter of the kernel points to; "" where the address is another one."""
        words = [token.text for token in self.body.tokens[slice(*address)]]
        if len(words) == 5 and words[0] == "&" and words[2::2] == ["[", "]"] and words[3].isdigit():
            words = words[1:2]  # &sums[2]
        bases = {parameter.name: parameter.base for parameter in self.kernel.parameters}
        return bases.get(words[0], "") if len(words) == 1 and self.body.local(self.body.tokens[address[0]]) < 0 else ""

    def _is_seen(self, addition: _Addition) -> bool:
        """Whether the kernel does anything else with what it adds to, or fences tell others that it is complete."""
        tokens, kernel = self.body.tokens, self.kernel
        words = set(re.findall(r"\w+", addition.address))
        (name,) = {parameter.name for parameter in kernel.parameters} & words
        span = range(*addition.statement.span)
        return any(
            (tokens[i].text == name and i not in span) or tokens[i].text.startswith("__threadfence")
            for i in range(kernel.first, kernel.last)
        )

    # --- edits --------------------------------------------------------------------------------------------------------

    def _edit_head(self, groups: str) -> Iterator[Edit]:
        """The kernel's parameters with the number of groups whose work there is."""
        tokens, kernel = self.body.tokens, self.kernel
        names = [i for i, token in enumerate(tokens) if token.text == kernel.name and tokens[i + 1].text == "("]
        defined = [i for i in names if kernel.start <= tokens[i].start < tokens[kernel.first].start]
        declared = [i for i in names if tokens[find_closing(tokens, i + 1) + 1].text == ";" and i not in defined]
        if len(defined) != 1 or any(tokens[i - 1].text == "void" for i in declared):
            raise NotUnderstood("a declaration ahead of the definition")
        close = tokens[find_closing(tokens, defined[0] + 1)].start
        yield Edit(close, close, f", unsigned {groups}" if kernel.parameters else f"unsigned {groups}")

    def _edit_launch(self, launch: LaunchStatement) -> Edit:
        program = self.body.program
        groups = read_shape_component(program, launch.grid.strip(), 0)
        if not _REPEATABLE_COUNT.fullmatch(groups):
            raise NotUnderstood("a number of groups that cannot be written twice")
        shape = cap_groups(program, launch.grid, self.most)
        shape += f", {launch.block}" + "".join(f", {part}" for part in launch.rest)
        passed = ", ".join([*launch.arguments, groups])
        return Edit(launch.start, launch.end, f"{self.kernel.name}{launch.template}<<<{shape}>>>({passed});")

    def _edit_body(
        self, statements: tuple[Statement, ...], additions: list[_Addition], group: str, groups: str
    ) -> Edit:
        """The body as a loop over the work of groups."""
        program, tokens, kernel = self.body.program, self.body.tokens, self.kernel
        start, end = tokens[kernel.first].start, tokens[kernel.last - 1].end
        sums = self._name_sums(additions)
        edits = [*self._edit_coordinates(group, groups), *self._edit_returns(statements)]
        for addition, name in zip(additions, sums, strict=True):
            span = tokens[addition.statement.start].start, tokens[addition.statement.end - 1].end
            edits = [edit for edit in edits if not span[0] <= edit.start < span[1]]
            first = "if (threadIdx.x == 0) " if addition.by_first else ""
            value = re.sub(r"\bblockIdx\s*\.\s*x\b", group, addition.value)
            edits.append(Edit(*span, f"{first}{name} += {re.sub(r'gridDim[.]x', groups, value)};"))
        shifted = [Edit(edit.start - start, edit.end - start, edit.text) for edit in edits]
        turn = edit_text(program.unit.text[start:end], shifted)
        lines = [f"{addition.type} {name} = 0;" for addition, name in zip(additions, sums, strict=True)]
        lines.append(f"for (unsigned {group} = blockIdx.x; {group} < {groups}; {group} += gridDim.x) {{")
        if program.has_barrier(kernel.first, kernel.last):
            lines.append("__syncthreads();  // the turn before has read what it left in the LDS")
        lines += [turn, "}"]
        for addition, name in zip(additions, sums, strict=True):
            first = "if (threadIdx.x == 0) " if addition.by_first else ""
            lines.append(f"{first}{addition.function}({addition.address}, {name});")
        spaces = find_spaces(program.unit.text[start:end].decode(errors="surrogateescape"))
        return Edit(start, end, lay_out("\n".join(lines), 1, spaces).lstrip())

    def _name_sums(self, additions: list[_Addition]) -> list[str]:
        taken, names = self.body.program.text, []
        for _ in additions:
            names.append(choose_free_name("group_sum", taken))
            taken += f" {names[-1]}"
        return names

    def _edit_coordinates(self, group: str, groups: str) -> Iterator[Edit]:
        tokens, kernel = self.body.tokens, self.kernel
        names = {"blockIdx": group, "gridDim": groups}
        for i in range(kernel.first, kernel.last):
            if tokens[i].text in names and tokens[i + 2].text == "x":
                yield Edit(tokens[i].start, tokens[i + 2].end, names[tokens[i].text])
            elif tokens[i].text in names and tokens[i + 1].text != ".":
                raise NotUnderstood("a use of a group's number as a whole")

    def _edit_returns(self, statements: tuple[Statement, ...], in_loop: bool = False) -> Iterator[Edit]:
        """A work-item that is done goes on with the next turn: where there are barriers, its whole group does."""
        tokens = self.body.tokens
        has_barrier = self.body.program.has_barrier(self.kernel.first, self.kernel.last)
        for statement in statements:
            if statement.kind == "jump" and tokens[statement.start].text == "return":
                if in_loop:
                    raise NotUnderstood("a return from a loop")
                yield Edit(tokens[statement.start].start, tokens[statement.end - 1].end, "continue;")
            if statement.kind == "if" and has_barrier and self.body.may_return(statement):
                self._check_uniform(statement.head, set())
            yield from self._edit_returns(statement.parts, in_loop or statement.kind in _LOOPS)

    def _check_uniform(self, span: Span, checked: set[int]) -> None:
        """Raises NotUnderstood unless all work-items of a group find the same value."""
        tokens = self.body.tokens
        for i in range(*span):
            place = self.body.local(tokens[i])
            if tokens[i].text == "threadIdx" or (tokens[i].identifier and tokens[i + 1].text in ("(", "[")):
                raise NotUnderstood("work-items that leave their group")
            if place < 0 or place in checked:
                continue
            value = self.body.constants.get(place)
            if value is None:
                raise NotUnderstood("work-items that may leave their group")
            self._check_uniform(value, {*checked, place})
