"""The conditions under which a kernel reads elements of a window, such as those that keep it inside an image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hipsynth.source.parse import Token
from hipsynth.source.tokens import Span, find_closing, split_at, strip_parentheses
from hipsynth.tuning.optimize.analysis.polynomials import Polynomial, add_polynomials, multiply_polynomials, times_of
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement
from hipsynth.tuning.optimize.transformations.halo_tile.affine import AXIS_NAMES, AffineReader
from hipsynth.tuning.optimize.transformations.lds_tile.tiled_loop import Condition

_COMPARISONS = frozenset({"<", "<=", ">", ">="})
_OPENING = frozenset("([{")
_STARTS = frozenset({"=", "+=", "-=", "*=", "/=", ",", "return", ";"})  # of the condition of a `?`


def find_guards(affine: AffineReader, statements: Sequence[Statement], at: int) -> list[Condition]:
    """The conditions that hold wherever the token `at` is reached, of those within `statements`: of an `if` around it,
    an `if (...) continue;` before it, or a `?`. Raises NotUnderstood for what is no comparison of sums."""
    return [_read_guard(affine, *guard) for guard in _list_guards(affine.body.tokens, statements, at)]


def same_guards(
    affine: AffineReader, loads: Sequence[tuple[Sequence[Condition], tuple[Polynomial, Polynomial]]]
) -> bool:
    """Whether the loads of a window, each with its guards and offsets, have the same conditions on the element
    that they read, whichever work-item reads it."""
    return (
        len({frozenset(_element_condition(affine, guard, offsets) for guard in guards) for guards, offsets in loads})
        < 2
    )


def _element_condition(
    affine: AffineReader, guard: Condition, offsets: tuple[Polynomial, Polynomial]
) -> tuple[bool, str, tuple[tuple[tuple[str, ...], int], ...]]:
    """A condition on a work-item's number as one on that of the element that it reads. Raises NotUnderstood where it is
    none, so that work-items that read one element may differ in it."""
    sign, difference = _read_difference(affine, guard.span)
    for axis in guard.axes:
        (factor,) = times_of(difference, AXIS_NAMES[axis]).values()
        difference = add_polynomials(difference, multiply_polynomials({(): factor}, offsets[axis]), -1)
    if any(name in names for names in difference for name in affine.variable_names):
        raise NotUnderstood("a condition on other numbers than the element's")
    return guard.negated, sign, tuple(sorted(difference.items()))


def _read_guard(affine: AffineReader, span: Span, negated: bool) -> Condition:
    _, difference = _read_difference(affine, span)
    axes = frozenset(axis for axis, name in AXIS_NAMES.items() if times_of(difference, name))
    factors = [times_of(difference, AXIS_NAMES[axis]) for axis in axes]
    if len(axes) > 1 or any(factor not in ({(): 1}, {(): -1}) for factor in factors):
        raise NotUnderstood("a condition that is not linear in one number")
    return Condition(span, negated, axes)


def _read_difference(affine: AffineReader, span: Span) -> tuple[str, dict[tuple[str, ...], int]]:
    """The sign of a comparison, and its left side less its right side."""
    tokens = affine.body.tokens
    signs = [i for i in range(*span) if tokens[i].text in _COMPARISONS]
    if len(signs) != 1:
        raise NotUnderstood("a condition of another kind")
    left, right = affine.read((span[0], signs[0])), affine.read((signs[0] + 1, span[1]))
    return tokens[signs[0]].text, add_polynomials(left, right, -1)


def _list_guards(tokens: Sequence[Token], statements: Sequence[Statement], at: int) -> Iterator[tuple[Span, bool]]:
    """Conditions, as tokens, each with whether it does not hold at the token `at`."""
    for number, statement in enumerate(statements):
        if not statement.start <= at < statement.end:
            continue
        for earlier in statements[:number]:
            if is_skip(tokens, earlier):
                yield from _split_condition(tokens, earlier.head, True)
        inside = next((n for n, part in enumerate(statement.parts) if part.start <= at < part.end), -1)
        if inside < 0:
            yield from _list_choices(tokens, statement.head if statement.head[1] else statement.span, at)
        elif statement.kind == "if":
            yield from _split_condition(tokens, statement.head, inside == 1)
        if inside >= 0:
            yield from _list_guards(tokens, statement.parts, at)


def is_skip(tokens: Sequence[Token], statement: Statement) -> bool:
    """`if (...) continue;`"""
    if statement.kind != "if" or len(statement.parts) != 1:
        return False
    (inner,) = statement.parts
    inner = inner.parts[0] if inner.kind == "block" and len(inner.parts) == 1 else inner
    return inner.kind == "jump" and tokens[inner.start].text == "continue"


def _split_condition(tokens: Sequence[Token], span: Span, negated: bool) -> Iterator[tuple[Span, bool]]:
    """What a condition that holds is joined of by `&&`, or one that does not hold by `||`."""
    span = strip_parentheses(tokens, span)
    parts = split_at(tokens, *span, "||" if negated else "&&")
    if len(parts) == 1:
        yield span, negated
        return
    for part in parts:
        yield from _split_condition(tokens, part, negated)


def _list_choices(tokens: Sequence[Token], span: Span, at: int) -> Iterator[tuple[Span, bool]]:
    """The conditions of `? :` around a token. Raises NotUnderstood for `&&` and `||` before it, and for two choices
    between the same brackets."""
    start, end = span
    question = colon = end
    joins: list[int] = []  # `&&` and `||`
    inner, i = (0, 0), start
    while i < end:
        text = tokens[i].text
        if text in _STARTS and i < min(at, question):
            start = i
        elif text in ("&&", "||"):
            joins.append(i)
        elif text == "?" and question < end:
            raise NotUnderstood("several choices at once")
        elif text == "?":
            question = i
        elif text == ":" and question < end:
            colon = min(colon, i)
        if text in _OPENING:
            close = find_closing(tokens, i)
            inner = (i + 1, close) if i < at < close else inner
            i = close
        i += 1
    begin = max(mark for mark in (start - 1, question, colon) if mark < at)
    if any(begin < join < at for join in joins):
        raise NotUnderstood("a load behind a condition of another kind")
    if at > question:
        first = start + (tokens[start].text in _STARTS)
        yield from _split_condition(tokens, (first, question), at > colon)
    if inner[1]:
        yield from _list_choices(tokens, inner, at)
