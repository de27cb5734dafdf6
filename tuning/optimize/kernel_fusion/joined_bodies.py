"""The bodies of launches that are joined by work-items: what all of them begin with, such as the work-item's number and
the bound that it must lie below, stands once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import takewhile

from hipsynth.source.edits import Edit, edit_text
from hipsynth.source.tokens import Span
from hipsynth.tuning.optimize.analysis.statements import Statement, parse_statements
from hipsynth.tuning.optimize.function_text import choose_free_name
from hipsynth.tuning.optimize.kernel_fusion.fused_launches import FusedLaunch, JoinedLaunch

INDENT = "  "
_NEGATED = {"<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_NOT_PLAIN = frozenset({"[", "->", "&", "?", "static", "__shared__", "volatile", "{", "++", "--"})
_COMBINED = frozenset({"&&", "||", "!", "==", "!=", "?"})


@dataclass(frozen=True)
class _CommonStatement:
    """A statement that other kernels may begin with, too: a declaration of constants, or a condition. `key`: what it
    says, whatever its variables are called; `opens`: an `if` around all that follows; `rest`: what follows."""

    key: tuple[str, ...]
    statement: Statement
    opens: bool
    rest: tuple[Statement, ...]
    variables: tuple[int, ...]  # the offsets of the declarations of its variables


class _RenamedBody(FusedLaunch):
    """The body of a launch with other names for some of its local variables, by the offsets of their declarations."""

    def __init__(self, call: FusedLaunch, places: Mapping[int, str]) -> None:
        super().__init__(call.program, call.launch, call.kernel)
        self.places = places

    def _rename_tokens(self, start: int, end: int, names: Mapping[str, str]) -> str:
        base, edits = self.program.tokens[start].start, []
        for i, token in enumerate(self.program.tokens[start:end], start):
            place = self.body.local(token)
            name = self.places.get(place) if place >= 0 else names.get(token.text)
            if name is not None and (place >= 0 or self.uses_name(i, token.text)):
                edits.append(Edit(token.start - base, token.end - base, name))
        text = self.program.unit.text[base : self.program.tokens[end - 1].end]
        return edit_text(text, edits)

    def write_span(self, span: Span, names: Mapping[str, str]) -> str:
        """A piece of the body; `names`: of the kernel's parameters."""
        return self._rename_tokens(*span, names)

    def write_statements(self, tree: Sequence[Statement], names: Mapping[str, str], indent: str) -> str:
        """Statements of the body as lines. Raises NotUnderstood."""
        return self._write_block(tree, names, indent)


def write_joined_bodies(run: Sequence[JoinedLaunch]) -> str:
    """The lines of a kernel that does what these launches do, one after the other; "" if they begin differently, or
    their variables cannot be told apart. Raises NotUnderstood for code that cannot be moved."""
    beginnings = [list(_read_beginning(joined)) for joined in run]
    shared = len(list(takewhile(lambda items: len({item.key for item in items}) == 1, zip(*beginnings, strict=False))))
    if not shared:
        return ""
    places = _name_variables(run, [items[:shared] for items in beginnings])
    if places is None:
        return ""
    lines, indent = [], INDENT
    first = _RenamedBody(run[0].call, places[0])
    for item in beginnings[0][:shared]:
        if item.opens:
            lines.append(f"{indent}if ({first.write_span(item.statement.head, run[0].names)}) {{")
            indent += INDENT
        else:
            lines.append(f"{indent}{first.write_span(item.statement.span, run[0].names)}")
    for joined, items, renamed in zip(run, beginnings, places, strict=True):
        comment = joined.comment or f"// {joined.call.kernel.name}\n"
        lines += [f"{indent}{line.strip()}" for line in comment.splitlines()]
        lines.append(_RenamedBody(joined.call, renamed).write_statements(items[shared - 1].rest, joined.names, indent))
    while len(indent) > len(INDENT):
        indent = indent[len(INDENT) :]
        lines.append(f"{indent}}}")
    return "\n".join(lines) + "\n"


