"""Checks the repository's rules: import directions, sizes of files and functions, no unfinished code."""

from __future__ import annotations

import ast
import functools
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.code_figures import ROOMS, count_tree_figures

ROOT = Path(__file__).resolve().parents[2]

# Package -> the packages that it may import besides itself; the longest prefix of a module's name counts.
ALLOWED: dict[str, tuple[str, ...]] = {
    "core": (),
    "simulator.devices": ("core",),
    "profiling.metrics": ("core", "simulator.devices"),
    "toolchain.sandbox": ("core",),
    "toolchain": ("core", "toolchain.sandbox"),
}
ALLOWED["source"] = (*ALLOWED["toolchain"], "toolchain")
ALLOWED["simulator"] = (*ALLOWED["source"], "source", "simulator.devices")
ALLOWED["profiling.lines"] = (*ALLOWED["simulator"], "simulator")
_BACKENDS = (*ALLOWED["profiling.lines"], "profiling.metrics", "profiling.lines")
_MATRIX = (*_BACKENDS, "profiling.backends", "profiling.preview")
_REPORTS = (*_MATRIX, "profiling.uncertainty")
_TRAINING = ("core", "toolchain", "source", "simulator", "profiling")
ALLOWED |= {
    "synth.generate": ("core", "source"),
    "synth.frontend": (*ALLOWED["source"], "source"),
    "profiling.preview": _BACKENDS,
    "profiling.backends": (*_BACKENDS, "profiling.preview"),
    "profiling.matrix": _MATRIX,
    "profiling.uncertainty": ("core", "simulator.devices", "profiling.metrics"),
    "profiling.reports": _REPORTS,
    "profiling.compare": (*_REPORTS, "profiling.reports"),
    "profiling.survey": (*_REPORTS, "profiling.matrix"),
    "synth.release": (*_MATRIX, "profiling.matrix", "synth.generate"),
    "synth.llm": (*_MATRIX, "profiling.matrix"),
    "training.data": _TRAINING,
    "training.models": (*_TRAINING, "training.data"),
    "training.analytic": (*_TRAINING, "training.data", "training.models"),
    "training.evaluation": (*_TRAINING, "training.data", "training.models", "training.analytic"),
    "tuning.trial": _MATRIX,
    "tuning.swizzle": (*_TRAINING, "training.analytic", "tuning.trial"),
    "tuning.optimize.analysis": ("core", "source"),
    "tuning.optimize": (*_TRAINING, "training.analytic", "tuning.trial", "tuning.swizzle"),
    "tuning.tools": (
        *_TRAINING,
        "training.analytic",
        "tuning.trial",
        "tuning.optimize",
        "tuning.swizzle",
    ),
    "tuning.agent": (
        *_TRAINING,
        "training.analytic",
        "tuning.trial",
        "tuning.optimize",
        "tuning.tools",
        "synth.llm",
    ),
    "tuning.reason": (
        *_TRAINING,
        "training.data",
        "training.models",
        "tuning.trial",
        "tuning.optimize",
        "tuning.tools",
        "tuning.agent",
        "synth.llm",
    ),
    "tuning.prediction": (
        *_TRAINING,
        "profiling.matrix",
        "training.data",
        "training.models",
        "training.analytic",
        "training.evaluation",
        "tuning.agent",
        "synth.llm",
    ),
    "serving": (*_TRAINING, "training", "tuning.trial", "tuning.optimize", "tuning.swizzle"),
    "serving.mcp": ("core", "profiling.backends.protocol", "serving", "tuning.tools"),
    "library": tuple(room for room in ROOMS[:-2] if room != "serving"),
    "cli": ROOMS[:-1],
}
OUTSIDE = ("studies", "benchmarks", "tools", "tests")  # of the wheel: they may import everything of it
MAX_FUNCTION_LINES = 70
MOST_LONG_FUNCTIONS = 24  # of over 40 lines; lower it with the figure
MOST_WIDE_FUNCTIONS = 50  # of over six parameters; likewise
MAX_FILE_LINES = 500


def modules() -> Iterator[tuple[str, Path]]:
    for root in ROOMS:
        for path in sorted((ROOT / root).rglob("*.py")):
            dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            yield dotted, path


def inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def package_of(module: str) -> str | None:
    return max((package for package in ALLOWED if inside(module, package)), key=len, default=None)


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


@functools.cache
def read_structure(text: str) -> tuple[list[tuple[int, str]], list[tuple[int, str, int]]]:
    """The imports of a module, and line, name and number of lines of its functions: parsed once for all tests."""
    tree = ast.parse(text)
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    sizes = [(n.lineno, n.name, (n.end_lineno or n.lineno) - n.lineno + 1) for n in functions]
    return list(imports(tree)), sizes


