"""Names of product code: a class has one home, and functions say verb and object."""

from __future__ import annotations

from tools.code_figures import VAGUE_NAMES, doubled_classes, read_modules, tree_figures

# Share of function names that are one word, in per cent, and room for what goes. Lower it when names got better.
MOST_ONE_WORD_NAMES = 21.0


def test_a_public_class_name_is_defined_once() -> None:
    assert not doubled_classes(read_modules(None))


def test_a_doubled_class_name_is_found() -> None:
    modules = {"core/a.py": "class Row: pass\nclass _Own: pass\n", "core/b.py": "class Row: pass\nclass _Own: pass\n"}
    assert doubled_classes(modules) == {"Row": ["core/a.py", "core/b.py"]}


def test_variables_say_what_their_value_is() -> None:
    assert not tree_figures()["functions with a vague variable"], sorted(VAGUE_NAMES)


def test_function_names_get_no_shorter() -> None:
    share = tree_figures()["one-word function names, %"]
    assert share <= MOST_ONE_WORD_NAMES, f"{share} % of the function names are one word: say verb and object"
