"""Which Python files of a surveyed folder are programs with Triton kernels."""

from __future__ import annotations

from pathlib import Path

import pytest
from triton_samples import DOUBLE

from hipsynth.core.reasons import Reason
from hipsynth.profiling.survey.scripts import find_scripts, read_script

LAUNCH = "double[(1,)](torch.ones(64, device='cuda'), BLOCK=64)\n"
TEST = f"def test_double():\n    {LAUNCH}"


def test_scripts_are_found_by_what_they_do(tmp_path: Path) -> None:
    files = {
        "kernels.py": DOUBLE,
        "launches.py": "import torch\nfrom kernels import double\nif __name__ == '__main__':\n    " + LAUNCH,
        "own.py": DOUBLE + LAUNCH,
        "test_own.py": DOUBLE + TEST,
        "unused.py": DOUBLE,
        "plain.py": "import torch\nprint(torch.ones(3))\n",
        "broken.py": DOUBLE + "def (:\n",
        "kernel.hip": "__global__ void k() {}\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    programs = {program.id: program for program in find_scripts(tmp_path)}
    assert {name: program.plans[0].origin for name, program in programs.items() if program.plans} == {
        "launches.py": "python",
        "own.py": "python",
        "test_own.py": "pytest",
    }
    assert [name for name, program in programs.items() if program.refusal[0] == Reason.NO_MAIN] == ["unused.py"]


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        (DOUBLE, False),
        (DOUBLE + "DEVICE = torch.device('cuda')\n", False),
        (DOUBLE + "if torch.cuda.is_available():\n    DEVICE = 'cuda'\n", False),
        (DOUBLE + "def main():\n    pass\n\nmain()\n", True),
        (DOUBLE + "for block in (64, 128):\n    print(block)\n", True),
        (DOUBLE + "with torch.no_grad():\n    pass\n", True),
    ],
)
def test_a_file_runs_if_it_does_more_than_define(text: str, runs: bool) -> None:
    script = read_script("script.py", text)
    assert script is not None and script.has_kernels and script.runs == runs


def test_arguments_and_damaged_files() -> None:
    script = read_script("a.py", "import sys\nprint(sys.argv)\n")
    assert script is not None and script.reads_arguments and not script.has_kernels
    assert read_script("a.py", "\0") is None and read_script("a.py", "(" * 5000) is None
