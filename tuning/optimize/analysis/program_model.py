"""The model of a program for a search: its kernels, how they are launched, and whether work-items depend on their
group."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from hipsynth.core.reasons import Reason
from hipsynth.source.coordinates import COORDINATES
from hipsynth.source.declarations import FunctionDeclaration, FunctionParameter, LaunchExpression, MacroText
from hipsynth.source.entities import Entity
from hipsynth.source.outline import blank_opaque, outline_macros
from hipsynth.source.parse import ParsedUnit, Token
from hipsynth.source.program import ProgramModel, read_parsed_program
from hipsynth.tuning.optimize.analysis.effects import is_cooperation

STATEMENT_STARTS = frozenset({";", "{", "}", ")", "else"})  # tokens before the first one of a statement
ATOMIC_ADDS = frozenset({"atomicAdd", "unsafeAtomicAdd"})
# What makes a work-item depend on which others share its group or wavefront.
_OLD_COORDINATE = re.compile(r"\bhip(Thread|Block|Grid)(Idx|Dim)_([xyz])\b")
_BARRIERS = re.compile(r"__sync\w*|__threadfence\w*|__builtin_amdgcn_\w+")  # what others stored may be seen after them
_LAUNCH_CALL = "hipLaunchKernelGGL"
_BEFORE_NAME = frozenset({"(", "HIP_KERNEL_NAME"})
_NOTHING = frozenset({"0", "nullptr", "NULL", "hipStreamDefault"})  # no LDS bytes, the default stream


@dataclass(frozen=True)
class LaunchStatement:
    """A launch that is a statement of its own: bytes [start, end) with the semicolon."""

    start: int
    end: int
    grid: str
    block: str
    rest: tuple[str, ...]  # LDS bytes and stream, if given
    arguments: tuple[str, ...]
    template: str  # explicit template arguments with their brackets


@dataclass(frozen=True)
class KernelDefinition:
    """A kernel's definition: bytes [start, end) of it, and tokens [first, last) between the braces of its body."""

    name: str
    start: int
    end: int
    template: str  # "template <...>" or ""
    template_names: tuple[str, ...]
    parameters: tuple[FunctionParameter, ...]
    first: int
    last: int
    launches: tuple[LaunchStatement, ...]
    together: str  # why its work-items depend on their group, "" if they do not
    fixed: str  # why its launches cannot be changed, "" if they can

    def is_overloaded(self, kernels: Sequence[KernelDefinition]) -> bool:
        """Whether several of these kernels have its name."""
        return sum(kernel.name == self.name for kernel in kernels) > 1

    @property
    def independent(self) -> bool:
        return not self.together and not self.fixed

    def resolve_type(self, kind: str) -> str:
        """The type that all launches give for a parameter of the template; any other type as it is."""
        name = kind.removeprefix("const ")
        if name not in self.template_names:
            return kind
        at = self.template_names.index(name)
        lists = [launch.template.strip("<> ").split(",") for launch in self.launches]
        types = {words[at].strip() if at < len(words) else "" for words in lists}
        return (types.pop() if len(types) == 1 else "") or kind


@dataclass(frozen=True)
class ParsedProgram:
    """A parsed program. `macros`: the names that the file defines, with the words of all their definitions;
    `macro_texts`: the texts of those that are defined in one way and without parameters."""

    text: str
    unit: ParsedUnit
    tokens: tuple[Token, ...]  # outside comments and directives
    kernels: tuple[KernelDefinition, ...]
    referents: dict[int, frozenset[Entity]] = field(repr=False)  # by a token's offset
    macros: dict[str, frozenset[str]] = field(default_factory=dict)
    arch: str = ""
    flags: str = ""
    macro_texts: dict[str, str] = field(default_factory=dict)

    # Names of functions and macros that contain a barrier, or call what does.
    barriers: frozenset[str] = frozenset()
    functions: tuple[KernelDefinition, ...] = ()  # of the device that are no kernels
    declared: tuple[FunctionDeclaration, ...] = field(default=(), repr=False)  # all functions with a body

    def spread_words(self, words: Iterable[str]) -> set[str]:
        """Words, and those of the macros among them, also of macros in macros."""
        spread, new = set[str](), set(words)
        while new:
            spread |= new
            new = {word for name in new & self.macros.keys() for word in self.macros[name]} - spread
        return spread

    def read_head(self, function: FunctionDeclaration | KernelDefinition) -> set[str]:
        """The words of a function before its body, and those of the macros among them."""
        head = self.unit.text[function.start : self.tokens[function.first - 1].end]
        return self.spread_words(re.findall(r"\w+", head.decode(errors="surrogateescape")))

    def entities(self, token: Token) -> frozenset[Entity]:
        return self.referents.get(token.start, frozenset())

    def declares_name(self, at: int) -> bool:
        """Whether a token is the name that a declaration gives to what it declares."""
        token = self.tokens[at]
        return any(entity.place == ("", token.start) for entity in self.entities(token))

    def has_barrier(self, first: int, last: int) -> bool:
        """Whether the tokens [first, last) have a barrier or fence, also in functions that they call."""
        words = (token.text for token in self.tokens[first:last])
        return any(word in self.barriers or _BARRIERS.fullmatch(word) for word in words)


