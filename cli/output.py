"""Output of the verbs: JSON on stdout, notes and progress on stderr."""

from __future__ import annotations

import json
import shutil
import sys
import time

import click

from hipsynth.cli.terminal import escape_controls, write_control
from hipsynth.core.documents import to_json

REDRAW_S, LOG_S = 0.1, 60.0  # between two displays of progress, on a terminal and elsewhere


def print_json(document: object) -> None:
    """Prints the JSON document of a verb on stdout."""
    click.echo(json.dumps(to_json(document), indent=2))


def terminal_width() -> int:
    """Width of the terminal in columns; 120 if stdout is not a terminal."""
    return shutil.get_terminal_size((120, 24)).columns


def print_note(text: str) -> None:
    """Prints a status line on stderr if stderr is a terminal."""
    if sys.stderr.isatty():
        click.echo(text, err=True)


class Progress:
    """Progress on stderr: one line that changes on a terminal, else a line each minute, so that logs show it."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self.start = time.monotonic()
        self.live = sys.stderr.isatty()
        self.shown = 0.0

    def step(self, note: str = "") -> None:
        """Counts one finished item and shows it, on a terminal at most ten times a second."""
        self.done += 1
        now = time.monotonic()
        since = now - (self.shown or self.start)
        if self.live and (since > REDRAW_S or self.done == self.total):
            self.shown = now
            write_control(f"\r\x1b[K{self._line(now)}  {escape_controls(note[:40])}")
        elif not self.live and since >= LOG_S:
            self.shown = now
            click.echo(self._line(now), err=True)

    def _line(self, now: float) -> str:
        rate = self.done / max(now - self.start, 1e-9)
        left = (self.total - self.done) / max(rate, 1e-9)
        return f"{escape_controls(self.what)} {self.done}/{self.total}  {rate:.1f}/s  {left:.0f} s left"

    def close(self) -> None:
        if self.live and self.done:
            sys.stderr.write("\n")
