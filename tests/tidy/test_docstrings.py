"""Docstrings name functions that exist."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Mapping

from tools.code_figures import read_modules

CALL = re.compile(r"(?<![\w.`])([a-z_]\w*)\(\)")
# Functions of programs, of C++ and of others' libraries that docstrings speak of.
OTHERS = frozenset("main printf hipMalloc hipMemcpy atoi __syncthreads make_failure".split())  # noqa: SIM905


def list_missing(modules: Mapping[str, str]) -> Iterator[str]:
    """Each `name()` in a docstring that no module defines."""
    trees = {path: ast.parse(text) for path, text in modules.items()}
    nodes = [(path, node) for path, tree in trees.items() for node in ast.walk(tree)]
    defined = {node.name for _, node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    known = defined | OTHERS | set(dir(builtins))
    for path, node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for name in CALL.findall(ast.get_docstring(node) or ""):
                if name not in known:
                    yield f"{path}: {name}()"


def test_functions_that_docstrings_name_exist() -> None:
    assert not list(list_missing(read_modules(None)))


def test_a_function_that_was_renamed_is_found() -> None:
    text = 'def load_file() -> None:\n    """As read() and load_file(), or float() of main()."""\n'
    assert list(list_missing({"core/a.py": text})) == ["core/a.py: read()"]
