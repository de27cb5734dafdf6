"""The sizes at which a program is verified: its own check arguments, and its default sizes scaled down."""

from __future__ import annotations

import re
import shlex

_DEFAULT = re.compile(r"argc > (\d) \? (?:std::)?atoi\(argv\[\1\]\) : ([\d <]+)")
_CHECK = re.compile(r"^// check:[ \t]*(.*)$", re.M)
SCALES = (16, 64)
Arguments = tuple[str, ...]


def candidates(text: str) -> list[Arguments]:
    """Argument lists to try, most useful first; () runs the program as it is."""
    found: list[Arguments] = [tuple(shlex.split(line)) for line in _CHECK.findall(text)]
    defaults = {int(number): _value(value) for number, value in _DEFAULT.findall(text)}
    if defaults and sorted(defaults) == list(range(1, len(defaults) + 1)):
        values = [defaults[i] for i in sorted(defaults)]
        for scale in SCALES:
            small = [max(1, value // scale) if value > 256 else value for value in values]
            found.append(tuple(map(str, small)))
            found.append(tuple(str(value + 3 if value > 16 else value) for value in small))
    found.append(())
    return list(dict.fromkeys(found))


def _value(text: str) -> int:
    base, _, shift = text.partition("<<")
    return int(base) << int(shift or 0)
