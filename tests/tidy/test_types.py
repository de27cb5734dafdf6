"""Is what functions take and return stated in types?"""

from __future__ import annotations

from tools.code_figures import count_figures, count_tree_figures

MOST_ANY = 2.5  # per 100 functions; lower it with the figure


def test_few_types_are_left_open() -> None:
    found = count_tree_figures()["Any per 100 functions"]
    assert found <= MOST_ANY, f"{found} `Any` per 100 functions: say what the values are (python -m tools.code_figures)"
    open_type = {"core/one.py": "from typing import Any\n\n\ndef load(row: Any) -> int:\n    return int(row)\n"}
    assert count_figures(open_type)["Any per 100 functions"] == 100
