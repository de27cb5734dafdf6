"""What the verbs share: JSON output, progress on stderr, common options."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class FiniteRange(click.FloatRange):
    """A number within bounds; "nan" and "inf", which Python reads as numbers, are refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def print_json(document: Any) -> None:
    """The one JSON document of a verb, on stdout."""
    click.echo(json.dumps(document, indent=2, sort_keys=False, default=str))


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")(function)


def workers_option(function: F) -> F:
    return click.option(
        "--workers",
        type=click.IntRange(min=1),
        default=os.cpu_count() or 1,
        show_default="all cores",
        help="Processes.",
    )(function)


def timeout_of(words: str) -> Callable[[F], F]:
    """A --timeout; `words` say what it limits."""
    return click.option("--timeout", type=FiniteRange(min=0.1), default=60.0, show_default=True, help=words)


timeout_option = timeout_of("Seconds of processor time per program, however busy the machine is.")


def terminal_width() -> int:
    """Columns of the terminal; 120 where there is none."""
    return shutil.get_terminal_size((120, 24)).columns


def note(text: str) -> None:
    """A line about what is going on, on stderr and only on a terminal."""
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
        self.done += 1
        now = time.monotonic()
        if self.live and (now - self.shown > 0.1 or self.done == self.total):
            self.shown = now
            rate = self.done / max(now - self.start, 1e-9)
            left = (self.total - self.done) / max(rate, 1e-9)
            sys.stderr.write(
                f"\r\x1b[K{self.what} {self.done}/{self.total}  {rate:.1f}/s  {left:.0f} s left  {note[:40]}"
            )
            sys.stderr.flush()

    def close(self) -> None:
        if self.live and self.done:
            sys.stderr.write("\n")
