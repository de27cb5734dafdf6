"""What the package installs by itself is enough for kernels; each other verb names the extra that it needs."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import needs
import pytest

from hipsynth.core.installation import EXTRA_OF

ROOT = Path(__file__).resolve().parents[3]
KERNEL = ROOT / "corpus/handwritten/grid_stride/vector_add.hip"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# `synth` where the packages of all extras are missing
ONLY_BASE = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted({*EXTRA_OF, "scipy", "sklearn", "hypothesis", "pytest", "clang"})!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from hipsynth.cli.main import main
main(sys.argv[1:])
"""


def synth(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", ONLY_BASE, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("verb", ["profile", "predict", "run", "compare"])
def test_kernels_need_no_extra(verb: str) -> None:
    needs.simulator()
    needs.compiler()
    files = [KERNEL, KERNEL] if verb == "compare" else [KERNEL]
    done = synth(verb, *files, *([] if verb == "run" else ["--arch", "gfx942"]), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def test_programs_are_generated_without_an_extra(tmp_path: Path) -> None:
    done = synth("generate", "--count", "2", "--out", tmp_path / "programs")
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "programs").glob("*.hip"))) == 2


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("corpus", ["stats", ROOT / "corpus/release/v1"]),
        ("serve", ["serve"]),
        ("serve", ["lsp"]),
        ("corpus", ["evaluate", "model", "corpus", "--out", "x"]),
    ],
)
def test_a_missing_extra_is_one_error_with_the_command(extra: str, words: list[object]) -> None:
    done = synth(*words, "--json")
    assert done.returncode == 4, done.stderr
    assert json.loads(done.stdout)["remedy"] == f"pip install 'hipsynth[{extra}]'"
    assert "Traceback" not in done.stderr


def names_of(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=!~;\[ ]", line, maxsplit=1)[0].lower().replace("-", "_") for line in requirements}


def test_every_package_that_is_imported_belongs_to_the_base_or_an_extra() -> None:
    """Oracle: the imports in the sources themselves."""
    known = names_of(PROJECT["dependencies"]) | set(EXTRA_OF) | {"hipsynth"} | set(sys.stdlib_module_names)
    known |= {"h11", "pytest", "_pytest"}  # with uvicorn; only pytest loads its plugin
    for folder in ("core", "toolchain", "source", "simulator", "profiling", "synth", "training", "tuning", "serving",
                   "library", "cli"):  # fmt: skip
        paths = list((ROOT / folder).rglob("*.py"))
        assert paths, folder
        for path in paths:
            for node in ast.walk(ast.parse(path.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and not node.level:
                    names = [node.module or ""]
                outside = {name.partition(".")[0] for name in names} - known
                if "inside" not in path.parts:  # its modules import each other by bare names, beside the script
                    assert not outside, (path, outside)


def test_the_extras_of_the_table_are_those_of_the_package() -> None:
    extras = PROJECT["optional-dependencies"]
    assert set(EXTRA_OF.values()) <= set(extras)
    for module, extra in EXTRA_OF.items():
        if module in names_of([line for lines in extras.values() for line in lines]):
            assert module in names_of(extras[extra]), (module, extra)
    assert "test" in extras and not names_of(PROJECT["dependencies"]) & names_of(extras["test"])
