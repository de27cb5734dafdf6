"""Formats questions and answers as in the paper's Figure 3, and parses a model's answers.

Values are normalised to the ranges of the metric table and printed as strings, in one of two formats:
`fixed3` (the paper's: three decimals) and `sig3` (three significant digits, which preserves small values).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hipsynth.profiling import metrics
from hipsynth.synth.core.errors import UsageError

DIGITS = ("fixed3", "sig3")
SYSTEM = "You are an expert GPU programmer and profiler. Given a code, you will predict its performance counters."
QUESTION = (
    "For the GPU architecture {arch} and the compiler flags {flags}, what are the bandwidth, arithmetic intensity, "
    "hit rates, flops of the following code? Output the answer in JSON format.\n\n{code}\n"
)
LEAD = (
    "Here are the performance counters for the {arch} GPU architecture and the {flags} compiler flags combination "
    "in JSON format:\n\n"
)
FLAGS_KEY, ARCH_KEY = "compiler_flags", "architecture"
_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(\.\d*)?([eE][-+]?\d+)?")


def format_number(value: float, digits: str) -> str:
    """A normalised value as printed in an answer: "0.459" (fixed3), "0.000123" or "1.23e-05" (sig3).

    Raises UsageError for an unknown format.
    """
    if digits == "fixed3":
        return f"{value + 0.0:.3f}"
    if digits == "sig3":
        return f"{value + 0.0:#.3g}".removesuffix(".")
    raise UsageError(f"no number format {digits!r}", remedy=f"one of: {', '.join(DIGITS)}")


def question(code: str, arch: str, flags: str) -> str:
    """The user message for a source; `flags` appear as given."""
    return QUESTION.format(arch=arch, flags=flags, code=code.strip("\n"))


def answer_lead(arch: str, flags: str) -> str:
    """The assistant message up to the JSON block."""
    return LEAD.format(arch=arch, flags=flags)


def answer_fields(values: Mapping[str, float], arch: str, flags: str, digits: str = "sig3") -> dict[str, str]:
    """The answer's JSON object, keys in the paper's order. `values` are in physical units by metric id.

    Raises ValueError if the value of a metric cannot be normalised to a finite number.
    """
    fields = {FLAGS_KEY: flags, ARCH_KEY: arch}
    for metric in metrics.answer_ids():
        share = metrics.normalise(metric, values[metric])
        if share is None or not math.isfinite(share):
            raise ValueError(f"{metric}: no value to print")
        fields[metric] = format_number(share, digits)
    return fields


def answer(values: Mapping[str, float], arch: str, flags: str, digits: str = "sig3") -> str:
    """The assistant message: `answer_lead` and the JSON object of `answer_fields` in a code fence."""
    body = json.dumps(answer_fields(values, arch, flags, digits), indent=2, ensure_ascii=False)
    return f"{answer_lead(arch, flags)}```json\n{body}\n```"


def prompt_messages(code: str, arch: str, flags: str) -> list[dict[str, str]]:
    """The prompt: the system and user messages."""
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question(code, arch, flags)}]


def sample_messages(
    code: str, values: Mapping[str, float], arch: str, flags: str, digits: str = "sig3"
) -> list[dict[str, str]]:
    """The messages of a training sample: system, user and assistant."""
    assistant = {"role": "assistant", "content": answer(values, arch, flags, digits)}
    return [*prompt_messages(code, arch, flags), assistant]


@dataclass(frozen=True)
class Answer:
    """A parsed answer: `values` in physical units by metric id; `errors` lists why it is not valid."""

    values: Mapping[str, float] = field(default_factory=dict)
    arch: str | None = None
    flags: str | None = None
    errors: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        return not self.errors


def parse_answer(text: str, *, arch: str | None = None, flags: str | None = None) -> Answer:
    """Parses a model's answer. It is valid if it is one JSON object with exactly the fourteen keys and numeric metrics.

    If `arch` or `flags` is given, the answer must repeat it. Values that can be parsed are returned even if the answer
    as a whole is not valid.
    """
    try:
        found = json.loads(_json_block(text), object_pairs_hook=_unique)
    except ValueError as error:
        return Answer(errors=(f"not JSON: {error}",))
    if not isinstance(found, dict):
        return Answer(errors=("not a JSON object",))
    keys = (FLAGS_KEY, ARCH_KEY, *metrics.answer_ids())
    errors = [f"missing key {key}" for key in keys if key not in found]
    errors += [f"unknown key {key}" for key in found if key not in keys]
    values: dict[str, float] = {}
    for metric in metrics.answer_ids():
        if metric in found:
            share = _number(found[metric])
            if share is None:
                errors.append(f"{metric}: {found[metric]!r} is not a number")
            else:
                values[metric] = metrics.denormalise(metric, share) or 0.0
    for key, expected in ((ARCH_KEY, arch), (FLAGS_KEY, flags)):
        if key in found and expected is not None and found[key] != expected:
            errors.append(f"{key}: {found[key]!r} instead of {expected!r}")
    return Answer(values, _text(found.get(ARCH_KEY)), _text(found.get(FLAGS_KEY)), tuple(errors))


def _json_block(text: str) -> str:
    """The content of the code fence, or without a fence the text from its first brace on."""
    match = _FENCE.search(text)
    if match is not None:
        return match.group(1)
    start = text.find("{")
    if start < 0:
        raise ValueError("no JSON object in the answer")
    return text[start:]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def _number(value: Any) -> float | None:
    """A finite number from a JSON number or a numeric string, else None."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
