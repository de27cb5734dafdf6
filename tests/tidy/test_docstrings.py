"""Public functions and classes have docstrings, and docstrings name functions that exist."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Mapping

from tools.code_figures import read_modules

CALL = re.compile(r"(?<![\w.`])([a-z_]\w*)\(\)")
# Functions of programs, of C++ and of others' libraries that docstrings speak of.
OTHERS = frozenset("main printf hipMalloc hipMemcpy atoi __syncthreads make_failure".split())  # noqa: SIM905
# Functions that every module of a folder has, and where it is said what they do.
CONTRACTS = {
    "build_kernels": "synth/generate/families/__init__.py",
    "list_plans": "tuning/optimize/transformations/transformation.py",
}
SHORT_METHOD = 5  # lines; properties and overrides that their class explains

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def public_definitions(tree: ast.Module) -> Iterator[tuple[str, Definition]]:
    """(name, node) of a module's public functions and classes, and of the classes' public methods over SHORT_METHOD."""
    for node in tree.body:
        if not isinstance(node, Definition) or node.name.startswith("_"):
            continue
        yield node.name, node
        parts = node.body if isinstance(node, ast.ClassDef) else []
        for method in (part for part in parts if isinstance(part, Definition)):
            long = (method.end_lineno or method.lineno) - method.lineno + 1 > SHORT_METHOD
            if long and not method.name.startswith("_"):
                yield f"{node.name}.{method.name}", method


def list_undocumented(modules: Mapping[str, str]) -> Iterator[str]:
    """Each public function or class of the modules that has no docstring."""
    for path, text in modules.items():
        for name, node in public_definitions(ast.parse(text)):
            if name != "main" and name not in CONTRACTS and not ast.get_docstring(node):
                yield f"{path}:{node.lineno} {name}"


def list_missing(modules: Mapping[str, str]) -> Iterator[str]:
    """Each `name()` in a docstring that no module defines."""
    known = {*OTHERS, *dir(builtins)}
    named: list[tuple[str, str]] = []
    for path, text in modules.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                named += ((path, name) for name in CALL.findall(ast.get_docstring(node) or ""))
                if not isinstance(node, (ast.Module, ast.ClassDef)):
                    known.add(node.name)
    return (f"{path}: {name}()" for path, name in named if name not in known)


def test_functions_that_docstrings_name_exist() -> None:
    assert not list(list_missing(read_modules(None)))


def test_a_function_that_was_renamed_is_found() -> None:
    text = 'def load_file() -> None:\n    """As read() and load_file(), or float() of main()."""\n'
    assert list(list_missing({"core/a.py": text})) == ["core/a.py: read()"]


def test_public_functions_and_classes_have_docstrings() -> None:
    modules = read_modules(None)
    assert not list(list_undocumented(modules))
    assert all(name in modules[path] for name, path in CONTRACTS.items())


def test_what_has_no_docstring_is_found() -> None:
    body = "\n".join(f"        x = {number}" for number in range(SHORT_METHOD))
    text = f"def f(): pass\ndef _own(): pass\nclass A:\n    def short(self): pass\n    def long(self):\n{body}\n"
    assert list(list_undocumented({"core/a.py": text})) == ["core/a.py:1 f", "core/a.py:3 A", "core/a.py:5 A.long"]
