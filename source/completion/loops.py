"""Ends of unfinished `for`, `while`, `if` and `switch` heads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hipsynth.source.completion.scope import (
    FOR_INIT,
    FunctionScope,
    guess_bound,
    guess_value,
    is_changed,
    unused_locals,
)
from hipsynth.source.completion.words import (
    ASSIGNING,
    MISSING_NAME,
    NAME,
    QUALIFIERS,
    TYPES,
    UNFINISHED,
    StatementEnding,
    WordToken,
    close_brackets,
    drop_unfinished,
)

# A variable that starts as a number, as sums do.
_BEGUN_SUM = re.compile(r"\b(?:float|double|int|unsigned|auto|T|half|_Float16)\s+(\w+)\s*=\s*[-\d.]")


def control_endings(
    code: str, tokens: Sequence[WordToken], control: int, scope: FunctionScope
) -> Iterator[StatementEnding]:
    """Ways to end a statement whose word `control` begins a head that is not closed."""
    words = [token.text for token in tokens]
    block = " {" if _lacks_brace(code) else ""
    head = words[control + 1 :]
    if words[control] == "for":
        for added, dropped in _for_endings(head, scope):
            yield StatementEnding(len(words) - dropped, f"{added}){block or _lost_body(head, scope)}")
    else:
        count = max(control + 1, drop_unfinished(words))
        inner = words[control + 1 : count]
        value = guess_value(words, scope)
        if words[-1] in UNFINISHED:
            yield StatementEnding(len(words), f" {value}{close_brackets(words[control + 1 :])}{block}")
        if len(inner) > 1:
            yield StatementEnding(count, f"{close_brackets(inner)}{block}")
        yield StatementEnding(control + 1, f" ({value} != 0){block}" if words[control] == "if" else f" (0){block}")
    yield StatementEnding(control, "{" if block else "")


def _lost_body(head: Sequence[str], scope: FunctionScope) -> str:
    """The body of a loop that broke off with it: a sum that the kernel begins but never adds to, of what it does not
    read yet; "" if there is no such sum."""
    begun = _BEGUN_SUM.findall(FOR_INIT.sub("", scope.before))
    idle = [name for name in begun if not is_changed(name, scope.body)]
    if not idle:
        return ""
    counter = next((word for word in head[1:] if NAME.fullmatch(word) and word not in TYPES | QUALIFIERS), "0")
    arrays = [parameter.name for parameter in scope.unused_parameters() if parameter.base] or [
        parameter.name for parameter in scope.kernel.parameters if parameter.constant
    ][:1]
    product = " * ".join(f"{name}[{counter}]" for name in arrays[:2]) or counter
    return f" {idle[-1]} += {product};"


def _lacks_brace(code: str) -> bool:
    """Whether more blocks close than open: then a brace that opened one is among what is missing."""
    return code.count("{") < code.count("}")


def _for_endings(head: Sequence[str], scope: FunctionScope) -> Iterator[tuple[str, int]]:
    """(added, dropped) for the head of a `for` whose first words are known."""
    parts = _head_parts(head)
    names = [word for word in parts[0] if NAME.fullmatch(word) and word not in TYPES | QUALIFIERS]
    name = names[0] if names else MISSING_NAME
    if len(parts) == 1:
        yield _rest_of_init(head, parts[0], name, guess_bound(scope))
    elif len(parts) == 2:
        yield _rest_of_condition(parts[1], name, guess_bound(scope)), 0
    else:
        yield _rest_of_step(parts[2], name, scope)


def _rest_of_init(head: Sequence[str], words: Sequence[str], name: str, bound: str) -> tuple[str, int]:
    loop = f"; {name} < {bound}; ++{name}"
    if not words:
        return f"{'' if head else ' ('}int {name} = 0{loop}", 0
    if words[-1] in TYPES | QUALIFIERS:
        return f" {name} = 0{loop}", 0
    if words[-1] == "=":
        return f" 0{loop}", 0
    return (loop, int(words[-1] in UNFINISHED)) if "=" in words else (f" = 0{loop}", 0)


def _rest_of_condition(words: Sequence[str], name: str, bound: str) -> str:
    if not words:
        return f" {name} < {bound}; ++{name}"
    if words[-1] in UNFINISHED:
        return f" {bound}; ++{name}"
    return f" < {bound}; ++{name}" if len(words) == 1 else f"{close_brackets(words)}; ++{name}"


def _rest_of_step(words: Sequence[str], name: str, scope: FunctionScope) -> tuple[str, int]:
    if not words:
        return f" ++{name}", 0
    if words[-1] in ("++", "--") and len(words) == 1:
        return name, 0
    if words[-1] in ASSIGNING:
        return " 1", 0
    if len(words) == 1:
        steps = unused_locals(words, scope)
        return f" += {steps[-1]}" if steps else "++", 0
    return close_brackets(words), int(words[-1] in UNFINISHED)


def _head_parts(head: Sequence[str]) -> list[list[str]]:
    """The words of a `for`'s head by its semicolons, without the opening parenthesis."""
    parts: list[list[str]] = [[]]
    for word in head[1:]:
        if word == ";":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts
