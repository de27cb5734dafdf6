"""Completes half-written code: guesses the rest of one statement, so that the text compiles and can be previewed.

A completion is a guess. It prefers what the kernel has not used yet, a pointer that no other statement reads for
example, because that is what the missing part most probably names.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from hipsynth.source.completion.endings import statement_endings
from hipsynth.source.completion.scope import enclosing_kernel, guess_index, guess_value, parameter_words
from hipsynth.source.completion.words import MISSING_NAME, NAME, PAIRS, UNFINISHED, close_brackets, split_tokens
from hipsynth.source.outline import blank_opaque

_OPEN_FOR = re.compile(r"\bfor\s*\([^()]*(?:\([^()]*\)[^()]*)*\Z")  # the head of a `for` that is not closed

_MOST_CUTS = 6


def position_of(text: str, line: int, column: int) -> int:
    """The offset in characters of a compiler's line and column (bytes), both counted from 1."""
    lines = text.splitlines(keepends=True)
    line = min(max(line, 1), len(lines))
    inside = len(lines[line - 1].encode()[: max(column, 1) - 1].decode(errors="ignore"))
    return sum(map(len, lines[: line - 1])) + inside


def find_cuts(text: str, at: int) -> list[int]:
    """Where the unfinished statement near an error at `at` may end: ends of lines of the statement that holds the error
    and of the one before it, most probable first."""
    code = blank_opaque(text)
    marks = [match.start() for match in re.finditer(r"[;{}]", code)]
    place = bisect_right(marks, max(at - 1, 0))
    first = marks[place - 2] + 1 if place > 1 else 0
    last = marks[place] if place < len(marks) else len(code)
    ends = [_end_of_line(code, line) for line in range(first, last + 1) if line == first or code[line - 1] == "\n"]
    open_ends = [
        end
        for end in dict.fromkeys(ends)
        if code[first:end].strip() and (code[end - 1] not in ";{}" or _OPEN_FOR.search(code[max(first - 200, 0) : end]))
    ]
    return sorted(open_ends, key=lambda end: _cut_rank(code, end, at))[:_MOST_CUTS]


def _end_of_line(code: str, at: int) -> int:
    """The end of the line at `at`, without the blanks before it."""
    stop = code.find("\n", at)
    stop = len(code) if stop < 0 else stop
    return at + len(code[at:stop].rstrip())


def _cut_rank(code: str, end: int, at: int) -> tuple[bool, bool, int]:
    """Ends that an operator or an open bracket precedes come first, then those near the error."""
    last = split_tokens(code[code.rfind("\n", 0, end) + 1 : end])
    unfinished = bool(last) and (last[-1].text in UNFINISHED or last[-1].text in PAIRS)
    return end > at + 200, not unfinished, abs(at - end)


def complete_statements(text: str, cut: int) -> Iterator[str]:
    """Texts in which the statement that breaks off at `cut` has an end, most probable first."""
    code = blank_opaque(text)
    start = _for_before(code, max(code.rfind(mark, 0, cut) for mark in ";{}") + 1)
    tokens = split_tokens(code[start:cut], start)
    scope = enclosing_kernel(text, start)
    if scope is None or not tokens:
        return
    for ending in statement_endings(code, tokens, scope):
        head = text[: tokens[ending.kept - 1].end] if ending.kept else text[:start]
        yield f"{head}{ending.added}{text[cut:]}"


def close_before(text: str, at: int) -> str | None:
    """The text with the brackets closed before `at` that the statement around it leaves open; None if it has none."""
    code = blank_opaque(text)
    start = _for_before(code, max(code.rfind(mark, 0, at) for mark in ";{}") + 1)
    closing = close_brackets([token.text for token in split_tokens(code[start:at])])
    return f"{text[:at]}{closing}{text[at:]}" if closing else None


def _for_before(code: str, start: int) -> int:
    """Where the `for` begins in whose head the position stands; the position itself if it stands in none."""
    place = start
    for _ in range(2):  # at most two semicolons stand in a head
        if not place or code[place - 1] != ";":
            break
        place = max(code.rfind(mark, 0, place - 1) for mark in ";{}") + 1
        if _OPEN_FOR.search(code[place:start]):
            return place
    return start


def declare_name(text: str, name: str, at: int) -> str | None:
    """The text with a declaration of a name that is used at `at`: where a completion left a name open, or before the
    statement. None where the name is called or outside of a kernel."""
    if MISSING_NAME in text:
        return text.replace(MISSING_NAME, name)
    scope = enclosing_kernel(text, at)
    code = blank_opaque(text)
    if scope is None or re.match(rf"{re.escape(name)}\s*\(", code[at:]):
        return None
    start = scope.kernel.body[0]
    value = guess_value([name], scope)
    if re.search(rf"\[[^\[\]]*\b{re.escape(name)}\b", scope.body):
        value = guess_index([name], scope)
    if re.match(rf"{re.escape(name)}\s*\[", code[at:]):
        arrays = [parameter.name for parameter in scope.unused_parameters() if parameter.base] or [
            parameter.name for parameter in scope.kernel.parameters if parameter.base
        ]
        if not arrays:
            return None
        value = arrays[0]
    declared = set(NAME.findall(code[start:at]))
    safe = (
        value
        if all(word in declared or word in parameter_words(scope) for word in NAME.findall(value))
        else "threadIdx.x"
    )
    place = _statement_start(code, start, at)
    return f"{text[:place]} auto {name} = {safe}; {text[place:]}"


def _statement_start(code: str, first: int, at: int) -> int:
    """Where the statement that holds `at` begins, in the outermost block of the body that begins at `first`."""
    depth, start = 0, first
    for place in range(first, at):
        sign = code[place]
        depth += (sign in "{(") - (sign in "})")
        if depth == 0 and sign in ";}":
            start = place + 1
    return start


def delete_statement(text: str, at: int) -> str:
    """The text without the statement that holds `at`; its braces stay."""
    code = blank_opaque(text)
    start = max(code.rfind(mark, 0, at) for mark in ";{}") + 1
    ends = [end for mark in ";{}" if (end := code.find(mark, at)) >= 0]
    end = min(ends, default=len(code))
    stop = end + 1 if ends and code[end] == ";" else end
    blank = "".join("\n" if sign == "\n" else " " for sign in text[start:stop])
    return text[:start] + blank + text[stop:]
