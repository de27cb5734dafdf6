"""Problem sizes that a program takes as arguments: `argc > 1 ? std::atoi(argv[1]) : 4096`, or an `int` that argv[1]
overwrites. The label of a run with other arguments belongs to the text in which they are the defaults."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from hipsynth.core.languages import HIP, TRITON, language_of
from hipsynth.source.arithmetic import evaluate_arithmetic, parse_arithmetic
from hipsynth.source.outline import without_comments

# The default of argument {0}, in the two forms that the host template writes, and as generated scripts write it; a
# renamed copy has other names.
_FORMS = (
    r"(\w+ > {0} \? std::atoi\(\w+\[{0}\]\) : )(\d+)(;)",
    r"(int \w+ = )(\d+)(;\s*if \(\w+ > {0}\) \w+ = std::atoi\(\w+\[{0}\]\);)",
    r"(= int\(sys\.argv\[{0}\]\) if len\(sys\.argv\) > {0} else )(\d+)(\n)",
)
# The same as people write them: position, default.
_EXPRESSION = r"((?:[^;,(){{}}?:]|\([^(){{}};]*\))+?)"
_READ_NUMBER = r"(?:std::)?(?:ato(?:i|l|ll)|strtou?ll?|sto(?:i|l|ll|ul|ull))\(\w+\[{0}\](?:, [\w:]+, \d+)?\)"
_DEFAULT_FORMS = (
    r"\w+ > {0} \? " + _READ_NUMBER + " : " + _EXPRESSION + r"\s*(?:[;,)]|$)",
    r"\b(?P<name>\w+) = " + _EXPRESSION + r"[;,](?:[^{{}}]*?)if \(\w+ > {0}\) (?P=name) = " + _READ_NUMBER,
)
_DECIMAL_FORM = r"\w+ > {0} \? (?:std::)?(?:atof|strto[fd]|sto[fd])\(\w+\[{0}\][^)]*\) : (\d+\.\d*)"
MOST_ARGUMENTS, MOST_SIZE = 9, 2**48
_STATED = "{} arguments: "
_COMMENTS = {HIP: "//", TRITON: "#"}


def with_defaults(text: str, arguments: Sequence[str]) -> str:
    """The program's text with other defaults of its first arguments. Raises ValueError if it does not have them."""
    for position, value in enumerate(arguments, 1):
        for form in _FORMS:
            changed, count = re.subn(form.format(position), rf"\g<1>{int(value)}\g<3>", text)
            if count == 1:
                text = changed
                break
        else:
            raise ValueError(f"no argument {position} with a default")
    return text


def default_arguments(text: str) -> tuple[int, ...]:
    """The sizes that a program takes when it is run without arguments: of argument 1, 2, ... as far as the text writes
    each in a usual form, `argc > 1 ? std::atoi(argv[1]) : 1 << 20` or `if (argc > 1) n = std::atoi(argv[1])`, as a
    number or the arithmetic of numbers, and below 2^48."""
    text = without_comments(text)
    sizes: list[int] = []
    for position in range(1, MOST_ARGUMENTS + 1):
        matches = (re.search(form.format(position), text) for form in _DEFAULT_FORMS)
        match = next((match for match in matches if match), None)
        if match is None:
            break
        size = evaluate_arithmetic(parse_arithmetic(match[match.re.groups]), lambda name: None)
        if size is None or not 0 <= size < MOST_SIZE or size != int(size):
            break
        sizes.append(int(size))
    return tuple(sizes)


def default_decimal(text: str, position: int) -> str:
    """The default of a decimal number that a program takes as an argument, `argc > 3 ? atof(argv[3]) : 1.5f`; "" if the
    text has none there."""
    match = re.search(_DECIMAL_FORM.format(position), text)
    return match[1] if match else ""


def run_text(text: str, arguments: str) -> str:
    """The source that belongs to a label: the program's text with the arguments of its run (quoted as for a shell) as
    defaults; of a program that reads them otherwise, its text after a comment that states them."""
    if not arguments:
        return text
    try:
        return with_defaults(text, shlex.split(arguments))
    except ValueError:
        return f"{_STATED.format(_COMMENTS[language_of(text)])}{arguments}\n{text}"


def stated_arguments(text: str) -> list[str]:
    """The arguments that the comment before a text states (see run_text)."""
    first = text.partition("\n")[0]
    head = _STATED.format(_COMMENTS[language_of(text)])
    try:
        return shlex.split(first[len(head) :]) if first.startswith(head) else []
    except ValueError:
        return []
