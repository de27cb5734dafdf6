"""A launch that is to be joined with others: the arrays that its kernel uses, and its body as a part of another one."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hipsynth.source.declarations import FunctionDeclaration, FunctionParameter
from hipsynth.source.edits import Edit, apply_edits
from hipsynth.source.tokens import find_closing, split_at
from hipsynth.source.type_sizes import type_bytes
from hipsynth.tuning.optimize.analysis.device_variables import find_device_variables
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.macro_expansion import names_numbers_alone
from hipsynth.tuning.optimize.analysis.pointer_copies import PointerCopies
from hipsynth.tuning.optimize.analysis.pointer_values import skip_template
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, LaunchStatement, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.function_text import choose_free_name, wrap_parameters
from hipsynth.tuning.optimize.helper_text import find_head
from hipsynth.tuning.optimize.kernel_fusion.fused_program import Fusion
from hipsynth.tuning.optimize.kernel_fusion.joinable_kernels import check_arrays_known, check_joinable
from hipsynth.tuning.optimize.launch_shape import has_one_along
from hipsynth.tuning.optimize.program_edits import edit_program

_BETWEEN = re.compile(rb"\s*(//[^\n]*\n\s*|/\*.*?\*/\s*)*", re.S)
_NAME = re.compile(r"[A-Za-z_]\w*((\.data\(\))?\.get\(\))?")
_PLAIN = re.compile(r"[A-Za-z_]\w*")
_CHANGING = re.compile(r"\+\+|--|(?<![<>=!])=(?!=)")
_CALLED = re.compile(r"[A-Za-z_]\w*(?=\s*\()")
_IMPURE = frozenset({"rand", "exchange"})
_WHOLE = frozenset({
    "const", "constexpr", "auto", "int", "unsigned", "long", "size_t", "std", "::", "int32_t", "uint32_t", "int64_t",
    "uint64_t", "ptrdiff_t", "uint",
})  # fmt: skip
_MEMBERS = frozenset({".", "->", "::"})
MOST_NAME = 60
INDENT = "    "


@dataclass(frozen=True)
class ArrayUses:
    """How a kernel uses an array: the canonical subscripts of its accesses, None for any other use."""

    subscripts: frozenset[str | None]
    written: bool


class FusedLaunch:
    """A launch of a kernel: its arrays by what is passed, and its body."""

    def __init__(self, program: ParsedProgram, launch: LaunchStatement, kernel: KernelDefinition) -> None:
        self.program, self.launch, self.kernel = program, launch, kernel
        self.body = Body(program, kernel)
        self.passed = dict(zip((parameter.name for parameter in kernel.parameters), launch.arguments, strict=True))

    def fits(self) -> bool:
        """Whether the kernel can be part of another one, a work-item of it for each of its own."""
        return self.kernel.independent and self._is_plain() and names_numbers_alone(self.program, self.kernel)

    def _is_plain(self) -> bool:
        """Whether the body can stand in another kernel, and the launch says no more than shape and arguments."""
        if self.kernel.template or self.launch.template or self.launch.rest:
            return False
        if not self.takes_arrays_and_numbers():
            return False
        try:
            check_joinable(self.program, self.kernel)
            check_arrays_known(self.program, self.kernel)
            self.body.check_plain()
            self.text()
        except NotUnderstood:
            return False
        return True

    def takes_arrays_and_numbers(self) -> bool:
        """Whether the kernel's parameters are nothing else."""
        return all(parameter.base or self._is_number(parameter.type) for parameter in self.kernel.parameters)

    def _is_number(self, kind: str) -> bool:
        """Whether a type, perhaps by another name, is one of numbers; structures may have arrays as members."""
        name = re.sub(r"\bconst\b", "", kind).strip()
        if not _PLAIN.fullmatch(name) or type_bytes(name) is not None:
            return "*" not in name and type_bytes(name) is not None
        if re.search(rf"\benum\s+(?:class\s+)?{name}\b", self.program.text):
            return True
        alias = rf"\busing\s+{name}\s*=\s*([\w: ]+);|\btypedef\s+([\w: ]+?)\s+{name}\s*;"
        meaning = re.search(alias, self.program.text)
        return meaning is not None and self._is_number(meaning[1] or meaning[2])

    def uses(self) -> dict[str, ArrayUses]:
        """By the expression that is passed for an array."""
        uses_by_name: dict[str, ArrayUses] = {}
        for parameter in self.kernel.parameters:
            if parameter.base:
                places = [i for i in range(self.kernel.first, self.kernel.last) if self.uses_name(i, parameter.name)]
                subscripts = frozenset(self._read_subscript(i) for i in places)
                written = any(map(self._loses_const if parameter.constant else self.writes, places))
                before = uses_by_name.get(self.passed[parameter.name], ArrayUses(frozenset(), False))
                uses_by_name[self.passed[parameter.name]] = ArrayUses(
                    before.subscripts | subscripts, before.written or written
                )
        return uses_by_name

    def _loses_const(self, at: int) -> bool:
        """Whether a name is cast to a pointer that is not one to const: `(float*)name`, `(float*)&name[i]`."""
        tokens, end = self.program.tokens, at - 1
        while tokens[end].text in ("(", "&"):
            end -= 1
        opening = {")": "(", ">": "<"}.get(tokens[end].text)
        if opening is None:
            return False
        first = next((i for i in range(end, self.kernel.first, -1) if tokens[i].text == opening), end)
        kind = {token.text for token in tokens[first:end]}
        is_cast = opening == "(" or tokens[first - 1].text.endswith("_cast")
        return is_cast and "*" in kind and "const" not in kind

    def list_arrays(self) -> list[tuple[LaunchStatement, int]]:
        """The launch with the place of each argument that is an array."""
        parameters = enumerate(self.kernel.parameters)
        return [(self.launch, place) for place, parameter in parameters if parameter.base]

    def has_copies(self, swapped: Collection[str] = ()) -> bool:
        """Whether two arrays of different names may be one, and the kernel may write it; `swapped`: arrays that it
        writes in another pass."""
        parameters = self.kernel.parameters
        read = {p for _, p in self.list_arrays() if parameters[p].constant and self.launch.arguments[p] not in swapped}
        pairs = itertools.combinations([place for _, place in self.list_arrays()], 2)
        written = [pair for pair in pairs if not read.issuperset(pair)]
        return PointerCopies(self.program).has_copies(self.launch, written)

    def uses_name(self, at: int, name: str) -> bool:
        """Whether a token stands for a name from outside of the body, such as a parameter's."""
        token, before = self.program.tokens[at], self.program.tokens[at - 1].text
        return token.text == name and before not in _MEMBERS and self.body.local(token) < 0

    def writes(self, at: int) -> bool:
        """Anything but a read of an element counts as a write."""
        subscripted = self.program.tokens[at + 1].text == "["
        return not subscripted or self.program.tokens[at - 1].text == "&" or self.body.assigns(at, self.kernel.last)

    @cached_property
    def changed(self) -> frozenset[str]:
        """The parameters that the kernel may change, as `n -= 1` does, not what they point to; functions of the program
        may change what they are passed."""
        tokens, kernel = self.program.tokens, self.kernel
        functions = {function.name for function in self.program.functions}
        calls = [i for i in range(kernel.first, kernel.last) if tokens[i].text in functions]
        passed = {i for call in calls for i in range(call, find_closing(tokens, skip_template(self.program, call + 1)))}
        places = {i for i in range(kernel.first, kernel.last) if tokens[i].text in self.passed}
        return frozenset(
            tokens[i].text
            for i in places
            if self.uses_name(i, tokens[i].text)
            and tokens[i + 1].text != "["
            and (i in passed or self._takes_address(i) or self.body.assigns(i, kernel.last))
        )

    def _takes_address(self, at: int) -> bool:
        before = self.program.tokens[at - 2]
        return self.program.tokens[at - 1].text == "&" and not (before.identifier or before.text in (")", "]"))

    def _read_subscript(self, at: int) -> str | None:
        tokens = self.program.tokens
        if tokens[at + 1].text != "[" or tokens[at - 1].text == "&":
            return None
        return self._canonical_expression(at + 2, find_closing(tokens, at + 1))

    def _canonical_expression(self, start: int, end: int, depth: int = 0) -> str | None:
        """The expression with local constants replaced by their values; None if it has other local variables."""
        pieces = []
        for i in range(start, end):
            token = self.program.tokens[i]
            place = self.body.local(token)
            if place < 0:
                member = self.program.tokens[i - 1].text in _MEMBERS
                if not member and token.text in self.changed:
                    return None
                pieces.append(token.text if member else self.passed.get(token.text, token.text))
                continue
            value = self._initial_value(place) if depth < 8 else None
            inner = self._canonical_expression(*value, depth + 1) if value else self._describe_variable(place)
            if inner is None:
                return None
            pieces.append(inner if end - start == 1 else f"({inner})")
        return "".join(pieces)

    def _describe_variable(self, place: int) -> str | None:
        """What stands in a subscript for a local variable that changes; None if nothing is known of it."""
        return None

    def _initial_value(self, place: int) -> tuple[int, int] | None:
        """The tokens of the initial value of a local variable that is never changed, and of a type that does not cut
        it."""
        tokens, kernel = self.program.tokens, self.kernel
        at = self.body.find_declaration(place)
        first, _ = self.body.find_declared_type(place)
        declared = next(i for i in range(first, kernel.last) if tokens[i].start in self.body.locals)
        if not _WHOLE.issuperset(token.text for token in tokens[first:declared]):
            return None
        again = (i for i in range(at + 1, kernel.last) if self.body.local(tokens[i]) == place)
        if tokens[at + 1].text != "=" or any(
            self.body.assigns(i, kernel.last) or tokens[i - 1].text == "&" for i in again
        ):
            return None
        stop = next(i for i in range(at, kernel.last) if tokens[i].text == ";")
        _, end = split_at(tokens, at + 2, stop, ",")[0]
        return at + 2, end

    def text(self, names: Mapping[str, str] | None = None) -> str:
        """The body as a block without returns. `names`: of its parameters there. Raises NotUnderstood."""
        tokens = self.program.tokens
        tree = parse_statements(tokens, self.kernel.first, self.kernel.last)
        used = {t.text for t in tokens[self.kernel.first : self.kernel.last] if self.body.local(t) >= 0}
        if names and used & (set(names.values()) - names.keys()):
            raise NotUnderstood("a local variable has the name of a parameter")
        return self._write_block(tree, names or {}, INDENT)

    def _write_block(self, tree: Sequence[Statement], names: Mapping[str, str], indent: str) -> str:
        lines: list[str] = []
        for number, statement in enumerate(tree):
            words = [t.text for t in self.program.tokens[statement.start : statement.end]]
            if statement.kind == "if" and _only_returns(words[statement.head[1] + 1 - statement.start :]):
                rest = self._write_block(tree[number + 1 :], names, f"{indent}  ")
                condition = self._rename_tokens(*statement.head, names)
                return "\n".join([*lines, f"{indent}if (!({condition})) {{\n{rest}\n{indent}}}"])
            if "return" in words:
                raise NotUnderstood("a return among other statements")
            text = self._rename_tokens(statement.start, statement.end, names)
            lines.append(_indent_lines(text, self._column(statement.start), indent))
        return "\n".join(lines)

    def _column(self, at: int) -> int:
        """How far a token's line is indented."""
        line = self.program.unit.text[: self.program.tokens[at].start].rpartition(b"\n")[2]
        return len(line) - len(line.lstrip())

    def _rename_tokens(self, start: int, end: int, names: Mapping[str, str]) -> str:
        tokens = self.program.tokens
        base, last = tokens[start].start, tokens[end - 1].end
        edits = [
            Edit(t.start - base, t.end - base, names[t.text])
            for i, t in enumerate(tokens[start:end], start)
            if t.text in names and self.uses_name(i, t.text)
        ]
        return apply_edits(self.program.unit.text[base:last], edits).decode(errors="surrogateescape")


