"""A host loop that launches kernels and does nothing else that a kernel could not do: its text, and the host's
variables that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hipsynth.source.declarations import LAUNCH_CLOSE, LAUNCH_OPEN, FunctionParameter
from hipsynth.source.parse import Token
from hipsynth.source.tokens import CLOSING, OPENING, Span, find_closing, split_at, text_between
from hipsynth.tuning.optimize.analysis.kernel_body import ASSIGN, STEP
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, LaunchStatement, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.function_text import choose_free_name

MOST_POINTERS = 8  # of an array of pointers that is passed one by one
_NUMBER_TYPES = frozenset({
    "int", "unsigned", "long", "short", "char", "size_t", "bool", "int32_t", "uint32_t", "int64_t", "uint64_t", "float",
    "double",
})  # fmt: skip
_QUALIFIERS = frozenset({"const", "constexpr", "static", "std", "::"})
_FUNCTIONS = frozenset({"min", "max"})
SWAP = re.compile(r"(?:std::)?swap\((\w+),(\w+)\);")
_WAIT = re.compile(
    r"(?:\(void\))?(?:\w+\()?hip(?:DeviceSynchronize|GetLastError|PeekAtLastError)\(\)\)?;"  # CHECK(hipGetLastError());
)
_PLAIN = re.compile(r"[A-Za-z_]\w*")
_VALUE = re.compile(r"[A-Za-z_]\w*(?:\.(?:data|get)\(\))?(?:\s*\+\s*\w+)?")


@dataclass(frozen=True)
class HostLoop:
    """A loop, bytes [start, end): its head with the parentheses, the declarations of numbers in it, the statements that
    wait or ask for errors, and the arrays that it swaps at the end of each pass."""

    start: int
    end: int
    text: str
    head: str
    numbers: tuple[str, ...]
    waits: tuple[str, ...]
    swap: str
    swapped: tuple[str, ...]
    expressions: tuple[tuple[int, int], ...]  # tokens of the head and of the numbers


def read_host_loop(program: ParsedProgram, launch: LaunchStatement) -> HostLoop:
    """The innermost loop around a launch. Raises NotUnderstood where it does more than a kernel could."""
    tokens = program.tokens
    at = next((i for i in range(len(tokens)) if tokens[i].start == launch.start), 0)
    first, close, last = _find_loop(tokens, at)
    braces = tokens[close + 1].text == "{"
    statements = parse_statements(tokens, close + 2, last - 1) if braces else parse_statements(tokens, close + 1, last)
    _check_head(program, first + 2, close)
    launched = {each.start for kernel in program.kernels for each in kernel.launches}
    numbers, waits, expressions = list[str](), list[str](), [(first + 2, close)]
    swap, swapped = "", tuple[str, ...]()
    for statement in statements:
        text = text_between(program.unit, tokens, statement.start, statement.end)
        words = "".join(token.text for token in tokens[statement.start : statement.end])
        if swapped or statement.kind != "simple":
            raise NotUnderstood("a loop that does more than launching kernels")
        if tokens[statement.start].start in launched:
            continue
        if pair := SWAP.fullmatch(words):
            swap, swapped = text, pair.groups()
        elif _WAIT.fullmatch(words):
            waits.append(text)
        else:
            _check_number(program, statement)
            numbers.append(text)
            expressions.append((statement.start, statement.end))
    text, head = (text_between(program.unit, tokens, *span) for span in ((first, last), (first + 1, close + 1)))
    return HostLoop(
        tokens[first].start, tokens[last - 1].end, text, head, tuple(numbers), tuple(dict.fromkeys(waits)), swap,
        swapped, tuple(expressions),
    )  # fmt: skip


def _find_loop(tokens: Sequence[Token], at: int) -> tuple[int, int, int]:
    """(The token `for`, the one that closes its head, the one behind its body) of the innermost loop around a token."""
    for first in range(at, 0, -1):
        if tokens[first].text == "for" and (close := find_closing(tokens, first + 1)) < at:
            if tokens[close + 1].text == "{":
                last = find_closing(tokens, close + 1) + 1
            else:
                last = next(i for i in range(at, len(tokens)) if tokens[i].text == ";") + 1
                if at != close + 1:
                    break
            if last > at:
                return first, close, last
    raise NotUnderstood("a launch in no loop")


def _check_head(program: ParsedProgram, start: int, end: int) -> None:
    """Raises NotUnderstood for heads that change anything but one variable of their own."""
    tokens = program.tokens
    parts = split_at(tokens, start, end, ";")
    names = [tokens[i - 1].text for i in range(start, end) if tokens[i].text == "="]
    changed = [i for i in range(start, end) if tokens[i].text in ASSIGN | STEP]
    stepped = {
        next((tokens[k].text for k in (i - 1, i + 1) if start <= k < end and tokens[k].identifier), "") for i in changed
    }
    if len(parts) != 3 or not names or stepped != {names[0]} or not tokens[start].text.isidentifier():
        raise NotUnderstood("a loop of another form")
    if not _read_types(tokens, start, parts[0][1]):
        raise NotUnderstood("a loop whose variable is declared elsewhere")
    _check_expression(program, start, end)


def _check_number(program: ParsedProgram, statement: Statement) -> None:
    """Raises NotUnderstood for what is no declaration of numbers by others."""
    tokens = program.tokens
    start, end = statement.start, statement.end
    assigned = [i for i in range(start, end) if tokens[i].text in ASSIGN | STEP]
    declares = _read_types(tokens, start, end) or "auto" in (tokens[start].text, tokens[start + 1].text)
    if not declares or any(tokens[i].text != "=" for i in assigned) or not assigned:
        raise NotUnderstood("a loop that does more than launching kernels")
    _check_expression(program, start, end)


def _check_expression(program: ParsedProgram, start: int, end: int) -> None:
    """Raises NotUnderstood for expressions that call more than min and max, or use members."""
    for i in range(start, end):
        text, after = program.tokens[i].text, program.tokens[i + 1].text
        calls = after == "(" and program.tokens[i].identifier and text not in _FUNCTIONS
        if calls or text in (".", "->", "{", "new"):
            raise NotUnderstood("an expression with calls or members")


def _read_types(tokens: Sequence[Token], start: int, end: int) -> str:
    """The type that a declaration begins with, without qualifiers; "" if it is none of a number."""
    words = []
    for i in range(start, end):
        if tokens[i].text in _NUMBER_TYPES:
            words.append(tokens[i].text)
        elif tokens[i].text not in _QUALIFIERS:
            break
    return " ".join(words)


@dataclass
class HostVariables:
    """The variables that a loop's text and its launches name, as parameters of a kernel that contains the loop.
    `arguments`: what is passed for the `parameters`; `arrays`: declarations of arrays of pointers."""

    program: ParsedProgram
    loop: HostLoop
    launches: tuple[tuple[LaunchStatement, KernelDefinition], ...]
    parameters: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    arrays: list[str] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)  # expression that is passed -> name in the kernel
    _kinds: dict[str, str] = field(default_factory=dict)  # of those that a launch passes on: the kernel's types

    def __post_init__(self) -> None:
        """Raises NotUnderstood for variables of unknown types."""
        self._check_swapped()
        for start, end in self.loop.expressions:
            self._declare_named(start, end)
        passed = list[tuple[FunctionParameter, tuple[int, int]]]()
        for launch, kernel in self.launches:
            shape, *arguments = self._find_arguments(launch)
            self._declare_named(*shape)
            for parameter, span in zip(kernel.parameters, arguments, strict=True):
                if self._is_same_in_all_passes(span):
                    passed.append((parameter, span))
                else:
                    self._declare_named(*span)
        for parameter, span in passed:
            self._pass_on(parameter, span)

    @property
    def text(self) -> str:
        """All names that are taken."""
        return " ".join([*self.parameters, *self.arrays])

    def name_of(self, passed: str) -> str:
        """What a value of the host is called in the kernel."""
        return self._names.get(passed, passed)

    def rename(self, launch: LaunchStatement, kernel: KernelDefinition) -> list[str]:
        """The arguments of a launch in the kernel that contains the loop."""
        return [self.name_of(passed) for passed in launch.arguments[: len(kernel.parameters)]]

    def _find_arguments(self, launch: LaunchStatement) -> list[tuple[int, int]]:
        """The tokens of a launch's shape, then those of each argument."""
        tokens = self.program.tokens
        at = next(i for i in range(len(tokens)) if tokens[i].start == launch.start)
        shape_end = next((i for i in range(at, len(tokens)) if tokens[i].text in (LAUNCH_CLOSE, ";")), at)
        if tokens[at + 1].text != LAUNCH_OPEN or tokens[shape_end].text != LAUNCH_CLOSE:
            raise NotUnderstood("a launch of another form")
        close = find_closing(tokens, shape_end + 1)
        _check_expression(self.program, at + 2, shape_end)
        return [(at + 2, shape_end), *split_at(tokens, shape_end + 2, close, ",")]

    def _is_same_in_all_passes(self, span: Span) -> bool:
        """Whether an argument is a number, or a value of the host that no pass changes but by swapping whole arrays."""
        tokens = self.program.tokens
        words = [tokens[i] for i in range(*span) if tokens[i].identifier]
        text = text_between(self.program.unit, tokens, *span)
        if not words or text in self.loop.swapped:
            return True
        if self.loop.swapped and any(map(self._is_reference, words)):
            raise NotUnderstood("another name for a variable that passes may swap")
        changes = any(self._is_inside(token) or token.text in self.loop.swapped for token in words)
        return _VALUE.fullmatch(text) is not None and not changes

    def _pass_on(self, parameter: FunctionParameter, span: Span) -> None:
        """Makes such an argument a parameter as the kernel had it; numbers and constants stay."""
        tokens = self.program.tokens
        words = [tokens[i] for i in range(*span) if tokens[i].identifier]
        text = text_between(self.program.unit, tokens, *span)
        if text in self._names:
            if self._kinds.setdefault(text, _plain_type(parameter)) != _plain_type(parameter) and not parameter.base:
                raise NotUnderstood(f"{text}, which kernels take as numbers of different types")
            self._loosen(text, parameter)
        elif words and not (len(words) == 1 and self._is_constant(words[0])):
            name = text if _PLAIN.fullmatch(text) else choose_free_name(parameter.name, self._taken)
            kind = f"{parameter.base}*" if text in self.loop.swapped and parameter.base else _plain_type(parameter)
            self._kinds[text] = _plain_type(parameter)
            self._add(text, name, kind)

    @property
    def _taken(self) -> str:
        return " ".join([self.text, self.loop.text, *self._names])

    def _loosen(self, text: str, parameter: FunctionParameter) -> None:
        """Makes an array that is passed twice one that may be written, if one of the kernels writes it."""
        at = self.arguments.index(text) if text in self.arguments else -1
        if at >= 0 and parameter.base and not parameter.constant:
            self.parameters[at] = f"{parameter.base}* {self._names[text]}"

    def _declare_named(self, start: int, end: int) -> None:
        """Makes parameters of the host's variables that an expression names."""
        _check_expression(self.program, start, end)
        tokens = self.program.tokens
        for i in range(start, end):
            is_name = tokens[i].identifier and tokens[i].text not in _FUNCTIONS | _NUMBER_TYPES | _QUALIFIERS
            if (
                not is_name
                or self._is_inside(tokens[i])
                or self._is_constant(tokens[i])
                or tokens[i].text in self._names
            ):
                continue
            kind, pointers = self._read_declaration(tokens[i])
            name = tokens[i].text
            if not pointers:
                self._add(name, name, kind)
                continue
            self._names[name] = name
            singles = [f"{name}_{number}" for number in range(pointers)]
            for number, single in enumerate(singles):
                self._add(f"{name}[{number}]", single, kind)
            self.arrays.append(f"{kind} const {name}[] = {{{', '.join(singles)}}};")

    def _add(self, passed: str, name: str, kind: str) -> None:
        self._names[passed] = name
        self.arguments.append(passed)
        self.parameters.append(f"{kind} {name}")

    def _places(self, token: Token) -> Iterator[int]:
        for entity in self.program.entities(token):
            if entity.user and entity.category == "variable":
                yield entity.place[1]

    def _is_inside(self, token: Token) -> bool:
        """Whether a name is declared in the loop."""
        return any(self.loop.start <= place < self.loop.end for place in self._places(token))

    def _check_swapped(self) -> None:
        """Raises NotUnderstood if passes swap references to variables, which would be swapped as well."""
        tokens, loop = self.program.tokens, self.loop
        for token in tokens:
            is_swapped = token.text in loop.swapped and loop.start <= token.start < loop.end
            if is_swapped and self._is_reference(token, frozenset({"variable"})):
                raise NotUnderstood(f"{token.text}, another name for a variable that passes swap")

    def _is_reference(self, token: Token, categories: frozenset[str] = frozenset({"variable", "parameter"})) -> bool:
        """Whether a name is declared as a reference to a variable, perhaps with others: `auto& [a, b] = pair`."""
        tokens, entities = self.program.tokens, self.program.entities(token)
        places = {each.place[1] for each in entities if each.user and each.category in categories}
        for at in (i for i in range(1, len(tokens)) if tokens[i].start in places):
            while tokens[at - 1].text == "," and tokens[at - 2].identifier:
                at -= 2
            if tokens[at - 1].text in ("&", "&&") or (
                tokens[at - 1].text == "[" and tokens[at - 2].text in ("&", "&&")
            ):
                return True
        return False

    def _is_constant(self, token: Token) -> bool:
        """Whether a name means the same in kernels: a constant of the file, a macro."""
        if token.text in self.program.macros:
            return True
        tokens = self.program.tokens
        for entity in self.program.entities(token):
            if entity.category == "constant":
                return True
            if entity.user and entity.category == "variable" and not entity.local:
                start = self._find_statement(next(i for i in range(len(tokens)) if tokens[i].start == entity.place[1]))
                return bool({"const", "constexpr"} & {tokens[start + k].text for k in range(3)})
        return False

    def _read_declaration(self, token: Token) -> tuple[str, int]:
        """(The type of a host's variable, for an array of pointers that of an element; how many it has, else 0).
        Raises NotUnderstood for others than numbers, pointers, and arrays of pointers."""
        tokens, place = self.program.tokens, next(self._places(token), -1)
        at = next((i for i in range(len(tokens)) if tokens[i].start == place), -1)
        if at < 0:
            raise NotUnderstood("a name of unknown meaning")
        start = self._find_statement(at)
        while tokens[start].text in _QUALIFIERS:
            start += 1
        number = _read_types(tokens, start, at)
        stars = 1 if tokens[at - 1].text == "*" and tokens[at - 2].text != "*" else 0
        is_array = tokens[at + 1].text == "["
        size = tokens[at + 2].text if is_array else "0"
        if not stars and (is_array or not number):
            raise NotUnderstood("a variable of another type")
        if not size.isdecimal() or int(size) > MOST_POINTERS or (is_array and tokens[at + 3].text != "]"):
            raise NotUnderstood("an array of another form")
        return f"{number or tokens[start].text}{'*' * stars}", int(size)

    def _find_statement(self, at: int) -> int:
        """The first token of the declaration that a declared name stands in."""
        tokens, depth = self.program.tokens, 0
        for i in range(at - 1, -1, -1):
            text = tokens[i].text
            if depth == 0 and (text == ";" or text in OPENING or (text == "}" and tokens[i + 1].text != ",")):
                return i + 1
            if depth == 0 and text == "," and self._is_parameter(at):
                return i + 1
            depth += (text in CLOSING) - (text in OPENING)
        return 0

    def _is_parameter(self, at: int) -> bool:
        """Whether a name is declared as a function's parameter: with a type of its own."""
        before = self.program.tokens[at - 1].text
        return before in _NUMBER_TYPES or (before == "*" and self.program.tokens[at - 2].text not in (",", "*"))


def _plain_type(parameter: FunctionParameter) -> str:
    """The type of a parameter without qualifiers of the pointer or the number."""
    if not parameter.base:
        return re.sub(r"\bconst\s+", "", parameter.type)
    return re.sub(r"\s*\b__restrict(?:__)?\b|(?<=\*)\s*const\b", "", parameter.type)
