"""Finds the Python scripts of a folder that launch Triton kernels: those of their own, or of modules beside them.

Scripts are parsed, never imported: a file is a program if it does something when it is run, and tests for pytest are
programs, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.languages import SUFFIXES, TRITON, language_of
from hipsynth.core.reasons import Reason
from hipsynth.profiling.survey.build import BuildResult
from hipsynth.profiling.survey.build_plan import BuildPlan, SurveyedProgram
from hipsynth.profiling.survey.sources import read_text, scan_files

SCRIPT, TESTS = "python", "pytest"  # origins of plans
TEST_RUNNER = "hipsynth_run_tests.py"
_NO_LAUNCH = "it has Triton kernels, and no script of the surveyed folder launches them"
_DOES_SOMETHING = (ast.For, ast.While, ast.With, ast.Assert)
_TEST_FILE = re.compile(r"test_.*|.*_test")


@dataclass(frozen=True)
class ScriptFacts:
    """What a Python file says of itself: whether it has kernels, does something when it is run, has tests for pytest,
    reads arguments, and the names of the modules that it imports."""

    has_kernels: bool
    runs: bool
    has_tests: bool
    reads_arguments: bool
    imports: frozenset[str]


def read_script(name: str, text: str) -> ScriptFacts | None:
    """The facts of a file called `name`; None if it is no Python."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    functions = [node.name for node in body if isinstance(node, ast.FunctionDef)]
    is_test = _TEST_FILE.fullmatch(Path(name).stem) is not None or "import pytest" in text
    return ScriptFacts(
        language_of(text) == TRITON,
        any(map(_does_something, body)),
        is_test and any(function.startswith("test_") for function in functions),
        any(map(_reads_arguments, body)),
        frozenset(_imported_names(body)),
    )


def _reads_arguments(node: ast.stmt) -> bool:
    """Whether a statement names sys.argv or argparse."""
    attributes = (part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute))
    return "argv" in attributes or "argparse" in _imported_names([node])


def _does_something(node: ast.stmt) -> bool:
    if isinstance(node, ast.If):
        return "__name__" in ast.dump(node.test) or any(map(_does_something, node.body))
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    return is_call or isinstance(node, _DOES_SOMETHING)


def _imported_names(body: Sequence[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name.rpartition(".")[2] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").rpartition(".")[2]
            yield from (alias.name for alias in node.names)


def find_scripts(root: Path) -> list[SurveyedProgram]:
    """The scripts below `root` that launch Triton kernels, ordered by path; then the files with kernels that none of
    them is or imports (refusal NO_MAIN)."""
    root = root.resolve()
    facts = {path: read_script(path.name, read_text(path, root)) for path in scan_files(root, SUFFIXES[TRITON])}
    scripts = {path: script for path, script in facts.items() if script is not None}
    kernels = {path.stem for path, script in scripts.items() if script.has_kernels}
    programs, used = list[SurveyedProgram](), set[str]()
    for path, script in scripts.items():
        launches = script.has_kernels or not kernels.isdisjoint(script.imports)
        if launches and (script.runs or script.has_tests):
            used |= {path.stem, *script.imports}
            plan = BuildPlan(path.name, (), path.parent, SCRIPT if script.runs else TESTS)
            name = path.relative_to(root).as_posix()
            programs.append(SurveyedProgram(name, path, (plan,), reads_arguments=script.reads_arguments))
    return [*programs, *_unused_kernels(root, [p for p, s in scripts.items() if s.has_kernels and p.stem not in used])]


def _unused_kernels(root: Path, paths: Sequence[Path]) -> Iterator[SurveyedProgram]:
    for path in paths:
        yield SurveyedProgram(path.relative_to(root).as_posix(), path, refusal=(Reason.NO_MAIN, _NO_LAUNCH))


def is_script_plan(plan: BuildPlan) -> bool:
    """Whether a plan is of a Python script."""
    return plan.origin in (SCRIPT, TESTS)


def prepare_plan(program: SurveyedProgram) -> BuildResult:
    """A script that can be run. Raises MissingDependency without Triton or PyTorch."""
    from hipsynth.simulator.scripts.prepare import prepare_script

    return BuildResult(program.plans[0], prepare_script(program.main))


def write_test_runner(plan: BuildPlan, folder: Path) -> Path:
    """A script in `folder` that runs the tests of a plan's file with pytest."""
    runner = folder / TEST_RUNNER
    arguments = ["-q", "-p", "no:cacheprovider", plan.name]
    runner.write_text(f"import pytest\n\nraise SystemExit(pytest.main({arguments!r}))\n")
    return runner
