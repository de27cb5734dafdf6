"""Files that configuring a CMake project would generate, such as config.h; kept in memory, not written to disk."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from hipsynth.profiling.survey.build_files.cmake_lang import Scope
from hipsynth.profiling.survey.sources import read_text

MAX_FILES, MAX_CHARS = 200, 1 << 20
_AT = re.compile(r"@([\w./+-]+)@")
_BRACES = re.compile(r"\$\{([\w./+-]+)\}")
_DEFINE = re.compile(r"^([ \t]*)#([ \t]*)cmakedefine(01)?[ \t]+(\w+)([^\n]*)$", re.MULTILINE)
_FALSE = frozenset({"", "0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND"})


class Configured:
    """The generated files of one configure run: absolute path -> text. Existing files are not replaced."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.texts: dict[Path, str] = {}

    def configure_file(self, words: Sequence[str], folder: Path, scope: Scope) -> None:
        """Implements configure_file(INPUT OUTPUT [COPYONLY] [@ONLY])."""
        if len(words) < 2:
            return
        text = read_text(folder / words[0], self.root)
        if "COPYONLY" not in words[2:]:
            text = configured(text, scope, at_only="@ONLY" in words[2:])
        self._keep(_place(folder, words[1], default=Path(words[0]).name), text)

    def write(self, words: Sequence[str], folder: Path, append: bool) -> None:
        """Implements file(WRITE|APPEND NAME CONTENT...); `words` starts at NAME."""
        if words:
            place = _place(folder, words[0])
            before = self.texts.get(place, "") if append else ""
            self._keep(place, before + "".join(words[1:]))

    def _keep(self, place: Path, text: str) -> None:
        fits = len(self.texts) < MAX_FILES and len(text) <= MAX_CHARS
        if fits and place.is_relative_to(self.root) and not place.exists():
            self.texts[place] = text


def configured(text: str, scope: Scope, at_only: bool = False) -> str:
    """Substitutes @VAR@, ${VAR} (unless `at_only`) and `#cmakedefine` in a template."""

    def define(match: re.Match[str]) -> str:
        indent, gap, number, name, rest = match.groups()
        value = scope.get(name)
        yes = value.upper() not in _FALSE and not value.upper().endswith("-NOTFOUND")
        if number:
            return f"{indent}#{gap}define {name} {int(yes)}"
        return f"{indent}#{gap}define {name}{rest}" if yes else f"{indent}/* #undef {name} */"

    text = _DEFINE.sub(define, text)
    text = _AT.sub(lambda match: scope.get(match.group(1)), text)
    return text if at_only else _BRACES.sub(lambda match: scope.get(match.group(1)), text)


def _place(folder: Path, name: str, default: str = "") -> Path:
    place = Path(os.path.normpath(folder / name))
    return place / default if default and place.is_dir() else place
