"""The layout of C++ that was put together from pieces."""

from __future__ import annotations

import pytest

from hipsynth.source.layout import COLUMNS, find_depth, lay_out

PIECES = {
    "blocks": ("if (a) {\nb();\n} else {\nc();\n}", "if (a) {\n  b();\n} else {\n  c();\n}"),
    "a loop without braces": ("for (;;)\n  f();\ng();", "for (;;)\n  f();\ng();"),
    "nested loops without braces": (
        "for (;;)\nfor (;;)\nf(a,\nb);\ng();", "for (;;)\n  for (;;)\n    f(a,\n        b);\ng();"
    ),
    "branches without braces": ("{\nif (x)\ny();\nelse\nz();\n}", "{\n  if (x)\n    y();\n  else\n    z();\n}"),
    "a statement of several lines": ("int x = a +\n       b;\nf();", "int x = a +\n    b;\nf();"),
    "directives": ("{\n  #pragma unroll 4\nfor (;;) f();\n}", "{\n#pragma unroll 4\n  for (;;) f();\n}"),
    "braces in comments and texts": ('{\n// {\nf("{");\ng(\'{\');\n}', '{\n  // {\n  f("{");\n  g(\'{\');\n}'),
    "comments of several lines": ("{\n/* a\n      b */\nf();\n}", "{\n/* a\n      b */\n  f();\n}"),
    "blocks in one line": ("{\nif (a) { b(); }\nc();\n}", "{\n  if (a) { b(); }\n  c();\n}"),
    "cases": ("switch (a) {\ncase 1:\nf();\n}", "switch (a) {\n  case 1:\n  f();\n}"),
}  # fmt: skip


@pytest.mark.parametrize("name", PIECES)
def test_lines_are_indented_by_their_braces(name: str) -> None:
    text, expected = PIECES[name]
    assert lay_out(text) == expected == lay_out(expected)
    inside = "\n".join(
        line if line.startswith("#") or "b */" in line or "/* a" in line else f"    {line}"
        for line in expected.split("\n")
    )
    assert lay_out(text, 2) == inside


def test_long_lines_are_broken_at_commas_and_logical_operators() -> None:
    words = [f"argument_{number}" for number in range(30)]
    text = lay_out(f'if (first && second_condition_of_the_program("a, b") || f({", ".join(words)})) return;', 1)
    lines = text.split("\n")
    assert len(lines) > 3 and all(len(line) <= COLUMNS for line in lines) and '"a, b"' in text
    assert all(line.startswith("      ") for line in lines[1:])
    assert (
        " ".join(text.split())
        == f'if (first && second_condition_of_the_program("a, b") || f({", ".join(words)})) return;'
    )


def test_what_cannot_be_broken_stays() -> None:
    text = f"x{'y' * 130} = 1;"
    assert lay_out(text) == text
    note = f"// {'a, ' * 60}b"
    assert lay_out(note) == note


@pytest.mark.parametrize(("line", "spaces", "depth"), [("    ", 2, 2), ("    ", 4, 1), ("\t\t", 4, 2), ("", 2, 1)])
def test_the_depth_of_a_statement_is_that_of_its_line(line: str, spaces: int, depth: int) -> None:
    text = f"void f() {{\n{line}if (a) g();\n}}\n".encode()
    assert find_depth(text, text.index(b"g()"), spaces) == depth
