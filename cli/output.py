"""Output of the verbs: JSON on stdout, notes and progress on stderr."""

from __future__ import annotations

import json
import shutil
import sys
import time

import click

from hipsynth.cli.terminal import escape_controls, write_control
from hipsynth.core.documents import to_json


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
    """A one-line progress display on stderr; silent when stderr is not a terminal."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self.start = time.monotonic()
        self.live = sys.stderr.isatty()
        self.shown = 0.0

    def step(self, note: str = "") -> None:
        """Counts one finished item and draws the line, at most ten times a second."""
        self.done += 1
        now = time.monotonic()
        if self.live and (now - self.shown > 0.1 or self.done == self.total):
            self.shown = now
            rate = self.done / max(now - self.start, 1e-9)
            left = (self.total - self.done) / max(rate, 1e-9)
            label, note = escape_controls(self.what), escape_controls(note[:40])
            write_control(f"\r\x1b[K{label} {self.done}/{self.total}  {rate:.1f}/s  {left:.0f} s left  {note}")

    def close(self) -> None:
        if self.live and self.done:
            sys.stderr.write("\n")
