"""Pages that need nothing else: style and scripts inlined, and a policy that allows these alone."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Sequence

from hipsynth.profiling.reports.html_parts import WEB, embed_json, roofline_script

TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
{scripts}</body>
</html>
"""


def hash_source(text: str) -> str:
    """The hash of an inlined style or script, as a content security policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def render_page(title: str, body: str, script: str = "", data: object = None) -> str:
    """A page with `body`, which is HTML. `script`: a file of web/ that draws `data` with roofline.js."""
    style = (WEB / "page.css").read_text()
    source = roofline_script() + (WEB / script).read_text() if script else ""
    allowed = f"script-src {hash_source(source)}" if source else "script-src 'none'"
    policy = f"default-src 'none'; {allowed}; style-src {hash_source(style)}; base-uri 'none'; form-action 'none'"
    scripts = ""
    if source:
        scripts = f'<script id="data" type="application/json">{embed_json(data)}</script>\n'
        scripts += f'<script type="module">{source}</script>\n'
    return TEMPLATE.format(policy=policy, title=html.escape(title), style=style, body=body, scripts=scripts)


def escape(text: object) -> str:
    """A value as text of HTML."""
    return html.escape(str(text))


def head_row(titles: Sequence[str]) -> str:
    """A row of column titles. A column without one gets a plain cell: an empty title is read out as an error. Numbers
    and their titles are aligned right, source text left."""
    cells = (
        f'<th scope="col"{" class=text" if title == "source" else ""}>{escape(title)}</th>' if title else "<td></td>"
        for title in titles
    )
    return f"<tr>{''.join(cells)}</tr>"