def _indent_lines(text: str, column: int, indent: str) -> str:
    """Code whose first line stood at a column, with that line at an indent, and the others moved as far."""
    first, *others = text.split("\n")
    moved = [line[min(column, len(line) - len(line.lstrip())) :] for line in others]
    return "\n".join(f"{indent}{line}".rstrip() for line in (first, *moved))


def _only_returns(words: Sequence[str]) -> bool:
    """Whether the body of an `if` is `return;` alone."""
    return list(words) in (["return", ";"], ["{", "return", ";", "}"])


@dataclass(frozen=True)
class JoinedLaunch:
    """A launch that is a part of a joined one. `names`: of its kernel's parameters in the joined kernel; `comment`: the
    lines above its kernel, if that goes."""

    call: FusedLaunch
    names: Mapping[str, str]
    comment: str


def write_blocks(run: Sequence[JoinedLaunch], between: str = "") -> str:
    """The bodies of a run as a block each, with a line of code between them. Raises NotUnderstood."""
    blocks = [
        f"  {{  // {joined.call.kernel.name}\n"
        + "".join(f"{INDENT}{line}\n" for line in joined.comment.splitlines())
        + f"{joined.call.text(joined.names)}\n  }}\n"
        for joined in run
    ]
    return between.join(blocks)


