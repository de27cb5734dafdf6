"""Parser and interpreter for the subset of CMake that program builds use: variables, conditions, loops, functions.

Commands with side effects (execute_process, downloads) are ignored. find_package always succeeds, so that the branch
behind it is read and the library is reported as needed.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MAX_COMMANDS = 20_000
_TOKEN = re.compile(
    r"\#\[(?P<c>=*)\[.*?\](?P=c)\]|\#[^\n]*|\[(?P<e>=*)\[(?P<raw>.*?)\](?P=e)\]|\"(?P<quoted>(?:\\.|[^\"\\])*)\""
    r"|(?P<paren>[()])|(?P<word>(?:\\.|\$\{[^}]*\}|[^\s()#\"\\])+)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Word:
    """One argument before expansion; a quoted one is not split at semicolons."""

    text: str
    quoted: bool = False


@dataclass(frozen=True)
class Command:
    """One command invocation; `name` in lower case, `words` unexpanded."""

    name: str
    words: tuple[Word, ...]


def parse(text: str) -> list[Command]:
    """The commands of a CMake file; an unterminated command at the end is ignored."""
    commands: list[Command] = []
    name, depth, words = "", 0, list[Word]()
    for match in _TOKEN.finditer(text):
        word = match.group("word")
        if match.group("paren") == "(":
            depth += 1
            if depth > 1:
                words.append(Word("("))
        elif match.group("paren") == ")":
            depth -= 1
            if depth > 0:
                words.append(Word(")"))
            elif name:
                commands.append(Command(name.lower(), tuple(words)))
                name, words = "", []
        elif depth == 0 and word:
            name = word
        elif match.group("quoted") is not None:
            words.append(Word(match.group("quoted"), True))
        elif match.group("raw") is not None:
            words.append(Word(match.group("raw"), True))
        elif word:
            words.append(Word(word))
    return commands


@dataclass
class Scope:
    """Variables of one folder or function call; lookups fall back to `parent`."""

    variables: dict[str, str] = field(default_factory=dict)
    parent: Scope | None = None
    is_function: bool = False

    def get(self, name: str) -> str:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.parent
        return ""

    def defined(self, name: str) -> bool:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return True
            scope = scope.parent
        return False


_REFERENCE = re.compile(r"\$(ENV|CACHE)?\{([^${}]*)\}")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def expand(text: str, scope: Scope) -> str:
    """Expands `${NAME}` references, innermost first; environment variables are empty."""
    for _ in range(20):
        changed = _REFERENCE.sub(lambda match: "" if match.group(1) else scope.get(match.group(2)), text)
        if changed == text:
            break
        text = changed
    return _ESCAPE.sub(lambda match: ";" if match.group(1) == ";" else match.group(1), text)


def values(words: Sequence[Word], scope: Scope) -> list[str]:
    """Expanded arguments; unquoted ones are split at semicolons and dropped if empty."""
    result: list[str] = []
    for word in words:
        text = expand(word.text, scope)
        result += [text] if word.quoted else [part for part in text.split(";") if part]
    return result


Handler = Callable[[list[str], Scope], None]


class Interpreter:
    """Runs commands: implements control flow itself and calls `handlers` (by command name) for everything else.

    Stops after MAX_COMMANDS commands or 40 nested calls.
    """

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self.handlers = handlers
        self.functions: dict[str, tuple[bool, tuple[Word, ...], list[Command]]] = {}
        self.spent = 0
        self.depth = 0

    def run(self, commands: Sequence[Command], scope: Scope) -> bool:
        """Runs commands; False if a return() or a limit ended the run."""
        position = 0
        while position < len(commands):
            self.spent += 1
            if self.spent > MAX_COMMANDS or self.depth > 40:
                return False
            command = commands[position]
            end = _END.get(command.name)
            if end:
                stop = block_end(commands, position, command.name, end)
                if not self._block(commands[position : stop + 1], scope):
                    return False
                position = stop + 1
                continue
            if command.name == "return":
                return False
            self._call(command, scope)
            position += 1
        return True

    def _block(self, block: Sequence[Command], scope: Scope) -> bool:
        name = block[0].name
        if name == "if":
            for condition, body in _branches(block):
                if condition is None or truth(condition, scope, self.functions):
                    return self.run(body, scope)
        elif name == "foreach":
            return self._foreach(block, scope)
        elif name in ("function", "macro") and block[0].words:
            title, *parameters = block[0].words
            self.functions[title.text.lower()] = (name == "function", tuple(parameters), list(block[1:-1]))
        return True

    def _foreach(self, block: Sequence[Command], scope: Scope) -> bool:
        words = values(block[0].words, scope)
        if not words:
            return True
        variable, items = words[0], words[1:]
        if items[:1] == ["IN"]:
            items = _foreach_items(items[1:], scope)
        elif items[:1] == ["RANGE"]:
            items = _range(items[1:])
        for item in items:
            scope.variables[variable] = item
            if not self.run(block[1:-1], scope):
                return False
        return True

    def _call(self, command: Command, scope: Scope) -> None:
        arguments = values(command.words, scope)
        if command.name in self.functions:
            own, parameters, body = self.functions[command.name]
            inner = Scope(parent=scope, is_function=own)
            for parameter, value in zip(parameters, arguments, strict=False):
                inner.variables[parameter.text] = value
            inner.variables["ARGN"] = ";".join(arguments[len(parameters) :])
            inner.variables["ARGV"] = ";".join(arguments)
            inner.variables["ARGC"] = str(len(arguments))
            inner.variables |= {f"ARGV{number}": value for number, value in enumerate(arguments)}
            self.depth += 1
            self.run(body, inner)
            self.depth -= 1
            if not own:
                scope.variables |= {key: text for key, text in inner.variables.items() if not key.startswith("ARG")}
        elif command.name in self.handlers:
            self.handlers[command.name](arguments, scope)


_END = {
    "if": "endif", "foreach": "endforeach", "while": "endwhile", "function": "endfunction", "macro": "endmacro",
}  # fmt: skip


def block_end(commands: Sequence[Command], start: int, opening: str, closing: str) -> int:
    """Index of the command that closes the block opened at `start`, or the last index if it is not closed."""
    depth = 0
    for position in range(start, len(commands)):
        depth += {opening: 1, closing: -1}.get(commands[position].name, 0)
        if depth == 0:
            return position
    return len(commands) - 1


def _branches(block: Sequence[Command]) -> Iterator[tuple[tuple[Word, ...] | None, list[Command]]]:
    """Yields (condition, body) for each branch of an if block; the condition of else is None."""
    depth, condition, body = 0, block[0].words, list[Command]()
    final: tuple[Word, ...] | None = condition
    for command in block[1:]:
        if depth == 0 and command.name in ("elseif", "else", "endif"):
            yield final, body
            final, body = (command.words if command.name == "elseif" else None), []
            continue
        depth += {"if": 1, "endif": -1}.get(command.name, 0)
        body.append(command)


def _foreach_items(words: list[str], scope: Scope) -> list[str]:
    items: list[str] = []
    mode = "ITEMS"
    for word in words:
        if word in ("LISTS", "ITEMS", "ZIP_LISTS"):
            mode = word
        elif mode == "LISTS":
            items += [part for part in scope.get(word).split(";") if part]
        else:
            items.append(word)
    return items


def _range(words: list[str]) -> list[str]:
    try:
        numbers = [int(word) for word in words]
    except ValueError:
        return []
    if len(numbers) == 1:
        return [str(n) for n in range(min(numbers[0], 1000) + 1)]
    step = numbers[2] if len(numbers) > 2 and numbers[2] else 1
    return [str(n) for n in range(numbers[0], min(numbers[1], numbers[0] + 1000) + 1, step)] if numbers else []


_FALSE = re.compile(r"(?:0|off|no|false|n|ignore|notfound|.*-notfound|)$", re.IGNORECASE)
_TRUE = re.compile(r"(?:[1-9]\d*|on|yes|true|y)$", re.IGNORECASE)


def truth(words: Sequence[Word], scope: Scope, functions: Mapping[str, object]) -> bool:
    """Evaluates an if() condition by recursive descent: OR, AND, NOT, comparisons, unary tests."""
    parts: list[Word] = []
    for word in words:
        text = expand(word.text, scope)
        parts += [Word(text, True)] if word.quoted else [Word(part) for part in text.split(";") if part or not text]
    return _Condition(parts, scope, functions).answer()


class _Condition:
    def __init__(self, parts: list[Word], scope: Scope, functions: Mapping[str, object]) -> None:
        self.parts, self.scope, self.functions, self.at = parts, scope, functions, 0

    def answer(self) -> bool:
        return self._or() if self.parts else False

    def _peek(self) -> str:
        return self.parts[self.at].text if self.at < len(self.parts) and not self.parts[self.at].quoted else ""

    def _next(self) -> Word:
        self.at += 1
        return self.parts[self.at - 1] if self.at <= len(self.parts) else Word("")

    def _or(self) -> bool:
        result = self._and()
        while self._peek() == "OR":
            self.at += 1
            result = self._and() or result
        return result

    def _and(self) -> bool:
        result = self._not()
        while self._peek() == "AND":
            self.at += 1
            result = self._not() and result
        return result

    def _not(self) -> bool:
        if self._peek() == "NOT":
            self.at += 1
            return not self._not()
        return self._test()

    def _test(self) -> bool:
        if self._peek() == "(":
            self.at += 1
            result = self._or()
            self.at += 1
            return result
        operator = self._peek()
        if operator in _UNARY and self.at + 1 < len(self.parts):
            self.at += 1
            return self._unary(operator, self._next().text)
        left = self._next()
        operator = self._peek()
        if operator in _BINARY:
            self.at += 1
            return _BINARY[operator](self._value(left), self._value(self._next()))
        if operator == "IN_LIST":
            self.at += 1
            return self._value(left) in self.scope.get(self._next().text).split(";")
        return self._constant(left)

    def _unary(self, operator: str, name: str) -> bool:
        if operator == "DEFINED":
            return self.scope.defined(name)
        if operator == "COMMAND":
            return name.lower() in self.functions
        if operator == "TARGET":
            return True  # assume that find_package defined it
        return operator in ("EXISTS", "IS_DIRECTORY") and Path(name).exists()

    def _value(self, word: Word) -> str:
        return self.scope.get(word.text) if not word.quoted and self.scope.defined(word.text) else word.text

    def _constant(self, word: Word) -> bool:
        if _TRUE.match(word.text):
            return True
        if _FALSE.match(word.text):
            return False
        return not word.quoted and not _FALSE.match(self.scope.get(word.text))


def _numbers(compare: Callable[[float, float], bool]) -> Callable[[str, str], bool]:
    def test(left: str, right: str) -> bool:
        try:
            return compare(float(left), float(right))
        except ValueError:
            return False

    return test


def _versions(compare: Callable[[list[int], list[int]], bool]) -> Callable[[str, str], bool]:
    return lambda left, right: compare(*([int(n) for n in re.findall(r"\d+", text)] for text in (left, right)))


def _matches(text: str, pattern: str) -> bool:
    try:
        return re.search(pattern, text[:10_000]) is not None
    except re.error:
        return False


_UNARY = frozenset({"DEFINED", "COMMAND", "TARGET", "EXISTS", "IS_DIRECTORY", "POLICY", "TEST", "IS_ABSOLUTE"})
_BINARY: Mapping[str, Callable[[str, str], bool]] = {
    "STREQUAL": lambda a, b: a == b,
    "PATH_EQUAL": lambda a, b: os.path.normpath(a) == os.path.normpath(b),
    "MATCHES": _matches,
    "EQUAL": _numbers(lambda a, b: a == b),
    "LESS": _numbers(lambda a, b: a < b),
    "GREATER": _numbers(lambda a, b: a > b),
    "LESS_EQUAL": _numbers(lambda a, b: a <= b),
    "GREATER_EQUAL": _numbers(lambda a, b: a >= b),
    "VERSION_LESS": _versions(lambda a, b: a < b),
    "VERSION_GREATER": _versions(lambda a, b: a > b),
    "VERSION_EQUAL": _versions(lambda a, b: a == b),
    "VERSION_LESS_EQUAL": _versions(lambda a, b: a <= b),
    "VERSION_GREATER_EQUAL": _versions(lambda a, b: a >= b),
}


def glob_files(base: Path, patterns: Sequence[str], recurse: bool, root: Path) -> list[str]:
    """Implements file(GLOB): absolute paths of matching files below `root`, sorted per pattern."""
    found: list[str] = []
    for pattern in patterns:
        place = base / pattern
        if not (place.parent.is_dir() and place.parent.resolve().is_relative_to(root)):
            continue
        files = place.parent.rglob("*") if recurse else place.parent.iterdir()
        found += sorted(str(file) for file in files if file.is_file() and fnmatch.fnmatch(file.name, place.name))
    return found
