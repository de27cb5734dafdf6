"""The text that belongs to a label: the program with the arguments of its run as defaults."""

from __future__ import annotations

import pytest

from hipsynth.source.arguments import default_arguments, run_text, with_defaults

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


WAYS_TO_WRITE = {
    "const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 20, m = argc > 2 ? atoi(argv[2]) : 16;": (1 << 20, 16),
    "int n = 4096; if (argc > 1) n = std::atoi(argv[1]);": (4096,),
    "int n = argc > 1 ? atoi(argv[1]) : 1<<20;": (1 << 20,),
    "int n = argc > 1 ? atoi(argv[1]) : 1'000'000;": (1_000_000,),
    "int n = argc > 1 ? atoi(argv[1]) : (1024 * 1024), m = (n + 255) / 256;": (1 << 20,),
    "run(argc > 1 ? atoi(argv[1]) : 64 * 3);": (192,),
    "int n = 512*8; if (argc > 1) n = atoi(argv[1]);": (4096,),
    "int n = argc > 1 ? atoi(argv[1]) : COUNT;": (),
    "// int n = argc > 1 ? atoi(argv[1]) : 16;\n  int n = argc > 1 ? atoi(argv[1]) : 4096;": (4096,),
    "size_t n = ac > 1 ? strtoul(words[1], nullptr, 10) : 300;": (300,),
    "int n = argc > 1 ? std::stoi(argv[1]) : 8; float f = argc > 2 ? std::atof(argv[2]) : 2.5;": (8,),
    "int m = argc > 2 ? std::atoi(argv[2]) : 4;": (),  # whose first argument is something else
    "float f = argc > 1 ? std::atoi(argv[1]) : 2.5f;": (),
    "int n = 4096; n = 5;": (),
    "int n = argc > 1 ? std::atoi(argv[1]) : 0;": (0,),
    "int n = argc > 1 ? std::atoi(argv[1]) : 1 << 99999999999999999999;": (),
    "int n = argc > 1 ? std::atoi(argv[1]) : 1e400;": (),
    "int n = argc > 1 ? std::atoi(argv[1]) : 1e400 - 1e400;": (),
}


@pytest.mark.parametrize("line", WAYS_TO_WRITE)
def test_the_sizes_that_a_program_has_without_arguments(line: str) -> None:
    assert default_arguments(f"int main(int argc, char** argv) {{\n  {line}\n}}") == WAYS_TO_WRITE[line]


def test_both_forms_of_generated_programs_have_their_sizes() -> None:
    assert default_arguments(TEXT) == (4096, 64)


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
