"""Documents as tables: rows for pandas, and HTML for notebooks."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hipsynth.core.installation import missing_package

if TYPE_CHECKING:
    import pandas

Cell = str | float | bool | None
Row = dict[str, Cell]
NAMED = 3  # rows that a document's repr names
SHOWN_COLUMNS = 12  # of a table in a notebook; to_pandas() has all


class TabularDocument(ABC):
    """A document that is a table, too: one row for each of its kernels, checks or candidates. `print` shows what the
    verb prints; dataclasses that inherit from it leave `repr` to it."""

    @abstractmethod
    def table_rows(self) -> list[Row]:
        """The rows; all have the same columns, the most telling first."""

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a data frame. Raises MissingDependency without pandas."""
        return make_frame(self.table_rows())

    def _repr_html_(self) -> str:
        return write_table(self.table_rows())

    def __str__(self) -> str:
        return align_table(self.table_rows())

    def __repr__(self) -> str:
        rows = self.table_rows()
        column = next(iter(rows[0])) if rows else ""
        values = list(dict.fromkeys(str(row[column]) for row in rows))
        more = f" and {len(values) - NAMED} more" if len(values) > NAMED else ""
        named = f": {column} {', '.join(values[:NAMED])}{more}" if rows else ""
        return f"<{type(self).__name__}{named}>"


def make_frame(rows: Sequence[Row]) -> pandas.DataFrame:
    """A data frame of rows. Raises MissingDependency without pandas."""
    try:
        import pandas
    except ImportError as error:
        raise missing_package("pandas", cause=str(error)) from None
    return pandas.DataFrame(rows)


def write_table(rows: Sequence[Row]) -> str:
    """The first columns of rows as an HTML table."""
    if not rows:
        return "<p>nothing</p>"
    names = list(rows[0])[:SHOWN_COLUMNS]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{_cell_text(row[name])}</td>' for name in names)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def align_table(rows: Sequence[Row]) -> str:
    """The first columns of rows as text."""
    if not rows:
        return "nothing"
    names = list(rows[0])[:SHOWN_COLUMNS]
    cells = [names, *([_plain_text(row[name]) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in cells)


def _plain_text(value: Cell) -> str:
    return "-" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)


def _cell_text(value: Cell) -> str:
    return html.escape(_plain_text(value))


def frame_page(page: str, height: int) -> str:
    """A whole page inside a notebook, where neither its style nor its scripts reach the notebook's."""
    source = html.escape(page)
    return f'<iframe srcdoc="{source}" sandbox="allow-scripts" width="100%" height="{height}" frameborder="0"></iframe>'


def shape_text(sides: Sequence[int] | None) -> str | None:
    """A grid or block as text: 256x1x1."""
    return None if sides is None else "x".join(map(str, sides))
