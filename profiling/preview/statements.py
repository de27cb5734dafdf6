"""Follows the statements of host code: blocks, branches, loops; others are for a subclass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hipsynth.profiling.preview.expressions import Expressions
from hipsynth.profiling.preview.values import UNKNOWN, Vector, known

MOST_LOOPS = 64
SHORT = 16  # words of a loop that is followed in any case; twice as many if it searches
GROWING_LOOPS = 24  # rounds from which the growth of containers is known; many patterns have such a period
GROWING = {"push_back", "emplace_back"}
COMMAND_LINE = {"argv", "argc", "getopt", "getopt_long"}  # loops over it are followed
LAUNCHES = ("<<<", "hipLaunchKernelGGL")


class Statements(Expressions):
    """Evaluates statements over `words`. `launchers`: functions that launch kernels; `returned`: the value of a return
    statement that was reached."""

    def __init__(self, words: list[str]) -> None:
        super().__init__(words)
        self.returned: Any = None
        self.launchers: set[str] = set()
        self.doubts = 0  # branches that were not taken since they leave and their conditions are not known
        self.quiet = 0  # loops around that are noted as a whole
        self.leaving = ""  # "break" or "continue" that was reached, until its loop sees it

    def block(self) -> None:
        """The statements of the braces that begin here."""
        end = self.partner.get(self.at, len(self.words))
        self.at += 1
        self.scopes.append({})
        while self.at < end and self.returned is None and not self.leaving:
            self.statement(end)
        self.scopes.pop()
        self.at = end + 1

    def statement(self, end: int) -> None:
        start, word = self.at, self.peek()
        if word == "{":
            self.block()
        elif word == ";":
            self.at += 1
        elif word == "if":
            self._if(end)
        elif word in ("for", "while", "do"):
            self._loop(word, end)
        elif word == "return":
            self.at += 1
            value = UNKNOWN if self.peek() == ";" else self.expression()
            self.returned = value
        elif word in ("using", "typedef"):
            self.alias()
        elif word == "switch":
            self._switch(end)
        elif word == "try":
            self.at += 1
            if self.peek() == "{":
                self.block()
            else:
                self._pass_statement(end)
        elif word in ("break", "continue"):
            self.leaving = word
            self._pass_statement(end)
        elif word in ("else", "case", "default", "goto", "template", "static_assert", "catch"):
            self._pass_statement(end)
        elif not self.declaration(end):
            self.at = start
            if self.peek(1) == "[" and not self.quiet:
                self.note_fill(start, self._extent(end))
            self.expression()
            self.to_semicolon(end)
        if self.at <= start:
            self.at = start + 1

    def to_semicolon(self, end: int) -> None:
        while self.at < end and self.peek() not in (";", "}"):
            self.at = self.partner.get(self.at, self.at) + 1
        self.at += self.peek() == ";"

    def _pass_statement(self, end: int) -> None:
        """Skips one statement without evaluating it."""
        if self.peek() == "{":
            self.skip()
            return
        while self.at < end and self.peek() not in (";",):
            braces = self.peek() == "{"
            self.at = self.partner.get(self.at, self.at) + 1
            if braces and self.peek() != ";" and self.peek() != ")":
                if self.peek() in ("else", "while", "catch"):
                    continue
                return
        self.at += 1

    def _if(self, end: int) -> None:
        self.at += 1
        self.take("constexpr")
        close = self.partner.get(self.at, self.at)
        self.at += 1
        condition = self.expression()
        self.at = close + 1
        then = self._extent(end)
        stops = {"return", "exit", "abort", "throw", "break", "continue"} & set(self.words[self.at : then])
        taken = bool(condition) if known(condition) else not stops
        self.doubts += bool(stops) and not known(condition)
        self._branch(taken, then, end)
        if self.peek() == "else":
            self.at += 1
            self._branch(not (condition if known(condition) else taken), self._extent(end), end)

    def _switch(self, end: int) -> None:
        """Runs the statements from the label that fits on; none if that is not known."""
        self.at += 1
        close = self.partner.get(self.at, self.at)
        self.at += 1
        value = self.expression()
        self.at = close + 1
        stop = self.partner.get(self.at, end)
        start = self._label(value, stop) if known(value) and self.peek() == "{" else None
        if start is None:
            self._pass_statement(end)
            return
        self.at = start
        self.scopes.append({})
        while self.at < stop and self.returned is None and not self.leaving:
            if self.peek() in ("case", "default"):
                self._past_label(stop)
            else:
                self.statement(stop)
        self.scopes.pop()
        self.leaving = "" if self.leaving == "break" else self.leaving
        self.at = stop + 1

    def _label(self, value: Any, stop: int) -> int | None:
        """The position after the label of a switch, which begins here, that fits a value."""
        brace, otherwise, i = self.at, None, self.at + 1
        found = None
        while i < stop and found is None:
            if self.words[i] in ("case", "default"):
                self.at = i + 1
                fits = self.words[i] == "case" and self.expression() == value
                self.at = i
                self._past_label(stop)
                found = self.at if fits else None
                otherwise = self.at if self.words[i] == "default" else otherwise
            i = self.partner.get(i, i) + 1
        self.at = brace
        return otherwise if found is None else found

    def _past_label(self, stop: int) -> None:
        while self.at < stop and self.peek() != ":":
            self.at += 1
        self.at += 1

    def _branch(self, taken: bool, stop: int, end: int) -> None:
        if taken:
            self.statement(end)
        if self.returned is None or not taken:
            self.at = stop

    def _extent(self, end: int) -> int:
        """The position after the statement that begins here."""
        start = self.at
        if self.peek() in ("if", "for", "while"):
            self.at += 1
            self.skip()
            self.at = self._extent(end)
            if self.peek() == "else":
                self.at += 1
                self.at = self._extent(end)
        else:
            self._pass_statement(end)
        stop, self.at = self.at, start
        return stop

    def _loop(self, word: str, end: int) -> None:
        """Runs a loop as often as its condition is known to hold if it launches something, else once."""
        self.at += 1
        self.scopes.append({})
        head = self.at
        close = self.partner.get(head, head) if word != "do" else head
        body = close + 1 if word != "do" else head
        self.at = body
        stop = self._extent(end)
        inside = self.words[head:stop]
        whole = not any(w in LAUNCHES or w in self.launchers for w in inside)
        if whole and not self.quiet:
            self.note_fill(head - 1, stop)
        self.quiet += whole
        if word == "do":
            self.at = head
            self.statement(end)
        elif word == "for" and len(self._for_parts(head, close)) != 3:
            self._elements(head, close, body, stop, end)
        else:
            self._rounds(word, head, close, body, stop, end)
        self.leaving = ""
        self.quiet -= whole
        self.scopes.pop()
        if self.returned is None:
            self.at = stop
        if word == "do":
            self.to_semicolon(end)

    def _rounds(self, word: str, head: int, close: int, body: int, stop: int, end: int) -> None:
        parts = self._for_parts(head, close) if word == "for" else [head + 1, head + 1, close]
        self.at = head + 1
        if word == "for":
            self.statement(parts[1])
        inside = self.words[body:stop]
        grows = word == "for" and not self._matters(inside) and bool(GROWING & set(inside))
        before, first = self._lengths() if grows else {}, dict(self.scopes[-1])
        reads = bool(COMMAND_LINE & {*inside, *self.words[head:close]})
        rounds, done = GROWING_LOOPS if grows else MOST_LOOPS if reads or self._matters(inside) else 1, 0
        while done < rounds and self._goes_on(parts[1]):
            done, doubts = done + 1, self.doubts
            self.at = body
            self.statement(end)
            left, self.leaving = self.leaving, ""
            unsure = "break" in inside and left != "continue" and self.doubts > doubts
            if self.returned is not None or left == "break" or unsure:
                return
            if word == "for" and parts[2] < close:
                self.at = parts[2]
                self.expression()
        if grows and done == rounds and self._goes_on(parts[1]):
            self._grown(before, self._trips(parts[1], first, done), done)

    def _goes_on(self, condition: int) -> bool:
        self.at = condition
        value = self.expression() if self.peek() != ";" else 1
        return bool(value) or not known(value)

    def _elements(self, head: int, close: int, body: int, stop: int, end: int) -> None:
        """A range-based loop: over the elements if they are known, else once."""
        colon = next((i for i in range(head + 1, close) if self.words[i] == ":"), close)
        self.at = min(colon + 1, close)
        over = self.expression() if colon < close else UNKNOWN
        items = over.items if isinstance(over, Vector) and over.items is not None else [UNKNOWN]
        inside, before = self.words[body:stop], self._lengths()
        for item in items[:MOST_LOOPS]:
            self.scopes[-1][self.words[colon - 1]] = item
            self.at = body
            self.statement(end)
            left, self.leaving = self.leaving, ""
            if self.returned is not None or left == "break" or ("break" in inside and left != "continue"):
                return
        if isinstance(over, Vector) and over.items is None and GROWING & set(inside):
            self._grown(before, over.length, 1)

    # --- containers that loops fill

    def _lengths(self) -> dict[int, tuple[Vector, Any]]:
        held = [v for scope in self.scopes for v in scope.values() if isinstance(v, Vector)]
        return {id(v): (v, v.length) for v in held}

    def _trips(self, condition: int, first: Mapping[str, Any], done: int) -> Any:
        """How often a loop runs whose counter has moved from its value in `first` in `done` rounds."""
        name, sign = self.words[condition], self.words[condition + 1]
        self.at = condition + 2
        limit, start, now = self.expression(), first.get(name, UNKNOWN), self.lookup(name)
        if sign not in ("<", "<=", ">", ">=", "!=") or not known(limit, start, now) or now == start:
            return UNKNOWN
        return max(done, -(-(limit - start + (sign in ("<=", ">="))) * done // (now - start)))

    def _grown(self, before: Mapping[int, tuple[Vector, Any]], trips: Any, done: int) -> None:
        """Lengthens what grew in `done` rounds as if there had been `trips`."""
        for vector, length in before.values():
            if known(length, vector.length) and vector.length != length:
                more = (vector.length - length) * trips / done if known(trips) else UNKNOWN
                vector.length, vector.items = round(length + more) if known(more) else UNKNOWN, None

    def _matters(self, words: Sequence[str]) -> bool:
        """Whether statements launch kernels or call functions of the program that may."""
        return any(w in LAUNCHES or w in self.launchers for w in words) or (
            len(words) < (2 * SHORT if {"break", "return"} & set(words) else SHORT) and not GROWING & set(words)
        )

    def _for_parts(self, head: int, close: int) -> list[int]:
        starts, i = [head + 1], head + 1
        while i < close:
            if self.words[i] == ";":
                starts.append(i + 1)
            i = self.partner.get(i, i) + 1
        return starts

    # --- what a program adds

    def declaration(self, end: int) -> bool:
        """Whether a declaration begins here; evaluates it."""
        return False

    def note_fill(self, start: int, stop: int) -> None:
        """A loop or statement, from `start` to `stop`, which may fill arrays."""

    def alias(self) -> None:
        """A `using` or `typedef`."""
        self.at += 1
