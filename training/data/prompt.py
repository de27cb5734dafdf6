"""Formats questions and answers as in the paper's Figure 3, and parses a model's answers.

Values are normalised to the ranges of the metric table and printed as strings, in a format of data.number_formats:
`fixed3` (the paper's: three decimals) or `sig3` (three significant digits, which preserves small values).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hipsynth.core.languages import TRITON, language_of
from hipsynth.profiling import metrics
from hipsynth.training.data.number_formats import format_number, read_number

SYSTEM = "You are an expert GPU programmer and profiler. Given a code, you will predict its performance counters."
QUESTION = (
    "For the GPU architecture {arch} and the compiler flags {flags}, what are the bandwidth, arithmetic intensity, "
    "hit rates, flops of the following code? Output the answer in JSON format.\n\n{code}\n"
)
QUESTION_TRITON = (
    "For the GPU architecture {arch}, what are the bandwidth, arithmetic intensity, hit rates, flops of the following "
    "Triton code? Output the answer in JSON format.\n\n{code}\n"
)
LEAD = (
    "Here are the performance counters for the {arch} GPU architecture and the {flags} compiler flags combination "
    "in JSON format:\n\n"
)
FLAGS_KEY, ARCH_KEY = "compiler_flags", "architecture"
_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)


def render_question(code: str, arch: str, flags: str) -> str:
    """The user message for a source; `flags` appear as given. That for Triton names the language, and no flags."""
    question = QUESTION_TRITON if language_of(code) == TRITON else QUESTION
    return question.format(arch=arch, flags=flags, code=code.strip("\n"))


def answer_lead(arch: str, flags: str) -> str:
    """The assistant message up to the JSON block; labels of scripts have no flags."""
    return LEAD.format(arch=arch, flags=flags or "default")


def answer_fields(values: Mapping[str, float], arch: str, flags: str, digits: str = "sig3") -> dict[str, str]:
    """The answer's JSON object: the metrics in the paper's order. `values` are in physical units by metric id.

    Raises ValueError if a value cannot be normalised to a finite number that the format can write.
    """
    fields = {FLAGS_KEY: flags, ARCH_KEY: arch}
    for metric in metrics.answer_ids():
        share = metrics.normalise_metric(metric, values[metric])
        if share is None or not math.isfinite(share):
            raise ValueError(f"{metric}: no value to print")
        fields[metric] = format_number(share, digits)
    return fields


def render_answer(values: Mapping[str, float], arch: str, flags: str, digits: str = "sig3") -> str:
    """The assistant message: `answer_lead` and the JSON object of `answer_fields` in a code fence."""
    body = json.dumps(answer_fields(values, arch, flags, digits), indent=2, ensure_ascii=False)
    return f"{answer_lead(arch, flags)}```json\n{body}\n```"


def prompt_messages(code: str, arch: str, flags: str) -> list[dict[str, str]]:
    """The prompt: the system and user messages."""
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": render_question(code, arch, flags)}]


def sample_messages(
    code: str,
    values: Mapping[str, float],
    arch: str,
    flags: str,
    digits: str = "sig3",
) -> list[dict[str, str]]:
    """The messages of a training sample: system, user and assistant."""
    assistant = {"role": "assistant", "content": render_answer(values, arch, flags, digits)}
    return [*prompt_messages(code, arch, flags), assistant]


@dataclass(frozen=True)
class ParsedAnswer:
    """A parsed answer: `values` in physical units by metric id; `errors` lists why it is not valid."""

    values: Mapping[str, float] = field(default_factory=dict)
    arch: str | None = None
    flags: str | None = None
    errors: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        return not self.errors


def parse_answer(text: str, *, arch: str | None = None, flags: str | None = None, digits: str = "sig3") -> ParsedAnswer:
    """Parses a model's answer. It is valid if it is one JSON object with exactly the fourteen keys and numeric
    metrics.

    If `arch` or `flags` is given, the answer must repeat it. Values that can be parsed are returned even if the answer
    as a whole is not valid.
    """
    try:
        document = json.loads(_json_block(text), object_pairs_hook=_reject_duplicates)
    except (ValueError, RecursionError) as error:
        return ParsedAnswer(errors=(f"not JSON: {error}",))
    if not isinstance(document, dict):
        return ParsedAnswer(errors=("not a JSON object",))
    keys = (FLAGS_KEY, ARCH_KEY, *metrics.answer_ids())
    errors = [f"missing key {key}" for key in keys if key not in document]
    errors += [f"unknown key {key}" for key in document if key not in keys]
    values: dict[str, float] = {}
    for key in (key for key in keys[2:] if key in document):
        value = _parse_number(document[key], digits)
        if value is None:
            errors.append(f"{key}: {document[key]!r} is not a number")
        else:
            values[key] = metrics.denormalise_metric(key, value) or 0.0
    for key, expected in ((ARCH_KEY, arch), (FLAGS_KEY, flags)):
        if key in document and expected is not None and document[key] != expected:
            errors.append(f"{key}: {document[key]!r} instead of {expected!r}")
    return ParsedAnswer(
        values, _text_or_none(document.get(ARCH_KEY)), _text_or_none(document.get(FLAGS_KEY)), tuple(errors)
    )


def _json_block(text: str) -> str:
    """The content of the code fence, or without a fence the text from its first brace on."""
    match = _FENCE.search(text)
    if match is not None:
        return match.group(1)
    start = text.find("{")
    if start < 0:
        raise ValueError("no JSON object in the answer")
    return text[start:]


def _reject_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def _parse_number(value: object, digits: str) -> float | None:
    """A finite number from a JSON number or a text in the number format, else None."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = read_number(value.strip(), digits) if isinstance(value, str) else float(value)
    except OverflowError:  # more digits than a float has room for
        return None
    return number if number is not None and math.isfinite(number) else None


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None
