"""Finds the sizes of a program that can be chosen without editing it: arguments, options, macros.

Read from its sources (argument parsing, `#ifndef` macros), its usage text and the command line that it runs with.
"""

from __future__ import annotations

import ast
import operator
import re
import string
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

MOST_KNOBS = 12
LEAST_MACRO = 8  # smaller ones are rarely sizes
MOST_CHARS = 300_000  # of the sources
_NUMBER = r"(?:ato[ilf]l?|(?:std::)?sto(?:i|l|ll|ul|ull|f|d)|(?:std::)?strto(?:l|ll|ul|ull|f|d)|lexical_cast<\w+>)"
# Numbers that are no amount of work, or that a kernel is written for.
_FIXED = re.compile(
    r"block|\bblk|thread|tile|wave|warp|dev(ice)?(_?id)?\b|gpu|seed|verb|print|check|valid|type|mode|port|version",
    re.IGNORECASE,
)
_ITERATIONS = re.compile(
    r"iter|rep(s|eat)?|step|times|trial|loop|epoch|warm|sweep|cycles|nt\b|frames|samples|^-[irt]$", re.IGNORECASE
)
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
# A line of a help text: -x, --width   width of the matrix
_HELP = re.compile(r"^[ \t]*(-\w)?[ \t]*[,|/]?[ \t]*(--?[A-Za-z][\w-]+)[ =\t]+([^\n]+)$", re.MULTILINE)
_AMOUNT = re.compile(
    r"size|length|width|height|dimension|number of|elements|rows|col(umn)?s\b|nodes|points|iterations", re.IGNORECASE
)
_MACRO = re.compile(r"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)[ \t]*\n[ \t]*#[ \t]*define[ \t]+\1[ \t]+([^\n]+)$", re.MULTILINE)
_USAGE = re.compile(r"usage\s*:?\s*(?:\S+)((?:[ \t]+(?:\[[^\]\n]+\]|<[^>\n]+>|[A-Za-z_]\w*))+)", re.IGNORECASE)
_USAGE_WORD = re.compile(r"\[[^\]\n]+\]|<[^>\n]+>|[A-Za-z_]\w*")
_OPTION = re.compile(r"(--?[A-Za-z][\w-]*)(?:[ =]+<?([A-Za-z_]\w*)>?)?")
_PLAIN = re.compile(r"\d+")
_GIVEN = re.compile(r"(--?[A-Za-z][\w-]*=)(\d+)")


@dataclass(frozen=True)
class Knob:
    """A number that the program can be given. `kind`: argument (at position `place`, from 1), option or macro.

    `value`: what it is without a change, 0 if unknown. `repeats`: by its name a number of iterations, not a size.
    """

    kind: str
    place: str
    value: int
    name: str  # what the program calls it, "" if unknown

    @property
    def repeats(self) -> bool:
        return bool(_ITERATIONS.search(self.name))


def knobs_of(texts: Iterable[str], usage: str, arguments: Sequence[str], defines: Iterable[str]) -> list[Knob]:
    """The knobs of a program, iterations first, then in the order of their appearance.

    `texts`: its sources without comments; `usage`: what it printed; `arguments`: its command line; `defines`: macros
    that its build sets. Arguments that are given take precedence over what the sources say.
    """
    code = "\n".join(texts)[:MOST_CHARS]
    known = _Values(code)
    found: dict[tuple[str, str], Knob] = {}
    for knob in (
        *_given_knobs(arguments, code),
        *_declared_macros(defines),
        *_argument_knobs(code, known),
        *_option_knobs(code, known),
        *_described_knobs(f"{usage}\n{code}", taken=bool(arguments)),
        *_help_knobs(usage),
        *_macro_knobs(code),
    ):
        found.setdefault((knob.kind, knob.place), knob)
    useful = [knob for knob in found.values() if not _FIXED.search(knob.name)]
    return sorted(useful, key=lambda knob: not knob.repeats)[:MOST_KNOBS]


