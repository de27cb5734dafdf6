"""Rules of the repository, checked: import direction, sizes, no loose ends."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("synth", "profiling", "training")

# layer -> packages it may import; the shared nouns at the bottom, synth.cli on top.
NOUNS = {"synth.errors", "synth.program", "synth.store", "synth.engine", "synth.output"}
ALLOWED = {
    "nouns": {"nouns"},
    "making": {"nouns", "making"},
    "profiling": {"nouns", "profiling"},
    "training": {"nouns", "profiling", "training"},
    "cli": {"nouns", "making", "profiling", "training", "cli"},
}
MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 500


def modules() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            yield dotted, path


def layer(module: str) -> str | None:
    if module == "synth.cli" or module.startswith("synth.cli."):
        return "cli"
    if any(module == noun or module.startswith(noun + ".") for noun in NOUNS):
        return "nouns"
    top = module.split(".")[0]
    return {"synth": "making", "profiling": "profiling", "training": "training"}.get(top)


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def test_imports_go_one_way() -> None:
    wrong = []
    for name, path in modules():
        own = layer(name)
        if own is None or name in PACKAGES:
            continue
        for line, target in imports(ast.parse(path.read_text())):
            other = layer(target)
            if other is not None and target not in PACKAGES and other not in ALLOWED[own]:
                wrong.append(f"{path.relative_to(ROOT)}:{line} ({own}) imports {target} ({other})")
    assert not wrong, "\n".join(wrong)


def test_functions_stay_readable() -> None:
    long = []
    for _, path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    long.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {lines} lines")
    assert not long, "\n".join(long)


def source_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def test_files_stay_readable() -> None:
    code = [p for p in source_files() if p.suffix in {".py", ".cpp", ".h"} and "tests" not in p.parts]
    long = [
        f"{p.relative_to(ROOT)}: {n} lines" for p in code if (n := len(p.read_text().splitlines())) > MAX_FILE_LINES
    ]
    assert not long, "\n".join(long)


def test_no_loose_ends_in_code() -> None:
    marks = ("TO" + "DO", "FIX" + "ME", "X" * 3 + ":")
    found = [
        f"{path.relative_to(ROOT)}: {mark}"
        for path in source_files()
        if path.suffix in {".py", ".cpp", ".h", ".toml", ".md", ".j2"}
        for mark in marks
        if mark in path.read_text()
    ]
    assert not found, "\n".join(found)


def test_every_verb_has_help_with_an_example() -> None:
    from click.testing import CliRunner

    from synth.cli.main import VERBS, cli

    for verb in VERBS:
        result = CliRunner().invoke(cli, [verb, "--help"], prog_name="synth")
        assert result.exit_code == 0, f"{verb}: {result.output}"
        assert f"synth {verb}" in result.output.replace("Usage:", "", 1), f"{verb}: help without an example"


def test_help_imports_no_heavy_library() -> None:
    code = (
        "import sys; from synth.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'torch', 'pyarrow', 'jinja2', 'clang', 'transformers'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
