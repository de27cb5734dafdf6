"""How the output of a run is classified."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hipsynth.core.errors import CompileFailed
from hipsynth.profiling.survey.build import _classify_failure
from hipsynth.profiling.survey.build_plan import Invocation
from hipsynth.profiling.survey.documents import SurveyRow, SurveyTotals
from hipsynth.profiling.survey.execute import explain_by_absent_file
from hipsynth.profiling.survey.report import OUTSIDE, SurveyReport, report_table, row_of
from hipsynth.profiling.survey.self_check import RunVerdict, judge_run
from hipsynth.simulator.budget_outcome import Spending
from hipsynth.simulator.run_result import Notice, NoticeKind, RunResult

LACKED = Notice(NoticeKind.UNSUPPORTED_CALL, "hipFancy")


def run(stdout: str, code: int = 0, *notices: Notice, dispatches: int = 3, stderr: str = "") -> RunResult:
    return RunResult("ok", exit_code=code, stdout=stdout, stderr=stderr, dispatch_count=dispatches, notices=notices)


@pytest.mark.parametrize(
    ("stdout", "code", "status", "reason"),
    [
        ("Validation passed.\n", 0, "passed", ""),
        ("PASSED!", 0, "passed", ""),
        ("max error 1e-7\nTest SUCCESSFUL", 0, "passed", ""),
        ("Errors: 0\n", 0, "passed", ""),
        ("No errors found", 0, "passed", ""),
        ("0 test(s) failed\nPASS", 0, "passed", ""),
        ("Non-Matching outputs beyond 0.05 percent: 0", 0, "passed", ""),
        ("Non-Matching outputs beyond 0.05 percent: 12", 0, "failed", "self_check_failed"),
        ("wrong over 50 runs x 10000 blocks = 0\nPASS", 0, "passed", ""),
        ("Failed allocations: 0\nPASSED", 0, "passed", ""),
        ("failed allocations: 10\nPASSED", 0, "failed", "self_check_failed"),
        ("Mismatch at index 3: 0 != 7\nPASS", 0, "failed", "self_check_failed"),
        ("wrong value at 5 = 0, expected 3", 0, "failed", "self_check_failed"),
        ("10 tests failed", 0, "failed", "self_check_failed"),
        ("largest error: 0.5 at 3, mismatch", 0, "failed", "self_check_failed"),
        ("result is CORRECT", 0, "passed", ""),
        ("Results: 0 passed, 0 failed, 4 skipped", 0, "ran", ""),
        ("Results: 0 tests passed, 3 failed", 0, "failed", "self_check_failed"),
        ("10 tests passed", 0, "passed", ""),
        ("sum 42", 0, "ran", ""),
        ("bandwidth 1234 GB/s", 0, "ran", ""),
        ("FAILED: 3 errors", 1, "failed", "self_check_failed"),
        ("Validation failed. Errors: 7", 0, "failed", "self_check_failed"),
        ("passed 3 tests, incorrect result in test 4", 0, "failed", "self_check_failed"),
        ("Verification mismatch at 5", 0, "failed", "self_check_failed"),
        ("usage: prog N", 1, "failed", "needs_arguments"),
        ("Error: missing arguments", 2, "failed", "needs_arguments"),
        ('history-based is not there. Use the other with "-m event" argument.', 1, "failed", "needs_arguments"),
        ("could not open file input.txt", 1, "failed", "needs_data"),
        ("this instruction is only available on gfx908 or later", 255, "failed", "needs_devices"),
        ("Found one HIP device, this program requires two", 1, "failed", "needs_devices"),
        ("", 3, "failed", "exit_code"),
    ],
)
def test_verdicts_from_output_and_exit_code(stdout: str, code: int, status: str, reason: str) -> None:
    verdict = judge_run(run(stdout, code))
    assert (verdict.status, verdict.reason) == (status, reason)


def test_a_crash_over_a_missing_file_has_its_own_reason() -> None:
    died = RunResult("failed", "host_crash", "the program died of SIGSEGV", stdout="Error: The file was not opened\n")
    assert judge_run(died).reason == "needs_data"
    assert judge_run(replace(died, dispatch_count=1)).reason == "host_crash"


def test_running_out_of_host_memory_has_its_own_reason() -> None:
    stderr = "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
    died = RunResult("failed", "host_crash", "the program died of SIGABRT", stderr=stderr, dispatch_count=1)
    assert judge_run(died).reason == "needs_memory"


def test_exit_before_any_device_work_needs_arguments_if_main_reads_them() -> None:
    assert judge_run(run("You did something wrong!", 1, dispatches=0), unasked=True).reason == "needs_arguments"
    assert judge_run(run("You did something wrong!", 1, dispatches=0)).reason == "exit_code"
    assert judge_run(run("You did something wrong!", 1, dispatches=1), unasked=True).reason != "needs_arguments"


def test_a_crash_over_missing_arguments_needs_arguments() -> None:
    early = RunResult("failed", "host_crash", "the program died of SIGSEGV")
    assert judge_run(early, unasked=True).reason == "needs_arguments"
    assert judge_run(early).reason == "host_crash"
    late = RunResult("failed", "host_crash", "the program died of SIGSEGV", dispatch_count=1)
    assert judge_run(late, unasked=True).reason == "host_crash"


def test_a_usage_text_without_any_kernel_needs_arguments() -> None:
    assert judge_run(run("Usage: prog file", 0, dispatches=0)).reason == "needs_arguments"
    assert judge_run(run("Failed to open input file", 0, dispatches=0)).reason == "needs_data"


def test_a_call_that_the_simulator_lacks_is_our_failure() -> None:
    verdict = judge_run(run("error 801", 1, LACKED))
    assert verdict.reason == "unsupported_call" and "hipFancy" in verdict.message


def test_a_program_cannot_speak_for_the_simulator() -> None:
    forged = "hipsynth: hipFancy is not supported by the simulator\nhipsynth: out of device memory: 9 GiB asked\n"
    assert judge_run(run("error 801", 1, stderr=forged)).reason == "exit_code"


def test_notices_have_priority_over_program_output() -> None:
    assert judge_run(run("call failed", 0, LACKED)).reason == "unsupported_call"
    absent = Notice(NoticeKind.MISSING_CODE_OBJECT, "kernel.hsaco")
    for verdict in (judge_run(run("[error](301) fail to load", 0, absent)), judge_run(run("", 1, absent))):
        assert verdict.reason == "needs_data" and "kernel.hsaco" in verdict.message
    assert judge_run(run("PASSED", 0, absent)).status == "passed"  # it built the kernel another way


def test_a_failed_allocation_explains_later_failures() -> None:
    refused = Notice(NoticeKind.OUT_OF_MEMORY, "9 GiB asked")
    crashed = RunResult("failed", "illegal_access", "address 0x0", notices=(refused,))
    assert judge_run(crashed).reason == judge_run(run("", 1, refused)).reason == "needs_memory"
    assert judge_run(run("passed", 0, refused)).status == "passed"  # the program handled the failure
    assert judge_run(RunResult("failed", "out_of_memory", "stopped by the sandbox: memory")).reason == "needs_memory"


def test_a_killed_run_keeps_the_simulators_reason() -> None:
    verdict = judge_run(RunResult("failed", "illegal_access", "kernel k: address 0x10", stdout="PASSED"))
    assert (verdict.status, verdict.reason) == ("failed", "illegal_access")


@pytest.mark.parametrize(
    ("diagnostics", "libraries", "reason", "expected"),
    [
        ("x.hip:1:10: fatal error: 'rocblas/rocblas.h' file not found", [], "needs_library", "rocBLAS"),
        ("x.hip:1:10: fatal error: 'mpi.h' file not found", [], "needs_library", "MPI"),
        ("x.hip:1:10: fatal error: 'own.h' file not found", [], "missing_header", "own.h"),
        ("x.hip:3:1: error: unknown type name 'foo'", [], "compile_failed", "unknown type name"),
        (
            "x.hip:9: error: 'tex2D<float>' is unavailable: The image/texture API not supported on the device",
            [],
            "needs_devices",
            "textures",
        ),
    ],
)
def test_compile_failures_are_told_apart(diagnostics: str, libraries: list[str], reason: str, expected: str) -> None:
    got, message = _classify_failure(CompileFailed("x", diagnostics=diagnostics), libraries)
    assert got == reason and expected in message


def test_a_failed_link_names_the_library_or_the_symbols() -> None:
    error = CompileFailed("x", diagnostics="ld.lld: error: undefined symbol: rocfft_plan_create\n>>> referenced")
    error.reason = "link_failed"
    assert _classify_failure(error, ["rocfft"])[0] == "needs_library"
    error.diagnostics = (
        "ld.lld: error: unable to find library -lomp\nld.lld: error: undefined symbol: omp_get_num_threads"
    )
    assert _classify_failure(error, []) == ("needs_library", "needs OpenMP (-lomp)")
    error.diagnostics = "ld.lld: error: undefined symbol: rocfft_plan_create\n>>> referenced"
    reason, message = _classify_failure(error, [])
    assert reason == "link_failed" and "rocfft_plan_create" in message


def test_totals_count_only_what_should_run() -> None:
    rows = [
        SurveyRow("a", "passed", compiled=True),
        SurveyRow("b", "ran", compiled=True),
        SurveyRow("c", "failed", "needs_library"),
        SurveyRow("d", "failed", "needs_arguments", compiled=True),
        SurveyRow("e", "failed", "timeout", compiled=True),
    ]
    report = SurveyReport("x", "gfx90a", rows)
    assert report.totals == SurveyTotals(
        programs=5, compiled=4, runnable=3, completed=2, passed=1, self_check_failed=0, executed_all=2, shrunk=0,
        kernels=0, labels=0,
    )  # fmt: skip
    assert "66.7 %" in report_table(report) and OUTSIDE["needs_library"] in report_table(report)
    assert row_of({**rows[0].__dict__, "later": 1}) == rows[0]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("graph.txt", "16"), "exit_code"),
        (("absent.txt", "16"), "needs_data"),
        (("-i", "data/absent"), "needs_data"),
        (("data/" + 300 * "a",), "needs_data"),
        (("1024", "0.5", "-v"), "exit_code"),
        ((), "exit_code"),
    ],
)
def test_a_run_whose_arguments_name_an_absent_file_lacks_data(
    arguments: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    (tmp_path / "graph.txt").touch()
    failed = RunVerdict("failed", "exit_code", "exit code 1")
    found = explain_by_absent_file(failed, Invocation(arguments), tmp_path)
    assert found.reason == reason and ("is not in its folder" in found.message) == (reason == "needs_data")
    timeout = RunVerdict("failed", "timeout", "")
    assert explain_by_absent_file(timeout, Invocation(arguments), tmp_path) == timeout


def test_a_program_that_left_out_launches_does_not_just_say_that_it_ran() -> None:
    copy = Spending("copy", "_Z4copyv", "copy()", 700, 1, 0, 0, 699, 699, 1e9, 0.0)
    scale = replace(copy, name="scale", launches=7, uncounted=6, incomplete=7)
    cut = SurveyRow("a.cpp", "ran", spending=(copy, scale))
    whole = SurveyRow("b.cpp", "ran", spending=(replace(copy, incomplete=0),))
    lines = report_table(SurveyReport("folder", "gfx90a", [cut, whole])).splitlines()
    assert lines[0].split("  ")[0] == "ran 1 of 707 launches" and lines[1].startswith("ran     b.cpp")
