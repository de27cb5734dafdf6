"""Finds preprocessor directives and macros in a file's tokens, and which macro arguments # and ## apply to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hipsynth.source.parse import Token


@dataclass(frozen=True)
class Directive:
    """One preprocessor line: tokens [start, end), `start` at the `#`; `word` is the directive's name."""

    word: str
    start: int
    end: int


@dataclass
class Macro:
    """One #define; indices count tokens.

    `shown` and `pasted` are the numbers of parameters that # and ## apply to, directly or through other macros.
    `direct` is the subset of `shown` with # in this macro: # shows their arguments as written, all others' expanded.
    `passed` names the macros that calls of this one pass for a parameter, which its body may call.
    """

    name: str
    name_index: int
    params: list[str] = field(default_factory=list)
    function_like: bool = False
    body: range = range(0)
    shown: set[int] = field(default_factory=set)
    direct: set[int] = field(default_factory=set)
    pasted: set[int] = field(default_factory=set)
    passed: dict[int, set[str]] = field(default_factory=dict)

    def param_number(self, text: str) -> int | None:
        """The number of the parameter called `text`, or None."""
        if text in ("__VA_ARGS__", "__VA_OPT__") and "..." in self.params:
            return self.params.index("...")
        return self.params.index(text) if text in self.params else None


def find_directives(tokens: Sequence[Token], text: bytes) -> list[Directive]:
    """All preprocessor lines, in order; a line with continuations counts as one."""
    directives = []
    i = 0
    while i < len(tokens):
        if tokens[i].text != "#" or not _starts_line(tokens, text, i):
            i += 1
            continue
        end = i + 1
        while end < len(tokens) and not _new_line(text, tokens[end - 1].end, tokens[end].start):
            end += 1
        word = tokens[i + 1].text if end > i + 1 else ""
        directives.append(Directive(word, i, end))
        i = end
    return directives


def _starts_line(tokens: Sequence[Token], text: bytes, i: int) -> bool:
    return i == 0 or _new_line(text, tokens[i - 1].end, tokens[i].start)


def _new_line(text: bytes, start: int, end: int) -> bool:
    """Whether a line ends between two offsets, not counting line continuations."""
    between = text[start:end].replace(b"\\\r\n", b"").replace(b"\\\n", b"")
    return b"\n" in between


def read_macros(tokens: Sequence[Token], lines: Sequence[Directive]) -> list[Macro]:
    """The macro definitions among the preprocessor lines, including which parameters # and ## apply to."""
    macros = [_read_macro(tokens, line) for line in lines if line.word == "define" and line.end > line.start + 2]
    _follow_passed(tokens, macros)
    _propagate_effects(tokens, macros)
    return macros


def _read_macro(tokens: Sequence[Token], line: Directive) -> Macro:
    at = line.start + 2
    macro = Macro(tokens[at].text, at)
    body = at + 1
    if body < line.end and tokens[body].text == "(" and tokens[body].start == tokens[at].end:
        macro.function_like = True
        body += 1
        while body < line.end and tokens[body].text != ")":
            if tokens[body].identifier or tokens[body].text == "...":
                _add_param(macro, tokens, body)
            body += 1
        body += 1
    macro.body = range(body, line.end)
    for i in macro.body:
        number = macro.param_number(tokens[i].text)
        if number is None:
            continue
        if i > body and tokens[i - 1].text == "#":
            macro.shown.add(number)
            macro.direct.add(number)
        if "##" in _neighbouring_words(tokens, i, macro.body):
            macro.pasted.add(number)
    if "..." in macro.params and not any(tokens[i].text == "__VA_ARGS__" for i in macro.body):
        macro.pasted.discard(macro.params.index("..."))
    return macro


def _add_param(macro: Macro, tokens: Sequence[Token], at: int) -> None:
    if tokens[at].text == "..." and macro.params and tokens[at - 1].text == macro.params[-1]:
        return  # the GNU named variadic parameter `args...` is one parameter
    macro.params.append(tokens[at].text)


