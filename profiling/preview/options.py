"""Command-line options that a program declares to a parser class, recognised by the shape of the calls.

`parser.declare("n", "size", 1024, ...)` gives names and a default, `parser.get("n")` reads one; an object with
names and a pointer to a variable, passed to a method, lets the command line set that variable.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hipsynth.profiling.preview.values import UNKNOWN, Object, Reference, known

NUMBER = re.compile(r"[-+]?(0x[0-9a-fA-F]+|\d+\.?\d*(e[-+]?\d+)?|\.\d+)$")
MOST_NAME = 40  # characters; longer texts are descriptions


def as_default(text: Any, default: Any) -> Any:
    """A word of the command line as a value like `default`."""
    if not isinstance(text, str) or not known(default):
        return text
    if not NUMBER.match(text):
        return UNKNOWN
    if isinstance(default, float):
        return float(text)
    return int(text, 0) if re.fullmatch(r"[-+]?(0x[0-9a-fA-F]+|[1-9]\d*|0)", text) else int(float(text))


def on_line(names: Sequence[str], given: Sequence[Any], default: Any) -> Any:
    """What the command line gives an option, else its default."""
    forms = {dashes + name.lstrip("-") for name in names for dashes in ("-", "--")}
    for i, word in enumerate(given):
        if not isinstance(word, str):
            continue
        name, equals, text = word.partition("=")
        if name in forms:
            return as_default(text if equals else given[i + 1] if i + 1 < len(given) else UNKNOWN, default)
    return default


def names_of(values: Sequence[Any]) -> list[str]:
    return [v for v in values if isinstance(v, str) and re.fullmatch(rf"-{{0,2}}\w[\w-]{{0,{MOST_NAME}}}", v)]


def declare(parser: Object, values: Sequence[Any], given: Sequence[Any]) -> None:
    """Notes the option that a call of a method of `parser` declares, if it looks like that."""
    for value in values:
        if isinstance(value, Object):
            parser.options.update(dict.fromkeys(_bound(value, given), UNKNOWN))
    if len(values) < 2 or not isinstance(values[0], str):
        return
    names = names_of(values[: 2 if isinstance(values[1], str) else 1])
    default = values[len(names)] if names and len(values) > len(names) else UNKNOWN
    if default is not UNKNOWN:
        value = on_line(names, given, default)
        parser.options.update(dict.fromkeys((name.lstrip("-") for name in names), value))


def _bound(option: Object, given: Sequence[Any]) -> list[str]:
    """Sets the variable that an option points to; the option's names, if it is one."""
    held = list(option.fields.values())
    target = next((one for one in held if isinstance(one, Reference)), None)
    names = names_of(held)
    if target is None:
        return []
    value = on_line(names, given, target.get())
    if known(value):
        target.set(value)
    return names


class Getopt:
    """The state of getopt(), which returns one option of the command line after the other."""

    def __init__(self, given: Sequence[Any]) -> None:
        self.left = list(given)

    def next(self, spec: str) -> tuple[int, Any]:
        """(letter of the next option or -1, its argument)."""
        while self.left:
            word = self.left.pop(0)
            if isinstance(word, str) and re.match(r"-[A-Za-z]", word):
                at = spec.find(word[1])
                takes = at >= 0 and spec[at + 1 : at + 2] == ":"
                text: Any = word[2:] if takes else 0
                if takes and not text:
                    text = self.left.pop(0) if self.left else UNKNOWN
                return ord(word[1]) if at >= 0 else ord("?"), text
        return -1, 0


def option(parser: Object, values: Sequence[Any]) -> Any:
    """The value of an option that a call reads by its name; UNKNOWN if it is no such call."""
    if len(values) != 1 or not isinstance(values[0], str):
        return UNKNOWN
    return parser.options.get(values[0].lstrip("-"), UNKNOWN)
