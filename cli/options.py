"""Options that several verbs share, with the same meaning in each."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar, cast

import click
from click.core import ParameterSource

from hipsynth.core.errors import UsageError
from hipsynth.library.arguments import MOST_SECONDS
from hipsynth.simulator.devices import DEFAULT_ARCH, choose_arch, list_architectures
from hipsynth.simulator.limits import least_time

F = TypeVar("F", bound=Callable[..., Any])

ARCHS = " or ".join([", ".join(list_architectures()[:-1]), list_architectures()[-1]])


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


class TargetNameType(click.ParamType[str]):
    """The name of an architecture or a device, in any case."""

    name = "text"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as the tables have it, in lower case."""
        return str(value).strip().lower()


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
workers_option = click.option(
    "--workers", type=click.IntRange(min=1), default=os.cpu_count() or 1, show_default="all cores", help="Processes."
)
engine_option = click.option(
    "--engine",
    default="local",
    show_default=True,
    help="local, or ray: on the Ray cluster that this machine belongs to, else on this machine.",
)
MOST_SAMPLING_UNITS = 1000
LEAST_MEMORY = 0.25  # GiB; the simulator and the compiler of programs that compile at run time fit into it
memory_option = click.option(
    "--memory",
    type=FiniteRange(min=LEAST_MEMORY),
    default=8.0,
    show_default=True,
    help="GiB that a program may hold in all: its own memory, device memory it touched, the simulator's tables.",
)


class Duration(click.ParamType[float]):
    """Seconds: `30`, `30s`, or minutes or hours: `2m`, `1h`."""

    name = "duration"
    units: ClassVar[dict[str, float]] = {"": 1, "s": 1, "m": 60, "h": 3600}

    def __init__(self, least: float, most: float) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds, of a number with the unit s, m or h, or none (seconds). Refuses what lies outside `least` and
        `most`."""
        if isinstance(value, float):  # the default
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", str(value).strip())
        if not match:
            self.fail(f"{value!r} is no duration: give seconds such as 30 or 30s, or minutes such as 2m.", param, ctx)
        seconds = float(match[1]) * self.units[match[2]]
        if not self.least <= seconds <= self.most:
            self.fail(f"{value} is not between {self.least:g}s and {self.most / 3600:g}h.", param, ctx)
        return seconds


LEAST_BUDGET, MOST_BUDGET = 1.0, 24 * 3600.0
budget_option = click.option(
    "--budget",
    type=Duration(LEAST_BUDGET, MOST_BUDGET),
    default=0.0,
    show_default="no limit",
    metavar="30s|2m",
    help="Work that all launches of a program may take together. What does not fit is sampled more coarsely, then gets "
    "the counters of an earlier launch, then does not run. Same budget, same results on every machine.",
)


def check_args_option(meaning: str) -> Callable[[F], F]:
    """The repeatable --check-args option, passed as `check_args`."""
    return click.option("--check-args", multiple=True, metavar="ARGS", help=meaning)


def time_within(budget: float, timeout: float) -> float:
    """The limit on processor time: --timeout if it was given, else enough for the budget, compared with which the
    program's own code and the prices of work are uncertain."""
    return timeout if typed_options("--timeout") or not budget else max(timeout, least_time(budget))


LEAST_TIMEOUT, MOST_TIMEOUT = 0.1, MOST_SECONDS


def timeout_of(meaning: str) -> Callable[[F], F]:
    """The --timeout option; `meaning` is its help text."""
    seconds = FiniteRange(LEAST_TIMEOUT, MOST_TIMEOUT)
    return click.option("--timeout", type=seconds, default=60.0, show_default=True, help=meaning)


timeout_option = timeout_of("Seconds of processor time per program, independent of machine load.")


def arch_option(default: str = "gfx90a and gfx942") -> Callable[[F], F]:
    """The repeatable --arch option, passed as `archs`, () if not given; `default` describes the default in the help."""
    return click.option(
        "--arch",
        "archs",
        type=TargetNameType(),
        multiple=True,
        show_default=default,
        help=f"{ARCHS}; repeatable.",
    )


