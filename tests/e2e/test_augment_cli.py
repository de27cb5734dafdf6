"""`synth augment` as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import needs
import pytest

from hipsynth.cli.augment import command
from hipsynth.cli.base_programs import find_bases
from hipsynth.core.errors import MissingDependency
from hipsynth.source.config import frontend_config

ROOT = Path(__file__).resolve().parents[2]
KERNEL = "#include <hip/hip_runtime.h>\n__global__ void kern_(int* p_) { p_[0] = 1; }\nint main() { return 0; }\n"


@pytest.fixture(scope="module", autouse=True)
def _toolchain() -> None:
    try:
        frontend_config()
    except MissingDependency as error:
        needs.missing(str(error))


def _synth(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "hipsynth.cli.main", "augment", *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, cwd=cwd, env=env)


def test_one_file(tmp_path: Path) -> None:
    (tmp_path / "k.hip").write_text(KERNEL)
    done = _synth(tmp_path / "k.hip", "--copies", 2, "--out", tmp_path / "out", "--workers", 1, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["programs"] == 2
    assert len(list((tmp_path / "out").glob("*.hip"))) == 2
    other = _synth(tmp_path / "k.hip", "--copies", 2, "-D", "N=2", "--out", tmp_path / "out", "--workers", 1)
    assert other.returncode == 3 and "copies of another run" in other.stderr and "macros" in other.stderr


def test_a_path_through_another_folder(tmp_path: Path) -> None:
    for name in ("programs", "here"):
        (tmp_path / name).mkdir()
    (tmp_path / "programs" / "k.hip").write_text(KERNEL)
    for number, path in enumerate(("../programs/k.hip", "../programs")):
        done = _synth(path, "--copies", 1, "--out", f"out{number}", "--workers", 1, cwd=tmp_path / "here")
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(list((tmp_path / "here" / f"out{number}").glob("*.hip"))) == 1


def test_some_failed_is_exit_code_5(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "good.hip").write_text(KERNEL)
    (tmp_path / "in" / "bad.hip").write_text("int main() { return }\n")
    done = _synth(tmp_path / "in", "--workers", 1, "--json")
    assert done.returncode == 5
    summary = json.loads(done.stdout)
    assert summary["reasons"] == {"syntax_error": 1}
    assert summary["examples"]["syntax_error"].startswith("bad.hip: ")
    assert (tmp_path / "in-augmented" / "programs.jsonl").exists()


def test_the_current_folder(tmp_path: Path) -> None:
    here = tmp_path / "v1.2"
    here.mkdir()
    (here / "k.hip").write_text(KERNEL)
    done = _synth(".", "--workers", 1, cwd=here)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "v1.2-augmented" / "programs.jsonl").exists(), "beside the folder, under its whole name"


def test_a_missing_path_is_exit_code_3(tmp_path: Path) -> None:
    done = _synth(tmp_path / "absent", "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["error"] == "missing_file"
    assert "Traceback" not in done.stderr


def test_a_makefile_says_how_a_program_is_built(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "common").mkdir(parents=True)
    (project / "common" / "helper.h").write_text("__device__ inline int twice_(int v_) { return FACTOR * v_; }\n")
    (project / "main.hip").write_text(
        "#include <hip/hip_runtime.h>\n#include <helper.h>\n#ifndef SIZE\n#error no size\n#endif\n"
        "__global__ void kern_(int* p_) { p_[threadIdx.x] = twice_(SIZE); }\nint main() { return 0; }\n"
    )
    (project / "Makefile").write_text("prog: main.hip\n\thipcc -DSIZE=7 -Icommon main.hip -o prog\n")
    done = _synth(project, "-D", "FACTOR=3", "--workers", 1, "--json", "--out", tmp_path / "out")
    assert done.returncode == 0, (done.stdout, done.stderr)
    texts = [path.read_text() for path in sorted((tmp_path / "out").glob("*.hip"))]
    assert len(texts) == 2 and all("#include <helper.h>" not in text for text in texts)
    assert any("#define SIZE 7" in text and "#define FACTOR 3" in text for text in texts), "the base"
    assert json.loads(done.stdout)["names"] >= 4
    (tmp_path / "out").rename(project / "earlier")
    with click.Context(command):
        bases, _ = find_bases(project, None, (), ())
    assert [item.name for item in bases] == ["main.hip"]


def test_kinds_of_change_are_proven_and_recorded(tmp_path: Path) -> None:
    text = KERNEL.replace("int main() {", "// starts it\nint main() {\n  kern_<<<16, 64>>>(nullptr);\n ")
    (tmp_path / "k.hip").write_text(text)
    options = ("--out", tmp_path / "out", "--workers", 1, "--json")
    done = _synth(tmp_path / "k.hip", "--kinds", "launch,constants,rename,comments", *options)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["kinds"] == {"comments": 1, "constants": 1, "launch": 1, "rename": 1}
    (record,) = map(json.loads, (tmp_path / "out" / "programs.jsonl").read_text().splitlines())
    assert [step.partition(":")[0] for step in record["derivation"]] == ["comments", "launch", "constants", "rename"]
    assert "hipLaunchKernelGGL(" in (tmp_path / "out" / f"{record['id']}.hip").read_text()
    again = _synth(tmp_path / "k.hip", "--kinds", "launch,constants,rename,comments", *options)
    assert json.loads(again.stdout) == {**summary, "reused": 1}
    assert _synth(tmp_path / "k.hip", "--kinds", "colour", *options).returncode == 2
