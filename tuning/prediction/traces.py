"""Training chats in which an assistant predicts counters with tools, made of a corpus: `synth traces --task predict`.

A chat takes the cheapest plan to a right answer, which the labels tell (policy.py). Where that is to execute at once, a
second chat previews first, as a model may not know it yet; its first call does not count in the loss. Every fourth
sample is also answered from the source alone, so that the same weights can be asked without tools.

A model that sees a sample's numbers again and again learns them by heart instead of reading what a tool replies. So
each chat with a reply comes in DRILLS more copies whose numbers are scaled at random, in the reply and in the answer,
and in which the first call does not count in the loss.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from hipsynth.core.documents import JsonObject, from_json
from hipsynth.core.errors import BadInput
from hipsynth.core.json_lines import read_documents, read_json_lines, write_json_lines
from hipsynth.training.analytic.examples import preview_samples
from hipsynth.training.analytic.preview_journal import PREVIEWS, PreviewFeatures, PreviewJournal
from hipsynth.training.data.dataset import LabelledSample, hash_share, load_samples, split_samples
from hipsynth.tuning.prediction.chat import PredictionChat, ToolCallResult
from hipsynth.tuning.prediction.policy import best_plan, share_within
from hipsynth.tuning.prediction.preview_error import (
    PREVIEW_ERROR,
    JudgedPreview,
    PreviewErrorModel,
    expect_unseen_shares,
)
from hipsynth.tuning.prediction.tools import (
    SURE,
    TOOLS,
    VALUES,
    RecordedTools,
    ToolReply,
    label_values,
    price_table,
    share_text,
    value_texts,
)

CHATS, QUESTIONS = "chats.jsonl", "questions.jsonl"
T = TypeVar("T")
REMEDY = "run `synth traces --task predict` again"
FROM_SOURCE = 0.25  # of the samples are answered without tools, too
DRILLS, SCALE = 4, 3.0  # copies of a chat with other numbers: each times e to the power of up to SCALE, up or down


@dataclass(frozen=True)
class TracesReport:
    """What `synth traces --task predict` wrote: samples with and without a preview, and chats by their calls."""

    samples: int
    without_preview: int
    chats: Mapping[str, int]


@dataclass(frozen=True)
class RecordedQuestion:
    """A question with what every tool answers, and the true values: all that reinforcement needs. A chat's calls are
    answered from it."""

    text: str
    arch: str
    flags: str
    lineage: str
    replies: Mapping[str, ToolReply]
    truth: Mapping[str, float]

    @classmethod
    def of(cls, tools: RecordedTools) -> RecordedQuestion:
        """The question of a labelled sample."""
        sample = tools.sample
        replies = {name: tools.call(name) for name in TOOLS}
        return cls(sample.text, sample.arch, sample.flags, sample.relatives, replies, label_values(sample))

    def call(self, name: str) -> ToolReply:
        """As PredictionTools.call()."""
        return self.replies[name]


def tool_schemas() -> list[JsonObject]:
    """The tools as JSON schemas, for chat templates; none has parameters."""
    parameters: JsonObject = {"type": "object", "properties": {}}
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": f"{row.description} {row.price_s:g} s.",
                "parameters": parameters,
            },
        }
        for name, row in price_table().rows().items()
    ]


def chats_of(tools: RecordedTools) -> Iterator[PredictionChat]:
    """The training chats of a sample."""
    sample, best = tools.sample, best_plan(tools.sample, tools.preview)
    chats = [make_chat(tools, best.calls)]
    if best.calls[0] != "preview" and tools.preview is not None:
        chats.append(make_chat(tools, ("preview", *best.calls), learned_from=1))
    yield from chats
    draw = random.Random(sample.key)
    yield from (scale_numbers(chat, draw) for chat in chats for _ in range(DRILLS))
    if hash_share(f"from source:{sample.key}") < FROM_SOURCE:
        yield make_chat(tools, (), with_tools=False)


def scale_numbers(chat: PredictionChat, draw: random.Random) -> PredictionChat:
    """The chat with other numbers, each the same in the last reply and in the answer; its first call is not learned,
    what follows a reply is."""
    factors = {name: math.exp(draw.uniform(-SCALE, SCALE)) for name in VALUES}
    scaled = value_texts({name: float(chat.answer[name]) * factor for name, factor in factors.items()})
    *before, last = chat.calls
    reply = json.dumps(json.loads(last.reply) | scaled)
    calls = (*before, ToolCallResult(last.name, reply))
    return replace(chat, calls=calls, answer={**chat.answer, **scaled}, learned_from=1, drilled=True)


def make_chat(
    tools: RecordedTools, names: Sequence[str], learned_from: int = 0, with_tools: bool = True
) -> PredictionChat:
    """The chat with these calls; its answer repeats the last values, or the label's where no tool was called."""
    sample = tools.sample
    truth = label_values(sample)
    replies = [tools.call(name) for name in names]
    values = next((reply.values for reply in reversed(replies) if reply.values is not None), truth)
    sure = share_text(share_within(values, truth))
    calls = tuple(ToolCallResult(name, reply.text) for name, reply in zip(names, replies, strict=True))
    answer = {**value_texts(values), SURE: sure}
    about = (sample.text, sample.arch, sample.flags, sample.relatives)
    return PredictionChat(*about, calls, answer, learned_from, bool(names), with_tools)


