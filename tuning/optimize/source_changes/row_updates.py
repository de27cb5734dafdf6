"""What one iteration of a loop over a row does: keep the largest element, add something up, square a difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hipsynth.source.tokens import Span, find_closing, split_at
from hipsynth.tuning.optimize.analysis.statements import Statement
from hipsynth.tuning.optimize.source_changes.row_loops import RowLoop, RowReader

_LARGEST = frozenset({"fmaxf", "fmax", "max"})


def read_largest(reader: RowReader, loop: RowLoop) -> tuple[int, Span] | None:
    """The variable that keeps the largest element, and the element."""
    if len(loop.updates) != 1:
        return None
    (update,) = loop.updates
    tokens, local = reader.body.tokens, reader.body.local
    if update.kind == "if" and len(update.parts) == 1:
        return _read_choice(reader, update)
    start, end = update.start, update.end - 1
    if update.kind != "simple" or tokens[start + 1].text != "=":
        return None
    place = local(tokens[start])
    called = tokens[start + 2].text in _LARGEST and find_closing(tokens, start + 3) == end - 1
    if called:
        parts = split_at(tokens, start + 4, end - 1, ",")
    elif len(sides := split_at(tokens, start + 2, end, "?")) == 2:
        return _read_conditional(reader, update, sides)
    else:
        return None
    same = [part for part in parts if part[1] - part[0] == 1 and local(tokens[part[0]]) == place]
    others = [part for part in parts if part not in same]
    return (place, others[0]) if place >= 0 and len(same) == len(others) == 1 else None


def _read_choice(reader: RowReader, update: Statement) -> tuple[int, Span] | None:
    """`if (element > largest) largest = element;`"""
    tokens, (branch,) = reader.body.tokens, update.parts
    inner = branch.parts[0] if branch.kind == "block" and len(branch.parts) == 1 else branch
    if inner.kind != "simple" or tokens[inner.start + 1].text != "=":
        return None
    compared = _read_comparison(reader, update.head)
    taken = (inner.start + 2, inner.end - 1)
    place = reader.body.local(tokens[inner.start])
    if compared is None or compared[0] != place or not same_words(reader, compared[1], taken):
        return None
    return place, taken


def _read_conditional(reader: RowReader, update: Statement, sides: Sequence[Span]) -> tuple[int, Span] | None:
    """`largest = element > largest ? element : largest;`"""
    tokens, condition, values = reader.body.tokens, sides[0], split_at(reader.body.tokens, *sides[1], ":")
    place = reader.body.local(tokens[update.start])
    signs = [i for i in range(*condition) if tokens[i].text in ("<", ">", "<=", ">=")]
    if len(values) != 2 or len(signs) != 1:
        return None
    (sign,) = signs
    greater, less = ((condition[0], sign), (sign + 1, condition[1]))[:: 1 if ">" in tokens[sign].text else -1]
    if not same_words(reader, greater, values[0]) or not same_words(reader, less, values[1]):
        return None
    same = [value for value in values if value[1] - value[0] == 1 and reader.body.local(tokens[value[0]]) == place]
    return (place, next(v for v in values if v not in same)) if len(same) == 1 and place >= 0 else None


def _read_comparison(reader: RowReader, span: Span) -> tuple[int, Span] | None:
    """Of `element > largest` or `largest < element`: the variable and the element."""
    tokens = reader.body.tokens
    signs = [i for i in range(*span) if tokens[i].text in ("<", ">", "<=", ">=")]
    if len(signs) != 1:
        return None
    left, right = (span[0], signs[0]), (signs[0] + 1, span[1])
    greater, less = (left, right) if ">" in tokens[signs[0]].text else (right, left)
    place = reader.body.local(tokens[less[0]]) if less[1] - less[0] == 1 else -1
    return (place, greater) if place >= 0 else None


def same_words(reader: RowReader, one: Span, other: Span) -> bool:
    """Whether two pieces of code are the same words."""
    tokens = reader.body.tokens
    return [t.text for t in tokens[slice(*one)]] == [t.text for t in tokens[slice(*other)]]


@dataclass(frozen=True)
class AddedTerms:
    """What a loop adds to a variable; `store`: the element of memory that keeps each term, too."""

    place: int
    value: Span
    store: Span | None = None


def read_added(reader: RowReader, loop: RowLoop) -> AddedTerms | None:
    """`sum += value;`, also after `array[i] = value;`."""
    tokens, local = reader.body.tokens, reader.body.local
    store: Span | None = None
    stored: Span | None = None
    updates = list(loop.updates)
    if len(updates) == 2:
        first = min(updates, key=lambda one: tokens[one.start + 1].text != "[")
        updates.remove(first)
        close = find_closing(tokens, first.start + 1) if tokens[first.start + 1].text == "[" else -1
        if first.kind != "simple" or close < 0 or tokens[close + 1].text != "=":
            return None
        store, stored = (first.start, close + 1), (close + 2, first.end - 1)
    if len(updates) != 1 or updates[0].kind != "simple":
        return None
    start, end = updates[0].start, updates[0].end - 1
    place = local(tokens[start])
    if tokens[start + 1].text == "+=":
        value = (start + 2, end)
    elif [t.text for t in tokens[start + 1 : start + 4]] == ["=", tokens[start].text, "+"]:
        value = (start + 4, end)
    else:
        return None
    if store is not None and stored is not None:
        if same_words(reader, value, store):
            value = stored
        elif reader.read_words(loop, value) != reader.read_words(loop, stored):
            return None
    return AddedTerms(place, reader.resolve(loop, value), store) if place >= 0 else None


def read_square(reader: RowReader, loop: RowLoop, value: Span) -> Span | None:
    """The expression whose square a value is: `d * d`, `(a - b) * (a - b)` or `powf(d, 2)`."""
    tokens = reader.body.tokens
    if tokens[value[0]].text in ("pow", "powf") and find_closing(tokens, value[0] + 1) == value[1] - 1:
        parts = split_at(tokens, value[0] + 2, value[1] - 1, ",")
        two = tokens[parts[-1][0]].text.rstrip("fF").rstrip("0").rstrip(".") == "2"
        return reader.resolve(loop, parts[0]) if len(parts) == 2 and two else None
    factors = split_at(tokens, *value, "*")
    if len(factors) != 2 or not same_words(reader, *factors):
        return None
    return reader.resolve(loop, factors[0])
