"""Numbers that a program takes from outside, as its text reads them: arguments, options, macros; and its constants.

Found by the usual ways to write them. What they mean is for the caller to judge; names tell which constants are sizes.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass

from hipsynth.source.arithmetic import evaluate_arithmetic, parse_arithmetic

_NUMBER = r"(?:ato[ilf]l?|(?:std::)?sto(?:i|l|ll|ul|ull|f|d)|(?:std::)?strto(?:l|ll|ul|ull|f|d)|lexical_cast<\w+>)"
# n = atoi(argv[1]), and the ternary n = argc > 1 ? atoi(argv[1]) : 1024
_ARGUMENT = re.compile(
    rf"(?:\b([\w.>\[\]-]{{1,80}})\s*=[^;=]{{0,200}}?)?\b{_NUMBER}\s*\(\s*(?:std::string\s*[({{]\s*)?"
    r"\w{0,20}argv\s*\[\s*(\d{1,2})\s*\][^;:]{0,200}(?::\s*([^;]{1,200}))?;"
)
_GETOPT = re.compile(
    rf"case\s*'(\w)'\s*:(?:(?!\bcase\b|\bbreak\b).){{0,400}}?\b([\w.>-]{{1,80}})\s*=[^;=]{{0,200}}\b{_NUMBER}\s*\(\s*optarg",
    re.DOTALL,
)
# strcmp(argv[i], "-n") == 0) n = atoi(argv[++i]), also with std::string comparison
_COMPARED = re.compile(
    rf"\"(--?[A-Za-z][\w-]{{0,40}})\"(?:(?!\"-).){{0,200}}?\b([\w.>-]{{1,80}})\s*=[^;=]{{0,200}}\b{_NUMBER}\s*\(",
    re.DOTALL,
)
# A parser's declaration: ("n", "size", 1024, ...): the option's letter, its name, its default.
_DECLARED = re.compile(r"\(\s*\"(\w[\w-]{0,40})\"\s*,\s*\"([\w-]+)\"\s*,\s*([\w ()*<+\-]+?)\s*[,)]")
# A call that looks an option up: number(argc, argv, "--size", 256): the option, its default.
_LOOKED_UP = re.compile(r"\bargv\s*,\s*\"(--?[A-Za-z][\w-]{0,40})\"\s*,\s*([\w ()*<+\-]+?)\s*[,)]")
_MACRO = re.compile(
    r"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)[ \t]*\r?\n[ \t]*#[ \t]*define[ \t]+\1[ \t]+([^\r\n]+)\r?$", re.MULTILINE
)
_VALUE = r"([\d(][\w'()*+<\- \t]*?)"
_CONSTANT = re.compile(
    rf"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+{_VALUE}[ \t]*(?://[^\n]*|/\*[^\n]*)?\r?$"
    r"|\b(?:int|unsigned|long|size_t|auto|u?int(?:32|64)_t)[ \t]+(?:const[ \t]+)?(\w+)[ \t]*(?:=|\{)[ \t]*"
    rf"{_VALUE}[ \t]*\}}?[ \t]*[;,]",
    re.MULTILINE,
)
LEAST_CONSTANT = 32  # of those that may be sizes
_SIZE_NAME = re.compile(
    r"(?:[NnMmKkLlWwHh]|[nN]?_?[xyzXYZ]|nx|ny|nz)\d?_?|.*(?:size|len|num|count|width|height|rows?|col(?:umn)?s?|dim|"
    r"elem|points|particles|bod(?:y|ies)|samples|vertices|nodes|edges|items|batch|volume|total|max|order).*",
    re.IGNORECASE,
)
_NO_SIZE = re.compile(
    r"block|thread|tile|wave|warp|lane|group|wg_|local|grid|cache|flush|register|distance|dev(?:ice)?|seed|name|str(?:ing)?|path|buf|line|char|iter|rep|step|"
    r"times|loop|version|argc|radius|mask|bin|digit|radix|unroll|per_|align|pad|lds|shared",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class NumberInput:
    """A number that a program can be given. `kind`: argument (at position `place`, from 1), option or macro.

    `value`: what it is without being given, 0 if unknown. `name`: what the program calls it, "" if unknown.
    """

    kind: str
    place: str
    value: int
    name: str


@dataclass(frozen=True)
class NamedConstant:
    """A macro or variable that a text sets to a number, whose digits are at [start, end)."""

    name: str
    value: int
    start: int
    end: int


def evaluate_number(text: str) -> int:
    """The value of a constant expression such as `1 << 20`, `64 * 1024` or `1e6`, rounded down; 0 for anything else,
    and for numbers outside of 1 to 2^48."""
    value = evaluate_arithmetic(parse_arithmetic(text), lambda name: None)
    return int(value) if value is not None and 0 < value < 2**48 else 0


class _Values:
    """What variables and macros of the sources are initialised with."""

    def __init__(self, code: str) -> None:
        self.code = code

    def of(self, name: str) -> int:
        last = re.split(r"\.|->", name)[-1]
        if not re.fullmatch(r"\w+", last):
            return 0
        pattern = rf"(?:\b{last}\s*(?:=|\{{)|#[ \t]*define[ \t]+{last}[ \t])[ \t]*([\w.()*<+\- \t]+)"
        for text in re.findall(pattern, self.code):
            if value := evaluate_number(text):
                return value
        return 0


def argument_inputs(code: str) -> list[NumberInput]:
    """The positional arguments that a text turns into numbers, with their defaults."""
    values, inputs = _Values(code), []
    for name, place, default in _ARGUMENT.findall(code):
        value = evaluate_number(default) or (values.of(name) if name else 0)
        if int(place) > 0:
            inputs.append(NumberInput("argument", place, value, name))
    return inputs


def option_inputs(code: str) -> list[NumberInput]:
    """The options that a text turns into numbers, in the usual ways to parse them, with their defaults."""
    values = _Values(code)
    inputs = [NumberInput("option", f"-{letter}", values.of(name), name) for letter, name in _GETOPT.findall(code)]
    inputs += [NumberInput("option", word, values.of(name), f"{word} {name}") for word, name in _COMPARED.findall(code)]
    for name, default in _LOOKED_UP.findall(code):
        if (value := evaluate_number(default) or values.of(default.strip())) > 1:
            inputs.append(NumberInput("option", name, value, name))
    for letter, name, default in _DECLARED.findall(code):
        value = evaluate_number(default) or values.of(default.strip())
        if value > 1:
            inputs.append(NumberInput("option", f"-{letter}", value, name))
    return inputs


def macro_inputs(code: str, least: int) -> list[NumberInput]:
    """The macros of at least `least` that a text defines unless the compiler's command line does."""
    inputs = []
    for name, text in _MACRO.findall(code):
        value = evaluate_number(text)
        if value >= least and set(name) <= set(string.ascii_letters + string.digits + "_"):
            inputs.append(NumberInput("macro", name, value, name))
    return inputs


def named_constants(text: str) -> list[NamedConstant]:
    """The macros and integer variables that a text sets to a number above 0."""
    constants = []
    for match in _CONSTANT.finditer(text):
        at = 1 if match[1] else 3
        value = evaluate_number(match[at + 1])
        if value > 0:
            constants.append(NamedConstant(match[at], value, *match.span(at + 1)))
    return constants


def size_constants(text: str) -> list[NamedConstant]:
    """The constants of a source that look like sizes."""
    return [
        constant
        for constant in named_constants(text)
        if constant.value >= LEAST_CONSTANT
        and _SIZE_NAME.fullmatch(constant.name)
        and not _NO_SIZE.search(constant.name)
    ]
