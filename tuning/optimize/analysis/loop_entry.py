"""Whether a loop has an iteration: the condition for it, in front of the loop, and what its first iteration does."""

from __future__ import annotations

from hipsynth.source.edits import Edit, apply_edits
from hipsynth.source.tokens import Span, split_at, text_between
from hipsynth.tuning.optimize.analysis.kernel_body import ASSIGN, STEP, Body
from hipsynth.tuning.optimize.analysis.program_constants import read_number
from hipsynth.tuning.optimize.analysis.statements import Statement

_TYPE_WORDS = frozenset({"const", "unsigned", "signed", "int", "long", "short", "size_t", "uint32_t", "int32_t"})


def write_entry(body: Body, loop: Statement) -> str | None:
    """The condition for the first iteration of `for (type name = first; condition; ...)` before the loop; "" where its
    numbers say that it holds, None for a head of another form."""
    tokens = body.tokens
    parts = split_at(tokens, *loop.head, ";")
    declared = [i for i in range(*loop.head) if tokens[i].start in body.locals]
    if len(parts) != 3 or len(declared) != 1:
        return None
    (start, end), condition, _ = parts
    (at,) = declared
    words = {token.text for token in tokens[start:at]}
    is_call = any(tokens[i].identifier and tokens[i + 1].text == "(" for i in (*range(at, end), *range(*condition)))
    effects = {token.text for token in tokens[slice(*condition)]} & (ASSIGN | STEP)
    if not words or not words <= _TYPE_WORDS or tokens[at + 1].text != "=" or is_call or effects:
        return None
    first = text_between(body.program.unit, tokens, at + 2, end)
    texts = [token.text for token in tokens[slice(*condition)]]
    number, bound = read_number(first), read_number(texts[-1])
    if len(texts) == 3 and texts[1] == "<" and number is not None and bound is not None and number < bound:
        return ""
    kind = text_between(body.program.unit, tokens, start, at).removeprefix("const ")
    value = first if first.isdigit() else f"static_cast<{kind}>({first})"
    return _replace_name(body, condition, tokens[at].start, value)


def _replace_name(body: Body, span: Span, place: int, value: str) -> str:
    """The source of an expression with a value in place of a local variable."""
    tokens = body.tokens
    start = tokens[span[0]].start
    named = (tokens[i] for i in range(*span) if body.local(tokens[i]) == place)
    edits = [Edit(token.start - start, token.end - start, value) for token in named]
    source = body.program.unit.text[start : tokens[span[1] - 1].end]
    return apply_edits(source, edits).decode(errors="surrogateescape")


def changes_in_each_iteration(body: Body, loop: Statement, name: int) -> bool:
    """Whether each iteration comes to a statement that begins with the name at a token and assigns what it stands
    for."""
    (inside,) = loop.parts
    for statement in inside.parts if inside.kind == "block" else (inside,):
        if statement.kind == "simple" and statement.start <= name < statement.end:
            is_first = name == statement.start or (name == statement.start + 1 and body.tokens[name - 1].text in STEP)
            return is_first and body.assigns(name, statement.end)
        if any(part.kind == "jump" for part in statement.inner()):
            return False
    return False
