"""The variants that `synth predict --sweep` and `--variants` ask for."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hipsynth.core.errors import BadInput, HipsynthError, UsageError
from hipsynth.core.files import SOURCE_BYTES, read_regular
from hipsynth.profiling.matrix.targets import resolve_devices
from hipsynth.toolchain import check_flags
from hipsynth.training.analytic.batch import Variant
from hipsynth.training.analytic.predict import LaunchAssumptions, Shape

MOST_VARIANTS = 100_000
REMEDY = "give NAME=START:STOP:FACTOR, NAME=START:STOP:+STEP or NAME=A,B,C; NAME is grid, block, arg1 or an argument"
KEYS = ("device", "flags", "grid", "block", "values", "arguments")
_RANGE = re.compile(r"(\d{1,15}):(\d{1,15})(?::(\+\d{1,15}|\d{1,9}(?:\.\d{1,9})?))?")
_ARGUMENT = re.compile(r"arg([1-9]\d?)")
_SHAPE = re.compile(r"\d{1,10}(?:x\d{1,10}){0,2}")


def sweep_variants(
    specs: Sequence[str], builds: Sequence[tuple[str, str, str]], question: LaunchAssumptions
) -> list[Variant]:
    """Every combination of the builds (arch, flags, device) and the values of the specs. Raises UsageError."""
    axes = [parse_axis(spec) for spec in specs]
    count = len(builds)
    for _, values in axes:
        count *= len(values)
        if count > MOST_VARIANTS:
            raise UsageError(f"more than {MOST_VARIANTS:,} variants", remedy="take larger steps")
    variants = []
    for build in builds:
        for chosen in itertools.product(*(values for _, values in axes)):
            assumptions = question
            for (name, _), value in zip(axes, chosen, strict=True):
                assumptions = change_assumption(assumptions, name, value)
            variants.append(Variant(*build, assumptions))
    return variants


def parse_axis(spec: str) -> tuple[str, list[str]]:
    """Name and values of a --sweep. Raises UsageError."""
    name, _, text = (part.strip() for part in spec.partition("="))
    match = _RANGE.fullmatch(text)
    values = _sweep_steps(*match.groups()) if match else [part.strip() for part in text.split(",")]
    good = _SHAPE if name in ("grid", "block") else re.compile(r"-?\d{1,15}(?:\.\d{1,15})?")
    if not re.fullmatch(r"[A-Za-z_]\w*", name) or not values or not all(good.fullmatch(value) for value in values):
        raise UsageError(f"--sweep {spec}", cause="not a name and its values", remedy=REMEDY)
    return name, values


def _sweep_steps(start: str, stop: str, step: str | None) -> list[str]:
    """The integers from start to stop, both included, that a factor (2 if not given) or an addend leads to."""
    number, last = int(start), int(stop)
    steps: list[str] = []
    added = int(step) if step and step.startswith("+") else 0
    factor = 1.0 if added else float(step or 2)
    if (not added and (factor <= 1 or number < 1)) or (step == "+0"):
        return []
    exact = float(number)
    while number <= last and len(steps) <= MOST_VARIANTS:
        if not steps or number > int(steps[-1]):
            steps.append(str(number))
        exact = exact * factor + added
        number = round(exact)
    return steps


def change_assumption(question: LaunchAssumptions, name: str, value: str) -> LaunchAssumptions:
    """The question with one thing set. Raises UsageError for an argument after one that is not given."""
    if name == "grid":
        return replace(question, grid=parse_shape(value))
    if name == "block":
        return replace(question, block=parse_shape(value))
    if match := _ARGUMENT.fullmatch(name):
        place, words = int(match[1]), list(question.arguments)
        if place > len(words) + 1:
            raise UsageError(f"--sweep {name}: there is no {len(words) + 1}. argument", remedy="give it after --")
        words[place - 1 : place] = [value]
        return replace(question, arguments=tuple(words))
    number = float(value) if "." in value else int(value)
    return replace(question, values={**question.values, name: number})


def parse_shape(text: str) -> Shape:
    """256 or 16x16 as three numbers. Raises UsageError."""
    parts = [int(part) for part in text.split("x")] if _SHAPE.fullmatch(text) else [0]
    if not all(0 < part < 1 << 31 for part in parts):
        raise UsageError(f"{text!r} is not a shape", remedy="give for example 256 or 16x16")
    x, y, z = [*parts, 1, 1][:3]
    return x, y, z


def from_file(
    path: Path,
    builds: Sequence[tuple[str, str, str]],
    question: LaunchAssumptions,
    complete_flags: Callable[[str], str] = str,
) -> list[Variant]:
    """The variants of a file with one JSON object a line, each with some of KEYS; what a line leaves out is as
    asked, of each build (arch, flags, device). `complete_flags`: adds to a line's flags what all builds have, such as
    macros. Raises BadInput, which names the line."""
    lines = read_regular(path, SOURCE_BYTES * 4).decode(errors="replace").splitlines()
    variants: list[Variant] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            variants += _of_line(json.loads(line), builds, question, complete_flags)
        except (ValueError, TypeError, RecursionError, HipsynthError) as error:
            problem = error.what if isinstance(error, HipsynthError) else str(error)
            remedy = f"give a JSON object with some of {', '.join(KEYS)}"
            raise BadInput(f"{path}: line {number} is not a variant", cause=problem, remedy=remedy) from error
        if len(variants) > MOST_VARIANTS:
            raise BadInput(f"{path}: more than {MOST_VARIANTS:,} variants", remedy="ask for fewer at once")
    if not variants:
        raise BadInput(f"{path}: no variants", remedy=f"give a JSON object with some of {', '.join(KEYS)} a line")
    return variants


def _of_line(
    row: Any,
    builds: Sequence[tuple[str, str, str]],
    question: LaunchAssumptions,
    complete_flags: Callable[[str], str],
) -> list[Variant]:
    if not isinstance(row, Mapping) or not set(row) <= set(KEYS):
        raise ValueError(f"not an object with the keys {', '.join(KEYS)}")
    assumptions = question
    for name in ("grid", "block"):
        if row.get(name) is not None:
            given_value = row[name]
            assumptions = change_assumption(
                assumptions,
                name,
                "x".join(map(str, given_value)) if isinstance(given_value, list) else str(given_value),
            )
    for name, value in dict(row.get("values") or {}).items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{name} is not a number")
        assumptions = replace(assumptions, values={**assumptions.values, name: value})
    if "arguments" in row:
        if not isinstance(row["arguments"], list):
            raise ValueError("arguments is not a list")
        assumptions = replace(assumptions, arguments=tuple(map(str, row["arguments"])))
    variants = []
    for arch, flags, device in builds:
        if "device" in row:
            arch, device = resolve_devices((), (str(row["device"]),))[0]
        if "flags" in row:
            flags = complete_flags(str(row["flags"]))
        variants.append(Variant(arch, check_flags(flags), device, assumptions))
    return list({(v.arch, v.flags, v.device): v for v in variants}.values())
