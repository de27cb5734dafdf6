"""The text that belongs to a label: the program with the arguments of its run as defaults."""

from __future__ import annotations

import pytest

from hipsynth.synth.core.arguments import run_text, with_defaults

TEXT = """int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 4096;
  int blocks = 64;
  if (argc > 2) blocks = std::atoi(argv[2]);
  run(count, blocks, 4096, 64);
}
"""


def test_both_forms_take_other_defaults_and_nothing_else_changes() -> None:
    changed = with_defaults(TEXT, ["1000", "8"])
    assert changed == TEXT.replace(": 4096;", ": 1000;").replace("blocks = 64", "blocks = 8")
    assert with_defaults(TEXT, ["1000"]) == TEXT.replace(": 4096;", ": 1000;")
    assert with_defaults(changed, ["4096", "64"]) == TEXT


def test_names_do_not_matter() -> None:
    names = {"argc": "k7", "argv": "words_", "count": "x1", "blocks": "x2"}
    renamed = TEXT
    for old, new in names.items():
        renamed = renamed.replace(old, new)
    assert "x1 = k7 > 1 ? std::atoi(words_[1]) : 9;" in with_defaults(renamed, ["9", "8"])


@pytest.mark.parametrize("arguments", [["1", "2", "3"], ["many"], [""], ["1.5"]])
def test_arguments_that_the_program_does_not_have(arguments: list[str]) -> None:
    with pytest.raises(ValueError):
        with_defaults(TEXT, arguments)


def test_a_default_that_is_there_twice_is_not_guessed() -> None:
    with pytest.raises(ValueError, match="argument 1"):
        with_defaults(TEXT + TEXT, ["5"])


def test_the_text_of_a_run() -> None:
    assert run_text(TEXT, "") == TEXT
    assert run_text(TEXT, "1000 8") == with_defaults(TEXT, ["1000", "8"])
    assert run_text("int main() {}\n", "--size 'a b'") == "// arguments: --size 'a b'\nint main() {}\n"
