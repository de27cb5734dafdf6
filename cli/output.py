"""Output of the verbs: JSON on stdout, notes and progress on stderr."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import click

from hipsynth.cli.terminal import escape_controls, write_control
from hipsynth.core.documents import to_json
from hipsynth.core.files import require_writable

REDRAW_S, LOG_S = 0.1, 60.0  # between two displays of progress, on a terminal and elsewhere
FIRST_STATUS_S, STATUS_S = 2.0, 1.0  # until a status line appears on a terminal, and between its changes


def print_json(document: object) -> None:
    """Prints the JSON document of a verb on stdout."""
    click.echo(json.dumps(to_json(document), indent=2))


def prepare_file(path: Path | None) -> None:
    """Checks before the work that a file can be written, and says if its folder was made. Raises BadInput."""
    if path is None:
        return
    is_new = not path.parent.exists()
    require_writable(path)
    if is_new:
        click.echo(f"note: made the folder {path.parent}", err=True)


def reason_text(reason: str, message: str) -> str:
    """A failure as one line: the code, and the message without the same words at its start."""
    return f"{reason}: {message.removeprefix(reason.replace('_', ' ') + ': ')}"


def count_text(count: int, noun: str) -> str:
    """A number of things: "1 program", "2,000 programs"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def terminal_width() -> int:
    """Width of the terminal in columns; 120 if stdout is not a terminal."""
    return shutil.get_terminal_size((120, 24)).columns


def print_note(text: str) -> None:
    """Prints a status line on stderr: each on a terminal, elsewhere at most one a minute, so that logs show it."""
    now = time.monotonic()
    if sys.stderr.isatty() or now - _last_note.printed_at >= LOG_S:
        _last_note.printed_at = now
        click.echo(text, err=True)


@dataclass
class _LastNote:
    printed_at: float  # time.monotonic()


_last_note = _LastNote(time.monotonic())


def print_remark(text: str) -> None:
    """Prints on stderr what the reader should know of a result."""
    click.echo(f"note: {text}", err=True)


def say_if_replaced(path: Path) -> None:
    """Says before long work that its result goes where a file is already."""
    if path.is_file():
        click.echo(f"note: {path} exists: what is found replaces it; --out names another file", err=True)


class StatusLine:
    """What a verb is doing, and for how long, on stderr. On a terminal: one line that appears after two seconds,
    counts, and goes at the end. Elsewhere: a line each minute, so that logs show it."""

    def __init__(self, stage: str = "") -> None:
        self.stage = stage
        self.live = sys.stderr.isatty()
        self._start = time.monotonic()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._show_repeatedly, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._clear()

    def set_stage(self, stage: str) -> None:
        """Names what is done from now on."""
        self.stage = stage

    def print_above(self, text: str) -> None:
        """Prints a line of its own on stderr, which stays."""
        with self._lock:
            self._clear()
            click.echo(text, err=True)

    def _show_repeatedly(self) -> None:
        wait_s = FIRST_STATUS_S if self.live else LOG_S
        while not self._ended.wait(wait_s):
            line = f"{escape_controls(self.stage)}  {time.monotonic() - self._start:.0f} s"
            with self._lock:
                if self.live:
                    write_control(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
                else:
                    click.echo(line, err=True)
            wait_s = STATUS_S if self.live else LOG_S

    def _clear(self) -> None:
        if self.live:
            write_control("\r\x1b[K")


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

    def skip(self, items: int) -> None:
        """Takes items that need not run out of the total."""
        self.total -= items

    def _line(self, now: float) -> str:
        rate = self.done / max(now - self.start, 1e-9)
        left = (self.total - self.done) / max(rate, 1e-9)
        return f"{escape_controls(self.what)} {self.done}/{self.total}  {rate:.1f}/s  {left:.0f} s left"

    def close(self) -> None:
        if self.live and self.done:
            sys.stderr.write("\n")