def read_program(text: str, arch: str, flags: str = "") -> ParsedProgram:
    """Parses a program in the sandbox, with the macros of compiler flags; its text has `threadIdx.x` where
    `hipThreadIdx_x` was. Raises BadInput without a kernel or for code that cannot be parsed."""
    text = spell_coordinates(text)
    parsed = read_parsed_program(text, arch, flags)
    bodies: dict[str, list[tuple[int, int]]] = {}
    for function in parsed.functions:
        bodies.setdefault(function.name, []).append((function.first, function.last))
    macros: dict[str, frozenset[str]] = {}
    for macro in parsed.macros:
        macros[macro.name] = macros.get(macro.name, frozenset()) | macro.words
    barriers = _find_barriers(parsed.tokens, bodies, macros)
    bare = ParsedProgram(text, parsed.unit, parsed.tokens, (), parsed.referents, macros, arch, flags,
                         _read_macro_texts(parsed.macros), barriers)  # fmt: skip
    kernels = tuple(_kernel(bare, parsed, bodies, function) for function in parsed.kernels)
    kernels = tuple(_treat_alike(kernel, kernels) for kernel in kernels)
    functions = tuple(_device_function(function) for function in parsed.functions if _is_of_device(bare, function))
    return replace(bare, kernels=kernels, functions=functions, declared=parsed.functions)


def _read_macro_texts(macros: Sequence[MacroText]) -> dict[str, str]:
    """The texts of macros without parameters, as far as all definitions of a name are equal."""
    texts: dict[str, set[str]] = {}
    for macro in macros:
        text = " ".join(macro.text.replace("\\\n", " ").split())
        texts.setdefault(macro.name, set()).add(text if macro.parameters is None else "")
    return {name: next(iter(each)) for name, each in texts.items() if len(each) == 1}


def _treat_alike(kernel: KernelDefinition, kernels: Sequence[KernelDefinition]) -> KernelDefinition:
    """A kernel that is changed with the other ones of its name, or not at all: launches name them alike."""
    others = [other for other in kernels if other.name == kernel.name and other is not kernel]
    if others and any(each.fixed for each in (kernel, *others)):
        return replace(kernel, launches=(), fixed=Reason.OVERLOADED.meaning)
    if any(other.together for other in others) and not kernel.together:
        return replace(kernel, together="another kernel of its name cannot be")
    return kernel


def spell_coordinates(text: str) -> str:
    """The program with the built-in variables in place of the names that HIP had for them first, such as
    `hipThreadIdx_x`; as it is if it defines such a name."""
    matches = list(_OLD_COORDINATE.finditer(blank_opaque(text)))
    if matches and any(_OLD_COORDINATE.fullmatch(macro.name) for macro in outline_macros(text)):
        return text
    for match in reversed(matches):
        name = f"{match[1].lower()}{match[2]}.{match[3]}"
        text = text[: match.start()] + name + text[match.end() :]
    return text


def _is_of_device(program: ParsedProgram, function: FunctionDeclaration) -> bool:
    return not function.kernel and "__device__" in program.read_head(function)


def _device_function(function: FunctionDeclaration) -> KernelDefinition:
    return KernelDefinition(function.name, function.start, function.end, function.template, function.template_names,
                            function.parameters, function.first, function.last, (), "", "it is no kernel")  # fmt: skip


def _find_barriers(
    tokens: Sequence[Token], bodies: dict[str, list[tuple[int, int]]], macros: dict[str, frozenset[str]]
) -> frozenset[str]:
    words = {name: set(words) for name, words in macros.items()}
    for name, spans in bodies.items():
        words.setdefault(name, set()).update(token.text for a, b in spans for token in tokens[a:b])
    barriers: set[str] = set()
    while more := {
        name
        for name, inside in words.items()
        if name not in barriers and (inside & barriers or any(_BARRIERS.fullmatch(word) for word in inside))
    }:
        barriers |= more
    return frozenset(barriers)


