"""What a kernel executes: its body, and those of the functions that it calls, with the words of macros in them."""

from __future__ import annotations

from collections.abc import Iterator

from hipsynth.source.declarations import FunctionDeclaration
from hipsynth.source.tokens import Span
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram

_OF_DEVICE = frozenset({"__device__", "constexpr"})


def list_called(program: ParsedProgram, span: Span) -> Iterator[Span]:
    """The bodies of the functions that a piece of device code calls, and of those that these call; any operator may be
    called."""
    functions = [function for function in program.declared if _may_be_called(program, function)]
    spans, visited = [span], set[str]()
    while spans:
        words = {word for span in spans for word in list_words(program, span)}
        called = [each for each in functions if each.name not in visited and _is_named(each, words)]
        visited |= {each.name for each in called}
        spans = [(each.first, each.last) for each in called]
        yield from spans


def list_words(program: ParsedProgram, span: Span) -> set[str]:
    """The words of a piece of code, and those of the macros that it uses."""
    return program.spread_words(token.text for token in program.tokens[slice(*span)])


def _is_named(function: FunctionDeclaration, words: set[str]) -> bool:
    return function.name in words or function.name.startswith(("operator", "~"))


def _may_be_called(program: ParsedProgram, function: FunctionDeclaration) -> bool:
    """Whether a function is one of the device: it is marked so, or a constant expression."""
    return not function.kernel and function.first >= 0 and bool(_OF_DEVICE & program.read_head(function))
