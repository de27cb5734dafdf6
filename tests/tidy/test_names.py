"""Names of code: a class has one home, and functions say verb and object."""

from __future__ import annotations

from tools.code_figures import (
    LINKS,
    NO_NAMES,
    NO_PRODUCT,
    VAGUE_NAMES,
    count_tree_figures,
    find_doubled_classes,
    read_modules,
)

# Share of function names that are one word, in per cent: of the product, and of it with studies and tools. Lower them
# with the figures.
MOST_ONE_WORD_NAMES = {NO_PRODUCT: 17.7, NO_NAMES: 16.6}


def test_a_class_name_is_defined_once() -> None:
    assert not find_doubled_classes(read_modules(None, LINKS))


def test_a_doubled_class_name_is_found() -> None:
    modules = {"core/a.py": "class Row: pass\nclass _Own: pass\n", "tests/b.py": "class Row: pass\nclass _Own: pass\n"}
    assert find_doubled_classes(modules) == {name: ["core/a.py", "tests/b.py"] for name in ("Row", "_Own")}


def test_classes_of_tests_and_names_of_studies_are_counted() -> None:
    assert {"tests/tidy/test_names.py", "tools/code_figures.py"} <= set(read_modules(None, LINKS))
    folders = {path.split("/")[0] for path in read_modules(None, NO_NAMES)}
    assert {"core", "studies", "tools"} <= folders and "tests" not in folders


def test_variables_say_what_their_value_is() -> None:
    assert not count_tree_figures()["functions with a vague variable"], sorted(VAGUE_NAMES)


def test_function_names_get_no_shorter() -> None:
    for left_out, most in MOST_ONE_WORD_NAMES.items():
        share = count_tree_figures(left_out)["one-word function names, %"]
        assert share <= most, f"{share} % of the function names are one word: say verb and object"
