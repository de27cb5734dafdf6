"""A work-item in two parts: what it executes from a statement on becomes a function of its own, to which the local
variables pass that both parts use."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from hipsynth.source.edits import Edit, edit_text
from hipsynth.source.parse import Token
from hipsynth.source.tokens import Span, find_closing, text_between
from hipsynth.tuning.optimize.analysis.kernel_body import ASSIGN, STEP, Body
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements

_UNKNOWN_TYPES = frozenset({"auto", "decltype", "&", "&&", "[", "<", "(", "static", "__shared__", "volatile"})
_CHOICES = frozenset({"||", "?"})  # what follows them in a condition need not be evaluated


@dataclass(frozen=True)
class PassedValue:
    """A value that the rest of a work-item needs, by the name that it has there."""

    name: str
    type: str
    expression: str  # in the first part


@dataclass(frozen=True)
class ItemRest:
    """What a work-item executes from a statement on. `end`: of the last token that the statement's own block has
    there; `returns`: whether other statements follow around that block; `edits`: those of the text, by its offsets."""

    body: Body
    spans: tuple[Span, ...]
    values: tuple[PassedValue, ...]
    edits: tuple[Edit, ...]

    @property
    def returns(self) -> bool:
        return len(self.spans) > 1

    @property
    def end(self) -> int:
        return self.body.tokens[self.spans[0][1] - 1].end

    def write(self, *edits: Edit) -> str:
        """The text with more edits."""
        *inner, last = (self._write_span(span, [*self.edits, *edits]) for span in self.spans)
        return "\n".join([*(f"{{\n{text}\n}}" for text in inner), last])

    def _write_span(self, span: Span, edits: Sequence[Edit]) -> str:
        start, end = self.body.tokens[span[0]].start, self.body.tokens[span[1] - 1].end
        inside = [Edit(e.start - start, e.end - start, e.text) for e in edits if start <= e.start < end]
        return edit_text(self.body.program.unit.text[start:end], inside)


def find_rest(body: Body, statement: Statement, call: Span, constant_arrays: Collection[str]) -> ItemRest:
    """The rest of a kernel's work-items from a statement on, which is in no loop, and of which a call is replaced.
    `constant_arrays`: what no work-item changes; elements of these that were loaded for a condition pass as well.
    Raises NotUnderstood for variables whose types the source does not name."""
    statements = parse_statements(body.tokens, body.kernel.first, body.kernel.last)
    spans = tuple(_list_spans(statements, statement))
    loads = dict(_list_loads(body, spans, list(_list_conditions(body.program, statements, statement)), constant_arrays))
    loads = {span: value for span, value in loads.items() if not call[0] <= span[0] < call[1]}
    values = (*_list_variables(body, spans, statement, loads), *dict.fromkeys(loads.values()))
    names = [value.name for value in values]
    words = {token.text for token in body.tokens}
    if len(set(names)) < len(names) or words & {value.name for value in loads.values()}:
        raise NotUnderstood("two variables of one name")
    if words & {f"{prefix}{name}" for prefix in ("lane_", "lanes_") for name in names}:
        raise NotUnderstood("a name that the new code uses")
    tokens = body.tokens
    edits = (Edit(tokens[first].start, tokens[end - 1].end, value.name) for (first, end), value in loads.items())
    return ItemRest(body, spans, values, tuple(edits))


def _list_spans(siblings: Sequence[Statement], target: Statement) -> Iterator[Span]:
    """The statements of the rest, those of the innermost block first."""
    at = next(i for i, sibling in enumerate(siblings) if sibling.start <= target.start < sibling.end)
    if siblings[at].span == target.span:
        yield target.start, siblings[-1].end
        return
    is_choice = siblings[at].kind == "if"
    inside = [part for part in siblings[at].parts if not is_choice or part.start <= target.start < part.end]
    yield from _list_spans(inside, target)
    if at + 1 < len(siblings):
        yield siblings[at + 1].start, siblings[-1].end


def _list_variables(
    body: Body, spans: Sequence[Span], statement: Statement, loads: Collection[Span]
) -> Iterator[PassedValue]:
    """The local variables that were declared before and are named in the rest, outside the loads that pass."""
    loaded = {i for span in loads for i in range(*span)}
    before = body.tokens[statement.start].start
    places = dict.fromkeys(body.local(body.tokens[i]) for span in spans for i in range(*span) if i not in loaded)
    for place in places:
        if 0 <= place < before:
            name = body.tokens[body.find_declaration(place)].text
            yield PassedValue(name, _read_type(body, place), name)


def _read_type(body: Body, place: int) -> str:
    """The type of a local variable, without its const. Raises NotUnderstood where the source does not name it."""
    tokens, (first, at) = body.tokens, body.find_declared_type(place)
    end = next((i for i in range(first, at) if tokens[i].start in body.locals), at)  # of several declared at once
    words = [token.text for token in tokens[first:end]]
    is_shared = "*" in words and (end < at or _declares_more(tokens, at))
    if not words or is_shared or _UNKNOWN_TYPES & {*words, tokens[at - 1].text, tokens[at + 1].text}:
        raise NotUnderstood("a variable whose type is not named")
    if "*" not in words:
        words = [word for word in words if word != "const"]
    return " ".join(words).removesuffix(" const").replace(" *", "*").replace(" :: ", "::")


def _declares_more(tokens: Sequence[Token], at: int) -> bool:
    """Whether a declaration goes on with another variable after one."""
    end = at
    while tokens[end].text not in (",", ";"):
        end = find_closing(tokens, end) + 1 if tokens[end].text in ("(", "[", "{") else end + 1
    return tokens[end].text == ","


def _list_loads(
    body: Body, spans: Sequence[Span], conditions: Sequence[Span], arrays: Collection[str]
) -> Iterator[tuple[Span, PassedValue]]:
    """The elements of arrays in the rest that conditions around the statement loaded before, one of each array."""
    kinds = {parameter.name: parameter.base for parameter in body.kernel.parameters}
    loaded = {_identify_element(body, element) for span in conditions for element in _list_elements(body, span, arrays)}
    names: dict[str, PassedValue] = {}
    for span in spans:
        for element in _list_elements(body, span, arrays):
            array = body.tokens[element[0]].text
            text = text_between(body.program.unit, body.tokens, *element)
            value = PassedValue(f"{array}_element", kinds[array], text)
            if _identify_element(body, element) in loaded and names.setdefault(array, value) == value:
                yield element, value


def _list_conditions(program: ParsedProgram, siblings: Sequence[Statement], target: Statement) -> Iterator[Span]:
    """The conditions that were evaluated as a whole, and hold, where the statement is executed."""
    for sibling in siblings:
        for part in sibling.parts:
            if part.start <= target.start < part.end:
                words = {program.tokens[i].text for i in range(*sibling.head)}
                is_true = sibling.kind == "if" and part is sibling.parts[0]
                if is_true and not words & (_CHOICES | program.macros.keys()):
                    yield sibling.head
                yield from _list_conditions(program, sibling.parts if sibling.kind == "block" else [part], target)
                return


def _list_elements(body: Body, span: Span, arrays: Collection[str]) -> Iterator[Span]:
    """The elements `array[...]` whose subscripts have nothing but numbers, parameters and variables that do not
    change."""
    tokens = body.tokens
    parameters = {parameter.name for parameter in body.kernel.parameters if not parameter.base}
    for i in range(*span):
        if tokens[i].text not in arrays or tokens[i + 1].text != "[" or body.local(tokens[i]) >= 0:
            continue
        end = find_closing(tokens, i + 1) + 1
        inside = [tokens[j] for j in range(i + 2, end - 1)]
        names = [token for token in inside if token.identifier]
        is_fixed = all(body.local(token) in body.constants or token.text in parameters for token in names)
        if is_fixed and not {*ASSIGN, *STEP, "[", ".", "->"} & {token.text for token in inside}:
            yield i, end


def _identify_element(body: Body, span: Span) -> tuple[tuple[str, int], ...]:
    """An expression with the declarations of its variables."""
    return tuple((token.text, body.local(token)) for token in body.tokens[slice(*span)])
