"""`synth survey` as its user sees it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from profiling import toolchain
from synth.errors import Missing

MAIN = '#include <hip/hip_runtime.h>\n#include <cstdio>\nint main() { hipDeviceSynchronize(); std::puts("PASSED"); }\n'


def synth(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "synth.cli.main", *words], capture_output=True, text=True, check=False)


def test_a_folder_becomes_a_table_and_a_document(tmp_path: Path) -> None:
    try:
        toolchain.find()
    except Missing as error:
        pytest.skip(error.what)
    (tmp_path / "good.hip").write_text(MAIN)
    (tmp_path / "bad.hip").write_text(MAIN.replace("PASSED", '") foo'))
    done = synth("survey", str(tmp_path), "--out", str(tmp_path / "report.json"), "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert "passed  good.hip  PASSED" in done.stdout and "compile_failed" in done.stdout
    assert "2 programs, 1 compiled, 1 that should run" in done.stdout and "100.0 %" in done.stdout
    document = json.loads(synth("survey", str(tmp_path), "--out", str(tmp_path / "report.json"), "--json").stdout)
    assert document["totals"]["passed"] == 1 and document["reasons"] == {"compile_failed": 1}
    assert [row["program"] for row in document["programs"]] == ["bad.hip", "good.hip"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("{empty}",), 3, "no HIP program"),
        (("{empty}/none",), 3, "no such folder"),
        (("{empty}", "--arch", "gfx1"), 2, "unknown architecture"),
        (("{full}", "--out", "{full}/good.hip"), 3, "is no survey report"),
    ],
)
def test_bad_requests_have_a_reason(tmp_path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    empty, full = tmp_path / "empty", tmp_path / "full"
    empty.mkdir()
    full.mkdir()
    (full / "good.hip").write_text(MAIN)
    done = synth("survey", *(word.format(empty=empty, full=full) for word in words))
    assert done.returncode == code and said in done.stderr and "Traceback" not in done.stderr
