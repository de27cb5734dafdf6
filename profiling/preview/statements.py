"""Follows the statements of host code: blocks, branches, loops; others are for a subclass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hipsynth.profiling.preview.expressions import Expressions
from hipsynth.profiling.preview.values import UNKNOWN, known

MOST_LOOPS = 64
LAUNCHES = ("<<<", "hipLaunchKernelGGL")


class Statements(Expressions):
    """Evaluates statements over `words`. `launchers`: functions that launch kernels; `returned`: the value of a return
    statement that was reached."""

    def __init__(self, words: list[str]) -> None:
        super().__init__(words)
        self.returned: Any = None
        self.launchers: set[str] = set()

    def block(self) -> None:
        """The statements of the braces that begin here."""
        end = self.partner.get(self.at, len(self.words))
        self.at += 1
        self.scopes.append({})
        while self.at < end and self.returned is None:
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
        elif word in ("switch", "try"):
            self.at += 1
            if self.peek() == "(":
                self.skip()
            if self.peek() == "{" and word == "try":
                self.block()
            else:
                self._pass_statement(end)
        elif word in ("else", "break", "continue", "case", "default", "goto", "template", "static_assert", "catch"):
            self._pass_statement(end)
        elif not self.declaration(end):
            self.at = start
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
        stops = {"return", "exit", "abort", "throw"} & set(self.words[self.at : then])
        taken = bool(condition) if known(condition) else not stops
        self._branch(taken, then, end)
        if self.peek() == "else":
            self.at += 1
            self._branch(not (condition if known(condition) else taken), self._extent(end), end)

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
        if word == "do":
            self.at = head
            self.statement(end)
        else:
            self._rounds(word, head, close, body, stop, end)
        self.scopes.pop()
        if self.returned is None:
            self.at = stop
        if word == "do":
            self.to_semicolon(end)

    def _rounds(self, word: str, head: int, close: int, body: int, stop: int, end: int) -> None:
        parts = self._for_parts(head, close) if word == "for" else [head + 1, head + 1, close]
        self.at = head + 1
        if word == "for":
            if len(parts) != 3:
                self.at = body
                self.statement(end)  # a range-based one
                return
            self.statement(parts[1])
        inside = self.words[body:stop]
        rounds = MOST_LOOPS if self._matters(inside) else 1
        for _ in range(rounds):
            self.at = parts[1]
            condition = self.expression() if self.peek() != ";" else 1
            if known(condition) and not condition:
                break
            self.at = body
            self.statement(end)
            if self.returned is not None or "break" in inside:
                break
            if word == "for" and parts[2] < close:
                self.at = parts[2]
                self.expression()

    def _matters(self, words: Sequence[str]) -> bool:
        """Whether statements launch kernels or call functions of the program that may."""
        return any(w in LAUNCHES or w in self.launchers for w in words) or len(words) < 16

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

    def alias(self) -> None:
        """A `using` or `typedef`."""
        self.at += 1
