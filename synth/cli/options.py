"""Options that several verbs share, with the same meaning in each."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

ARCHS = "gfx90a or gfx942"


class FiniteRange(click.FloatRange):
    """A number within bounds; rejects "nan" and "inf", which Python's float() accepts."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class NamedPath(click.Path):
    """A path; rejects an empty text, which would otherwise mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("an empty text names no file or folder.", param, ctx)
        return super().convert(value, param, ctx)


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
workers_option = click.option(
    "--workers", type=click.IntRange(min=1), default=os.cpu_count() or 1, show_default="all cores", help="Processes."
)
LEAST_MEMORY = 0.25  # GiB; the simulator and the compiler of programs that compile at run time fit into it
memory_option = click.option(
    "--memory",
    type=FiniteRange(min=LEAST_MEMORY),
    default=8.0,
    show_default=True,
    help="GiB that a program may hold in all: its own memory, device memory it touched, the simulator's tables.",
)


def timeout_of(meaning: str) -> Callable[[F], F]:
    """The --timeout option; `meaning` is its help text."""
    return click.option("--timeout", type=FiniteRange(min=0.1), default=60.0, show_default=True, help=meaning)


timeout_option = timeout_of("Seconds of processor time per program, independent of machine load.")


def arch_option(default: str = "both") -> Callable[[F], F]:
    """The repeatable --arch option, passed as `archs`, () if not given; `default` describes the default in the help."""
    return click.option(
        "--arch",
        "archs",
        multiple=True,
        show_default=default,
        help=f"{ARCHS}; repeatable.",
    )


device_option = click.option(
    "--device",
    "devices",
    multiple=True,
    show_default="each architecture's",
    help="Device table, e.g. mi210; repeatable.",
)
one_arch_option = click.option("--arch", default="gfx90a", show_default=True, help=f"{ARCHS}.")
one_device_option = click.option(
    "--device", default="", show_default="the architecture's", help="Device table, e.g. mi210."
)


sandbox_option = click.option(
    "--sandbox/--no-sandbox",
    "sandboxed",
    default=True,
    show_default="--sandbox",
    help="Isolate programs: no network, no other files; exit code 4 if that does not work here.",
)


caches_option = click.option(
    "--caches/--no-caches",
    default=True,
    show_default="--caches",
    help="Simulate caches. Without: same program output, faster runs, less accurate times.",
)
