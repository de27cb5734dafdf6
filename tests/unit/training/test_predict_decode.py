"""Tokens and decoding: the grammar is exactly the number formats, and forced answers are valid by construction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import needs
import pytest
import training_corpus as made
from hypothesis import given, settings
from hypothesis import strategies as st

from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason
from hipsynth.profiling.metrics.definitions import answer_ids
from hipsynth.training.data.encode import (
    IGNORED,
    Encoder,
    Skeleton,
    answer_atoms,
    answer_skeleton,
    chat_text,
    split_answer,
)
from hipsynth.training.data.number_formats import FORMATS, format_number
from hipsynth.training.data.prompt import parse_answer, render_answer
from hipsynth.training.models.base import TinyShape, tiny_model, train_tokenizer
from hipsynth.training.models.decode import AnswerDecoder, DecodedAnswer, advance_automaton
from hipsynth.training.models.monitor import Throughput
from hipsynth.training.models.predict import Predictor, prediction_table
from hipsynth.training.models.trainer import batch_collator

GRAMMARS = {name: form.automaton for name, form in FORMATS.items()}
FINAL = {name: form.final for name, form in FORMATS.items()}
EDGES = [0.0, 1e-4, 9.996e-5, 0.9999, 9.995, 12.3]
PRINTED = st.floats(0.001, 9) | st.floats(1e-12, 1e-2) | st.sampled_from(EDGES)


@cache
def encoder(fmt: str = "sig3", context: int = 2048, view: str = "whole") -> Encoder:
    texts = [chat_text(s, fmt, view) for s in made.samples(6, 2)]
    return Encoder(train_tokenizer(texts, 400, answer_atoms(fmt)), fmt, context, view)


@cache
def decoder(fmt: str) -> AnswerDecoder:
    torch: Any = needs.package("torch")
    torch.manual_seed(3)
    shape = TinyShape(vocab=400, hidden=32, layers=2, heads=2, ff=64)
    return AnswerDecoder(tiny_model(encoder(fmt).tokenizer, shape, 2048), encoder(fmt))


@pytest.mark.parametrize("fmt", FORMATS)
@settings(deadline=None)
@given(value=PRINTED)
def test_the_grammar_accepts_every_printed_number(fmt: str, value: float) -> None:
    printed = format_number(value, fmt)
    assert advance_automaton(GRAMMARS[fmt], "start", printed) in FINAL[fmt], printed


@pytest.mark.parametrize("fmt", FORMATS)
@settings(deadline=None)
@given(data=st.data())
def test_every_accepted_text_is_a_number(fmt: str, data: st.DataObject) -> None:
    state, text = "start", ""
    while state not in FINAL[fmt] or (GRAMMARS[fmt][state] and data.draw(st.booleans())):
        characters, state = data.draw(st.sampled_from(GRAMMARS[fmt][state]))
        text += data.draw(st.sampled_from(characters))
    read = FORMATS[fmt].read(text)
    assert read == 0.0 or format_number(abs(read), fmt) == text.lstrip("-")


@pytest.mark.parametrize("text", ["", ".5", "0.5", "0..50", "1.2e-3", "1.2e+05", "abc", "0.4599", "1e-05"])
def test_the_grammar_rejects_other_formats(text: str) -> None:
    assert advance_automaton(GRAMMARS["sig3"], "start", text) not in FINAL["sig3"]


@pytest.mark.parametrize(("fmt", "least", "most"), [("fixed3", 0.0, 99.9994), ("sig3", 1e-99, 999.4)])
def test_the_grammar_ends_where_numbers_need_more_digits(fmt: str, least: float, most: float) -> None:
    for value in (least, most):
        assert advance_automaton(GRAMMARS[fmt], "start", format_number(value, fmt)) in FINAL[fmt]
    for value in (1.001 * most, 1230.0, *([least / 10] if least else [])):
        assert advance_automaton(GRAMMARS[fmt], "start", format_number(value, fmt)) not in FINAL[fmt]


def test_tokenizer_round_trips_any_text() -> None:
    tokenizer = encoder().tokenizer
    for text in ("int μ = 0x1F;\n\n\t// 漢字\r\n", made.samples(1, 1)[0].text, '"L1_Cache_GFLOPS": "0.459",\n'):
        assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


@pytest.mark.parametrize("fmt", FORMATS)
def test_an_example_reads_as_prompt_and_answer(fmt: str) -> None:
    sample = made.samples(2, 1)[5]
    one = encoder(fmt)
    example = one.example(sample)
    reply = render_answer(sample.metrics, sample.arch, sample.flags, fmt)
    text = one.tokenizer.decode(example["input_ids"])
    assert text.endswith(f"<|im_start|>assistant\n{reply}<|im_end|>")
    learned = [i for i, label in zip(example["input_ids"], example["labels"], strict=True) if label != IGNORED]
    assert one.tokenizer.decode(learned) == reply + "<|im_end|>"


def test_text_between_two_values_is_one_token() -> None:
    assert [len(ids) for ids in encoder().encode("x", "gfx90a", "-O3").literals[:-1]] == [1] * 11


def fill_values(form: Skeleton, values: Mapping[str, str]) -> str:
    """The complete answer with the given value texts by key."""
    pairs = zip(form.literals, (values[key] for key in form.order), strict=False)
    return "".join(literal + value for literal, value in pairs) + form.literals[-1]


def test_skeleton_fills_to_the_answer() -> None:
    sample = made.samples(2, 1)[5]
    reply = render_answer(sample.metrics, sample.arch, sample.flags, "sig3")
    form, values = split_answer(reply)
    assert form == answer_skeleton(sample.arch, sample.flags, "sig3")
    assert fill_values(form, dict(zip(form.order, values, strict=True))) == reply


def test_long_sources_are_cut_to_the_context_and_counted() -> None:
    small = Encoder(encoder().tokenizer, "sig3", 700)
    source = made.samples(1, 1)[0].text + "".join(f"// filler line number {i}\n" for i in range(400))
    found = small.encode(source, "gfx90a", "-O3")
    room = len(found.prefix) + sum(map(len, found.literals))
    assert found.cut_lines > 0
    assert room <= 700
    kept = small.tokenizer.decode(found.prefix)
    assert f"// {found.cut_lines} lines cut to fit the context" in kept and "__global__" in kept
    with pytest.raises(BadInput, match="does not fit"):
        Encoder(encoder().tokenizer, "sig3", 250).encode("x" * 4000, "gfx90a", "-O3")


@pytest.mark.parametrize("fmt", FORMATS)
def test_forced_answers_of_an_untrained_model_are_valid(fmt: str) -> None:
    questions = [(s.text, s.arch, s.flags) for s in made.samples(2, 1)]
    for (_, arch, flags), found in zip(questions, decoder(fmt).decode_values(questions), strict=True):
        text = fill_values(answer_skeleton(arch, flags, fmt), found.values)
        read = parse_answer(text, arch=arch, flags=flags, digits=fmt)
        assert read.valid, read.errors


def test_batches_answer_like_single_questions() -> None:
    questions = [(s.text, s.arch, s.flags) for s in made.samples(3, 1)]
    together = decoder("sig3").decode_values(questions, batch=8)
    alone = [decoder("sig3").decode_values([q])[0] for q in questions]
    assert [a.values for a in together] == [a.values for a in alone]


def test_decoding_agrees_with_training() -> None:
    """The scores that training sees for a decoded answer prefer each of its figures among all figures."""
    torch: Any = needs.package("torch")
    sample = made.samples(2, 1)[1]
    answer = decoder("fixed3").decode_values([(sample.text, sample.arch, sample.flags)])[0]
    text = fill_values(answer_skeleton(sample.arch, sample.flags, "fixed3"), answer.values)
    read = parse_answer(text, arch=sample.arch, flags=sample.flags, digits="fixed3")
    example = encoder("fixed3").example(replace(sample, metrics=read.values))
    with torch.inference_mode():
        logits = decoder("fixed3").model(torch.tensor([example["input_ids"]])).logits[0]
    figures, checked = encoder("fixed3").ids("0123456789"), 0
    start = len(encoder("fixed3").encode(sample.text, sample.arch, sample.flags).prefix)
    for at, label in enumerate(example["labels"]):
        if at > start and label in figures and example["labels"][at - 1] in figures:  # a decimal: any figure is allowed
            assert max(figures, key=lambda token: float(logits[at - 1, token])) == label
            checked += 1
    assert checked >= 12


def test_a_padded_batch_has_the_loss_of_its_examples_alone() -> None:
    """Though logits are computed only from the first learned token of the batch on, and padding is not masked."""
    torch: Any = needs.package("torch")
    model, pad = decoder("fixed3").model, encoder("fixed3").tokenizer.pad_token_id
    examples = sorted((encoder("fixed3").example(s) for s in made.samples(6, 1)), key=lambda e: len(e["input_ids"]))
    batch = [examples[0], examples[-1]]
    assert len(batch[0]["input_ids"]) != len(batch[1]["input_ids"])
    weights = [sum(label != IGNORED for label in example["labels"]) for example in batch]
    with torch.inference_mode():
        arguments = batch_collator(pad, Throughput())(batch)
        together = model(**arguments).loss
        alone = [model(torch.tensor([e["input_ids"]]), labels=torch.tensor([e["labels"]])).loss for e in batch]
    expected = sum(float(loss) * weight for loss, weight in zip(alone, weights, strict=True)) / sum(weights)
    assert float(together) == pytest.approx(expected, rel=1e-5)
    assert arguments["logits_to_keep"] < arguments["input_ids"].shape[1] / 2


def test_unconstrained_decoding_returns_one_text_per_question() -> None:
    questions = [(s.text, s.arch, s.flags) for s in made.samples(1, 1)][:3]
    texts = decoder("sig3").decode_freely(questions, new_tokens=5)
    assert len(texts) == 3
    assert not any(parse_answer(text).valid for text in texts)


def test_one_question_takes_one_thread() -> None:
    """On a busy machine, several threads wait for each other."""
    torch: Any = needs.package("torch")
    seen: list[int] = []

    class Decoding:
        def decode_values(self, questions: object) -> None:
            seen.append(torch.get_num_threads())
            raise BadInput("enough")

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    predictor = Predictor(Path("model"), {}, Decoding())  # type: ignore[arg-type]
    with pytest.raises(BadInput):
        predictor.predict("__global__ void k() {}", "gfx90a", "-O3")
    assert (seen, torch.get_num_threads()) == ([1], 2)
    torch.set_num_threads(before)


@pytest.mark.parametrize(("share", "code"), [("0.01", Reason.NONE), ("0.9", Reason.ABOVE_ROOF)])
def test_an_impossible_answer_abstains(share: str, code: Reason) -> None:
    """A model of the source writes any digits; more bandwidth than the memory has is no answer."""

    class Decoding:
        def decode_values(self, questions: object) -> list[DecodedAnswer]:
            values = dict.fromkeys(answer_ids(), "0.001") | {"L2_Fabric_Read_BW": share}
            return [DecodedAnswer(values, "fixed3", prompt_tokens=10)]

    predictor = Predictor(Path("model"), {}, Decoding())  # type: ignore[arg-type]
    prediction = predictor.predict("__global__ void k() {}", "gfx90a", "-O3")
    [kernel] = prediction.document().kernels
    assert (kernel.reason_code, kernel.abstained) == (code, bool(code)), kernel.reason
    assert ("not reliable: " in prediction_table(prediction)) == bool(code)
