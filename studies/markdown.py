"""Tables of results in pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hipsynth.core.files import write_whole

_TABLES = re.compile(r"(<!-- tables: [^>]* -->\n).*?(<!-- end -->)", re.DOTALL)


def write_tables(page: Path, text: str) -> None:
    """Replaces what stands between `<!-- tables: COMMAND -->` and `<!-- end -->` in a page. Raises ValueError if the
    page has no such place."""
    content, count = _TABLES.subn(lambda block: block[1] + text + block[2], page.read_text())
    if not count:
        raise ValueError(f"{page} has no place for tables")
    write_whole(page, content)


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns after the first hold numbers."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"
