"""Translates the loops with which host code fills its arrays into Python, so that index arrays need not be made up.

A subset of C++: loops, branches, numbers, array elements, push_back, and the functions of FUNCTIONS. Integers wrap as
in C++; floating-point numbers have 53 bits. What is not understood raises Untranslatable, and the data stays made up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import CodeType
from typing import Any

from hipsynth.profiling.preview.contents.expressions import ExpressionTranslator
from hipsynth.profiling.preview.contents.terms import (
    INT,
    KINDS,
    PASSED,
    READY,
    Array,
    Text,
    Translated,
    Untranslatable,
    array_of,
    kind_of,
)
from hipsynth.profiling.preview.expressions import ASSIGNS
from hipsynth.profiling.preview.tokens import matching


class Translator(ExpressionTranslator):
    """Translates one statement of host code."""

    def translate(self) -> Translated:
        self.statement()
        if not self.changed & self.arrays.keys():
            raise Untranslatable
        head = [f"    s_{name} = _s[{name!r}]" for name in self.scalars]
        head += [f"    {array_of(name)} = _a[{name!r}]" for name in self.arrays]
        tail = [f"        _s[{name!r}] = s_{name}" for name in self.scalars if name in self.changed]
        body = [f"    {line}" for line in self.lines]
        lines = ["def fill(_s, _a, _n, _rand):", *head, "    try:", *body, "    finally:", *tail, "        pass"]
        names: dict[str, Any] = dict(READY)
        code = compile("\n".join(lines), "<fill>", "exec")
        if not harmless(code):
            raise Untranslatable
        exec(code, names)
        return Translated(names["fill"], self.scalars, self.arrays, self.changed, set(+self.uses))

    # --- statements

    def statement(self) -> None:
        word = self.peek()
        if word == "{":
            self.at += 1
            self.locals.append({})
            while self.peek() not in ("}", ""):
                self.statement()
            self.locals.pop()
            self.need("}")
        elif word == ";":
            self.at += 1
        elif word == "if":
            self._if()
        elif word in ("for", "while"):
            self._loop(word)
        elif word in ("continue", "break"):
            self.at += 1
            for line in self.steps[-1] if self.steps and word == "continue" else ():
                self.emit(line)
            self.emit(word)
            self.need(";")
        elif not self._declaration():
            self._effects(";")

    def _inside(self) -> None:
        self.depth += 1
        before = len(self.lines)
        self.statement()
        if len(self.lines) == before:
            self.emit("pass")
        self.depth -= 1

    def _if(self) -> None:
        self.at += 1
        self.take("constexpr")
        self.need("(")
        self.emit(f"if {self.value().text}:")
        self.need(")")
        self._inside()
        if self.take("else"):
            self.emit("else:")
            self._inside()

    def _loop(self, word: str) -> None:
        self.at += 1
        close = self.partner.get(self.at, len(self.words))
        self.need("(")
        self.locals.append({})
        if word == "while":
            self.emit(f"while {self._condition().text}:")
            self._body(close)
        elif ":" in self.words[self.at : close] and ";" not in self.words[self.at : close]:
            self._elements(close)
        elif not self._range(close):
            self._rounds(close)
        self.locals.pop()

    def _body(self, close: int, first: Sequence[str] = (), steps: Sequence[str] = ()) -> None:
        """The statement after the loop's head, which ends at `close`, with what each round begins and ends with."""
        self.at = close + 1
        self.depth += 1
        for line in ("_n[0] -= 1", "if _n[0] < 0: raise _Enough", *first):
            self.emit(line)
        self.steps.append(steps)
        self.statement()
        self.steps.pop()
        for line in steps:
            self.emit(line)
        self.depth -= 1

    def _condition(self) -> Text:
        """A value that is computed more than once."""
        self.guarded += 1
        value = self.value()
        self.guarded -= 1
        return value

    def _rounds(self, close: int) -> None:
        """Any loop with `for`."""
        if not self._declaration():
            self._effects(";")
        condition = Text("True", INT) if self.peek() == ";" else self._condition()
        self.need(";")
        kept, self.lines, depth, self.depth = self.lines, [], self.depth, 0
        if self.at < close:
            self._effects("", close)
        steps, self.lines, self.depth = self.lines, kept, depth
        self.emit(f"while {condition.text}:")
        self._body(close, steps=steps)

    def _range(self, close: int) -> bool:
        """A loop that counts to a bound, if its body changes neither: three times as fast as another."""
        text = " ".join(self.words[self.at : close])
        found = re.fullmatch(
            r"((?:[\w:]+ )+)(\w+) = ([^;,]+) ; \2 (<=?) ([^;<>=]+) ; (?:\+\+ \2|\2 \+\+|\2 \+= ([^;,]+))", text
        )
        kind = kind_of(found.group(1).replace("::", " :: ").split()) if found else None
        if not found or kind is None:
            return False
        name = found.group(2)
        body = self.words[close + 1 : self._end_of(close + 1)]
        bound = set(re.findall(r"[A-Za-z_]\w*", f"{found.group(5)} {found.group(6) or ''}"))
        if any(self.assigned(body, one) for one in (name, *bound)) or ("push_back" in body and "size" in bound):
            return False
        start, limit, step = (self._part(part) for part in (found.group(3), found.group(5), found.group(6) or "1"))
        more = " + 1" if found.group(4) == "<=" else ""
        variable = self.fresh(name)
        self.locals[-1][name] = Text(variable, kind, start.positive, variable)
        self.emit(f"for {variable} in range({start.text}, {limit.text}{more}, {step.text}):")
        self._body(close)
        return True

    def _part(self, text: str) -> Text:
        """The value of words elsewhere."""
        saved = self.words, self.at, self.partner
        self.words, self.at = text.split(), 0
        self.partner = matching(self.words)
        value = self.value()
        if self.at < len(self.words) or value.kind.real:
            raise Untranslatable
        self.words, self.at, self.partner = saved
        return value

    def _end_of(self, at: int) -> int:
        """The position after the statement at `at`."""
        word = self.words[at] if at < len(self.words) else ""
        if word == "{":
            return self.partner.get(at, len(self.words)) + 1
        if word in ("for", "while", "if"):
            end = self._end_of(self.partner.get(at + 1, len(self.words)) + 1)
            return self._end_of(end + 1) if self.words[end : end + 1] == ["else"] else end
        while at < len(self.words) and self.words[at] != ";":
            at = self.partner.get(at, at) + 1
        return at + 1

    def _elements(self, close: int) -> None:
        """A range-based loop over an array."""
        colon = self.words.index(":", self.at)
        name, kind = self.words[colon - 1], kind_of(self.words[self.at : colon - 1])
        refers = "&" in self.words[self.at : colon]
        held = "".join(self.words[colon + 1 : close])
        over = self.name(held)
        if not isinstance(over, Array):
            raise Untranslatable
        array, index = array_of(held), self.fresh("at")
        element = Text(f"{array}[{index}]", over.kind, over.kind.unsigned, f"{array}[{index}]")
        first = []
        if refers:
            self.changed.add(held)
        else:  # a copy
            variable = self.fresh(name)
            copied = self.cast(element, kind or over.kind)
            first = [f"{variable} = {copied.text}"]
            element = Text(variable, copied.kind, copied.kind.unsigned, variable)
        self.locals[-1][name] = element
        self.uses[held] += 1
        self.emit(f"for {index} in range(len({array})):")
        self._body(close, first)

    def _declaration(self) -> bool:
        start = self.at
        while self.peek() in PASSED or self.peek() in KINDS or self.peek() in ("long", "std", "::", "auto"):
            self.at += 1
        words = self.words[start : self.at]
        kind = kind_of(words)
        if not words or not re.match(r"[A-Za-z_]\w*$", self.peek()) or (kind is None and "auto" not in words):
            self.at = start
            return False
        while True:
            name = self.peek()
            self.at += 1
            if self.peek() not in ("=", ",", ";"):
                raise Untranslatable
            value = self.value() if self.take("=") else Text("0", kind or INT)
            variable = self.fresh(name)
            self.emit(f"{variable} = {self.converted(value, kind or value.kind)}")
            self.locals[-1][name] = Text(variable, kind or value.kind, place=variable)
            if not self.take(","):
                break
        self.need(";")
        return True

    def _effects(self, end: str, stop: int = -1) -> None:
        """Expressions with commas whose values are not used."""
        while True:
            self._effect()
            if not self.take(","):
                break
        if end:
            self.need(end)
        elif self.at != stop:
            raise Untranslatable

    def _effect(self) -> None:
        start = self.at
        if self.peek() == "(" and self.words[self.at + 1 : self.at + 3] == ["void", ")"]:
            self.at += 3
        if self.peek(1) == "." and self.peek(2) in ("push_back", "emplace_back") and self.peek(3) == "(":
            self._append()
            return
        if self.peek() == "srand" or self.words[self.at : self.at + 3] == ["std", "::", "srand"]:
            self.at = self.partner.get(self.words.index("(", self.at), len(self.words)) + 1
            return
        target = self.unary()
        sign = self.peek()
        if sign in ASSIGNS and target.place:
            self.at += 1
            value = self.value()
            self.emit(f"{target.place} = {self._stored(target, sign, value)}")
        elif self.words[start] in ("++", "--") or self.words[self.at - 1] in ("++", "--"):
            self.emit(target.text)
        else:
            raise Untranslatable

    def _append(self) -> None:
        name = self.peek()
        array = self.name(name)
        if not isinstance(array, Array):
            raise Untranslatable
        self.at += 4
        value = self.value()
        self.need(")")
        self.changed.add(name)
        self.emit(f"{array_of(name)}.append({self.converted(value, array.kind)})")


def harmless(code: CodeType) -> bool:
    """Whether code uses no global names and attributes but those of READY and `append`: a second check that nothing of
    a program but numbers and operators gets into what is executed."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return {*code.co_names} <= {*READY, "append", "fill"} and all(map(harmless, inner))