def _neighbouring_words(tokens: Sequence[Token], i: int, body: range) -> set[str]:
    beside = set()
    if i - 1 in body and tokens[i - 1].text == "##" and not _gnu_comma(tokens, i):
        beside.add("##")
    if i + 1 in body and tokens[i + 1].text == "##":
        beside.add("##")
    return beside


def _gnu_comma(tokens: Sequence[Token], i: int) -> bool:
    """GNU extension `, ##__VA_ARGS__` (or a named `args...`): it may drop the comma but pastes nothing."""
    return tokens[i - 2].text == ","


def pasted_words(tokens: Sequence[Token], macros: Sequence[Macro]) -> set[str]:
    """Identifiers in macro bodies, except parameters, that are operands of ##."""
    words = set()
    for macro in macros:
        for i in macro.body:
            if tokens[i].identifier and macro.param_number(tokens[i].text) is None:
                words |= {tokens[i].text} if _neighbouring_words(tokens, i, macro.body) else set()
    return words


def _follow_passed(tokens: Sequence[Token], macros: Sequence[Macro]) -> None:
    """Fills in `passed`, to a fixed point: a macro may pass its parameters on."""
    callable_macros = {m.name for m in macros if m.function_like}
    owners = {i: m for m in macros for i in m.body}
    changed = bool(callable_macros)
    while changed:
        changed = False
        for call, args in find_macro_calls(tokens, macros, range(len(tokens))):
            for number, arg in enumerate(args):
                names = callable_macros.intersection(tokens[i].text for i in arg)
                names = names.union(*(_passed_names(owners[i], tokens[i].text) for i in arg if i in owners))
                before = call.passed.get(min(number, len(call.params) - 1), set())
                if not names <= before:
                    call.passed[min(number, len(call.params) - 1)] = before | names
                    changed = True


def _passed_names(macro: Macro, word: str) -> set[str]:
    """The macros that a word in a macro's body stands for, if it is a parameter."""
    number = macro.param_number(word)
    return set() if number is None else macro.passed.get(number, set())


def _propagate_effects(tokens: Sequence[Token], macros: Sequence[Macro]) -> None:
    """Propagates `shown` and `pasted` from each macro to the macros that pass it their parameters, to a fixed point."""
    changed = True
    while changed:
        changed = False
        for macro in macros:
            for call, args in find_macro_calls(tokens, macros, macro.body):
                for number, arg in enumerate(args):
                    inner = min(number, len(call.params) - 1)
                    for i in arg:
                        outer = macro.param_number(tokens[i].text)
                        if outer is None:
                            continue
                        changed |= _carry_words(call.shown, inner, macro.shown, outer)
                        changed |= _carry_words(call.pasted, inner, macro.pasted, outer)


def _carry_words(source: set[int], inner: int, target: set[int], outer: int) -> bool:
    if inner not in source or outer in target:
        return False
    target.add(outer)
    return True


def find_macro_calls(tokens: Sequence[Token], macros: Sequence[Macro], where: range) -> list[tuple[Macro, list[range]]]:
    """Invocations of function-like macros in the token range `where`, each with the token range of every argument: by
    name, or by a parameter for which they are passed."""
    by_name = {m.name: m for m in macros if m.function_like and m.params}
    called = {i: _passed_names(m, tokens[i].text) for m in macros if m.passed for i in m.body}
    result = []
    for i in where:
        callees = [by_name[name] for name in sorted({tokens[i].text, *called.get(i, ())}) if name in by_name]
        callees = [macro for macro in callees if i != macro.name_index]
        if not callees or i + 1 not in where or tokens[i + 1].text != "(":
            continue
        args = argument_ranges(tokens, i + 1, where.stop)
        if args is not None:
            result += [(macro, args) for macro in callees]
    return result


def argument_ranges(tokens: Sequence[Token], opening: int, stop: int) -> list[range] | None:
    """The token ranges of the arguments in the parentheses that open at `opening`; None if they never close."""
    depth, start = 0, opening + 1
    ranges: list[range] = []
    for i in range(opening, stop):
        text = tokens[i].text
        if text == "(":
            depth += 1
        elif text == ")":
            depth -= 1
            if depth == 0:
                return [*ranges, range(start, i)]
        elif text == "," and depth == 1:
            ranges.append(range(start, i))
            start = i + 1
    return None
