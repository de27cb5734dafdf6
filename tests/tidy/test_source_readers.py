"""HIP text has one reader: no module outside source/ looks for its marks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tools.code_figures import ROOMS

ROOT = Path(__file__).resolve().parents[2]
MARKS = ("__global__", "<<<", "argv", "#define", "define[ ", "define\\")
READER = "source/"
PYTHON_READER = "profiling/survey/scripts.py"  # argv is a mark of its language, too
SEARCHES = re.compile(
    r"r?find|r?index|count|startswith|endswith|r?partition|split|replace|removeprefix|removesuffix|compile|search|match"
    r"|fullmatch|findall|finditer|subn?|frozenset"
)


def searched_texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, text) of the constants that something is searched for or compared with."""
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            parts = list(node.args[:2]) if SEARCHES.fullmatch(name) else []
        elif isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple | ast.Set | ast.List):
            parts = [node.value] if all(isinstance(e, ast.Constant) for e in node.value.elts) else []
        for part in parts:
            for inner in ast.walk(part):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str | bytes):
                    text = inner.value if isinstance(inner.value, str) else inner.value.decode("latin-1")
                    yield inner.lineno, text


def marks_in(text: str) -> list[str]:
    """Line and text of each constant with a mark that something is searched for or compared with."""
    if not any(mark in text for mark in MARKS):
        return []
    return [f"{line}: {found}" for line, found in searched_texts(ast.parse(text)) if any(m in found for m in MARKS)]


def test_only_the_reader_of_source_looks_for_its_marks() -> None:
    paths = (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))
    names = ((path.relative_to(ROOT).as_posix(), path) for path in paths)
    read = {name: marks_in(path.read_text()) for name, path in names if not name.startswith((READER, PYTHON_READER))}
    assert not {name: found for name, found in read.items() if found}


def test_a_pattern_with_a_mark_is_found() -> None:
    for text in (
        "import re\nX = re.compile(rf'__global__{1}')",
        "a = t.count('<<<')",
        "a = t == '__global__'",
        "a = '#define' in t",
        "a = re.findall(rb'argv', t)",
        "WORDS = frozenset({'__global__'})",
        "WORDS = ('argv', 'argc')",
    ):
        assert marks_in(text), text
    assert not marks_in("print('no __global__ function')\nkernel = f'__global__ void {name}'")
