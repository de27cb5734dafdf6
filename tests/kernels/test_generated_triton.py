"""Generated Triton programs print what the generator's oracle, which executes the typed program in numpy, says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import needs
import pytest

from hipsynth.core.oracle_check import describe_mismatch
from hipsynth.core.program import Expected, Program, ProgramRun
from hipsynth.synth.generate.problem_sizes import expected_output
from hipsynth.synth.generate.producer import generate_programs

FAMILIES = (
    "divergent",
    "gather",
    "gemm",
    "intrinsics",
    "persistent",
    "reduction",
    "row_norm",
    "stencil2d",
    "gemm_fused",
    "compose",
)
RUNNER = """
import contextlib, io, json, runpy, sys
import hipsynth.triton as vgpu
vgpu.activate(sys.argv[1])
printed = []
for words in json.loads(sys.argv[2]):
    sys.argv = words
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        runpy.run_path(words[0], run_name="__main__")
    printed.append(output.getvalue())
print(json.dumps(printed))
"""

needs.installed("triton")


def affordable_runs() -> list[tuple[Program, ProgramRun, Expected]]:
    """A run of a program of each family that the oracle can repeat in numpy."""
    chosen = []
    for family in FAMILIES:
        for program in generate_programs(12, seed=3, family=family, runs=2, languages=("triton",)):
            outputs = [(program, run, expected_output(program, run)) for run in program.runs]
            if found := next(((p, run, lines) for p, run, lines in outputs if lines is not None), None):
                chosen.append(found)
                break
    return chosen


@pytest.mark.parametrize("device", ["mi300x", "mi250"])
def test_scripts_print_what_the_oracle_computes(device: str, tmp_path: Path) -> None:
    runs = affordable_runs()
    assert len(runs) == len(FAMILIES)
    commands = []
    for program, run, _ in runs:
        path = tmp_path / f"{program.id}.py"
        path.write_text(program.text)
        commands.append([str(path), *run.arguments])
    words = [sys.executable, "-c", RUNNER, device, json.dumps(commands)]
    process = subprocess.run(words, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    for (program, _, expected), printed in zip(runs, json.loads(process.stdout), strict=True):
        assert expected.lines and not describe_mismatch(expected, 0, printed), program.text
