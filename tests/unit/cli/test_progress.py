"""Progress of long jobs: drawn on a terminal, a line a minute in a log."""

from __future__ import annotations

import pytest

from hipsynth.cli import output


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
