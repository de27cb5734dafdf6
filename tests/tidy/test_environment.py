"""docs/reference/environment.md lists exactly the environment variables that the project reads."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "environment.md"
READERS = {"get", "setdefault"}
NAME = re.compile(r"[A-Z][A-Z0-9_]*")
# C, C++ and CMake; `environ` as a whole is only passed on.
PATTERNS = {
    ".cpp": re.compile(r'getenv\("(\w+)"\)'),
    ".h": re.compile(r'getenv\("(\w+)"\)'),
    ".txt": re.compile(r"ENV\{(\w+)\}"),
    ".cmake": re.compile(r"ENV\{(\w+)\}"),
}


def is_environ(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "environ" and ast.unparse(node) == "os.environ"


def keys(tree: ast.AST) -> Iterator[ast.expr]:
    """What is looked up in os.environ: `.get(key)`, `[key]`, `key in`, `os.getenv(key)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = node.func
            named = method.attr == "getenv" and ast.unparse(method) == "os.getenv"
            if named or (method.attr in READERS and is_environ(method.value)):
                yield node.args[0]
        elif isinstance(node, ast.Subscript) and is_environ(node.value) and isinstance(node.ctx, ast.Load):
            yield node.slice
        elif isinstance(node, ast.Compare) and any(is_environ(other) for other in node.comparators):
            yield node.left


def strings(tree: ast.AST, name: str) -> set[str]:
    """The strings that a name stands for: assigned to it, or looped over."""
    found = set()
    for node in ast.walk(tree):
        source: ast.expr | None = None
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            source = node.value
        elif isinstance(node, ast.For | ast.comprehension) and ast.unparse(node.target) == name:
            source = node.iter
        if source is not None:
            found |= {str(n.value) for n in ast.walk(source) if isinstance(n, ast.Constant)}
    return {text for text in found if NAME.fullmatch(text)}


def read_by_python(text: str) -> set[str]:
    """The variables that a Python module reads; ValueError where a name cannot be told from the module alone."""
    if "environ" not in text and "getenv" not in text:
        return set()
    tree = ast.parse(text)
    found: set[str] = set()
    for key in keys(tree):
        named = {key.value} if isinstance(key, ast.Constant) else strings(tree, ast.unparse(key))
        if not named:
            raise ValueError(f"line {key.lineno}: which variable is {ast.unparse(key)}?")
        found |= {str(name) for name in named}
    return found


def read_by_the_project() -> set[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: set[str] = set()
    for path in (ROOT / line for line in listed.splitlines()):
        if path.suffix == ".py" and path.is_file():
            found |= read_by_python(path.read_text())
        elif path.suffix in PATTERNS and path.is_file():
            found |= set(PATTERNS[path.suffix].findall(path.read_text()))
    return found


def documented() -> set[str]:
    """The names in the first column of the page's table."""
    rows = re.findall(r"^\| (`.*?) \|", PAGE.read_text(), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_the_page_lists_what_is_read() -> None:
    assert documented() == read_by_the_project()


def test_all_ways_to_read_a_variable_are_seen() -> None:
    text = """
import os
NAME = "A"
x = os.environ.get(NAME) or os.environ["B"] or os.getenv("C")
y = {k: os.environ[k] for k in ("D", "E") if k in os.environ}
if "F" not in os.environ: os.environ["G"] = "written, not read"
"""
    assert read_by_python(text) == {"A", "B", "C", "D", "E", "F"}
