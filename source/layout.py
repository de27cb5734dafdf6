"""Lays out C++ that was put together from pieces: two columns for each brace, and lines that end before a column."""

from __future__ import annotations

import re

COLUMNS = 120
_INDENT, _CONTINUED = 2, 4
_QUIET = re.compile(r'//.*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')
_HEAD = re.compile(r"(?:\}\s*)?(?:else\b|(?:else\s+)?(?:if|for|while)\b.*\))$")
_BREAKS = re.compile(r"(?<=,) |(?<= )(?=&& |\|\| )")


def lay_out(text: str, depth: int = 0) -> str:
    """The text with its lines indented by their braces, `depth` of which are open before it.

    Lines that go on with a statement stand four columns further in, and long lines are broken at commas and logical
    operators. Directives begin at the left; comments of several lines stay as they are.
    """
    lines: list[str] = []
    is_open = in_comment = False  # whether the line before goes on, and whether a comment does
    heads = 0  # conditions and loops without a brace in the lines before
    for line in text.split("\n"):
        words = line.strip()
        if in_comment or not words or words.startswith(("#", "/*")):
            in_comment = (in_comment or words.startswith("/*")) and "*/" not in words
            lines.append(line.rstrip() if not words.startswith("#") else words)
            continue
        code = _QUIET.sub("", words).strip()
        closing = len(code) - len(code.lstrip("}"))
        more = (_CONTINUED if is_open else 0) + heads * _INDENT
        indent = max(0, depth - closing) * _INDENT + (0 if code.startswith(("{", "}")) else more)
        lines += _break_line(words, indent)
        depth = max(0, depth + code.count("{") - code.count("}"))
        is_head = bool(_HEAD.fullmatch(code)) and code.count("(") == code.count(")")
        is_open = bool(code) and not is_head and not code.endswith((";", "{", "}", ":"))
        heads = heads + 1 if is_head else heads if is_open else 0
    return "\n".join(lines)


def _break_line(words: str, indent: int) -> list[str]:
    """The line, in several lines if it is too long; what cannot be broken stays."""
    lines: list[str] = []
    width = COLUMNS - indent
    while len(words) > width and not words.startswith("//"):
        places = [match.start() for match in _BREAKS.finditer(words) if 0 < match.start() < width]
        at = next(iter(reversed(places)), 0)
        if not at or _is_quoted(words, at):
            break
        lines.append(f"{' ' * (indent if not lines else indent + _CONTINUED)}{words[:at].rstrip()}")
        words, width = words[at:].strip(), COLUMNS - indent - _CONTINUED
    return [*lines, f"{' ' * (indent if not lines else indent + _CONTINUED)}{words}"]


def _is_quoted(words: str, at: int) -> bool:
    return any(match.start() < at < match.end() for match in _QUIET.finditer(words))
