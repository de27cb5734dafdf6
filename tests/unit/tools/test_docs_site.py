"""The documentation's site has every page once, and its staged pages keep the repository's layout."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tools import docs_site

NAVIGATION = re.compile(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", re.MULTILINE)


def tracked_pages() -> set[str]:
    listed = subprocess.run(
        ["git", "-C", str(docs_site.ROOT), "ls-files", "docs"], capture_output=True, text=True, check=True
    ).stdout.split()
    return {name for name in listed if name.startswith("docs/") and name.endswith(".md")}


def test_every_page_is_in_the_navigation_once() -> None:
    pages = NAVIGATION.findall((docs_site.ROOT / "mkdocs.yml").read_text())
    assert len(pages) == len(set(pages)) > 60
    assert tracked_pages() <= set(pages)
    assert all((docs_site.ROOT / page).is_file() for page in pages)


def test_staged_pages_keep_their_links(tmp_path: Path) -> None:
    target = tmp_path / "pages"
    (target / "old").mkdir(parents=True)
    assert docs_site.stage_pages(target) > 150
    assert not (target / "old").exists()
    for name in ("README.md", "docs/how-to/triton.md", "docs/images/roofline.svg", "LICENSE"):
        assert (target / name).read_bytes() == (docs_site.ROOT / name).read_bytes()
    assert (target / "corpus" / "handwritten" / "gemm" / "gemm_naive.hip").is_file()