def join_launches(
    program: ParsedProgram, run: Sequence[FusedLaunch], write_bodies: Callable[[Sequence[JoinedLaunch]], str]
) -> Fusion:
    """The program with one kernel for the run, defined after the last of its kernels, of which those that nothing else
    uses are gone; `write_bodies`: the lines of that kernel. Raises NotUnderstood."""
    replaced = {call.kernel.name: call.kernel for call in run if _is_used_only_by(run, call.kernel)}
    comments = [_read_comment(program, call.kernel) if call.kernel.name in replaced else "" for call in run]
    arguments, parameters, names = _join_parameters(run)
    joined = [JoinedLaunch(*each) for each in zip(run, names, comments, strict=True)]
    name = choose_free_name("_".join(dict.fromkeys(call.kernel.name for call in run))[:MOST_NAME], program.text)
    kernel = f"{wrap_parameters(f'__global__ void {name}(', parameters)} {{\n{write_bodies(joined)}}}"
    first, last = run[0].launch, run[-1].launch
    launch = f"{name}<<<{first.grid}, {first.block}>>>({', '.join(arguments)});"
    edits = [*_replace_kernels(program, run, replaced, kernel), Edit(first.start, last.end, launch)]
    text = edit_program(program, edits)
    return Fusion(text, name, tuple(call.kernel.name for call in run))


