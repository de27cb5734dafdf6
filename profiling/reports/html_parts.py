"""Parts of stand-alone HTML pages: the roofline script and data, both inlined."""

from __future__ import annotations

import json
import re
from pathlib import Path

WEB = Path(__file__).with_name("web")


def roofline_script() -> str:
    """roofline.js as text of a script that is no module; what it exports are globals of the page."""
    return re.sub(r"^export ", "", (WEB / "roofline.js").read_text(), flags=re.MULTILINE)


def embed_json(data: object) -> str:
    """JSON as content of a script element; no text in it can end the element. Raises ValueError for NaN."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
