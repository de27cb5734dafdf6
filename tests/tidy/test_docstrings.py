"""Public functions and classes have docstrings, and docstrings and comments name functions, errors and files that
exist."""

from __future__ import annotations

import ast
import builtins
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.code_figures import read_modules, run_git

FILE = re.compile(r"(?<![\w./<*-])((?:[\w-]+/)+[\w.-]+\.(?:py|toml|h|cpp|md|hip|json|jsonl))\b")
OUTSIDE = re.compile(r"(?:linux|clang-c|hip|out)/|.*\b[A-Z]{3,}\b(?!\.md)")  # headers of others, output, NAME.toml
COMMENT = re.compile(r"(?<![\w\"'])# .*")
SEE = re.compile(r"\(see\s+`?([\w.]+)`?(?:\s+and\s+`?([\w.]+)`?)?\)")
RAISED = re.compile(r"\bRaises\s+((?:[A-Z]\w+(?:,\s+|\s+or\s+|,\s+or\s+)?)+)")
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


@dataclass(frozen=True)
class ModuleWords:
    """What the tests need of one module. Its tree is not kept: all trees together take long to collect as garbage."""

    undocumented: tuple[str, ...]  # line and name of each public function or class that has no docstring
    docstrings: tuple[str, ...]
    functions: frozenset[str]
    names: frozenset[str]


@functools.cache
def read_words(text: str) -> ModuleWords:
    """Parses a module once for all tests."""
    tree = ast.parse(text)
    functions = (n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
    undocumented = (
        f"{node.lineno} {name}"
        for name, node in public_definitions(tree)
        if name != "main" and name not in CONTRACTS and not ast.get_docstring(node)
    )
    return ModuleWords(
        tuple(undocumented), tuple(list_docstrings(tree)), frozenset(functions), frozenset(list_names(tree))
    )


def list_undocumented(modules: Mapping[str, str]) -> Iterator[str]:
    """Each public function or class of the modules that has no docstring."""
    for path, text in modules.items():
        yield from (f"{path}:{place}" for place in read_words(text).undocumented)


def list_docstrings(tree: ast.Module) -> Iterator[str]:
    """The docstrings of a module and of all that it defines."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield ast.get_docstring(node) or ""


def list_names(tree: ast.Module) -> Iterator[str]:
    """What a module defines or imports: functions, classes, variables, parameters, attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name


def list_missing(modules: Mapping[str, str]) -> Iterator[str]:
    """Each `name()` in a docstring that no module defines, each `(see name)`, and each error that one raises."""
    facts = {path: read_words(text) for path, text in modules.items()}
    functions = {*OTHERS, *dir(builtins)}.union(*(module.functions for module in facts.values()))
    places = {name for path in modules for name in Path(path).with_suffix("").parts}
    names = {*functions, *places}.union(*(module.names for module in facts.values()))
    for path, module in facts.items():
        for words in module.docstrings:
            yield from (f"{path}: {name}()" for name in CALL.findall(words) if name not in functions)
            seen_names = [name for pair in SEE.findall(words) for name in pair if name]
            raised_names = [name for row in RAISED.findall(words) for name in re.findall(r"[A-Z]\w+", row)]
            for name in (*seen_names, *raised_names):
                if name.split(".")[-1] not in names:
                    yield f"{path}: {name}"


def list_missing_files(modules: Mapping[str, str], files: Iterable[str]) -> Iterator[str]:
    """Each path in a docstring or comment that is the end of no file's path."""
    ends = {file.split("/", n)[-1] for file in files for n in range(file.count("/") + 1)}
    for path, text in modules.items():
        words = [*read_words(text).docstrings, *COMMENT.findall(text)]
        for name in FILE.findall("\n".join(words)):
            if name not in ends and not OUTSIDE.match(name):
                yield f"{path}: {name}"


def test_files_that_docstrings_and_comments_name_exist() -> None:
    assert not list(list_missing_files(read_modules(None), run_git("ls-files").splitlines()))


def test_a_file_that_was_moved_is_found() -> None:
    text = '"""As core/a.py, a/b.toml, linux/sched.h and OUT/a.json."""\nx = 1  # see old/a.py and core/a.py:4\n'
    files = ["core/a.py", "src/a/b.toml"]
    assert list(list_missing_files({"core/a.py": text}, files)) == ["core/a.py: old/a.py"]


def test_functions_that_docstrings_name_exist() -> None:
    assert not list(list_missing(read_modules(None)))


def test_a_function_that_was_renamed_is_found() -> None:
    text = 'def load_file() -> None:\n    """As read() and load_file(), or float() of main()."""\n'
    assert list(list_missing({"core/a.py": text})) == ["core/a.py: read()"]


def test_a_name_or_an_error_that_was_renamed_is_found() -> None:
    text = 'class Bad(Exception):\n    """As that (see load_file).\n    Raises Bad, OSError or\n    Worse for it."""\n'
    assert list(list_missing({"core/a.py": text})) == ["core/a.py: load_file", "core/a.py: Worse"]


def test_public_functions_and_classes_have_docstrings() -> None:
    modules = read_modules(None)
    assert not list(list_undocumented(modules))
    assert all(name in modules[path] for name, path in CONTRACTS.items())


def test_what_has_no_docstring_is_found() -> None:
    body = "\n".join(f"        x = {number}" for number in range(SHORT_METHOD))
    text = f"def f(): pass\ndef _own(): pass\nclass A:\n    def short(self): pass\n    def long(self):\n{body}\n"
    assert list(list_undocumented({"core/a.py": text})) == ["core/a.py:1 f", "core/a.py:3 A", "core/a.py:5 A.long"]
