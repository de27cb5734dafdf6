"""Tables of results in pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hipsynth.core.files import write_whole

_TABLES = re.compile(r"(<!-- tables: ([^>]*) -->\n).*?(<!-- end -->)", re.DOTALL)


def write_tables(page: Path, text: str, command: str = "") -> None:
    """Replaces what stands between `<!-- tables: COMMAND -->` and `<!-- end -->` in a page, of those that name
    `command`. Raises ValueError if the page has no such place."""
    places = 0

    def replace_block(block: re.Match[str]) -> str:
        nonlocal places
        if command not in block[2]:
            return block[0]
        places += 1
        return block[1] + text + block[3]

    content = _TABLES.sub(replace_block, page.read_text())
    if not places:
        raise ValueError(f"{page} has no place for tables")
    write_whole(page, content)


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns after the first hold numbers."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"