def _join_parameters(run: Sequence[FusedLaunch]) -> tuple[list[str], list[str], list[dict[str, str]]]:
    """What a joined launch passes, the declarations of the parameters, and their names by launch."""
    parameters: dict[tuple[str, ...], str] = {}  # what is passed, and what tells it from the same passed elsewhere
    texts: dict[str, str] = {}  # name -> declaration
    renamed = []
    for call in run:
        names = {}
        for parameter in call.kernel.parameters:
            key = _parameter_key(call, parameter)
            if key not in parameters:
                parameters[key] = name = choose_free_name(parameter.name, texts)
                texts[name] = re.sub(rf"\b{parameter.name}\b(?!.*\b{parameter.name}\b)", name, parameter.text)
            elif parameter.base and not parameter.constant:
                texts[parameters[key]] = re.sub(r"\bconst\s+", "", texts[parameters[key]])
            names[parameter.name] = parameters[key]
        renamed.append(names)
    return [key[0] for key in parameters], list(texts.values()), renamed


def _is_used_only_by(run: Sequence[FusedLaunch], kernel: KernelDefinition) -> bool:
    """Whether the program names a kernel nowhere but in its definition and in the launches of a run."""
    launched = [call for call in run if call.kernel is kernel]
    names = sum(token.text == kernel.name for token in launched[0].program.tokens)
    return len(kernel.launches) == len(launched) and names == 1 + len(launched)


def _replace_kernels(
    program: ParsedProgram, run: Sequence[FusedLaunch], replaced: Mapping[str, KernelDefinition], text: str
) -> list[Edit]:
    """The edits that put a kernel behind the last one of a run, and take out those that it replaces."""
    last = max((call.kernel for call in run), key=lambda kernel: kernel.end)
    edits = [
        Edit(find_head(program.unit.text, kernel.start), _find_next_line(program, kernel.end), "")
        for kernel in replaced.values()
        if kernel is not last
    ]
    if last.name in replaced:
        return [*edits, Edit(find_head(program.unit.text, last.start), last.end, text)]
    return [*edits, Edit(last.end, last.end, f"\n\n{text}")]


def _read_comment(program: ParsedProgram, kernel: KernelDefinition) -> str:
    """The lines of comment right above a kernel, without their indentation."""
    head = find_head(program.unit.text, kernel.start)
    lines = program.unit.text[head : kernel.start].decode(errors="surrogateescape")
    return "".join(f"{line.strip()}\n" for line in lines.splitlines())


