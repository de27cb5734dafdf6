"""Figures of the code, on a small tree."""

from __future__ import annotations

from tools.code_figures import count_figures

MODULES = {
    "core/a.py": "from typing import Any\nclass Row: ...\ndef read(x: Any) -> None: ...\n",
    "cli/b.py": "from hipsynth.core.a import Row\nclass Row: ...\ndef print_rows() -> None: found = 1\n",
    "core/c.py": "from hipsynth.cli.b import Row\ndef _find() -> None: ...\n",
}


def test_figures_of_a_small_tree() -> None:
    found = count_figures(MODULES)
    assert (found["lines"], found["modules"], found["functions"]) == (8, 3, 3)
    assert found["one-word function names, %"] == 66.7 and found["Any per 100 functions"] == 33.3
    assert found["functions with a vague variable"] == 1
    assert found["doubled class names"] == 1 and found["pairs of rooms with an upward import"] == 1
    assert found["largest room, % of lines"] == 62.5