device_option = click.option(
    "--device",
    "devices",
    type=TargetNameType(),
    multiple=True,
    show_default="each architecture's",
    help="Device table, e.g. mi210; repeatable.",
)


def one_target_options(function: F) -> F:
    """The options --arch and --device of verbs with one target; a device alone names its architecture."""

    @functools.wraps(function)
    def with_arch(*args: Any, arch: str, device: str, **others: Any) -> Any:
        return function(*args, arch=choose_arch(arch, device), device=device, **others)

    name, of_device = TargetNameType(), f"the device's, else {DEFAULT_ARCH}"
    options = (
        click.option("--arch", type=name, default="", show_default=of_device, help=f"{ARCHS}."),
        click.option(
            "--device", type=name, default="", show_default="the architecture's", help="Device table, e.g. mi210."
        ),
    )
    return cast(F, functools.reduce(lambda command, option: option(command), reversed(options), with_arch))


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


MOST_SIDE = 1 << 31


class ShapeType(click.ParamType[tuple[int, int, int]]):
    """X, X,Y or X,Y,Z as three numbers, also written as XxYxZ, as tables print them."""

    name = "X[,Y[,Z]]"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int, int]:
        """(x, y, z) of a text of one to three positive numbers; absent sides are 1."""
        if isinstance(value, tuple):
            x, y, z = value
            return x, y, z
        parts = re.split("[,x]", str(value))
        if not 1 <= len(parts) <= 3 or not all(part.isdecimal() and 0 < int(part) < MOST_SIDE for part in parts):
            self.fail(f"{value!r} is not a shape such as 256, 16,16 or 16x16", param, ctx)
        x, y, z = [*map(int, parts), 1, 1][:3]
        return x, y, z


def parse_values(values: tuple[str, ...]) -> dict[str, float]:
    """Name -> number, from `--value NAME=N`; N may be hexadecimal. Raises UsageError for anything else."""
    values_by_name: dict[str, float] = {}
    for text in values:
        name, _, number = text.partition("=")
        try:
            values_by_name[name.strip()] = _parse_number(number)
        except ValueError as error:
            raise UsageError(f"--value {text}", cause="not NAME=NUMBER", remedy="for example --value n=4096") from error
    return values_by_name


def _parse_number(text: str) -> float:
    """A finite number, an integer of at most 64 bits if it is written as one. Raises ValueError."""
    try:
        number: float = int(text, 0)
        in_range = abs(number) < 1 << 64
    except ValueError:
        number = float(text)
        in_range = math.isfinite(number)
    if not in_range:
        raise ValueError(f"{text} is out of range")
    return number


def typed_options(*names: str) -> list[str]:
    """Those of the verb's options that are on the command line, whatever their value."""
    context = click.get_current_context()
    parameters = {option: part.name for part in context.command.params for option in part.opts}
    return [
        name for name in names if context.get_parameter_source(parameters[name] or "") is ParameterSource.COMMANDLINE
    ]


def refuse_options(names: Sequence[str], why: str, remedy: str) -> None:
    """Raises UsageError for the first of the options that is on the command line, of which `why` says what it is
    for or lacks."""
    for name in typed_options(*names):
        raise UsageError(f"{name} {why}", remedy=remedy)


def parse_units(sample: str, exact: bool, effort: float | None, default: int) -> int:
    """The sampling units of a large grid: a number, `default` for "auto", 0 (none is sampled) with `exact`. Raises
    UsageError for other texts, and for options that exclude each other."""
    if exact:
        if sample != "auto" or effort is not None:
            raise UsageError("--exact excludes --sample and --effort", remedy="give one of them")
        return 0
    if sample == "auto":
        return default
    if not sample.isdecimal() or not 2 <= int(sample) <= MOST_SAMPLING_UNITS:
        remedy = f"give auto, or a number from 2 to {MOST_SAMPLING_UNITS}; --exact runs every grid in full"
        cause = "the sampling error follows from how much units differ, so there are two at least"
        raise UsageError(f"--sample {sample}: no number of sampling units", cause=cause, remedy=remedy)
    return int(sample)