def wrong_imports(module: str, text: str) -> Iterator[str]:
    """Imports of a module that violate ALLOWED, bypass the import root, or are not in the wheel."""
    own = package_of(module)
    for line, target in read_structure(text)[0]:
        if target.split(".")[0] in ROOMS:
            yield f"{module}:{line} imports {target}, which is hipsynth.{target}"
        if target.split(".")[0] in OUTSIDE:
            yield f"{module}:{line} imports {target}, which is not in the wheel"
        if own is None or not target.startswith("hipsynth."):
            continue
        target = target.removeprefix("hipsynth.")
        if not any(inside(target, package) for package in (own, *ALLOWED[own])):
            yield f"{module}:{line} imports {target}: {own} may not"


def test_imports_go_one_way() -> None:
    wrong = [problem for name, path in modules() for problem in wrong_imports(name, path.read_text())]
    assert not wrong, "\n".join(wrong)


def room_of(package: str) -> int:
    return ROOMS.index(package.split(".")[0])


def test_no_room_imports_one_above_it() -> None:
    pairs = [(package, other) for package, allowed in ALLOWED.items() for other in allowed]
    assert not [pair for pair in pairs if room_of(pair[1]) > room_of(pair[0])]


def test_an_import_against_the_direction_is_found() -> None:
    assert list(wrong_imports("simulator.api", "from hipsynth.training.data import prompt"))
    assert list(wrong_imports("core.files", "import simulator"))
    assert list(wrong_imports("cli.train", "from studies.validation import bench"))
    assert not list(wrong_imports("simulator.api", "from hipsynth.core.errors import MissingDependency"))


def test_every_module_lies_in_a_package() -> None:
    """Nothing loose at the top of a room that has packages."""
    loose = [name for name, path in modules() if package_of(name) is None and path.read_text().strip()]
    assert not loose, loose


def test_the_directions_make_no_cycle() -> None:
    seen: list[str] = []
    for package, allowed in ALLOWED.items():
        later = [other for other in ALLOWED if other not in seen and other != package]
        assert not [name for name in allowed if name in later], package
        seen.append(package)


def test_functions_stay_readable() -> None:
    long = []
    for _, path in modules():
        for line, name, lines in read_structure(path.read_text())[1]:
            if lines > MAX_FUNCTION_LINES:
                long.append(f"{path.relative_to(ROOT)}:{line} {name}: {lines} lines")
    assert not long, "\n".join(long)


def test_few_functions_are_long() -> None:
    long = count_tree_figures()["functions over 40 lines"]
    assert long <= MOST_LONG_FUNCTIONS, f"{long} functions have over 40 lines (python -m tools.code_figures)"


def test_few_functions_have_many_parameters() -> None:
    wide = count_tree_figures()["functions with over six parameters"]
    assert wide <= MOST_WIDE_FUNCTIONS, f"{wide} functions have over six parameters: group those that travel together"


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


def test_all_of_the_simulator_counts_for_its_identity() -> None:
    """The sources whose hash labels record; the bindings and the fuzzer simulate nothing."""
    native = ROOT / "simulator" / "native"
    rules = (native / "runtime" / "CMakeLists.txt").read_text()
    (named,) = re.findall(r"^foreach\(folder (.*)\)$", rules, re.MULTILINE)
    folders = {path.parent.name for path in native.glob("*/*.cpp")}
    assert set(named.split()) == folders - {"bindings", "fuzz"}


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


def timed_assertions(text: str) -> list[int]:
    """Lines of assertions about elapsed time, which a busy machine fails."""
    clocks = re.compile(r"\b(monotonic|perf_counter|wall_s)\b")
    nodes = ast.walk(ast.parse(text)) if clocks.search(text) else ()
    return [node.lineno for node in nodes if isinstance(node, ast.Assert) and clocks.search(ast.unparse(node))]


def test_no_test_asserts_elapsed_time() -> None:
    tests = sorted((ROOT / "tests").rglob("*.py"))
    found = [f"{path.relative_to(ROOT)}:{n}" for path in tests for n in timed_assertions(path.read_text())]
    assert not found, "\n".join(found)
    wrong = timed_assertions("assert time.monotonic() - start < 5")
    assert wrong == [1]


def test_every_test_module_has_a_name_of_its_own() -> None:
    """Their folders are no packages: pytest cannot collect two of one name."""
    modules = sorted((ROOT / "tests").rglob("test_*.py"), key=lambda path: path.name)
    same = [str(one.relative_to(ROOT)) for one, other in itertools.pairwise(modules) if one.name == other.name]
    assert modules and not same


def test_every_verb_has_help_with_an_example() -> None:
    from click.testing import CliRunner

    from hipsynth.cli.main import VERBS, cli

    for verb in VERBS:
        result = CliRunner().invoke(cli, [verb, "--help"], prog_name="synth")
        assert result.exit_code == 0, f"{verb}: {result.output}"
        assert f"synth {verb}" in result.output.replace("Usage:", "", 1), f"{verb}: help without an example"


def test_help_imports_no_heavy_library() -> None:
    code = (
        "import sys; from hipsynth.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'torch', 'pyarrow', 'jinja2', 'clang', 'transformers'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
