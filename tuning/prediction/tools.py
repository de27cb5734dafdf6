"""The tools of tools.toml: what each answers about one program, live or replayed from outcomes."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hipsynth.core.reasons import Reason
from hipsynth.core.tables import read_table
from hipsynth.profiling.metrics.definitions import answer_ids, normalise_metric
from hipsynth.training.analytic.preview_journal import PreviewFeatures
from hipsynth.training.analytic.quantities import metrics_of
from hipsynth.training.data.dataset import LabelledSample
from hipsynth.training.data.number_formats import format_number

TABLE = Path(__file__).with_name("tools.toml")
FORMAT = "sig3"
DURATION = "duration_ms"
SURE = "within_10_percent"  # the share of its values that a model expects to be within 10 %
VALUES = (DURATION, *answer_ids())
NS_PER_MS = 1e6
MOST_MS = 999.0  # that FORMAT can write


@dataclass(frozen=True)
class ToolPrice:
    """A row of the table."""

    price_s: float
    description: str


@dataclass(frozen=True)
class PriceTable:
    """tools.toml. `price_weight`: what a second costs, in shares of values within 10 %."""

    price_weight: float
    compile: ToolPrice
    launches: ToolPrice
    preview: ToolPrice
    execute: ToolPrice

    def rows(self) -> dict[str, ToolPrice]:
        """The tools by name, cheapest first."""
        return {name: getattr(self, name) for name in TOOLS}

    def price(self, names: tuple[str, ...]) -> float:
        """Seconds that these calls cost together."""
        rows = self.rows()
        return math.fsum(rows[name].price_s for name in names)


TOOLS = ("compile", "launches", "preview", "execute")
EXECUTE = "execute"
MEASURING = frozenset({"preview", EXECUTE})  # their answers are values


@functools.cache
def price_table() -> PriceTable:
    """The table of tools.toml."""
    return read_table(TABLE, PriceTable)


@dataclass(frozen=True)
class ToolReply:
    """What a tool answers: texts by key, in their order, and the values of VALUES where it measures (normalised, and
    milliseconds). `expected_share`: of the values, expected to be within 10 %, if the tool says so."""

    fields: Mapping[str, str]
    values: Mapping[str, float] | None = None
    expected_share: float | None = None

    @property
    def text(self) -> str:
        """The answer as the model reads it; values and SURE as in its own answer, so that it can copy them. SURE is
        last, at the same distance from the move that it decides."""
        values = value_texts(self.values) if self.values is not None else {}
        sure = {} if self.expected_share is None else {SURE: share_text(self.expected_share)}
        return json.dumps({**self.fields, **values, **sure})


class PredictionTools(Protocol):
    """The tools of one program."""

    def call(self, name: str) -> ToolReply:
        """The answer of the tool of this name; a reply with the key `error` says why there is none."""


def value_texts(values: Mapping[str, float]) -> dict[str, str]:
    """Values as an answer prints them."""
    return {name: format_number(min(values[name], MOST_MS), FORMAT) for name in VALUES}


def share_text(share: float) -> str:
    """A share of values within 10 %, in tenths, as an answer prints it."""
    return format_number(round(share, 1), FORMAT)


def normalise_tool_values(metrics: Mapping[str, float | None], duration_ns: float) -> dict[str, float]:
    """The values of VALUES: milliseconds, and metrics as shares of their range; 0 for a metric that is not known."""
    shares = {name: normalise_metric(name, metrics.get(name)) or 0.0 for name in answer_ids()}
    return {DURATION: duration_ns / NS_PER_MS, **shares}


def label_values(sample: LabelledSample) -> dict[str, float]:
    """The values of a sample's label."""
    return normalise_tool_values(sample.metrics, sample.duration_ns)


def preview_values(preview: PreviewFeatures, arch: str) -> dict[str, float]:
    """The values of a preview, uncorrected."""
    return normalise_tool_values(metrics_of(preview.quantities, arch), preview.quantities["duration"])


class RecordedTools:
    """Replays what the tools answered for a labelled sample; an execution's answer is the label."""

    def __init__(
        self, sample: LabelledSample, preview: PreviewFeatures | None, expected_share: float | None = None
    ) -> None:
        self.sample, self.preview, self.expected_share = sample, preview, expected_share

    def call(self, name: str) -> ToolReply:
        """As PredictionTools.call()."""
        if name == "execute":
            return ToolReply({}, label_values(self.sample))
        if self.preview is None:
            return ToolReply({"error": Reason.NO_PREVIEW})
        return reply_of(name, self.preview, self.sample.arch, self.expected_share)


def reply_of(name: str, preview: PreviewFeatures, arch: str, expected_share: float | None) -> ToolReply:
    """What a tool other than an execution says, taken from a preview, which knows it all, and from the share of the
    preview's values that is expected to be within 10 % (preview_error.py), if that is known."""
    facts = preview.features
    if name == "compile":
        return ToolReply(
            {
                "vgprs": f"{facts['vgprs']:.0f}",
                "lds_bytes": f"{_exp2(facts['lds']):.0f}",
                "occupancy": f"{facts['occupancy']:.2f}",
            }
        )
    if name == "launches":
        return ToolReply(
            {
                "groups": f"{_exp2(facts['groups']):.0f}",
                "items": f"{_exp2(facts['block']):.0f}",
                "megabytes": f"{_exp2(facts['buffers']) / 1e6:.3g}",
            }
        )
    return ToolReply(preview_facts(preview), preview_values(preview, arch), expected_share)


def preview_facts(preview: PreviewFeatures) -> dict[str, str]:
    """What tells how far a preview can be trusted: its limit and how nearly that alone explains the time, the share of
    work-groups run, whether data decides, how much other data changes the time, bytes read over the buffers' size."""
    facts = preview.features
    return {
        "limited_by": preview.bottleneck,
        "explains": f"{preview.bound_ns / max(preview.quantities['duration'], 1.0):.2f}",
        "run": f"{facts['run_share']:.1e}",
        "data_decides": "yes" if facts["by_data"] else "no",
        "sizes_known": "no" if facts["guessed"] else "yes",
        "other_data": f"{min(math.exp(facts['sensitivity']), 99.0):.1f}",
        "reread": f"{min(_exp2(facts['missed_buffers']), 99.0):.1f}",
    }


def _exp2(log: float) -> float:
    """The inverse of the features' logarithms, in which 0 is -40."""
    return 2.0**log if log > -40 else 0.0
