"""Progress of long jobs: drawn on a terminal, a line a minute in a log."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from hipsynth.cli import output
from hipsynth.cli.main import cli
from hipsynth.core.errors import BadInput


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, as its only element."""
    now = [100.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    return now


def test_a_log_gets_a_line_a_minute(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    progress = output.Progress("label", 40)
    for _ in range(13):
        clock[0] += 10
        progress.step("kernel")
    progress.close()
    printed = capsys.readouterr()
    assert printed.err.splitlines() == ["label 6/40  0.1/s  340 s left", "label 12/40  0.1/s  280 s left"]
    assert not printed.out


def test_a_short_job_logs_nothing(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    progress = output.Progress("label", 3)
    for _ in range(3):
        clock[0] += 19
        progress.step()
    progress.close()
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_the_last_item_at_once(
    clock: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output.sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(output, "write_control", lambda text: output.click.echo(text, err=True, nl=False))
    progress = output.Progress("label", 2)
    clock[0] += 1
    progress.step("first")
    progress.step("second")
    assert capsys.readouterr().err.split("\r")[-1].endswith("label 2/2  2.0/s  0 s left  second")


@pytest.fixture
def fast_status(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_STATUS_S", "STATUS_S", "LOG_S"):
        monkeypatch.setattr(output, name, 0.01)


def read_until(capsys: pytest.CaptureFixture[str], wanted: str) -> str:
    """What is printed on stderr until it has `wanted`; fails after ten seconds without it."""
    printed = ""
    for _ in range(1000):
        printed += capsys.readouterr().err
        if wanted in printed:
            return printed
        time.sleep(0.01)
    raise AssertionError(printed)


@pytest.mark.usefixtures("fast_status")
def test_a_status_line_names_the_stage_and_its_time_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    with output.StatusLine("timing the original") as status:
        assert re.search(r"^timing the original  \d+ s$", read_until(capsys, "original  0 s\n"), re.MULTILINE)
        status.set_stage("checking\x1b[2Jraces")
        assert "checking\\x1b[2Jraces  0 s\n" in read_until(capsys, "races  0 s\n")
    assert "\r" not in capsys.readouterr().err


@pytest.mark.usefixtures("fast_status")
def test_a_status_line_leaves_a_terminal_clean(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output.sys.stderr, "isatty", lambda: True)
    with output.StatusLine("profiling k.hip") as status:
        read_until(capsys, "\r\x1b[Kprofiling k.hip  0 s")
        status.print_above("note: one line")
    lines = capsys.readouterr().err.split("\r\x1b[K")
    assert "note: one line\n" in lines
    assert lines[-1] == ""


def test_a_status_line_of_a_short_job_prints_nothing_and_lets_errors_through(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(ValueError, match="broken"), output.StatusLine("profiling"):
        raise ValueError("broken")
    assert capsys.readouterr().err == ""


def test_a_failure_says_its_reason_once() -> None:
    assert output.reason_text("illegal_access", "illegal access: write at 0x0") == "illegal_access: write at 0x0"
    assert output.reason_text("trap", "a kernel executed a trap") == "trap: a kernel executed a trap"


def test_one_thing_is_no_plural() -> None:
    assert [output.count_text(count, "program") for count in (0, 1, 2000)] == [
        "0 programs",
        "1 program",
        "2,000 programs",
    ]


def test_a_file_that_cannot_be_written_is_named_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for verb in (["stats", "none"], ["compare", "a.hip", "b.hip", "--no-sandbox"]):
        with pytest.raises(BadInput, match=r"file/page\.html"):
            cli.main([*verb, "--html", str(tmp_path / "file" / "page.html")], standalone_mode=False)
    capsys.readouterr()
    output.prepare_file(tmp_path / "new" / "page.html")
    assert capsys.readouterr().err == f"note: made the folder {tmp_path / 'new'}\n"
    output.prepare_file(tmp_path / "new" / "page.html")
    assert capsys.readouterr().err == ""
