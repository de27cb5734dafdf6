"""Writes the tables of constants in docs/explanation/model/ from simulator/devices/*.toml.

    python -m tools.model_pages            # rewrite the tables
    python -m tools.model_pages --check    # exit code 1 when a page is stale

A page asks for a table by a line `<!-- constants: l2.* fabric.read_request_bytes -->`; everything up to the next
`<!-- end -->` is replaced. A device that inherits a value from another one has no row of its own.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "explanation" / "model"
DEVICES = ROOT / "simulator" / "devices"
BLOCK = re.compile(r"(<!-- constants: ([^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def list_constants() -> Iterator[tuple[str, str, str, str]]:
    """(constant, device, value, source) of every entry of every device table, in the order of the files."""
    for path in sorted(DEVICES.glob("*.toml")):
        document = tomllib.loads(path.read_text())
        if "name" not in document:  # what devices have in common
            continue
        for section, entries in document.items():
            if isinstance(entries, dict):
                for key, entry in entries.items():
                    yield f"{section}.{key}", path.stem, f"{entry['value']:,}", entry["source"]


def render_table(patterns: list[str]) -> str:
    """The Markdown table of the constants that match; raises ValueError for a pattern that matches none."""
    rows = []
    for pattern in patterns:
        constant_rows = sorted(row for row in list_constants() if fnmatch.fnmatchcase(row[0], pattern))
        if not constant_rows:
            raise ValueError(f"no constant of simulator/devices matches {pattern!r}")
        rows += [f"| `{name}` | {device} | {value} | {source} |" for name, device, value, source in constant_rows]
    return "\n".join(["", "| constant | device | value | source |", "|---|---|---:|---|", *rows, "", ""])


def replace_tables(text: str) -> str:
    """The page with every table written anew."""
    return BLOCK.sub(lambda block: block[1] + render_table(block[2].split()) + block[3], text)


def find_stale_pages() -> dict[Path, str]:
    """Pages whose tables differ from the device tables, with what they should be."""
    texts = {path: replace_tables(path.read_text()) for path in sorted(PAGES.glob("*.md"))}
    return {path: text for path, text in texts.items() if text != path.read_text()}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Writes the tables of constants in docs/explanation/model.")
    parser.add_argument("--check", action="store_true", help="only say which pages are stale")
    check = parser.parse_args(argv).check
    stale_pages = find_stale_pages()
    for path, text in stale_pages.items():
        print(f"{'stale' if check else 'written'}: {path.relative_to(ROOT)}")
        if not check:
            path.write_text(text)
    return 1 if check and stale_pages else 0


if __name__ == "__main__":
    sys.exit(main())
