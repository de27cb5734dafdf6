"""Takes the pictures of docs/how-to/release.md: the page that `synth stats --html` writes of the release, and one of
its examples.

    python -m tools.corpus_pictures [CORPUS]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.screenshots import PICTURES, find_chromium, shrink_picture

SYNTH = Path(sys.executable).with_name("synth")
WIDTH = 1280
VIEWS = {"corpus-page.png": ("", 1560), "corpus-example.png": ("#example-2", 900)}  # name -> (fragment, height)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Takes the pictures of a corpus page.")
    parser.add_argument("corpus", type=Path, nargs="?", default=Path("corpus/release/v1"))
    corpus = parser.parse_args(argv).corpus
    if not (browser := find_chromium()):
        print("corpus_pictures: chromium is not installed (Debian: apt install chromium)", file=sys.stderr)
        return 4
    with tempfile.TemporaryDirectory(prefix="hipsynth-pictures-") as folder:
        page = Path(folder) / "corpus.html"
        subprocess.run([SYNTH, "stats", corpus, "--html", page], check=True)
        take_pictures(page, browser)
    return 0


def take_pictures(page: Path, browser: str) -> None:
    """Writes a picture of each view of a page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for name, (fragment, height) in VIEWS.items():
            view = chromium.new_page(viewport={"width": WIDTH, "height": height})
            view.goto(f"{page.as_uri()}{fragment}")
            view.wait_for_load_state("networkidle")
            view.screenshot(path=PICTURES / name)
            shrink_picture(PICTURES / name)
        chromium.close()


if __name__ == "__main__":
    sys.exit(main())