def make_traces(
    corpus: Path, out: Path, workers: int, most: int | None = None, note: Callable[[str], None] = lambda _: None
) -> TracesReport:
    """Writes CHATS of the training part of a corpus, or of `most` of its samples, into the folder `out`; repeating an
    interrupted call goes on. Raises BadInput for a corpus without training samples, MissingDependency without a
    compiler or sandbox."""
    samples = sorted(split_samples(load_samples(corpus))["train"], key=lambda s: hash_share(sample_id(s)))[:most]
    if not samples:
        raise BadInput(f"{corpus}: no samples in the training part", remedy="profile more programs into the corpus")
    return write_chats(samples, collect_previews(samples, PreviewJournal(out / PREVIEWS), workers, note), out)


def sample_id(sample: LabelledSample) -> str:
    """Names a sample among the previews of many."""
    return f"{sample.key} {sample.kernel}"


def collect_previews(
    samples: Sequence[LabelledSample], journal: PreviewJournal, workers: int, note: Callable[[str], None]
) -> dict[str, PreviewFeatures | None]:
    """The previews of all samples by sample_id(); those that the journal lacks are made and kept in it. Raises
    MissingDependency without a compiler or sandbox."""
    previews = preview_samples(samples, workers, note, journal)
    return {sample_id(sample): preview for sample, preview in zip(samples, previews, strict=True)}


def write_chats(
    samples: Iterable[LabelledSample], previews: Mapping[str, PreviewFeatures | None], out: Path
) -> TracesReport:
    """Writes the chats of samples, whose previews are known, as JSON lines, and PREVIEW_ERROR, learned from them. What
    a chat's preview expects of itself comes from a model that did not see the sample's lineage."""
    rows, questions, kinds = [], [], Counter[str]()
    for tools in judged_tools(samples, previews, out):
        questions.append(asdict(RecordedQuestion.of(tools)))
        for chat in chats_of(tools):
            drill = " (other numbers)" if chat.drilled else ""
            kinds[(" ".join(call.name for call in chat.calls) or "from the source") + drill] += 1
            schemas = tool_schemas() if chat.with_tools else []
            rows.append({**asdict(chat), "messages": chat.messages(), "tools": schemas})
    write_json_lines(out / QUESTIONS, questions)
    write_json_lines(out / CHATS, rows)
    return TracesReport(
        len(questions), sum(preview is None for preview in previews.values()), dict(sorted(kinds.items()))
    )


def judged_tools(
    samples: Iterable[LabelledSample], previews: Mapping[str, PreviewFeatures | None], out: Path
) -> list[RecordedTools]:
    """The tools of each sample, whose previews expect of themselves what models without their lineage do. Writes the
    model of all samples as PREVIEW_ERROR into the folder `out`, which is made."""
    pairs = [(sample, previews[sample_id(sample)]) for sample in samples]
    judged = [JudgedPreview.of(sample, preview) for sample, preview in pairs if preview is not None]
    shares = iter(expect_unseen_shares(judged))
    out.mkdir(parents=True, exist_ok=True)
    PreviewErrorModel.fit(judged).save(out / PREVIEW_ERROR)
    return [RecordedTools(sample, preview, None if preview is None else next(shares)) for sample, preview in pairs]


def read_chats(folder: Path) -> list[PredictionChat]:
    """The chats of a folder. Raises BadInput if it has none, or for a damaged line."""
    return _require_any(folder / CHATS, read_json_lines(folder / CHATS, _decode_chat, PredictionChat.__name__, REMEDY))


def read_questions(folder: Path) -> list[RecordedQuestion]:
    """The questions of a folder. Raises BadInput if it has none, or for a damaged line."""
    return _require_any(folder / QUESTIONS, read_documents(folder / QUESTIONS, RecordedQuestion, REMEDY))


def _decode_chat(row: dict[str, Any]) -> PredictionChat:
    """A chat without the members that are derived from the others."""
    return from_json(PredictionChat, {name: value for name, value in row.items() if name not in ("messages", "tools")})


def _require_any(path: Path, documents: Iterable[T]) -> list[T]:
    if not (listed := list(documents)):
        raise BadInput(f"{path}: nothing to train on", remedy="give `synth traces` a larger corpus")
    return listed