def _find_next_line(program: ParsedProgram, end: int) -> int:
    """Where the first line behind a definition begins that is not blank."""
    match = re.compile(rb"[ \t]*\n(?:[ \t]*\n)*").match(program.unit.text, end)
    return match.end() if match else end


def _parameter_key(call: FusedLaunch, parameter: FunctionParameter) -> tuple[str, ...]:
    """Parameters of two kernels with the same key are one: the same array, or the same variable of the same type."""
    passed = call.passed[parameter.name]
    if parameter.name in call.changed:
        return (passed, parameter.type, str(call.launch.start), parameter.name)
    if parameter.base:
        return (passed, parameter.base)
    kind = parameter.text.removesuffix(parameter.name).replace("const", "").strip()
    return (passed, kind) if _PLAIN.fullmatch(passed) else (passed, kind, str(call.launch.start), parameter.name)


def come_together(program: ParsedProgram, before: FusedLaunch, after: FusedLaunch) -> bool:
    """Whether nothing is between two launches of the same shape, and their arrays are told apart by their names."""
    between = program.unit.text[before.launch.end : after.launch.start]
    if any(_have_effects(program, call.launch.arguments) for call in (before, after)):
        return False
    if _may_differ(program, (after.launch.grid, after.launch.block)):
        return False
    if _is_conditional(program, before.launch):
        return False
    if (before.launch.grid, before.launch.block) != (after.launch.grid, after.launch.block):
        return False
    named = all(_NAME.fullmatch(array) for call in (before, after) for array in call.uses())
    return named and _BETWEEN.fullmatch(between) is not None  # `a + 1` may be part of what `a` is


def keep_arrays_apart(run: Sequence[FusedLaunch], after: FusedLaunch) -> bool:
    """Whether no array that a launch uses may be one of a run's under another name."""
    copies = PointerCopies(after.program)
    used = [pair for call in run for pair in call.list_arrays()]
    return not any(
        launch.arguments[place] != other.arguments[other_place]
        and copies.may_be_one((launch, place), (other, other_place))
        for launch, place in after.list_arrays()
        for other, other_place in used
    )


def _have_effects(program: ParsedProgram, arguments: Sequence[str]) -> bool:
    """Whether arguments change something, or call what may: those of one launch are evaluated in any order."""
    functions = {function.name for function in program.declared} | _IMPURE
    return any(_CHANGING.search(text) or functions.intersection(_CALLED.findall(text)) for text in arguments)


def _may_differ(program: ParsedProgram, shape: Sequence[str]) -> bool:
    """Whether a launch's shape may be another one the next time: it calls a function that does more than to return a
    value, such as one that counts its calls."""
    called = {name for text in shape for name in _CALLED.findall(text)}
    functions = [function for function in program.declared if function.name in called]
    return bool(called & _IMPURE) or any(_may_count(program, function) for function in functions)


def _may_count(program: ParsedProgram, function: FunctionDeclaration) -> bool:
    text = program.unit.text[function.body[0] : function.body[1]].decode(errors="surrogateescape")
    names = set(_CALLED.findall(text))
    calls = {each.name for each in program.declared} | _IMPURE
    return bool(_CHANGING.search(text) or "static" in text or names & calls)


def keep_variables_apart(run: Sequence[FusedLaunch], after: FusedLaunch) -> bool:
    """Whether a launch and those of a run change no variables of the device that the other ones use."""
    variables = find_device_variables(after.program, after.kernel)
    return not any(find_device_variables(call.program, call.kernel).may_conflict(variables) for call in run)


def _is_conditional(program: ParsedProgram, launch: LaunchStatement) -> bool:
    """Whether a launch alone is the body of an `if`, an `else` or a loop, so that what follows it is not."""
    at = bisect_left(program.tokens, launch.start, key=lambda token: token.start)
    return program.tokens[at - 1].text in (")", "else", "do")


def has_one_axis(program: ParsedProgram, shape: str) -> bool:
    """Whether the source shows that a launch shape has one axis."""
    return all(has_one_along(program, shape, axis) for axis in (1, 2))


def shared_subscripts(before: FusedLaunch, after: FusedLaunch) -> list[frozenset[str | None]]:
    """The subscripts of each array that both launches use and one of them writes."""
    uses = after.uses()
    return [
        array_uses.subscripts | uses[array].subscripts
        for array, array_uses in before.uses().items()
        if array in uses and (array_uses.written or uses[array].written)
    ]
