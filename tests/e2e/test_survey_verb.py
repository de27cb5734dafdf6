"""`synth survey` as its user sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import needs
import pytest
from child_processes import child_process, is_running, wait_until

from hipsynth.cli import survey as survey_verb
from hipsynth.cli.main import main
from hipsynth.core.errors import MissingDependency
from hipsynth.core.journal import read_records
from hipsynth.core.store import Corpus
from hipsynth.toolchain import sandbox

MAIN = '#include <hip/hip_runtime.h>\n#include <cstdio>\nint main() { hipDeviceSynchronize(); std::puts("PASSED"); }\n'


def synth(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hipsynth.cli.main", *arguments], capture_output=True, text=True, check=False
    )


def test_a_folder_becomes_a_table_and_a_document(tmp_path: Path) -> None:
    needs.compiler()
    (tmp_path / "good.hip").write_text(MAIN)
    (tmp_path / "bad.hip").write_text(MAIN.replace("PASSED", '") foo'))
    done = synth("survey", str(tmp_path), "--out", str(tmp_path / "report.json"), "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert "passed  good.hip  PASSED" in done.stdout and "compile_failed" in done.stdout
    assert "2 programs, 1 compiled, 1 that should run" in done.stdout and "100.0 %" in done.stdout
    document = json.loads(synth("survey", str(tmp_path), "--out", str(tmp_path / "report.json"), "--json").stdout)
    assert document["totals"]["passed"] == 1 and document["reasons"] == {"compile_failed": 1}
    assert [row["program"] for row in document["programs"]] == ["bad.hip", "good.hip"]
    page, reports = tmp_path / "page.md", tmp_path / "reports"
    reports.mkdir()
    done = synth("survey", str(tmp_path), "--out", str(reports), "--page", str(page))
    assert len(list(reports.glob("*-gfx942.json"))) == 1
    assert done.returncode == 0 and "| gfx942 | 2 | 0 | 0 | 1 | 1 | 0 | 1 | 1 (100.0 %) | 1 |" in page.read_text()


def test_a_folder_without_programs_does_not_end_the_survey_of_others(tmp_path: Path) -> None:
    needs.compiler()
    for name in ("empty", "first", "second"):
        (tmp_path / name).mkdir()
    (tmp_path / "first/good.hip").write_text(MAIN)
    (tmp_path / "second/good.hip").write_text(MAIN)
    folders = [str(tmp_path / name) for name in ("first", "empty", "second")]
    done = synth("survey", *folders)
    assert done.returncode == 0 and "empty: no HIP program" in done.stderr
    assert "2 surveys: 2 programs, 2 compiled, 2 that should run, 2 ran to completion, 2 passed" in done.stdout
    done = synth("survey", str(tmp_path / "empty"), str(tmp_path / "empty"))
    assert done.returncode == 3 and "no HIP program" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_survey_ends_its_programs_and_keeps_what_is_finished(
    number: signal.Signals, tmp_path: Path
) -> None:
    needs.compiler()
    folder, out = tmp_path / "folder", tmp_path / "report.json"
    folder.mkdir()
    (folder / "a_good.hip").write_text(MAIN)
    (folder / "b_endless.hip").write_text(MAIN.replace("std::puts", "for (volatile int i = 0;; i = 1) {} std::puts"))
    arguments = ("survey", str(folder), "--workers", "1", "--out", str(out), "--timeout", "500")
    command = [sys.executable, "-m", "hipsynth.cli.main", *arguments]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with child_process(command, stderr=subprocess.PIPE, env=environment) as run:
        begun = wait_until(lambda: is_running(tmp_path, "b_endless"), 60)
        os.kill(run.pid, number)
        stderr = run.communicate(timeout=30)[1]
    assert begun
    assert number == signal.SIGKILL or (run.returncode == 128 + number and "run the same command again" in stderr)
    assert wait_until(lambda: not is_running(tmp_path, "b_endless"), 20)
    rows = [record["program"] for _, _, record in read_records(out.with_name("report.json.journal"))]
    assert rows == ["a_good.hip"]


def test_programs_from_outside_are_not_run_without_isolation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "good.hip").write_text(MAIN)
    monkeypatch.setattr(sandbox.bubblewrap, "is_available", lambda: False)
    context = survey_verb.command.make_context("survey", [str(tmp_path)])
    with pytest.raises(MissingDependency, match="cannot be isolated"):
        survey_verb.command.invoke(context)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("{empty}",), 3, "no HIP program"),
        (("{full}", "--match", "^good"), 3, "no program path contains '^good'"),
        (("{empty}", "--arch", "gfx1"), 2, "unknown architecture"),
        (("{full}", "--out", "{full}/good.hip"), 3, "not a survey report"),
        (("{full}", "--out", "{full}/other.json"), 3, "not a survey report"),
        (("{full}", "--out", "{full}/perfect.json"), 3, "'perfect' is not a valid SurveyStatus"),
    ],
)
def test_bad_requests_have_a_reason(
    tmp_path: Path, arguments: tuple[str, ...], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, full = tmp_path / "empty", tmp_path / "full"
    empty.mkdir()
    full.mkdir()
    (full / "good.hip").write_text(MAIN)
    (full / "other.json").write_text('{"programs": [{"of": "another version"}], "conditions": {"timeout_s": 1}}')
    perfect = {"program": "good.hip", "status": "perfect"}
    (full / "perfect.json").write_text(json.dumps({"programs": [perfect], "conditions": {"timeout_s": 1}}))
    with pytest.raises(SystemExit) as ended:
        main(["survey", *(word.format(empty=empty, full=full) for word in arguments)])
    printed = capsys.readouterr().err
    assert ended.value.code == code and message in printed and "Traceback" not in printed


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    done = synth("survey", str(tmp_path / "none"))
    assert done.returncode == 3 and "no such folder" in done.stderr and "Traceback" not in done.stderr


KERNEL = """// SPDX-License-Identifier: BSD-3-Clause
#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
__global__ void twice(float* values, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] *= 2;
}
int main(int argc, char** argv) {
  int n = argc > 1 ? std::atoi(argv[1]) : 256;
  float* values = nullptr;
  if (hipMalloc(&values, n * sizeof(float)) != hipSuccess) return 1;
  for (int k = 0; k < 2; ++k) twice<<<(n + 63) / 64, 64>>>(values, n);
  hipDeviceSynchronize();
  std::puts("PASSED");
}
"""


def test_a_survey_labels_what_ran(tmp_path: Path) -> None:
    """Sources are stored only when asked; the label says licence, folder and how far it can be trusted."""
    needs.compiler()
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "twice.hip").write_text(KERNEL)
    (folder / "bad.hip").write_text(MAIN.replace("PASSED", '") foo'))
    for out, more in (("plain", ()), ("kept", ("--keep-sources",))):
        done = synth("survey", str(folder), "--corpus", str(tmp_path / out), *more)
        assert done.returncode == 0, done.stderr
    plain, kept = (Corpus.open(tmp_path / name) for name in ("plain", "kept"))
    rows = kept.measurements().to_pylist()
    (row,) = [row for row in rows if not row["arguments"]]
    assert row["origin"] == "surveyed" and row["family"] == "benchmarks" and row["flags"] == "-O3"
    assert row["kernel"] == "twice" and row["dispatches"] == 2 and row["L2_Cache_Bandwidth"] > 0
    facts = dict(row["provenance"])
    assert facts["licence"] == "BSD-3-Clause" and facts["path"] == "twice.hip" and facts["host_code"] == "foreign"
    assert plain.measurements().to_pylist() == rows
    assert kept.programs()["text"].to_pylist() == [KERNEL] and plain.programs()["text"].to_pylist() == [""]
    sizes = {int(row["arguments"] or 256): row["grid"][0] for row in rows}
    assert len(sizes) == len(rows) > 5 and all(grid == (n + 63) // 64 for n, grid in sizes.items())
    assert (
        synth("export", str(tmp_path / "kept"), "--format", "chat-jsonl", "--out", str(tmp_path / "s")).returncode == 0
    )
    assert "float* values" in (tmp_path / "s").read_text()
    again = synth("survey", str(folder), "--corpus", str(tmp_path / "kept"), "--keep-sources")
    assert again.returncode == 0 and Corpus.open(tmp_path / "kept").measurements().to_pylist() == rows
    wrong = synth("survey", str(folder), "--keep-sources")
    assert wrong.returncode == 2 and "--keep-sources needs --corpus" in wrong.stderr
    wrong = synth("survey", str(folder), "--corpus", str(tmp_path / "none"), "--no-caches")
    assert wrong.returncode == 2 and not (tmp_path / "none").exists()
