"""Figures of the code that a reader feels: lines, rooms, names, types. Prints them for this tree or for a revision.

    python -m tools.code_figures [--revision REV] [--json]

Product code is all Python outside tests/, tools/, studies/, benchmarks/ and examples/. A name is one word if it has no
underscore inside; a class name as doubled if two modules define it; an import as upward if its room comes after the
importing one; a variable as vague if its name (VAGUE_NAMES) says nothing about its value.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The top-level packages, the lowest first: each imports only those before it. studies/, above them all, is not in the
# wheel, as benchmarks/, tools/ and tests/ are not.
ROOMS = (
    "core", "toolchain", "source", "simulator", "profiling", "synth", "training", "tuning", "serving", "library", "cli",
)  # fmt: skip
NO_PRODUCT = ("tests/", "tools/", "studies/", "benchmarks/", "hipsynth/", "corpus/", "examples/", "docs/", "vscode/")

VAGUE_NAMES = frozenset(
    "found one made known own told held seen what whole way done kept shown given asked said".split()  # noqa: SIM905
)


def read_modules(revision: str | None) -> dict[str, str]:
    """Path -> text of the product's modules, in the working tree or at a revision. Raises CalledProcessError."""
    listing = ["ls-files"] if revision is None else ["ls-tree", "-r", "--name-only", revision]
    paths = [path for path in git(*listing).splitlines() if path.endswith(".py") and not path.startswith(NO_PRODUCT)]
    if revision is None:
        return {path: (ROOT / path).read_text() for path in paths if (ROOT / path).is_file()}
    return {path: git("show", f"{revision}:{path}") for path in paths}


@functools.cache
def tree_figures() -> dict[str, float]:
    """count_figures() of the working tree, counted once."""
    return count_figures(read_modules(None))


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def count_figures(modules: Mapping[str, str]) -> dict[str, float]:
    """The figures of the module docstring, by name."""
    trees = {path: ast.parse(text) for path, text in modules.items()}
    nodes = [(path, node) for path, tree in trees.items() for node in ast.walk(tree)]
    functions = [n for _, n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    named = [f.name.strip("_") for f in functions if not f.name.startswith("__")]
    anys = sum(isinstance(n, ast.Name) and n.id == "Any" for _, n in nodes)
    lengths = [(f.end_lineno or f.lineno) - f.lineno + 1 for f in functions]
    rooms = Counter(path.split("/")[0] for path, text in modules.items() for _ in text.splitlines())
    return {
        "lines": sum(rooms.values()),
        "modules": len(modules),
        "functions": len(functions),
        "functions over 40 lines": sum(length > 40 for length in lengths),
        "functions with over six parameters": sum(count_parameters(function) > 6 for function in functions),
        "one-word function names, %": round(100 * sum("_" not in name for name in named) / max(1, len(named)), 1),
        "functions with a vague variable": sum(has_vague_variable(function) for function in functions),
        "Any per 100 functions": round(100 * anys / max(1, len(functions)), 1),
        "doubled class names": len(doubled_classes(modules)),
        "largest room, % of lines": round(100 * max(rooms.values(), default=0) / max(1, sum(rooms.values())), 1),
        "pairs of rooms with an upward import": len(set(upward_imports(trees))),
    }


def count_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The parameters of a function, without those that Python passes itself."""
    listed = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return sum(parameter.arg not in ("self", "cls") for parameter in listed)


def has_vague_variable(function: ast.AST) -> bool:
    """Whether the function assigns to a name that says nothing about its value."""
    names = (node for node in ast.walk(function) if isinstance(node, ast.Name))
    return any(name.id in VAGUE_NAMES and isinstance(name.ctx, ast.Store) for name in names)


def doubled_classes(modules: Mapping[str, str]) -> dict[str, list[str]]:
    """Public names of classes that several modules define -> those modules' paths."""
    homes: dict[str, list[str]] = {}
    for path, text in modules.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(path)
    return {name: paths for name, paths in homes.items() if len(paths) > 1}


def upward_imports(trees: Mapping[str, ast.Module]) -> Iterator[tuple[str, str]]:
    """(importing room, imported room) of each import that runs against ROOMS."""
    for path, tree in trees.items():
        room = path.split("/")[0]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hipsynth."):
                other = str(node.module).split(".")[1]
                if other != room and {room, other} <= set(ROOMS) and ROOMS.index(other) > ROOMS.index(room):
                    yield room, other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--revision", help="a git revision instead of the working tree")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = count_figures(read_modules(options.revision))
    if options.json:
        json.dump(figures, sys.stdout, indent=1)
        print()
        return
    for name, value in figures.items():
        print(f"{name:40s} {value:>10,}")


if __name__ == "__main__":
    main()
