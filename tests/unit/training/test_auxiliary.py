"""Auxiliary facts, numbers digit by digit, launches in the prompt, and values that are decoded side by side."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import needs
import pyarrow as pa
import pytest
import training_corpus as made
from hypothesis import given
from hypothesis import strategies as st

from hipsynth.core.errors import BadInput, UsageError
from hipsynth.training.data import auxiliary
from hipsynth.training.data.dataset import load_samples
from hipsynth.training.data.encode import IGNORED, Encoder, answer_atoms, answer_skeleton, chat_text, pad_batch
from hipsynth.training.data.model_inputs import PromptOptions, launch_lines
from hipsynth.training.data.number_formats import format_number, read_number, word_automaton
from hipsynth.training.data.prompt import parse_answer, render_answer
from hipsynth.training.models.base import TinyShape, tiny_model, train_tokenizer
from hipsynth.training.models.decode import AnswerDecoder, advance_automaton, visibility_mask
from hipsynth.training.models.train import load_config, parse_config, train_model

RELEASE = Path(__file__).resolve().parents[3] / "corpus" / "release" / "v1"
SOURCE_OPTIONS = PromptOptions(launches=True, auxiliary=True, parallel=True)
ROW: dict[str, Any] = {
    "grid": [4, 2, 1],
    "block": [64, 1, 1],
    "occupancy": 0.5,
    "bottleneck": "hbm",
    "duration_ns": 9.0,
}
COUNTED = {"SQ_ITEMS": 512.0, "EXACT_READ_BYTES": 2048.0, "EXACT_WRITE_BYTES": 2048.0, "EXACT_ATOMIC_BYTES": 0.0}
ROW |= COUNTED | {"duration_ns": 9.0, "EXACT_FLOPS": 1024.0, "TCP_TOTAL_CACHE_ACCESSES": 64.0}


@cache
def encoder() -> Encoder:
    texts = [chat_text(s, "exp3", "kernels", SOURCE_OPTIONS) for s in made.samples(6, 2)]
    tokenizer = train_tokenizer(texts, 400, answer_atoms("exp3", facts=True))
    return Encoder(tokenizer, "exp3", 2048, "kernels", SOURCE_OPTIONS)


@cache
def decoder() -> AnswerDecoder:
    torch: Any = needs.package("torch")
    torch.manual_seed(5)
    return AnswerDecoder(tiny_model(encoder().tokenizer, TinyShape(400, 32, 2, 2, 64), 2048), encoder())


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.459, "-1459"), (0.0459, "-2459"), (0.0, "-0000"), (1.0, "+0100"), (9.999, "+1100"), (1e-12, "-0000")],
)
def test_the_exponent_comes_first(value: float, text: str) -> None:
    assert format_number(value, "exp3") == text


@given(st.floats(1e-9, 9e9))
def test_exp3_reads_back_within_half_a_percent(value: float) -> None:
    text = format_number(value, "exp3")
    assert len(text) == 5
    assert read_number(text, "exp3") == pytest.approx(value, rel=0.0051)


@pytest.mark.parametrize("text", ["0.459", "1459", "+14590", "-14.9", "1e-5", ""])
def test_other_texts_are_not_exp3(text: str) -> None:
    assert read_number(text, "exp3") is None


def test_exp3_has_no_negative_numbers() -> None:
    with pytest.raises(ValueError, match="negative"):
        format_number(-1.0, "exp3")


def test_facts_follow_from_counters() -> None:
    found = auxiliary.facts_of(ROW)
    assert found == {
        "work_groups": 8.0,
        "group_size": 64.0,
        "bytes_per_item": 8.0,
        "flops_per_item": 2.0,
        "vl1d_accesses_per_item": 0.125,
        "stride": "unit",
        "occupancy": 0.5,
        "bottleneck": "hbm",
        "duration_ns": 9.0,
    }
    assert auxiliary.facts_of({**ROW, "SQ_ITEMS": None}) == found  # grid x block
    assert auxiliary.facts_of({**ROW, "EXACT_FLOPS": None}) == {}
    assert auxiliary.facts_of({**ROW, "bottleneck": "no such unit"}) == {}


@pytest.mark.parametrize(
    ("accesses", "stride"), [(16.0, "shared"), (64.0, "unit"), (256.0, "strided"), (512.0, "scattered"), (0.0, "none")]
)
def test_stride_classes(accesses: float, stride: str) -> None:
    assert auxiliary.facts_of({**ROW, "TCP_TOTAL_CACHE_ACCESSES": accesses})["stride"] == stride


def test_counters_become_columns() -> None:
    counters = pa.array([[("SQ_ITEMS", 4.0)], []], pa.map_(pa.string(), pa.float64()))
    table = auxiliary.with_counters(pa.table({"counters": counters}))
    assert table["SQ_ITEMS"].to_pylist() == [4.0, None]
    assert table["occupancy"].to_pylist() == [None, None]


def test_words_are_exactly_the_choices() -> None:
    choices = auxiliary.CHOICES["bottleneck"]
    automaton, final = word_automaton(choices)
    assert all(advance_automaton(automaton, "start", word) in final for word in choices)
    assert advance_automaton(automaton, "start", "l") not in final
    assert advance_automaton(automaton, "start", "cpu") is None


def test_a_prompt_lists_launches() -> None:
    sample = made.samples(1, 1)[0]
    assert launch_lines(sample.text, "gfx942") == (
        "// launch kernel_main grid 256 1 1 +2256 block 256 1 1 +2256 items +4655 arguments +5262 bytes, +5262 bytes\n"
    )
    assert launch_lines("int main( {", "gfx942") == ""
    assert "launch kernel_main grid" in encoder().tokenizer.decode(encoder().example(sample)["input_ids"])


def test_answers_with_facts_read_back() -> None:
    sample = made.samples(2, 1)[5]
    text = render_answer(sample.metrics, sample.arch, sample.flags, "exp3", sample.facts)
    found = parse_answer(text, arch=sample.arch, flags=sample.flags, digits="exp3")
    assert found.valid, found.errors
    assert list(found.facts) == list(auxiliary.KEYS)
    for key, value in sample.facts.items():
        assert found.facts[key] == (value if isinstance(value, str) else pytest.approx(value, rel=0.0051))
    missing = parse_answer(text.replace('"stride": "unit"', '"stride": "odd"'), digits="exp3")
    assert missing.errors == ("stride: 'odd' is not a known word",)


def test_facts_come_before_the_metrics_in_stages() -> None:
    stages = [[encoder().order[slot] for slot in stage] for stage in encoder().stages]
    assert stages[0] == ["work_groups", "group_size"]
    assert "duration_ns" in stages[2]
    assert len(stages) == 4 and len(stages[3]) == 12


def test_a_branch_sees_earlier_stages_and_itself() -> None:
    torch: Any = needs.package("torch")
    #              prefix  two branches      next stage
    stage = torch.tensor([[0, 0, 1, 1, 1, 1, 2]])
    branch = torch.tensor([[0, 0, 0, 0, 1, 1, 0]])
    seen = visibility_mask(stage, branch, 7)[0, 0].int().tolist()
    assert seen[3] == [1, 1, 1, 1, 0, 0, 0]
    assert seen[5] == [1, 1, 0, 0, 1, 1, 0]
    assert seen[6] == [1] * 7
    assert visibility_mask(stage, branch, 1)[0, 0].int().tolist() == [seen[6]]


def test_decoding_agrees_with_training() -> None:
    """The scores that training sees for a decoded answer prefer each of its tokens among those allowed."""
    torch: Any = needs.package("torch")
    sample = made.samples(2, 1)[1]
    found = decoder().forced([(sample.text, sample.arch, sample.flags)])[0]
    text = answer_skeleton(sample.arch, sample.flags, "exp3", facts=True).fill(found.values)
    read = parse_answer(text, arch=sample.arch, flags=sample.flags, digits="exp3")
    assert read.valid, read.errors
    example = encoder().example(replace(sample, metrics=read.values, facts=read.facts))
    rows = {name: torch.tensor(row) for name, row in pad_batch([example, example], 0).items()}
    mask = visibility_mask(rows["stage"], rows["branch"], rows["stage"].shape[1])
    with torch.inference_mode():
        logits = (
            decoder()
            .model(input_ids=rows["input_ids"], attention_mask=mask, position_ids=rows["position_ids"])
            .logits[0]
        )
    checked = 0
    figures = encoder().ids("0123456789")
    for at, label in enumerate(example["labels"]):
        if label in figures and example["labels"][at - 1] in figures and example["labels"][at - 2] in figures:
            assert max(figures, key=lambda token: float(logits[at - 1, token])) == label
            checked += 1
    assert checked > 20
    assert sum(label != IGNORED for label in example["labels"]) >= 19 * 5


def test_questions_are_answered_alike_alone_and_together() -> None:
    questions = [(s.text, s.arch, s.flags) for s in made.samples(3, 1)][:5]
    together = decoder().forced(questions, batch=5)
    alone = [decoder().forced([q])[0] for q in questions]
    assert [a.values for a in together] == [a.values for a in alone]


def test_a_recipe_with_parallel_values_needs_numbers_of_one_width() -> None:
    with pytest.raises(UsageError, match="one width"):
        parse_config({"base": "tiny", "parallel": True}, Path("x.toml"))
    assert load_config("source").parallel


def test_labels_without_facts_are_refused(tmp_path: Path) -> None:
    config = replace(load_config("source"), max_steps=1)
    with pytest.raises(BadInput, match="auxiliary facts"):
        train_model(tmp_path, config, tmp_path / "m", samples=[replace(s, facts={}) for s in made.samples(18, 2)])


@pytest.mark.full
def test_the_recipe_of_the_shipped_model_trains_on_the_release(tmp_path: Path) -> None:
    needs.package("torch")
    samples = load_samples(RELEASE)[::100]
    assert all(set(s.facts) == set(auxiliary.KEYS) for s in samples)
    shape = TinyShape(400, 32, 1, 2, 64)
    config = replace(load_config("source"), max_steps=2, batch=2, patience=0, bf16="no", tiny=shape)
    assert train_model(RELEASE, config, tmp_path / "model", samples=samples)["steps"] == 2
