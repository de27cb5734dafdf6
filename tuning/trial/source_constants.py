"""Sizes that a program's source sets as constants, changed for a run as if they were arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from hipsynth.source.outline import without_comments
from hipsynth.source.program_inputs import named_constants, size_constants


class ConstantSetting(str):
    """A word among a run's arguments that sets a constant of the source, `width := 128`, which the program never sees.
    `usual`: the constant's number in the source."""

    name: str
    usual: int
    value: int

    def __new__(cls, name: str, usual: int, value: int) -> Self:
        word = super().__new__(cls, f"{name} := {value}")
        word.name, word.usual, word.value = name, usual, value
        return word

    def __getnewargs__(self) -> tuple[str, int, int]:  # type: ignore[override]
        """For copies."""
        return self.name, self.usual, self.value


def list_constants(text: str) -> tuple[ConstantSetting, ...]:
    """The constants of a source that look like sizes, each as it is set."""
    constants = size_constants(without_comments(text))
    return tuple(dict.fromkeys(ConstantSetting(each.name, each.value, each.value) for each in constants))


def sets_constants(arguments: Sequence[str]) -> bool:
    """Whether a run has a text of its own, which is to be compiled."""
    return any(isinstance(word, ConstantSetting) for word in arguments)


def apply_settings(text: str, arguments: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """(The text with its constants set, the arguments that are the program's own). Raises ValueError if the text has no
    such constant: a changed program must keep those of the original."""
    words = tuple(word for word in arguments if not isinstance(word, ConstantSetting))
    for setting in arguments:
        if not isinstance(setting, ConstantSetting):
            continue
        places = [
            constant
            for constant in named_constants(text)
            if constant.name == setting.name and constant.value == setting.usual
        ]
        if not places:
            raise ValueError(f"the source does not set {setting.name} to {setting.usual}")
        for place in reversed(places):
            text = f"{text[: place.start]}{setting.value}{text[place.end :]}"
    return text, words
