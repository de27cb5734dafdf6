"""`synth profile`: the JSON contract, the table, exit codes and messages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import needs
import pytest
from click.testing import CliRunner
from profiling_samples import VCOPY_GFX90A, captures, failure, kernel, program, result, target

from hipsynth.cli import profile as verb
from hipsynth.cli.main import cli
from hipsynth.core.errors import BadInput, HipsynthError, MissingDependency, UsageError
from hipsynth.core.kernel_record import Sampling
from hipsynth.core.program import write_programs
from hipsynth.profiling import metrics
from hipsynth.profiling.backends.recorded import capture_result
from hipsynth.profiling.reports.describe import exit_code

PROGRAM = program(7)
TARGETS = [target("gfx90a"), target("gfx942")]


@pytest.fixture
def hip(tmp_path: Path) -> Path:
    path = tmp_path / "copy.hip"
    path.write_text(PROGRAM.text)
    return path


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    captures(tmp_path / "captures", [PROGRAM], TARGETS)
    two = result(target(flags="-O3 -ffast-math"), kernel(name="first", dispatches=2), kernel(name="second"))
    capture_result(tmp_path / "captures", PROGRAM.id, two)
    return f"recorded:{tmp_path / 'captures'}"


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli, ["profile", *arguments], prog_name="synth", standalone_mode=False)


def test_the_json_contract(hip: Path, recorded: str) -> None:
    flags = "-O3 -ffast-math"
    done = run(str(hip), "--backend", recorded, "--arch", "gfx90a", "--flags", flags, "--json")
    document = json.loads(done.stdout)
    assert done.return_value == 0
    assert list(document) == ["program", "results"]
    assert document["program"] == {"id": PROGRAM.id, "path": str(hip)}
    (found,) = document["results"]
    keys = ["arch", "flags", "status", "reason", "exit_code", "stdout", "kernels", "device", "message", "plot"]
    assert list(found) == keys
    assert [found[key] for key in list(found)[:6]] == ["gfx90a", flags, "ok", "", 0, "done\n"]
    names = [
        "name",
        "dispatches",
        "grid",
        "block",
        "counters",
        "metrics",
        "duration_ns",
        "backend",
        "backend_version",
    ]
    names += ["extra_metrics", "expected_error", "no_evidence", "bottleneck"]
    names += ["sampled", "groups_simulated", "reused", "error_estimate", "metric_error_estimate", "same_shape"]
    assert [list(one) for one in found["kernels"]] == [names, names]
    first = found["kernels"][0]
    assert (first["name"], first["dispatches"]) == ("first", 2)
    assert (first["grid"], first["block"]) == ([4096, 1, 1], [256, 1, 1])
    assert first["counters"] == VCOPY_GFX90A
    assert list(first["metrics"]) == list(metrics.paper_ids())
    assert first["metrics"]["L1_Cache_Hit_Rate"] == 50.0 and first["duration_ns"] == 15840.0
    assert (first["backend"], first["backend_version"]) == ("rocprof", "recorded")
    assert list(first["extra_metrics"]) == list(metrics.extra_ids())
    assert first["expected_error"] is first["bottleneck"] is None, "measured values have no simulation error"


def test_several_targets_in_the_order_asked_for(hip: Path, recorded: str) -> None:
    done = run(str(hip), "--backend", recorded, "--arch", "gfx942", "--arch", "gfx90a", "--flags=-O3", "--json")
    assert [one["arch"] for one in json.loads(done.stdout)["results"]] == ["gfx942", "gfx90a"]
    done = run(str(hip), "--backend", recorded, "--json")
    cells = [(one["arch"], one["flags"]) for one in json.loads(done.stdout)["results"]]
    assert cells == [("gfx90a", "-O3"), ("gfx942", "-O3")]


def test_the_table_shows_counters_metrics_and_the_roof(hip: Path, recorded: str) -> None:
    done = run(str(hip), "--backend", recorded)
    assert done.return_value == 0
    for text in ("gfx90a (mi250)  -O3", "gfx942 (mi300x)", "copy7", "grid 4096x1x1", "TCP_TCC_READ_REQ", "131,072"):
        assert text in done.stdout
    assert "L1_Cache_Hit_Rate" in done.stdout and " 62.5" in done.stdout and "HBM bandwidth roof" in done.stdout


def test_some_failed_targets_are_exit_5_and_all_of_them_exit_3(hip: Path, recorded: str, tmp_path: Path) -> None:
    capture_result(tmp_path / "captures", PROGRAM.id, failure(TARGETS[1], "illegal_access"))
    done = run(str(hip), "--backend", recorded, "--json")
    assert done.return_value == 5
    assert [(one["status"], one["reason"]) for one in json.loads(done.stdout)["results"]] == [
        ("ok", ""),
        ("failed", "illegal_access"),
    ]
    assert "because illegal_access" in done.stderr
    assert [one["message"] for one in json.loads(done.stdout)["results"]] == ["", "because illegal_access"]
    done = run(str(hip), "--backend", recorded, "--arch", "gfx942", "--json")
    assert done.return_value == 3 and json.loads(done.stdout)["results"][0]["kernels"] == []
    done = run(str(hip), "--backend", recorded, "--arch", "gfx942")
    assert "failed: illegal_access" in done.stdout


def test_timeouts_suggest_a_remedy(hip: Path, recorded: str, tmp_path: Path) -> None:
    capture_result(tmp_path / "captures", PROGRAM.id, failure(TARGETS[1], "timeout"))
    error = run(str(hip), "--backend", recorded, "--arch", "gfx942").stderr
    assert "try:   more than --timeout 60, less to do by its arguments, or --budget 60s" in error
    late = failure(TARGETS[1], "timeout")
    remedies = [verb._suggest_remedy(late, {"exact": exact, "timeout": 60.0}) for exact in (True, False)]  # type: ignore[typeddict-item]
    assert "no --exact" in remedies[0] and "no --exact" not in remedies[1]


def test_a_nonzero_exit_code_is_reported(hip: Path, recorded: str, tmp_path: Path) -> None:
    asked = [str(hip), "--backend", recorded, "--arch", "gfx942"]
    assert "note:" not in run(*asked).stderr
    capture_result(tmp_path / "captures", PROGRAM.id, replace(result(TARGETS[1]), exit_code=7))
    done = run(*asked)
    assert (done.return_value, done.stderr) == (0, "note: gfx942 -O3: the program ended with exit code 7\n")
    part = replace(kernel("gfx942"), sampling=Sampling("sampled"))
    capture_result(tmp_path / "captures", PROGRAM.id, replace(result(TARGETS[1], part), exit_code=7))
    assert "--exact runs all" in run(*asked).stderr


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (["nowhere.hip"], BadInput, "nowhere.hip"),
        (["HIP", "--arch", "gfx1100"], UsageError, "gfx1100"),
        (["HIP", "--flags=-O9"], UsageError, "-O9"),
        (["HIP", "--device", "h100"], UsageError, "h100"),
        (["HIP", "--backend", "gpgpu"], UsageError, "gpgpu"),
        (["HIP", "--backend", "recorded:nowhere"], MissingDependency, "recorded"),
        (["HIP", "--out", "corpus"], UsageError, "--out"),
        (["HIP", "--retry-failed"], UsageError, "--retry-failed needs --out"),
        (["HIP", "--repair"], UsageError, "--repair needs --out"),
        (["EMPTY"], BadInput, "--out"),
    ],
)
def test_bad_requests(hip: Path, arguments: list[str], kind: type[HipsynthError], message: str) -> None:
    (hip.parent / "empty").mkdir()
    places = {"HIP": str(hip), "EMPTY": str(hip.parent / "empty")}
    done = run(*[places.get(word, word) for word in arguments])
    assert isinstance(done.exception, kind) and message in done.exception.what
    assert done.exception.remedy, "an error says what to do"


def test_a_folder_goes_into_a_corpus(tmp_path: Path) -> None:
    programs = [program(n) for n in range(3)]
    folder = captures(tmp_path / "captures", programs[:2], TARGETS)
    write_programs(tmp_path / "programs", programs)
    options = ["--out", str(tmp_path / "c"), "--backend", f"recorded:{folder}", "--flags=-O3", "--workers", "1"]
    done = run(str(tmp_path / "programs"), *options, "--json")
    found = json.loads(done.stdout)
    assert done.return_value == 5 and "Traceback" not in done.stderr
    assert (found["programs"], found["measured"], found["failed"]) == (3, 4, {"not_recorded": 2})
    assert {row["program"] for row in found["failures"]} == {programs[2].id}
    done = run(str(tmp_path / "programs"), *options)
    assert done.return_value == 5 and "4 done before" not in done.stdout and "6 done before" in done.stdout
    assert f"2 x not_recorded: {programs[2].name or programs[2].id} on gfx90a -O3" in done.stdout
    done = run(str(tmp_path / "programs"), *options[:2], "--engine", "spark", *options[2:], "--retry-failed")
    assert isinstance(done.exception, UsageError)


def test_an_unreadable_program_is_a_failure_of_its_own(tmp_path: Path, recorded: str) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "good.hip").write_text(PROGRAM.text)
    (programs / "latin1.hip").write_bytes(b"// caf\xe9\n")
    (programs / "folder.hip").mkdir()
    os.mkfifo(programs / "pipe.hip")  # nobody writes into it: whoever reads it waits for ever
    options = ["--out", str(tmp_path / "c"), "--backend", recorded, "--arch", "gfx90a", "--flags=-O3"]
    done = run(str(programs), *options, "--json")
    found = json.loads(done.stdout)
    assert (done.return_value, found["measured"], found["failed"]) == (5, 1, {"unreadable": 1})
    (row,) = found["failures"]
    assert row["name"].endswith("latin1.hip") and "iconv" in row["message"] and row["program"] == ""
    done = run(str(programs), *options)
    assert done.return_value == 5 and "1 x unreadable" in done.stdout and "latin1.hip" in done.stdout
    (programs / "good.hip").unlink()
    assert isinstance(run(str(programs), *options).exception, BadInput)


def test_flags_are_echoed_as_given_and_engines_are_known(hip: Path, recorded: str) -> None:
    done = run(str(hip), "--backend", recorded, "--arch", "gfx90a", "--flags", " -O3 ", "--flags=-O3", "--json")
    assert [one["flags"] for one in json.loads(done.stdout)["results"]] == [" -O3 "]
    assert isinstance(run(str(hip), "--backend", recorded, "--engine", "spark").exception, UsageError)


def test_a_folder_without_failures_is_exit_0(tmp_path: Path, recorded: str) -> None:
    write_programs(tmp_path / "programs", [PROGRAM])
    done = run(str(tmp_path / "programs"), "--out", str(tmp_path / "c"), "--backend", recorded, "--flags=-O3")
    assert done.return_value == 0, done.exception


def test_the_process_exits_with_the_code_and_one_json_document(hip: Path, recorded: str, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    command = [sys.executable, "-m", "hipsynth.cli.main", "profile"]
    missing = subprocess.run([*command, "nowhere.hip", "--json"], env=env, capture_output=True, text=True)
    assert missing.returncode == 3 and json.loads(missing.stdout)["error"] == "bad_input"
    assert "Traceback" not in missing.stderr
    unknown = subprocess.run([*command, str(hip), "--arch", "x", "--json"], env=env, capture_output=True, text=True)
    assert unknown.returncode == 2 and "gfx942" in json.loads(unknown.stdout)["remedy"]
    good = subprocess.run(
        [*command, str(hip), "--backend", recorded, "--json"], env=env, capture_output=True, text=True
    )
    assert good.returncode == 0 and len(json.loads(good.stdout)["results"]) == 2 and good.stderr == ""


def test_the_programs_output_on_request(hip: Path, recorded: str) -> None:
    plain, shown = (run(str(hip), "--backend", recorded, "--arch", "gfx90a", *more) for more in ([], ["--output"]))
    assert "done" not in plain.stdout
    assert shown.stdout == plain.stdout + "\ngfx90a (mi250)  -O3: output of the program\ndone\n"


def test_options_behind_the_dashes_are_the_programs(hip: Path, recorded: str) -> None:
    done = run(str(hip), "--backend", recorded, "--arch", "gfx90a", "--", "--json", "--flags=-O1", "-v", "--size", "8")
    assert not done.stdout.startswith("{")
    words = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert words == ["--flags", "--json"], "only names of synth's own long options"


def test_some_kernels_and_some_metrics(hip: Path, recorded: str) -> None:
    asked = [str(hip), "--backend", recorded, "--arch", "gfx90a", "--flags", "-O3 -ffast-math"]
    document = json.loads(run(*asked, "--kernel", "SEC", "--json").stdout)
    assert [one["name"] for one in document["results"][0]["kernels"]] == ["second"]
    document = json.loads(run(*asked, "--top", "1", "--json").stdout)
    assert [one["name"] for one in document["results"][0]["kernels"]] == ["first"], "it was launched twice"
    text = run(*asked, "--kernel", "first", "--metric", "tcc_*miss").stdout
    assert "TCC_MISS" in text and "131,082" in text and "L1_Cache_Hit_Rate" not in text and "second" not in text
    for option, name in (("--kernel", "secnod"), ("--metric", "L2_Cache_Hitrate")):
        failed = run(*asked, option, name).exception
        assert isinstance(failed, UsageError) and failed.cause.startswith("did you mean ")


def test_csv_has_a_row_for_each_quantity(hip: Path, recorded: str) -> None:
    asked = [str(hip), "--backend", recorded, "--arch", "gfx90a", "--csv"]
    head, *rows = [line.split(",") for line in run(*asked).stdout.splitlines()]
    assert head[:4] == ["arch", "device", "flags", "kernel"] and all(len(row) == len(head) for row in rows)
    values = {row[7]: row[8] for row in rows}
    assert float(values["TCC_MISS"]) == VCOPY_GFX90A["TCC_MISS"] and float(values["duration_ns"]) == 15840
    assert len(run(*asked, "--metric", "TCC_MISS").stdout.splitlines()) == 2
    assert isinstance(run(*asked, "--json").exception, UsageError)


def test_a_defect_on_every_target_is_no_bad_input() -> None:
    defect = failure(target(), "internal_error")
    assert exit_code([defect, defect]) == 1
    assert exit_code([defect, failure(target(), "compile_failed")]) == 3


def test_the_compilers_messages_are_a_member_of_a_failed_result(tmp_path: Path) -> None:
    needs.simulator()
    (tmp_path / "bad.hip").write_text("__global__ void k(int* p) { nonsense; }\nint main() {}\n")
    (found,) = json.loads(run(str(tmp_path / "bad.hip"), "--arch", "gfx90a", "--json").stdout)["results"]
    assert found["reason"] == "compile_failed" and "undeclared identifier 'nonsense'" in found["diagnostics"]
