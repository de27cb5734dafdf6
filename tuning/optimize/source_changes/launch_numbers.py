"""Numbers that a whole launch shares: what the host would write for an expression of a kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hipsynth.source.tokens import Span
from hipsynth.tuning.optimize.source_changes.integer_types import TYPE_WORDS, IntegerTypes

_UNIFORM = frozenset("+-*/%()")
_NO_SPACE = re.compile(r"(?<=[(<]) | (?=[)<>])|(?<=>) (?=\()")
_CAST = re.compile(rf"(\((?:(?:{'|'.join(sorted(TYPE_WORDS))}) ?)+\)) ")
_CASTS = frozenset({"static_cast", "<", ">"})


@dataclass(frozen=True)
class LaunchNumbers:
    """Writes expressions of a kernel's body for the host."""

    types: IntegerTypes

    def write(self, span: Span) -> str | None:
        """An expression with {name} for each parameter; None if it has anything but parameters and constants of the
        file, and local variables made of these."""
        words = []
        for i in range(*span):
            token = self.types.body.tokens[i]
            if token.text in TYPE_WORDS | _CASTS:
                words.append(token.text)
            elif token.identifier:
                value = self._write_name(i)
                if value is None:
                    return None
                words.append(value)
            elif token.text in _UNIFORM or re.fullmatch(r"\d+[uU]?", token.text):
                words.append(token.text)
            else:
                return None
        return _CAST.sub(r"\1", _NO_SPACE.sub("", " ".join(words)))

    def _write_name(self, at: int) -> str | None:
        token = self.types.body.tokens[at]
        place = self.types.body.local(token)
        if place < 0:
            if self.types.find_parameter(token.text):
                fits = not self.types.is_changed(token.text, place) and not self.types.is_narrow(token.text)
                return f"{{{token.text}}}" if fits else None
            return token.text if self.types.is_constant(token.text) else None
        value = self.types.find_initial_value(place)
        text = self.write(value) if value is not None else None
        if value is None or text is None:
            return None
        kind = self.types.find_local(place)
        if self.types.find(value) != kind:
            return f"static_cast<{kind}>({text})"
        return text if re.fullmatch(r"[\w{}]+", text) else f"({text})"
