"""Ends of unfinished statements, most probable first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hipsynth.source.completion.loops import control_endings
from hipsynth.source.completion.scope import FunctionScope, guess_index, guess_stored_value, guess_value, next_axis
from hipsynth.source.completion.words import (
    ASSIGNING,
    CASTS,
    CLOSING,
    CONTROL,
    MISSING_NAME,
    NAME,
    PAIRS,
    QUALIFIERS,
    TYPES,
    UNFINISHED,
    StatementEnding,
    WordToken,
    close_brackets,
    closes_parenthesis,
    count_to_assignment,
    drop_unfinished,
    split_tokens,
)
from hipsynth.source.coordinates import COORDINATES

_LONGEST_ANALOGY, _MOST_ANALOGIES, _LONGEST_REST = 10, 2, 60  # words; texts; words


def statement_endings(code: str, tokens: Sequence[WordToken], scope: FunctionScope) -> Iterator[StatementEnding]:
    """Ways to end the statement of which `tokens` are written; `code` is the text without comments and literals."""
    words = [token.text for token in tokens]
    control = next((i for i, word in enumerate(words) if word in CONTROL), -1)
    if control >= 0 and not closes_parenthesis(words[control + 1 :]):
        yield from control_endings(code, tokens, control, scope)
        return
    if words == ["else"]:
        yield StatementEnding(1, ";")
        return
    for added in [*_analogies(code, tokens, 4), *_idiom_endings(code, tokens, scope), *_analogies(code, tokens, 2)]:
        yield StatementEnding(len(words), added)
    for added in _value_endings(words, scope):
        yield StatementEnding(len(words), added)
    yield from _shorter_endings(words, scope)


def _value_endings(words: Sequence[str], scope: FunctionScope) -> Iterator[str]:
    """Ends with a value where one is missing."""
    value, stored = guess_value(words, scope), guess_stored_value(words, scope)
    declares, assigns = words[0] in TYPES | QUALIFIERS, bool(ASSIGNING.intersection(words))
    if words[-1] in ASSIGNING and not declares and ("]" in words or len(words) == 2):
        yield f" {stored};"
    if words[-1] == "[" and len(words) == 2:  # the target of a store
        yield f"{value}] = {stored};"
    if words[-1] in "([" or (words[-1] in UNFINISHED and words[-1] not in (".", "->", "::")):
        yield f" {value}{close_brackets(words)};"
    if "(" not in words and not assigns:
        if words[-1] in TYPES | QUALIFIERS:  # `const float`: the name is missing, too
            yield f" {MISSING_NAME} = {value};"
        elif len(words) > 1 and (words[-2] in TYPES | QUALIFIERS or words[-2] == "*"):
            yield f" = {value}{close_brackets(words)};"
    if not declares and not assigns and words[-1] == "]":  # an element: the target of a store
        yield f" = {stored};"


def _shorter_endings(words: Sequence[str], scope: FunctionScope) -> Iterator[StatementEnding]:
    """Ends without what cannot stand at the end; the last is the empty statement."""
    value = guess_value(words, scope)
    if count := drop_unfinished(words):
        choice = f" : {value}" if words.count("?") > words.count(":") else ""
        yield StatementEnding(count, f"{choice}{close_brackets(words[:count])};")
    if assigned := count_to_assignment(words):
        yield StatementEnding(assigned, f" {value};")
    if len(words) == 1 and words[0] not in TYPES:  # a name alone: the target of an assignment
        yield StatementEnding(1, f" = {value};")
    yield StatementEnding(0, ";")


def _analogies(code: str, tokens: Sequence[WordToken], least: int) -> Iterator[str]:
    """What follows the longest run of the last words elsewhere in the text, of at least `least` words; up to the end of
    the statement."""
    words = [token.text for token in tokens]
    others = split_tokens(code)
    spelled = [token.text for token in others]
    continuations: list[str] = []
    for length in range(min(_LONGEST_ANALOGY, len(words)), least - 1, -1):
        run = words[-length:]
        for place in range(len(spelled) - length, -1, -1):
            if spelled[place : place + length] != run or others[place + length - 1].end == tokens[-1].end:
                continue
            end = _end_of_statement(spelled, place + length, close_brackets(words))
            if (
                end > place + length
                and (continuation := code[others[place + length].start : others[end - 1].end]) not in continuations
            ):
                continuations.append(continuation)
                yield f" {continuation}{close_brackets([*words, *spelled[place + length : end]])};"
            if len(continuations) == _MOST_ANALOGIES:
                return


def _end_of_statement(words: Sequence[str], start: int, open_brackets: str) -> int:
    """The index behind the last word of a statement that goes on at `start`, where brackets are open; without `;`."""
    depth = len(open_brackets)
    for i in range(start, min(len(words), start + _LONGEST_REST)):
        depth += (words[i] in PAIRS) - (words[i] in CLOSING)
        if depth < 0 or (words[i] in ";{}" and depth <= 0):
            return i
    return start


def _idiom_endings(code: str, tokens: Sequence[WordToken], scope: FunctionScope) -> Iterator[str]:
    """What follows in nearly every kernel: the rest of a global index, an array's size, an accumulator's zero."""
    words = [token.text for token in tokens]
    rest = code[tokens[-1].end : scope.kernel.body[1]]
    casts = [i for i, word in enumerate(words) if word in CASTS]
    if casts and ">" not in words[casts[-1] :]:
        kind = "float" if words[-1] == "<" else "<float" if words[-1] in CASTS else ""
        yield f"{kind}>({guess_value(words, scope)}){close_brackets(words)};"
    if index := _rest_of_index(words, scope):
        yield f"{index}{close_brackets(words)};"
    if words[-1] in COORDINATES:
        yield f".x{close_brackets(words)};"
    if words[-1] in (".", "->") and len(words) > 1:
        for member in _members(code, words, scope):
            yield f"{member}{close_brackets(words)};"
    if size := _array_size(words, rest):
        yield f"{size};"
    yield from _call_endings(words, scope)
    if words[-1] == "=" and len(words) > 1 and re.search(rf"\b{re.escape(words[-2])}\s*(?:[-+*|&^]|<<|>>)?=[^=]", rest):
        yield " 0;"


def _members(code: str, words: Sequence[str], scope: FunctionScope) -> list[str]:
    """Members that may be meant behind `.` or `->`: one with the name of the assigned variable, those in the body."""
    target = words[words.index("=") - 1] if "=" in words else ""
    named = target and re.search(rf"[.>]\s*{re.escape(target)}\b|\b{re.escape(target)}\s*;", code)
    preferred = [target] if named and words[-2] not in COORDINATES else []
    used = re.findall(rf"\b{re.escape(words[-2])}\s*{re.escape(words[-1])}\s*(\w+)", scope.body)
    return list(dict.fromkeys([*preferred, *used, "x"]))


def _array_size(words: Sequence[str], rest: str) -> str:
    """The size of a __shared__ array whose declaration breaks off, by how `rest` of the body uses it; "" for others."""
    name = words[-1] if words[-1] != "[" else words[-2] if len(words) > 1 else ""
    if "__shared__" not in words or "=" in words or not NAME.fullmatch(name):
        return ""
    used = re.search(rf"\b{re.escape(name)}\s*\[[^\[\]]*\](\s*\[)?", rest)
    size = "" if used is None else "[32][33]" if used[1] else "[1024]"
    return size[1:] if words[-1] == "[" else size


def _call_endings(words: Sequence[str], scope: FunctionScope) -> Iterator[str]:
    """The argument of a call, a cast or an array whose name is the last word."""
    last = words[-1]
    value = guess_value(words, scope)
    if last == ">" and CASTS.intersection(words[-8:]):
        yield f"({value}){close_brackets(words)};"
    elif NAME.fullmatch(last) and last not in TYPES | QUALIFIERS | COORDINATES:
        arrays = {name.name for name in scope.kernel.parameters if "*" in name.text}
        arrays |= {name for pair in re.findall(r"\*\s*(\w+)\s*=|\b(\w+)\s*\[", scope.body) for name in pair if name}
        declares = len(words) > 1 and (
            words[-2] in TYPES | QUALIFIERS or (words[-2] == "*" and words[0] in TYPES | QUALIFIERS)
        )
        if last in arrays and not declares:
            access = f"[{guess_index(words, scope)}]"
            target = not ASSIGNING.intersection(words) and "(" not in words
            yield f"{access}{f' = {guess_stored_value(words, scope)}' if target else ''}{close_brackets(words)};"
        elif last.startswith("__") or re.search(rf"\b{re.escape(last)}\s*\(", scope.body):
            yield f"({'' if len(words) == 1 else value}){close_brackets(words)};"


def _rest_of_index(words: Sequence[str], scope: FunctionScope) -> str:
    """The rest of `blockIdx.x * blockDim.x + threadIdx.x`, if the words end within it; "" if not."""
    place = next((i for i in range(len(words) - 1, -1, -1) if words[i] == "blockIdx"), -1)
    if place < 0:
        return ""
    tail = list(words[place:])
    if "threadIdx" in words and words[place - 1] == "+":  # threadIdx.x + blockIdx.x * blockDim.x
        axis = words[words.index("threadIdx") + 2] if words.index("threadIdx") + 2 < place else "x"
        path = ["blockIdx", ".", axis, "*", "blockDim", ".", axis]
        return _join_path(path[len(tail) :]) if tail == path[: len(tail)] else ""
    axis = tail[2] if len(tail) > 2 else next_axis(scope)
    if ")" in tail:
        return ""
    path = ["blockIdx", ".", axis, "*", "blockDim", ".", axis, "+", "threadIdx", ".", axis]
    return _join_path(path[len(tail) :]) if tail == path[: len(tail)] else ""


def _join_path(words: Sequence[str]) -> str:
    return re.sub(r"\s*\.\s*", ".", " ".join(words))
