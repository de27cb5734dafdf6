"""Lays out C++ that was put together from pieces: indents by braces, and breaks long lines."""

from __future__ import annotations

import re

COLUMNS = 120
SPACES = 2  # for each brace
_FIRST_LINE = re.compile(r"\n( +|\t)\S")
_QUIET = re.compile(r'//.*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')
_HEAD = re.compile(r"(?:\}\s*)?(?:else\b|(?:else\s+)?(?:if|for|while)\b.*\))$")
_BREAKS = re.compile(r"(?<=,) |(?<= )(?=&& |\|\| )")


def read_indent(text: bytes, at: int) -> str:
    """The white space that the line of an offset begins with, as far as the offset."""
    line = text[text.rfind(b"\n", 0, at) + 1 : at].decode(errors="surrogateescape")
    return line[: len(line) - len(line.lstrip())]


def find_depth(text: bytes, at: int, spaces: int = SPACES) -> int:
    """How many braces the indentation of a statement in a function tells of, `spaces` columns each; at least one."""
    return max(1, len(read_indent(text, at).expandtabs(spaces)) // spaces)


def find_spaces(body: str) -> int:
    """The columns by which a function's body is indented, as its first line shows."""
    first = _FIRST_LINE.search(body)
    return SPACES if first is None else 4 if first[1] == "\t" else min(8, len(first[1]))


def lay_out(text: str, depth: int = 0, spaces: int = SPACES) -> str:
    """The text with its lines indented by their braces, `depth` of which are open before it, each by some spaces.

    Lines that go on with a statement stand twice as far in, and long lines are broken at commas and logical operators.
    Directives begin at the left; comments of several lines stay as they are, and of empty lines one is left.
    """
    lines: list[str] = []
    is_open = in_comment = False  # whether the line before goes on, and whether a comment does
    heads = 0  # conditions and loops without a brace in the lines before
    for line in text.split("\n"):
        words = line.strip()
        if not words and lines and not lines[-1]:
            continue
        if in_comment or not words or words.startswith(("#", "/*")):
            in_comment = (in_comment or words.startswith("/*")) and "*/" not in words
            lines.append(line.rstrip() if not words.startswith("#") else words)
            continue
        code = _QUIET.sub("", words).strip()
        closing = len(code) - len(code.lstrip("}"))
        more = (2 * spaces if is_open else 0) + heads * spaces
        indent = max(0, depth - closing) * spaces + (0 if code.startswith(("{", "}")) else more)
        lines += _break_line(words, indent, 2 * spaces)
        depth = max(0, depth + code.count("{") - code.count("}"))
        is_head = bool(_HEAD.fullmatch(code)) and code.count("(") == code.count(")")
        is_open = bool(code) and not is_head and not code.endswith((";", "{", "}", ":"))
        heads = heads + 1 if is_head else heads if is_open else 0
    return "\n".join(lines)


def _break_line(words: str, indent: int, more: int) -> list[str]:
    """The line, in several lines if it is too long, `more` further in; what cannot be broken stays."""
    lines: list[str] = []
    width = COLUMNS - indent
    while len(words) > width and not words.startswith("//"):
        places = [match.start() for match in _BREAKS.finditer(words) if 0 < match.start() < width]
        at = next(iter(reversed(places)), 0)
        if not at or _is_quoted(words, at):
            break
        lines.append(f"{' ' * (indent if not lines else indent + more)}{words[:at].rstrip()}")
        words, width = words[at:].strip(), COLUMNS - indent - more
    return [*lines, f"{' ' * (indent if not lines else indent + more)}{words}"]


def _is_quoted(words: str, at: int) -> bool:
    return any(match.start() < at < match.end() for match in _QUIET.finditer(words))
