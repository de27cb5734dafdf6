"""Builds the documentation as a web site, build/site, from the pages of the repository: `make docs`.

    python -m tools.docs_site [--stage-only]

The pages are read where they lie. They are copied into build/pages in the repository's layout, with the programs that
they link to, so that a link is right on the site where it is right in the repository; mkdocs.yml has the navigation.
Any warning fails the build: a dead link or anchor, or a page that the navigation leaves out.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "pages"
SOURCES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "LICENSE", "docs")
LINKED = ("corpus/handwritten", "corpus/release/v1/README.md")


def stage_pages(target: Path = PAGES) -> int:
    """Copies the tracked pages, and what they link to, into a fresh folder; returns how many files."""
    shutil.rmtree(target, ignore_errors=True)
    command = [
        "git",
        "-C",
        str(ROOT),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        *SOURCES,
        *LINKED,
    ]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    files = [ROOT / name for name in names if name and (ROOT / name).is_file()]
    for file in files:
        copy = target / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    return len(files)


def main(arguments: list[str] | None = None) -> int:
    """Stages and builds; returns mkdocs' exit code, 4 where it is not installed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage-only", action="store_true", help="copy the pages, build nothing")
    options = parser.parse_args(arguments)
    count = stage_pages()
    if options.stage_only:
        print(f"{count} files in {PAGES}")
        return 0
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
        print("error: mkdocs-material is not installed\n  try:   pip install 'hipsynth[docs]'", file=sys.stderr)
        return 4
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", str(ROOT / "mkdocs.yml")]
    code = subprocess.run(build, check=False).returncode
    if code == 0:
        print(f"site: {ROOT / 'build' / 'site' / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
