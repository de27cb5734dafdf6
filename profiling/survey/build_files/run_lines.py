"""Extracts run lines from Makefiles and shell scripts, with the commands before them that prepare data."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from hipsynth.core.files import leads_somewhere
from hipsynth.profiling.survey.build_files.commands import is_build_step, simple_commands
from hipsynth.profiling.survey.build_plan import Invocation

LOOP_VALUES = 3  # unroll at most this many iterations of a shell loop
MOST_ADDED = 1_000_000  # characters that the values of variables add to a text
MAX_PREPARATIONS = 40
# Launchers that may precede the program's name.
_LAUNCHERS = frozenset(
    {"catchsegv", "command", "env", "exec", "jsrun", "mpiexec", "mpirun", "nice", "nohup", "numactl", "omniperf",
     "perf", "rocprof", "rocprofv2", "rocprofv3", "srun", "stdbuf", "sudo", "taskset", "time", "timeout", "valgrind"}
)  # fmt: skip
# Commands that create no data; they are not repeated before a run.
_IDLE = frozenset(
    {":", "[", "cat", "cd", "chmod", "date", "done", "echo", "export", "false", "fi", "hipconfig", "ls", "make",
     "mkdir", "module", "printf", "pwd", "rm", "set", "test", "true", "which"}
)  # fmt: skip
_LOOP_HEAD = re.compile(r"\bfor\s+(\w+)\s+in\s([^;\n$`*?]{1,1000}+)[;\n]\s*do\b")
_LOOP_END = re.compile(r"[;\n][ \t]*done\b")
_ASSIGNMENT = re.compile(r"^[ \t]*(?:export[ \t]+)?(\w+)=(\"[^\"$`\n]*\"|'[^'\n]*'|[^\s\"'$`;&|()]*)[ \t]*(?:;|#.*|$)")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^}$`]*))?\})")
_UNKNOWN = re.compile(r"[<>\[\]{}$*|&;`]|\.\.\.")


def expand_shell(text: str) -> str:
    """Shell text with simple loops unrolled and simple variables and defaults such as ${1:-64} substituted; once values
    have added MOST_ADDED characters, what would add more stays as it is."""
    return _ShellExpansion().expand(text)


class _ShellExpansion:
    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.left = MOST_ADDED

    def expand(self, text: str) -> str:
        lines = []
        for line in self._unroll_loops(text.replace("\\\n", " ")).split("\n"):
            substituted = _VARIABLE.sub(self._substitute_variable, line)
            assignment = _ASSIGNMENT.match(substituted)
            if assignment:
                self.values[assignment.group(1)] = assignment.group(2).strip("\"'")
            lines.append(substituted)
        return "\n".join(lines)

    def _substitute_variable(self, match: re.Match[str]) -> str:
        variable = self.values.get(match.group(1) or match.group(2))
        if variable is not None:
            return self._substitute(match, variable)
        return match.group(0) if match.group(3) is None else match.group(3)

    def _substitute(self, match: re.Match[str], value: str) -> str:
        if len(value) > self.left:
            return match.group(0)
        self.left -= len(value)
        return value

    def _unroll_loops(self, text: str) -> str:
        """A loop ends at the first `done` behind its head."""
        pieces, at = [], 0
        while (head := _LOOP_HEAD.search(text, at)) and (end := _LOOP_END.search(text, head.end())):
            pieces += [text[at : head.start()], self._unroll_loop(head, text[head.end() : end.start()])]
            at = end.end()
        return "".join([*pieces, text[at:]])

    def _unroll_loop(self, head: re.Match[str], body: str) -> str:
        name, words = head.groups()
        pattern = re.compile(rf"\$(?:{name}\b|\{{{name}\}})")
        values = [value for word in words.split() for value in _in_braces(word)]
        return "\n".join(pattern.sub(partial(self._substitute, value=value), body) for value in values[:LOOP_VALUES])


def _in_braces(word: str) -> list[str]:
    """`{1..8}` -> 1, 2, 3 (at most LOOP_VALUES); any other word is returned unchanged."""
    bounds = re.fullmatch(r"\{(\d{1,9})\.\.(\d{1,9})\}", word)
    if bounds is None:
        return [word]
    first = int(bounds.group(1))
    return [str(first + step) for step in range(min(LOOP_VALUES, int(bounds.group(2)) - first + 1))]


def calls_of(text: str, folder: Path, names: Sequence[str], root: Path) -> Iterator[tuple[str, Invocation]]:
    """Yields (program, call) for each start of one of `names` in shell text whose working folder is `folder`.

    Arguments that name files below `root` are made relative to `folder`.
    """
    before: list[str] = []
    for command in simple_commands(expand_shell(text), folder):
        at = _program_at(command.words, names)
        if at is None:
            if not is_build_step(command.words) and command.words[0] not in _IDLE:
                before.append(command.text())
            continue
        words = [seen_from(folder, command.folder, word, root) for word in command.words[at + 1 :]]
        if any(_UNKNOWN.search(word) for word in words):
            continue
        stdin = seen_from(folder, command.folder, command.stdin, root) if command.stdin else ""
        yield Path(command.words[at]).name, Invocation(tuple(words), stdin, tuple(before[:MAX_PREPARATIONS]))


def _program_at(words: list[str], names: Sequence[str]) -> int | None:
    """Index of the started program in a command's argv, behind known launchers; None if it starts none of `names`."""
    for at, word in enumerate(words):
        if Path(word).name in names and (at > 0 or "/" in word):
            return at
        if at == 0 and word not in _LAUNCHERS:
            return None
    return None


def seen_from(folder: Path, place: Path, word: str, root: Path) -> str:
    """Rewrites `word`, an argument of a command run in `place`, for a program started in `folder`."""
    path = Path(os.path.normpath(place / word))
    if not path.is_relative_to(root) or (place == folder and not Path(word).is_absolute()):
        return word
    return os.path.relpath(path, folder) if leads_somewhere(path) else word