def _kernel(
    program: ParsedProgram,
    parsed: ProgramModel,
    bodies: dict[str, list[tuple[int, int]]],
    function: FunctionDeclaration,
) -> KernelDefinition:
    launches, fixed = _find_launches(program, parsed, function.name, len(function.parameters))
    is_volatile = any("volatile" in parameter.text.split() for parameter in function.parameters)
    together = _group_dependence(program, bodies, function.first, function.last)
    return KernelDefinition(
        function.name,
        function.start,
        function.end,
        function.template,
        function.template_names,
        function.parameters,
        function.first,
        function.last,
        launches,
        "it takes volatile pointers" if is_volatile else together,
        fixed,
    )


def _find_launches(
    program: ParsedProgram, parsed: ProgramModel, name: str, parameters: int
) -> tuple[tuple[LaunchStatement, ...], str]:
    """The launches of a kernel, and why they cannot all be changed."""
    if any(name in words for words in program.macros.values()):
        return (), "a macro names it"
    tokens = program.tokens
    written = _launches_by_token(program, parsed)
    named = {kernel.name_start for kernel in parsed.kernels}
    launches: list[LaunchStatement] = []
    uses = [i for i, t in enumerate(tokens) if t.text == name and _names_function(program, t)]
    for i in uses:
        if tokens[i + 1].text == "(" or tokens[i].start in named:
            continue
        launch = _parse_launch(program, written.get(i))
        if launch is None:
            return (), "it is used in another way than a launch that is a statement of its own"
        if len(launch.arguments) != parameters:
            return (), "it has default arguments"
        launches.append(launch)
    return tuple(launches), "" if launches else "the file does not launch it"


def _names_function(program: ParsedProgram, token: Token) -> bool:
    entities = program.entities(token)
    return not entities or any(e.category == "function" for e in entities)


def _launches_by_token(program: ParsedProgram, parsed: ProgramModel) -> dict[int, LaunchExpression]:
    """The launches with <<< >>> and hipLaunchKernelGGL, by the index of the token that names the kernel."""
    starts = [token.start for token in program.tokens]
    launches: dict[int, LaunchExpression] = {}
    for launch in parsed.launches:
        at = bisect_left(starts, launch.start)
        if launch.chevrons:
            launches[at] = launch
        elif program.tokens[at].text == _LAUNCH_CALL:
            named = next(i for i in range(at + 1, len(program.tokens)) if program.tokens[i].text not in _BEFORE_NAME)
            launches[named] = launch
    return launches


def _parse_launch(program: ParsedProgram, launch: LaunchExpression | None) -> LaunchStatement | None:
    """A launch that is a statement of its own."""
    tokens = program.tokens
    if launch is None:
        return None
    starts = [token.start for token in tokens]
    first, end = bisect_left(starts, launch.start), bisect_left(starts, launch.end)
    if tokens[first - 1].text not in STATEMENT_STARTS or end >= len(tokens) or tokens[end].text != ";":
        return None
    changing = any(re.search(r"\+\+|--|(?<![<>=!])=(?!=)", part) for part in launch.shape)
    if not 2 <= len(launch.shape) <= 4 or changing or any(part.startswith("{") for part in launch.shape):
        return None
    grid, block, *rest = launch.shape
    if all(part in _NOTHING for part in rest):
        rest = []
    return LaunchStatement(
        launch.start, tokens[end].end, grid, block, tuple(rest), launch.arguments, launch.template
    )  # fmt: skip


def _group_dependence(program: ParsedProgram, bodies: dict[str, list[tuple[int, int]]], first: int, last: int) -> str:
    """Why a body depends on its group: what it or a function or macro that it uses contains; "" if it does not."""
    visited: set[str] = set()
    words = [t.text for t in program.tokens[first:last]]
    inner = False
    while words:
        for word in words:
            if is_cooperation(word):
                return f"it uses {word}"
            if inner and word in COORDINATES:
                return f"a function that it calls uses {word}"
        named = {w for w in words if w in bodies and w not in visited}
        text = {w for w in words if w in program.macros and w not in visited}
        visited |= named | text
        from_macros = {word for name in text for word in program.macros[name]}
        for word in from_macros:
            if is_cooperation(word):
                return f"it uses {word}"
        words = [t.text for name in named for a, b in bodies[name] for t in program.tokens[a:b]]
        words += [w for w in from_macros if w not in COORDINATES]
        inner = True
    return ""
