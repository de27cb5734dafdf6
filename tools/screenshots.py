"""Screenshots of pages for the documentation: the browser, and pictures small enough for a repository."""

from __future__ import annotations

import shutil
from pathlib import Path

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "images"
COLOURS = 64  # a quarter of the bytes


def find_chromium() -> str | None:
    """The browser's program, if Debian's chromium is installed."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-headless-shell"))), None)


def shrink_picture(path: Path) -> None:
    """Writes a screenshot with few colours."""
    from PIL import Image

    with Image.open(path) as picture:
        picture.convert("RGB").quantize(COLOURS).save(path, optimize=True)