def _read_beginning(joined: JoinedLaunch) -> Iterator[_CommonStatement]:
    """The statements at the beginning of a kernel that have no effect but on what comes next."""
    body, numbers = joined.call.body, dict[int, str]()
    tree = parse_statements(body.tokens, body.kernel.first, body.kernel.last)
    while tree:
        first, others = tree[0], tree[1:]
        returns = first.kind == "if" and body.only_returns(first.parts[0])
        is_condition = first.kind == "if" and len(first.parts) == 1 and (returns or not others)
        variables = _list_declared(joined.call, first) if first.kind == "simple" else ()
        if not is_condition and not (variables and body.constants.keys() >= set(variables)):
            return
        numbers.update({place: f"${len(numbers) + k}" for k, place in enumerate(variables)})
        words = _canonical_words(joined, first.head if is_condition else first.span, numbers)
        if words is None:
            return
        if is_condition:
            words = _negate_condition(words) if returns else ("if", *words)
            inside = first.parts[0].parts if first.parts[0].kind == "block" else first.parts
            others = others if returns else inside
        yield _CommonStatement(words, first, is_condition and not returns, others, variables)
        tree = others


def _list_declared(call: FusedLaunch, statement: Statement) -> tuple[int, ...]:
    """The offsets of the variables that a statement declares itself."""
    starts = [token.start for token in call.program.tokens[slice(*statement.span)]]
    return tuple(start for start in starts if start in call.body.locals)


def _canonical_words(joined: JoinedLaunch, span: Span, numbers: Mapping[int, str]) -> tuple[str, ...] | None:
    """Code with numbers in place of local variables, and the joined kernel's names of parameters; None for code whose
    value may change, or that has an effect."""
    body, words = joined.call.body, []
    arrays = {parameter.name for parameter in body.kernel.parameters if parameter.base}
    for i in range(*span):
        token, place = body.tokens[i], body.local(body.tokens[i])
        is_called = token.identifier and body.tokens[i + 1].text == "(" and i + 1 < span[1]
        if token.text in _NOT_PLAIN or is_called or (place >= 0 and place not in numbers):
            return None
        is_parameter = token.text in joined.names and joined.call.uses_name(i, token.text)
        if is_parameter and (token.text in arrays or _is_changed(joined.call, token.text)):
            return None
        name = joined.names[token.text] if is_parameter else token.text
        words.append(numbers[place] if place >= 0 else name)
    return tuple(word for word in words if word != "const")


def _is_changed(call: FusedLaunch, parameter: str) -> bool:
    """Whether a kernel assigns a parameter."""
    body, kernel = call.body, call.kernel
    uses = (i for i in range(kernel.first, kernel.last) if call.uses_name(i, parameter))
    return any(body.assigns(i, kernel.last) or body.tokens[i - 1].text == "&" for i in uses)


def _negate_condition(words: tuple[str, ...]) -> tuple[str, ...]:
    """What holds where `if (words) return;` goes on: a comparison the other way round."""
    signs = [word for word in words if word in _NEGATED]
    if len(signs) != 1 or _COMBINED & set(words):
        return ("unless", *words)
    return ("if", *(_NEGATED.get(word, word) for word in words))


def _name_variables(
    run: Sequence[JoinedLaunch], beginnings: Sequence[Sequence[_CommonStatement]]
) -> list[dict[int, str]] | None:
    """New names of local variables by launch: those of the beginning have the first launch's, and of those that stand
    beside each other behind it no two have one name. None where that would change what a name stands for."""
    common = [[place for item in items for place in item.variables] for items in beginnings]
    shared = [_name_at(run[0].call, place) for place in common[0]]
    others = {word for joined in run for word in _list_other_words(joined)}
    inner_names = [
        {_name_at(joined.call, p) for p in joined.call.body.locals - set(c)}
        for joined, c in zip(run, common, strict=True)
    ]
    if set(shared) & others or any(set(shared) & names for names in inner_names[1:]):
        return None
    taken, renamed = others | set(shared), []
    for joined, items, places, names in zip(run, beginnings, common, inner_names, strict=True):
        new = dict(zip(places, shared, strict=True))
        for place in (
            p
            for statement in items[-1].rest
            if statement.kind == "simple"
            for p in _list_declared(joined.call, statement)
        ):
            name = _name_at(joined.call, place)
            free = name if name not in taken else choose_free_name(name, dict.fromkeys(taken | names, ""))
            taken.add(free)
            new[place] = free
        renamed.append(new)
    return renamed


def _list_other_words(joined: JoinedLaunch) -> Set[str]:
    """The names of a body that are no local variables, parameters as the joined kernel calls them."""
    body, names = joined.call.body, joined.names
    words = {t.text for i, t in enumerate(body.tokens[body.kernel.first : body.kernel.last], body.kernel.first)
             if t.identifier and joined.call.uses_name(i, t.text)}  # fmt: skip
    return {names.get(word, word) for word in words} | set(names.values())


def _name_at(call: FusedLaunch, place: int) -> str:
    return call.program.tokens[call.body.find_declaration(place)].text
