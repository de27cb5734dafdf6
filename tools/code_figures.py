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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The top-level packages, the lowest first: each imports only those before it. studies/, above them all, is not in the
# wheel, as benchmarks/, tools/ and tests/ are not.
ROOMS = (
    "core", "toolchain", "source", "simulator", "profiling", "synth", "training", "tuning", "serving", "library", "cli",
)  # fmt: skip
NO_PRODUCT = ("tests/", "tools/", "studies/", "benchmarks/", "hipsynth/", "corpus/", "examples/", "docs/", "vscode/")
NO_NAMES = tuple(folder for folder in NO_PRODUCT if folder not in ("studies/", "tools/"))  # where names are not counted
LINKS = ("hipsynth/",)  # the same files under their second name

VAGUE_NAMES = frozenset(
    "found one made known own told held seen what whole way done kept shown given asked said".split()  # noqa: SIM905
)


def read_modules(revision: str | None, left_out: tuple[str, ...] = NO_PRODUCT) -> dict[str, str]:
    """Path -> text of the modules outside some folders, in the working tree or at a revision. Raises
    CalledProcessError."""
    listing = ["ls-files"] if revision is None else ["ls-tree", "-r", "--name-only", revision]
    paths = [path for path in run_git(*listing).splitlines() if path.endswith(".py") and not path.startswith(left_out)]
    if revision is None:
        return {path: (ROOT / path).read_text() for path in paths if (ROOT / path).is_file()}
    return {path: run_git("show", f"{revision}:{path}") for path in paths}


@functools.cache
def count_tree_figures(left_out: tuple[str, ...] = NO_PRODUCT) -> dict[str, float]:
    """count_figures() of the working tree outside some folders, counted once."""
    return count_figures(read_modules(None, left_out))


def run_git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def count_figures(modules: Mapping[str, str]) -> dict[str, float]:
    """The figures of the module docstring, by name."""
    summaries = {path: summarize_module(path, text) for path, text in modules.items()}
    counts = sum((summary.counts for summary in summaries.values()), Counter[str]())
    rooms = Counter(path.split("/")[0] for path, text in modules.items() for _ in text.splitlines())
    doubled = find_doubled_names({path: summary.classes for path, summary in summaries.items()})
    return {
        "lines": sum(rooms.values()),
        "modules": len(modules),
        "functions": counts["functions"],
        "functions over 40 lines": counts["long"],
        "functions with over six parameters": counts["wide"],
        "one-word function names, %": round(100 * counts["one word"] / max(1, counts["named"]), 1),
        "functions with a vague variable": counts["vague"],
        "Any per 100 functions": round(100 * counts["Any"] / max(1, counts["functions"]), 1),
        "doubled class names": len(doubled),
        "largest room, % of lines": round(100 * max(rooms.values(), default=0) / max(1, sum(rooms.values())), 1),
        "pairs of rooms with an upward import": len(set().union(*(summary.upward for summary in summaries.values()))),
    }


@dataclass(frozen=True)
class ModuleSummary:
    """What the figures need of one module. Its tree is not kept: all trees together take long to collect as garbage."""

    counts: Counter[str]
    classes: tuple[str, ...]
    upward: frozenset[tuple[str, str]]


@functools.cache
def summarize_module(path: str, text: str) -> ModuleSummary:
    """Parses a module and counts what the figures need of it."""
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    named = [f.name.strip("_") for f in functions if not f.name.startswith("__")]
    counts = {
        "functions": len(functions),
        "long": sum((f.end_lineno or f.lineno) - f.lineno + 1 > 40 for f in functions),
        "wide": sum(count_parameters(function) > 6 for function in functions),
        "named": len(named),
        "one word": sum("_" not in name for name in named),
        "vague": sum(has_vague_variable(function) for function in functions),
        "Any": sum(isinstance(node, ast.Name) and node.id == "Any" for node in nodes),
    }
    return ModuleSummary(Counter(counts), tuple(list_classes(tree)), frozenset(list_upward_imports(path, nodes)))


def count_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The parameters of a function, without those that Python passes itself."""
    listed = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return sum(parameter.arg not in ("self", "cls") for parameter in listed)


def has_vague_variable(function: ast.AST) -> bool:
    """Whether the function assigns to a name that says nothing about its value."""
    names = (node for node in ast.walk(function) if isinstance(node, ast.Name))
    return any(name.id in VAGUE_NAMES and isinstance(name.ctx, ast.Store) for name in names)


def find_doubled_classes(modules: Mapping[str, str]) -> dict[str, list[str]]:
    """Names of classes that several modules define -> those modules' paths."""
    return find_doubled_names({path: tuple(list_classes(ast.parse(text))) for path, text in modules.items()})


def find_doubled_names(classes: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Names that are listed under several paths -> those paths."""
    homes: dict[str, list[str]] = {}
    for path, names in classes.items():
        for name in names:
            homes.setdefault(name, []).append(path)
    return {name: paths for name, paths in homes.items() if len(paths) > 1}


def list_classes(tree: ast.Module) -> Iterator[str]:
    """The names of the classes that a module defines."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name


def list_upward_imports(path: str, nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """(importing room, imported room) of each import of a module that runs against ROOMS."""
    room = path.split("/")[0]
    for node in nodes:
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
