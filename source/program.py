"""A program that compiles, as one typed model: its functions, kernels, launches, macros and default sizes.

Functions come from libclang's tree, launches and macros from the outline, what a word refers to from the parsed file.
A text that does not compile has an outline only (`outline.py`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason
from hipsynth.source.arguments import default_arguments
from hipsynth.source.config import frontend_config
from hipsynth.source.declarations import FunctionDeclaration, FunctionParameter, LaunchExpression, MacroText
from hipsynth.source.entities import Entity
from hipsynth.source.functions import FunctionNode
from hipsynth.source.outline import outline_launches, outline_macros
from hipsynth.source.parse import ParsedUnit, Token
from hipsynth.source.parse_service import parse_isolated
from hipsynth.source.tokens import code_tokens, find_closing, text_between
from hipsynth.toolchain.flags import select_macro_flags

_ONE_BYTE = "latin-1"  # a text in which each byte is one character: positions of the outline are bytes


@dataclass(frozen=True)
class ProgramModel:
    """A parsed program; positions are bytes of `unit.text`, `tokens` those outside comments and directives."""

    text: str
    unit: ParsedUnit = field(repr=False)
    tokens: tuple[Token, ...] = field(repr=False)
    functions: tuple[FunctionDeclaration, ...]
    launches: tuple[LaunchExpression, ...]
    macros: tuple[MacroText, ...]

    @property
    def kernels(self) -> tuple[FunctionDeclaration, ...]:
        return tuple(function for function in self.functions if function.kernel)

    @property
    def default_arguments(self) -> tuple[int, ...]:
        """The sizes that the program takes when it is run without arguments."""
        return default_arguments(self.text)

    @cached_property
    def referents(self) -> dict[int, frozenset[Entity]]:
        """What a token refers to, by its position."""
        return {token.start: referent for token, referent in zip(self.unit.tokens, self.unit.referents, strict=True)}


def read_parsed_program(text: str, arch: str, flags: str = "") -> ProgramModel:
    """Parses a program in the sandbox, with the macros and the language of compiler flags. Raises BadInput without a
    kernel or for code that cannot be parsed, UsageError for flags that are not allowed."""
    config = frontend_config(arch)
    unit = parse_isolated(text, replace(config, args=(*config.args, *select_macro_flags(flags))))
    tokens = tuple(code_tokens(unit))
    functions = tuple(_read_functions(unit, tokens))
    if not any(function.kernel for function in functions):
        raise BadInput("no kernel in the file", cause="no __global__ function", reason=Reason.NO_KERNEL)
    flat = unit.text.decode(_ONE_BYTE)
    launches = tuple(map(_decode_launch, outline_launches(flat)))
    return ProgramModel(text, unit, tokens, functions, launches, outline_macros(flat))


def _decode_launch(launch: LaunchExpression) -> LaunchExpression:
    return replace(
        launch, shape=tuple(map(_decode_text, launch.shape)), arguments=tuple(map(_decode_text, launch.arguments))
    )


def _decode_text(flat: str) -> str:
    return flat.encode(_ONE_BYTE).decode(errors="surrogateescape")


def _read_functions(unit: ParsedUnit, tokens: Sequence[Token]) -> Iterator[FunctionDeclaration]:
    """The functions whose names and braces stand in the file itself, not in a macro."""
    starts = [token.start for token in tokens]
    for node in unit.definitions:
        named, opening = bisect_left(starts, node.place), bisect_left(starts, node.body[0])
        if max(named, opening) >= len(tokens) or (tokens[named].start, tokens[opening].text) != (node.place, "{"):
            continue
        last = find_closing(tokens, opening)
        if last >= 0:
            yield _read_function(unit, tokens, node, (named, opening, last))


def _read_function(
    unit: ParsedUnit, tokens: Sequence[Token], node: FunctionNode, at: tuple[int, int, int]
) -> FunctionDeclaration:
    named, opening, last = at
    begin = _find_beginning(unit, tokens, named)
    head_end = _template_end(tokens, begin) if tokens[begin].text == "template" else begin
    bounds = next((i for i in range(begin, opening) if tokens[i].text == "__launch_bounds__"), -1)
    return FunctionDeclaration(
        node.name,
        node.kernel,
        tokens[begin].start,
        tokens[last].end,
        node.place,
        (tokens[opening].end, tokens[last].start),
        tuple(_read_parameter(unit, parameter) for parameter in node.parameters),
        text_between(unit, tokens, begin, head_end),
        node.template_names,
        text_between(unit, tokens, bounds + 2, find_closing(tokens, bounds + 1)) if bounds >= 0 else "",
        mangled=node.mangled,
        first=opening + 1,
        last=last,
        named=named,
    )


def _find_beginning(unit: ParsedUnit, tokens: Sequence[Token], at: int) -> int:
    """The first token of the declaration whose name is token `at`."""
    depth = 0
    while at > 0:
        text = tokens[at - 1].text
        depth += (text in ")]}") - (text in "([{") if len(text) == 1 else 0
        directive = b"\n#" in unit.text[tokens[at - 1].end : tokens[at].start]
        if depth < 0 or directive or (depth == 0 and text in (";", "{")) or (depth == 1 and text == "}"):
            break
        at -= 1
    while at > 1 and tokens[at - 1].text == "(":  # the name is a macro's argument
        at -= 2
    return at


def _template_end(tokens: Sequence[Token], at: int) -> int:
    """The index behind the `template <...>` that begins at `at`, and behind others that follow it."""
    while tokens[at].text == "template":
        depth, at = 0, at + 1
        while at < len(tokens):
            depth += {"<": 1, ">": -1, ">>": -2}.get(tokens[at].text, 0)
            at += 1
            if depth <= 0:
                break
    return at


def _read_parameter(unit: ParsedUnit, node: tuple[int, int, str]) -> FunctionParameter:
    start, end, name = node
    text = unit.text[start:end].decode(errors="surrogateescape")
    return FunctionParameter(text.partition("=")[0].rstrip() if name else text, name)