def evaluate_constant(text: str) -> int:
    """The value of a constant expression such as `1 << 20`, `64 * 1024` or `1e6`; 0 for anything else."""
    plain = re.sub(r"(?<=[\da-fA-F])(?:[uU]?[lL]{0,2}|[fF])\b", "", text.strip())
    try:
        value = _evaluate_ast(ast.parse(plain, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, ArithmeticError, MemoryError, RecursionError):
        return 0
    return int(value) if 0 < value < 2**48 else 0


_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.LShift: lambda a, b: int(a) << min(int(b), 48),
}


def _evaluate_ast(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value) if isinstance(node.value, float) else int(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_evaluate_ast(node.left), _evaluate_ast(node.right))
    raise ValueError("not constant")


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
            if value := evaluate_constant(text):
                return value
        return 0


def _given_knobs(arguments: Sequence[str], code: str) -> list[Knob]:
    """The numbers of the current command line."""
    names = {place: name for name, place, _ in _ARGUMENT.findall(code)}
    found = []
    for at, word in enumerate(arguments, 1):
        before = arguments[at - 2] if at > 1 and arguments[at - 2].startswith("-") else ""
        if given := _GIVEN.fullmatch(word):
            found.append(Knob("argument", str(at), int(given[2]), given[1]))
        elif _PLAIN.fullmatch(word) and int(word) > 1:
            found.append(Knob("argument", str(at), int(word), before or names.get(str(at), "")))
    return found


def _declared_macros(defines: Iterable[str]) -> list[Knob]:
    split = [text.partition("=")[::2] for text in defines]
    return [
        Knob("macro", name, evaluate_constant(value), name) for name, value in split if evaluate_constant(value) > 1
    ]


def _argument_knobs(code: str, known: _Values) -> list[Knob]:
    found = []
    for name, place, default in _ARGUMENT.findall(code):
        value = evaluate_constant(default) or (known.of(name) if name else 0)
        if int(place) > 0:
            found.append(Knob("argument", place, value, name))
    return found


def _option_knobs(code: str, known: _Values) -> list[Knob]:
    found = [Knob("option", f"-{letter}", known.of(name), name) for letter, name in _GETOPT.findall(code)]
    found += [Knob("option", word, known.of(name), f"{word} {name}") for word, name in _COMPARED.findall(code)]
    for name, default in _LOOKED_UP.findall(code):
        if (value := evaluate_constant(default) or known.of(default.strip())) > 1:
            found.append(Knob("option", name, value, name))
    for letter, name, default in _DECLARED.findall(code):
        value = evaluate_constant(default) or known.of(default.strip())
        if value > 1:
            found.append(Knob("option", f"-{letter}", value, name))
    return found


def _described_knobs(text: str, *, taken: bool) -> list[Knob]:
    """Arguments and options of a usage line such as `usage: app [n] [-i iterations]`, without values."""
    found: list[Knob] = []
    for line in _USAGE.findall(text):
        place = 0
        for word in _USAGE_WORD.findall(line):
            inner = word.strip("[]<>")
            if option := _OPTION.fullmatch(inner):
                if option[2]:
                    found.append(Knob("option", option[1], 0, option[2]))
                continue
            place += 1
            if not taken and not re.search(r"file|path|name|options?\b|\.", inner, re.IGNORECASE):
                found.append(Knob("argument", str(place), 0, inner))
    return found


def _help_knobs(usage: str) -> list[Knob]:
    """The options of a help text that stand for amounts, without values."""
    found = []
    for short, name, words in _HELP.findall(usage):
        if _AMOUNT.search(f"{name} {words}"):
            found.append(Knob("option", short or name, 0, f"{name} {words[:40]}"))
    return found


def _macro_knobs(code: str) -> list[Knob]:
    found = []
    for name, text in _MACRO.findall(code):
        value = evaluate_constant(text.strip().strip("()"))
        if value >= LEAST_MACRO and set(name) <= set(string.ascii_letters + string.digits + "_"):
            found.append(Knob("macro", name, value, name))
    return found
