"""What a terminal gets: our own colours, and nothing that a program's names could make it do."""

from __future__ import annotations

import os
import pty
import sys
import termios
from collections.abc import Callable

import pytest
from profiling_samples import kernel, result, target

from hipsynth.cli.profile import _print_text
from hipsynth.cli.terminal import Terminal, print_styled, style_text


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], str]:
    """Calls a function with a terminal as stdout, and returns what the terminal's user gets."""

    def call(function: Callable[[], None]) -> str:
        user, program = pty.openpty()
        attributes = termios.tcgetattr(program)
        attributes[1] &= ~termios.OPOST  # lines end as they are written
        termios.tcsetattr(program, termios.TCSANOW, attributes)
        with monkeypatch.context() as patched, os.fdopen(program, "wb", buffering=0) as raw:
            terminal = Terminal(raw, "utf-8", line_buffering=True)
            patched.setattr(sys, "stdout", terminal)
            function()
            shown = os.read(user, 65536).decode()
            terminal.detach()
        os.close(user)
        return shown

    monkeypatch.delenv("NO_COLOR", raising=False)
    return call


def test_own_styles_act_and_other_controls_are_shown(show: Callable[[Callable[[], None]], str]) -> None:
    hostile = "k\x1b[8m\x1b]0;title\x07"
    shown = show(lambda: print_styled(style_text(hostile, "name") + " plain\x1b[5m"))
    assert shown == "\x1b[1mk\\x1b[8m\\x1b]0;title\\x07\x1b[0m plain\\x1b[5m\n"


def test_no_color_leaves_the_text(show: Callable[[Callable[[], None]], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert show(lambda: print_styled(style_text("k", "name"))) == "k\n"


def test_the_first_screen_of_a_profile_is_coloured(show: Callable[[Callable[[], None]], str]) -> None:
    shown = show(lambda: _print_text([result(target(), kernel(name="scale\x1b[2J"))], None, ""))
    assert shown.startswith("\x1b[1mscale\\x1b[2J")
    assert "\x1b[2mall counters" in shown and "\x1b[2J" not in shown


def test_a_file_gets_the_whole_text_without_colours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _print_text([result(target(), kernel())], None, "")
    text = capsys.readouterr().out
    assert "\x1b" not in text and "SQ_WAVES" in text
