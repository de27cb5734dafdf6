"""The pages of docs/ agree with what they describe: links lead somewhere, tables come from their source."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hipsynth.profiling.matrix.targets import load_matrix
from hipsynth.simulator.devices import devices_of, list_architectures
from tools import model_pages
from tools.code_figures import ROOMS

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
TOP_FOLDERS = (*ROOMS, "studies", "tools", "benchmarks", "tests", "templates", "corpus", "examples", "vscode")
COMMAND = re.compile(r"python -m ([\w.]+)")
NAMED_FILE = re.compile(rf"`((?:{'|'.join(TOP_FOLDERS)})/[\w./-]+)`")
STARTED_FILE = re.compile(rf"\bpython ((?:{'|'.join(TOP_FOLDERS)})/[\w./-]+\.py)")
MAX_ARCHITECTURE_LINES = 145


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, by GitHub's rule."""
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(page.read_text()))
    return {word.strip().replace(" ", "-") for word in words}


def broken_links(page: Path) -> list[str]:
    """Links of a page to files or headings of the repository that do not exist."""
    broken = []
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        name, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        path = (page.parent / name).resolve() if name else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert not broken_links(page)


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# Some heading: one, two\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](there.md) [b](there.md#some-heading-one-two) [c](gone.md) [d](there.md#gone) [e](https://x.y)\n"
    )
    assert broken_links(page) == ["gone.md", "there.md#gone"]


def dead_names(text: str) -> list[str]:
    """Modules and files that `python` starts, and files of a room, that a page names but that do not exist."""
    modules = (name.removeprefix("hipsynth.").replace(".", "/") for name in COMMAND.findall(text))
    starts = (f"{name}.py" if (ROOT / f"{name}.py").exists() else f"{name}/__main__.py" for name in modules)
    names = [
        *(start for start in starts if start.split("/")[0] in TOP_FOLDERS),
        *NAMED_FILE.findall(text),
        *STARTED_FILE.findall(text),
    ]
    return [name for name in names if not (ROOT / name).exists()]


@pytest.mark.parametrize("page", [page for page in PAGES if "log" not in page.parts], ids=lambda page: page.name)
def test_commands_and_files_that_pages_name_exist(page: Path) -> None:
    assert not dead_names(page.read_text())


def test_a_dead_name_is_found() -> None:
    text = "`python -m studies.gallery` `python -m tools.gone` in `core/files.py` and `core/gone.py`"
    text += ", `python benchmarks/gone.py x`"
    assert dead_names(text) == ["tools/gone/__main__.py", "core/gone.py", "benchmarks/gone.py"]


def test_constants_on_the_model_pages_are_those_of_the_device_tables() -> None:
    assert not model_pages.find_stale_pages(), "run `python -m tools.model_pages`"


def test_every_constant_of_a_device_is_on_a_page() -> None:
    pages = "".join(path.read_text() for path in model_pages.PAGES.glob("*.md"))
    missing = {name for name, *_ in model_pages.list_constants() if f"`{name}`" not in pages}
    assert not missing


def test_the_page_of_targets_has_every_device_and_tag() -> None:
    page = (ROOT / "docs/reference/targets.md").read_text()
    shown = {arch: re.findall(r"`(\w+)`", devices) for arch, devices in re.findall(r"\| `(gfx\w+)` \| ([^|]*)", page)}
    assert shown == {arch: sorted(devices_of(arch)) for arch in list_architectures()}
    tags = {tag for row in load_matrix().flags for tag in row.tags}
    assert set(re.findall(r"\| `@(\w+)`", page)) == tags | {"all"}


def test_the_index_names_every_page() -> None:
    """docs/README.md and docs/explanation/model/README.md; the pages of the validation studies have their own index."""
    for index in (ROOT / "docs/README.md", model_pages.PAGES / "README.md"):
        listed = {(index.parent / target.partition("#")[0]).resolve() for target in LINK.findall(index.read_text())}
        below = {p for p in PAGES if p.is_relative_to(index.parent) and p != index and "validation" not in p.parts}
        if index.parent != model_pages.PAGES:
            below = {p for p in below if p.parent != model_pages.PAGES}
        assert not sorted(str(p) for p in below - listed)


def test_the_architecture_stays_short() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= MAX_ARCHITECTURE_LINES


def expand_braces(path: str) -> list[str]:
    """`a/{b,c}.py` -> a/b.py and a/c.py, as a shell does."""
    parts = re.fullmatch(r"(.*?)\{([^}]*)\}(.*)", path)
    if parts is None:
        return [path]
    return [whole for one in parts[2].split(",") for whole in expand_braces(f"{parts[1]}{one}{parts[3]}")]


def test_paths_in_the_architecture_exist() -> None:
    """Every `folder/...` in backticks of ARCHITECTURE.md; braces and stars are patterns, capitals stand for names."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = listed.split("\n")
    missing = []
    folders = "|".join((*ROOMS, "studies", "templates", "corpus", "tests", "benchmarks", "tools", "docs"))
    for path in re.findall(rf"`((?:{folders})/[^`\s]*)`", (ROOT / "ARCHITECTURE.md").read_text()):
        for named in expand_braces(path.rstrip("/")):
            pattern = re.escape(named).replace(r"\*", "[^/]*")
            if not any(re.match(f"{pattern}(/|$)", file) for file in files):
                missing.append(named)
    assert not missing
