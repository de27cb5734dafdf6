"""Every example in the README and the tutorial runs, and prints what the page shows.

A ```console block holds commands (`$ ...`) followed by their output. Output lines must appear in order;
`...` alone on a line stands for any lines, and inside a line for any text. Numbers may differ by a tenth, so that
a page need not follow every small change of the model, and cannot stray far from it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", pytest.param("docs/tutorial.md", marks=pytest.mark.full)]
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def examples(page: str) -> list[tuple[str, list[str]]]:
    """The (command, expected output lines) pairs of a page, in order."""
    found: list[tuple[str, list[str]]] = []
    for block in BLOCK.findall((ROOT / page).read_text()):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.strip():
                found[-1][1].append(line.rstrip())
    return found


def same(word: str, other: str) -> bool:
    """Whether two words are alike but for numbers that differ by less than a tenth."""
    numbers, figures = NUMBER.findall(word), NUMBER.findall(other)
    return NUMBER.sub("#", word) == NUMBER.sub("#", other) and all(
        float(figure.replace(",", "")) == pytest.approx(float(number.replace(",", "")), rel=0.1)
        for number, figure in zip(numbers, figures, strict=True)
    )


def agrees(shown: list[str], printed: list[str]) -> bool:
    """Whether the words of a printed line are those that a page shows; `...` stands for any words."""
    if not shown or not printed:
        return all(word == "..." for word in shown) and not printed
    if shown[0] == "...":
        return agrees(shown[1:], printed) or agrees(shown, printed[1:])
    return same(shown[0], printed[0]) and agrees(shown[1:], printed[1:])


def matches(expected: list[str], printed: str) -> str:
    """Empty when the output shows the expected lines in order, else the first line that is missing."""
    lines = iter(printed.splitlines())
    for line in expected:
        if line.strip() != "..." and not any(agrees(line.split(), candidate.split()) for candidate in lines):
            return line
    return ""


@pytest.mark.parametrize("page", PAGES)
def test_examples_print_what_the_page_shows(page: str, tmp_path: Path) -> None:
    commands = examples(page)
    assert commands, f"{page} has no console example"
    (tmp_path / "corpus").symlink_to(ROOT / "corpus")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "120"}
    for command, expected in commands:
        run = subprocess.run(
            command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False
        )
        missing = matches(expected, run.stdout + run.stderr)
        assert not missing, f"{page}: `{command}` did not print {missing!r}:\n{run.stdout}{run.stderr}"
