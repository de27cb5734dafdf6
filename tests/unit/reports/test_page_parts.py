"""Parts of stand-alone pages."""

from __future__ import annotations

from hipsynth.profiling.reports.pages import head_row


def test_only_titled_columns_have_a_header_that_is_read_out() -> None:
    row = head_row(("", "A < B", "source"))
    assert row == '<tr><td></td><th scope="col">A &lt; B</th><th scope="col" class=text>source</th></tr>'
