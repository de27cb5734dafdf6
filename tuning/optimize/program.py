"""What a search needs to know of a program: its kernels, how they are launched, and whether work-items depend on their
group."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hipsynth.core.errors import BadInput
from hipsynth.source.config import frontend_config
from hipsynth.source.entities import Entity
from hipsynth.source.parse import ParsedUnit, Token
from hipsynth.source.parse_service import parse_isolated
from hipsynth.source.tokens import closing, code_tokens, split_at, text_between

COORDINATES = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim"})
ATOMIC_ADDS = frozenset({"atomicAdd", "unsafeAtomicAdd"})
# What makes a work-item depend on which others share its group or wavefront.
_TOGETHER = re.compile(
    r"__shared__|__sync\w*|__shfl\w*|__ballot\w*|__any\w*|__all\w*|__activemask|__match\w*|__reduce\w*|__lane_id|"
    r"__builtin_amdgcn_\w+|cooperative_groups|this_thread_block|this_grid|warpSize|asm|__asm__|HIP_DYNAMIC_SHARED|"
    r"hipThreadIdx_\w|hipBlockIdx_\w|hipBlockDim_\w|hipGridDim_\w|__threadfence\w*|wall_clock64|clock64|clock"
)
_STATEMENT_ENDS = frozenset({";", "{", "}", ")", "else"})


@dataclass(frozen=True)
class KernelParameter:
    """A kernel's parameter: its declaration without a default, and its name. `base`: the type that a pointer points to,
    without qualifiers; "" if it is none."""

    text: str
    name: str
    base: str = ""
    constant: bool = False


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
    parameters: tuple[KernelParameter, ...]
    first: int
    last: int
    launches: tuple[LaunchStatement, ...]
    together: str  # why its work-items depend on their group, "" if they do not
    fixed: str  # why its launches cannot be changed, "" if they can

    @property
    def independent(self) -> bool:
        return not self.together and not self.fixed


@dataclass(frozen=True)
class ParsedProgram:
    """A parsed program. `macros` are the names that the file defines, with the words of each definition."""

    text: str
    unit: ParsedUnit
    tokens: tuple[Token, ...]  # outside comments and directives
    kernels: tuple[KernelDefinition, ...]
    referents: dict[int, frozenset[Entity]] = field(repr=False)  # by a token's offset
    macros: dict[str, frozenset[str]] = field(default_factory=dict)

    def entities(self, token: Token) -> frozenset[Entity]:
        return self.referents.get(token.start, frozenset())


def read_program(text: str, arch: str) -> ParsedProgram:
    """Parses a program in the sandbox. Raises BadInput without a kernel or for code that cannot be parsed."""
    unit = parse_isolated(text, frontend_config(arch))
    tokens = tuple(code_tokens(unit))
    referents = {t.start: r for t, r in zip(unit.tokens, unit.referents, strict=True)}
    macros = _macros(text)
    bare = ParsedProgram(text, unit, tokens, (), referents, macros)
    kernels = tuple(_kernels(bare))
    if not kernels:
        raise BadInput("no kernel in the file", cause="no __global__ function", remedy="give a HIP source file")
    return ParsedProgram(text, unit, tokens, kernels, referents, macros)


def _macros(text: str) -> dict[str, frozenset[str]]:
    joined = re.sub(r"\\\r?\n", " ", text)
    found = re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)([^\n]*)", joined, re.M)
    return {name: frozenset(re.findall(r"\w+", words)) for name, words in found}


def _kernels(program: ParsedProgram) -> Iterator[KernelDefinition]:
    tokens = program.tokens
    bodies = _bodies(tokens)
    for i, token in enumerate(tokens):
        if token.text != "__global__":
            continue
        opening = next((j for j in range(i, len(tokens)) if tokens[j].text == "(" and _is_list(tokens, j)), -1)
        close = closing(tokens, opening) if opening > 0 else -1
        if close < 0 or close + 1 >= len(tokens) or tokens[close + 1].text != "{":
            continue
        last = closing(tokens, close + 1)
        name = tokens[opening - 1].text
        start, template, names = _before(program, i)
        parameters = tuple(_parameters(program, opening + 1, close))
        launches, fixed = _launches(program, name, len(parameters))
        words = {t.text for t in tokens[i : close + 1]}
        if "__launch_bounds__" in words:
            fixed = fixed or "it has launch bounds of its own"
        together = _together(program, bodies, close + 2, last)
        yield KernelDefinition(
            name, start, tokens[last].end, template, names, parameters, close + 2, last, launches, together, fixed
        )


def _is_list(tokens: Sequence[Token], at: int) -> bool:
    """Whether the parenthesis opens the kernel's parameters, not an attribute's arguments."""
    return tokens[at - 1].identifier and tokens[at - 1].text not in ("__launch_bounds__", "__attribute__")


def _before(program: ParsedProgram, at: int) -> tuple[int, str, tuple[str, ...]]:
    """Where the definition begins, with `template <...>`, `static` and the like; the template and its names."""
    tokens = program.tokens
    start = at
    while start > 0 and tokens[start - 1].text in ("static", "inline", "extern", '"C"'):
        start -= 1
    if start > 0 and tokens[start - 1].text == ">":
        open_ = next((j for j in range(start - 1, -1, -1) if tokens[j].text == "template"), -1)
        if open_ >= 0 and not any(t.text in (";", "}") for t in tokens[open_:start]):
            parts = split_at(tokens, open_ + 2, start - 1, ",")
            names = tuple(_name(tokens[a:b]) for a, b in parts)
            return tokens[open_].start, text_between(program.unit, tokens, open_, start), names
    return tokens[start].start, "", ()


def _name(tokens: Sequence[Token]) -> str:
    """The declared name of a parameter: its last identifier before a default value or the size of an array."""
    stop = next((i for i, t in enumerate(tokens) if t.text in ("=", "[")), len(tokens))
    return next((t.text for t in reversed(tokens[:stop]) if t.identifier), "")


def _parameters(program: ParsedProgram, start: int, end: int) -> Iterator[KernelParameter]:
    tokens = program.tokens
    for a, b in split_at(tokens, start, end, ","):
        if a == b:
            continue
        words = [t.text for t in tokens[a:b]]
        stop = words.index("=") if "=" in words else len(words)
        name = _name(tokens[a:b])
        base = ""
        if words.count("*") == 1 and "volatile" not in words:
            base = " ".join(w for w in words[: words.index("*")] if w not in ("const", "struct"))
        constant = "const" in words[: words.index("*")] if base else False
        yield KernelParameter(text_between(program.unit, tokens, a, a + stop), name, base, constant)


def _launches(program: ParsedProgram, name: str, parameters: int) -> tuple[tuple[LaunchStatement, ...], str]:
    """The launches of a kernel, and why they cannot all be changed."""
    tokens = program.tokens
    found: list[LaunchStatement] = []
    uses = [i for i, t in enumerate(tokens) if t.text == name and _names_function(program, t)]
    for i in uses:
        if tokens[i + 1].text == "(" or _is_definition(tokens, i):
            continue
        launch = _launch(program, i)
        if launch is None:
            return (), "it is used in another way than a launch that is a statement of its own"
        if len(launch.arguments) != parameters:
            return (), "it has default arguments"
        found.append(launch)
    return tuple(found), "" if found else "the file does not launch it"


def _names_function(program: ParsedProgram, token: Token) -> bool:
    entities = program.entities(token)
    return not entities or any(e.category == "function" for e in entities)


def _is_definition(tokens: Sequence[Token], at: int) -> bool:
    return tokens[at + 1].text == "(" and tokens[at - 1].text == "void"


def _launch(program: ParsedProgram, at: int) -> LaunchStatement | None:
    tokens, unit = program.tokens, program.unit
    open_ = at + 1
    if tokens[open_].text == "<":
        depth = 0
        while open_ < len(tokens):
            depth += (tokens[open_].text == "<") - (tokens[open_].text == ">")
            open_ += 1
            if depth == 0:
                break
    if open_ >= len(tokens) or tokens[open_].text != "<<<" or tokens[at - 1].text not in _STATEMENT_ENDS:
        return None
    end = next((i for i in range(open_, len(tokens)) if tokens[i].text == ">>>"), -1)
    close = closing(tokens, end + 1) if end > 0 and tokens[end + 1].text == "(" else -1
    if close < 0 or tokens[close + 1].text != ";":
        return None
    shape = [text_between(unit, tokens, a, b) for a, b in split_at(tokens, open_ + 1, end, ",")]
    changing = {"++", "--", "=", "+=", "-="} & {t.text for t in tokens[open_:end]}
    if not 2 <= len(shape) <= 4 or changing or any(part.startswith("{") for part in shape):
        return None
    parts = [text_between(unit, tokens, a, b) for a, b in split_at(tokens, end + 2, close, ",") if a < b]
    template = text_between(unit, tokens, at + 1, open_)
    return LaunchStatement(
        tokens[at].start, tokens[close + 1].end, shape[0], shape[1], tuple(shape[2:]), tuple(parts), template
    )


def _bodies(tokens: Sequence[Token]) -> dict[str, list[tuple[int, int]]]:
    """The token ranges of the bodies of all functions in the file, by name."""
    found: dict[str, list[tuple[int, int]]] = {}
    for i, token in enumerate(tokens[:-1]):
        if token.identifier and tokens[i + 1].text == "(":
            close = closing(tokens, i + 1)
            if 0 < close < len(tokens) - 1 and tokens[close + 1].text == "{":
                found.setdefault(token.text, []).append((close + 2, closing(tokens, close + 1)))
    return found


def _together(program: ParsedProgram, bodies: dict[str, list[tuple[int, int]]], first: int, last: int) -> str:
    """Why a body depends on its group: what it or a function or macro that it uses contains; "" if it does not."""
    seen: set[str] = set()
    words = [t.text for t in program.tokens[first:last]]
    inner = False
    while words:
        for word in words:
            if _TOGETHER.fullmatch(word):
                return f"it uses {word}"
            if inner and word in COORDINATES:
                return f"a function that it calls uses {word}"
        named = {w for w in words if w in bodies and w not in seen}
        text = {w for w in words if w in program.macros and w not in seen}
        seen |= named | text
        from_macros = {word for name in text for word in program.macros[name]}
        for word in from_macros:
            if _TOGETHER.fullmatch(word):
                return f"it uses {word}"
        words = [t.text for name in named for a, b in bodies[name] for t in program.tokens[a:b]]
        words += [w for w in from_macros if w not in COORDINATES]
        inner = True
    return ""
