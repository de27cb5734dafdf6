"""C++ tokens of a program after the directives that matter for its host code: #define, #if, #ifdef, #undef.

The text need not be complete or correct: it may be in the middle of an edit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<string>(?:u8|[uUL])?R"(?P<raw>[^\s()\\]*)\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])+')
    |(?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign><<<|>>>|<<=|>>=|\.\.\.|->|::|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.VERBOSE | re.DOTALL,
)
_CONTINUED = re.compile(r"\\[ \t]*\n")
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)(.*)$")
# Macros that a HIP compiler defines on the host.
PREDEFINED = {"__HIPCC__": "1", "__HIP__": "1", "__HIP_PLATFORM_AMD__": "1", "__cplusplus": "201703", "NULL": "0"}
MOST_EXPANSIONS = 2000


@dataclass(frozen=True)
class HostMacro:
    parameters: tuple[str, ...] | None  # None: object-like
    body: tuple[str, ...]


def split(text: str) -> list[str]:
    """The tokens of a text; comments and white space are left out."""
    return [match.group() for match in _TOKEN.finditer(text) if match.lastgroup != "space"]


def _strip_comments(text: str) -> str:
    def blank(match: re.Match[str]) -> str:
        comment = match.lastgroup == "space" and match.group().lstrip()[:1] == "/"
        return " " + "\n" * match.group().count("\n") if comment else match.group()

    return _TOKEN.sub(blank, text)


class Preprocessor:
    """Resolves conditionals and collects macros; other directives are dropped. `evaluate`: the value of the tokens of a
    condition."""

    def __init__(self, evaluate: Callable[[list[str]], object], defines: Mapping[str, str] | None = None) -> None:
        self.evaluate = evaluate
        given = {**PREDEFINED, **(defines or {})}
        self.macros = {name: HostMacro(None, tuple(split(value))) for name, value in given.items()}

    def run(self, text: str) -> list[str]:
        """The tokens of the lines that conditionals keep, with expanded macros."""
        kept: list[str] = []
        states: list[tuple[bool, bool]] = []  # (this branch is active, one was)
        lines = _CONTINUED.sub(" ", _strip_comments(text)).split("\n")
        pending: list[str] = []
        for line in lines:
            directive = _DIRECTIVE.match(line)
            if directive is None:
                if all(active for active, _ in states):
                    pending.append(line)
                continue
            kept += self.expand(split("\n".join(pending)))
            pending = []
            self._directive(directive.group(1), directive.group(2).strip(), states)
        return kept + self.expand(split("\n".join(pending)))

    def _directive(self, word: str, rest: str, states: list[tuple[bool, bool]]) -> None:
        if word in ("if", "ifdef", "ifndef"):
            holds = self._holds(rest) if word == "if" else (rest.split(" ")[0] in self.macros) == (word == "ifdef")
            states.append((holds, holds))
        elif word in ("elif", "else") and states:
            done = states[-1][1]
            holds = not done and (word == "else" or self._holds(rest))
            states[-1] = (holds, done or holds)
        elif word == "endif" and states:
            states.pop()
        elif all(active for active, _ in states):
            if word == "define":
                self._define(rest)
            elif word == "undef":
                self.macros.pop(rest, None)

    def _define(self, rest: str) -> None:
        match = re.match(r"(\w+)(\(([^)]*)\))?(.*)", rest, re.DOTALL)
        if match:
            parameters = tuple(p.strip() for p in match.group(3).split(",")) if match.group(2) else None
            self.macros[match.group(1)] = HostMacro(parameters, tuple(split(match.group(4))))

    def _holds(self, condition: str) -> bool:
        text = re.sub(r"\bdefined\s*\(?\s*(\w+)\s*\)?", lambda m: str(int(m.group(1) in self.macros)), condition)
        return bool(self.evaluate(self.expand(split(text))))

    def expand(self, words: list[str]) -> list[str]:
        """Replaces macros, each inside its own expansion excepted. Function-like ones that are statements stay calls,
        whose arguments count."""
        out: list[str] = []
        self._left = MOST_EXPANSIONS
        self._expand(words, frozenset(), out)
        return out

    def _expand(self, words: list[str], inside: frozenset[str], out: list[str]) -> None:
        i = 0
        while i < len(words):
            macro = None if words[i] in inside or self._left <= 0 else self.macros.get(words[i])
            i += 1
            if macro is None:
                out.append(words[i - 1])
            elif macro.parameters is None:
                self._left -= 1
                self._expand(list(macro.body), inside | {words[i - 1]}, out)
            elif i < len(words) and words[i] == "(" and not {";", "{"} & set(macro.body):
                self._left -= 1
                given, end = arguments(words, i)
                bound = dict(zip(macro.parameters, given, strict=False))
                body = [part for word in macro.body for part in bound.get(word, [word])]
                self._expand(body, inside | {words[i - 1]}, out)
                i = end
            else:
                out.append(words[i - 1])


def arguments(words: list[str], at: int) -> tuple[list[list[str]], int]:
    """The comma-separated parts between the bracket at `at` and its partner, and the position after that."""
    parts: list[list[str]] = [[]]
    depth = 0
    for i in range(at, len(words)):
        word = words[i]
        if word in "([{" and len(word) == 1:
            depth += 1
            if depth == 1:
                continue
        elif word in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return (parts if parts != [[]] else []), i + 1
        if word == "," and depth == 1:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts, len(words)


def matching(words: list[str]) -> dict[int, int]:
    """The position of the partner of each opening bracket; unclosed ones end with the text."""
    partner: dict[int, int] = {}
    open_at: list[int] = []
    closing = {")": "(", "]": "[", "}": "{"}
    for i, word in enumerate(words):
        if word in ("(", "[", "{"):
            open_at.append(i)
        elif word in closing:
            while open_at and words[open_at[-1]] != closing[word]:
                partner[open_at.pop()] = i - 1
            if open_at:
                partner[open_at.pop()] = i
    partner.update({i: len(words) for i in open_at})
    return partner


def top_level(words: list[str]) -> Iterator[int]:
    """Positions outside all braces."""
    partner = matching(words)
    i = 0
    while i < len(words):
        yield i
        i = partner[i] + 1 if words[i] == "{" and i in partner else i + 1


class Cursor:
    """A position among words."""

    def __init__(self, words: list[str]) -> None:
        self.words, self.at = words, 0
        self.partner = matching(words)

    def peek(self, ahead: int = 0) -> str:
        return self.words[self.at + ahead] if self.at + ahead < len(self.words) else ""

    def take(self, word: str) -> bool:
        """Whether the word is here; past it then."""
        if self.peek() != word:
            return False
        self.at += 1
        return True
