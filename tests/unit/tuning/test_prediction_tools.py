"""Predicting with tools: prices, the cheapest right plan, what counts in the loss, answers that are always valid."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path

import needs
import pytest
import training_corpus as made

from hipsynth.core.errors import BadInput, MissingDependency
from hipsynth.core.program import Program
from hipsynth.profiling.backends.protocol import Target
from hipsynth.training.analytic.preview_journal import PREVIEWS, PreviewFeatures, PreviewJournal
from hipsynth.training.analytic.quantities import metric_quantities
from hipsynth.training.data.dataset import LabelledSample
from hipsynth.training.data.encode import IGNORED
from hipsynth.training.models.config import Config
from hipsynth.training.models.grpo import RolloutTask, _grpo_settings
from hipsynth.tuning.prediction.agent import SHIPPED_AGENT, PredictionAgent, calls_of, likeliest
from hipsynth.tuning.prediction.chat import ANSWER_KEYS, Question, answer_literals, encode_chat, pieces_of
from hipsynth.tuning.prediction.live import LiveTools, predict_program
from hipsynth.tuning.prediction.policy import best_plan, evaluate_plans, reward_of
from hipsynth.tuning.prediction.reinforce import reinforce, roll_out
from hipsynth.tuning.prediction.tools import (
    MEASURING,
    SURE,
    TOOLS,
    VALUES,
    RecordedTools,
    ToolReply,
    label_values,
    price_table,
    value_texts,
)
from hipsynth.tuning.prediction.traces import (
    CHATS,
    RecordedQuestion,
    chats_of,
    collect_previews,
    judged_tools,
    make_chat,
    read_chats,
    sample_id,
    write_chats,
)
from hipsynth.tuning.prediction.train import VALID_SHARE, train_to_predict

FACTS = {"vgprs": 12.0, "lds": -40.0, "occupancy": 0.5, "groups": 10.0, "block": 8.0, "buffers": 20.0}
TRUST = {"run_share": 0.01, "by_data": 1.0, "guessed": 0.0, "sensitivity": math.log(2.0), "missed_buffers": 1.0}


def labelled(index: int = 1) -> LabelledSample:
    return replace(made.samples(4, 1)[index], duration_ns=5000.0)


def preview_of(sample: LabelledSample, wrong: float = 1.0) -> PreviewFeatures:
    """A preview that counts as the label does, and takes `wrong` times as long."""
    truth = metric_quantities(sample.metrics, sample.duration_ns, sample.arch)
    quantities = truth | {"duration": truth["duration"] * wrong}
    return PreviewFeatures(FACTS | TRUST, quantities, "hbm", 0.9 * quantities["duration"])


def tools_of(sample: LabelledSample, wrong: float = 1.0, expected_share: float | None = 0.95) -> RecordedTools:
    """What the tools say of a sample; the preview expects of itself `expected_share`."""
    return RecordedTools(sample, preview_of(sample, wrong), expected_share)


def test_the_preview_is_best_where_it_is_right_and_executing_where_it_is_not() -> None:
    sample = labelled()
    assert best_plan(sample, preview_of(sample)).calls == ("preview",)
    assert best_plan(sample, preview_of(sample, wrong=3.0)).calls == ("execute",)
    assert best_plan(sample, None).calls == ("execute",)


def test_rewards_are_shares_less_prices() -> None:
    sample, table = labelled(), price_table()
    plan = evaluate_plans(sample, preview_of(sample))["preview", "execute"]
    assert plan.share == 1.0
    assert plan.reward == pytest.approx(1 - table.price_weight * (table.preview.price_s + table.execute.price_s))
    assert [row.price_s for row in table.rows().values()] == sorted(row.price_s for row in table.rows().values())


def test_tools_say_what_a_preview_knows() -> None:
    sample = labelled()
    tools = tools_of(sample, expected_share=0.875)
    assert json.loads(tools.call("compile").text) == {"vgprs": "12", "lds_bytes": "0", "occupancy": "0.50"}
    assert json.loads(tools.call("launches").text) == {"groups": "1024", "items": "256", "megabytes": "1.05"}
    preview = json.loads(tools.call("preview").text)
    assert (preview["data_decides"], preview["other_data"], preview["explains"]) == ("yes", "2.0", "0.90")
    assert list(preview.items())[-1] == (SURE, "0.900"), "the last one, beside the move that it decides"
    assert {name: preview[name] for name in VALUES} == value_texts(label_values(sample))
    assert json.loads(RecordedTools(sample, None).call("preview").text) == {"error": "no_preview"}


def test_a_losing_first_call_and_a_guess_of_the_source_are_not_learned() -> None:
    sample = labelled()
    straight, detour = list(chats_of(tools_of(sample, wrong=3.0)))[:2]
    assert [call.name for call in straight.calls] == ["execute"]
    assert [call.name for call in detour.calls] == ["preview", "execute"]
    moves = [piece for piece in pieces_of(detour) if piece.text.startswith("<tool_call>")]
    assert [piece.learned for piece in moves] == [False, True]
    drills = [chat for chat in chats_of(tools_of(sample, wrong=3.0)) if chat.drilled and len(chat.calls) == 2]
    assert drills and all(drill.learned_from == 1 for drill in drills), (
        "to go on after a preview is learned in them, too"
    )
    alone = make_chat(RecordedTools(sample, None), (), with_tools=False)
    learned = {piece.text: piece.learned for piece in pieces_of(alone)}
    assert not pieces_of(alone)[-2].learned  # how sure it is: nothing tells
    assert learned[alone.answer[VALUES[0]]]


def test_chats_are_read_as_they_were_written(tmp_path: Path) -> None:
    samples = made.samples(6, 1)
    previews = {
        sample_id(s): preview_of(s, wrong) for s, wrong in zip(samples, [1.0, 3.0] * len(samples), strict=False)
    }
    report = write_chats(samples, previews, tmp_path)
    chats = read_chats(tmp_path)
    assert sum(report.chats.values()) == len(chats)
    tools = judged_tools(samples, previews, tmp_path)
    assert chats == [chat for row in tools for chat in chats_of(row)]
    row = json.loads((tmp_path / "chats.jsonl").read_text().splitlines()[0])
    assert row["messages"][0]["role"] == "user" and row["messages"][1]["tool_calls"][0]["function"]["name"] in TOOLS
    assert set(json.loads(row["messages"][-1]["content"])) == set(ANSWER_KEYS)
    (tmp_path / "chats.jsonl").write_text('{"text": 1}\n')
    with pytest.raises(BadInput, match="line 1 is no PredictionChat"):
        read_chats(tmp_path)


def test_previews_of_samples_are_those_that_are_kept(tmp_path: Path) -> None:
    samples, journal = made.samples(4, 1), PreviewJournal(tmp_path / PREVIEWS)
    journal.keep_previews((sample, preview_of(sample)) for sample in samples)
    expected = {sample_id(sample): preview_of(sample) for sample in samples}
    assert (
        len(expected) == len(samples)
        and collect_previews(samples, PreviewJournal(tmp_path / PREVIEWS), 1, print) == expected
    )


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> PredictionAgent:
    needs.package("torch")
    folder = tmp_path_factory.mktemp("predict")
    samples = made.samples(8, 1)
    write_chats(samples, {sample_id(s): preview_of(s) for s in samples}, folder)
    config = made.toy_config(task="predict-with-tools", context=1024)
    train_to_predict(folder, config, folder / "model")
    return PredictionAgent.load(folder / "model")


def test_a_training_needs_a_lineage_beside_that_of_the_validation(tmp_path: Path) -> None:
    samples = made.samples(8, 1)
    write_chats(samples, {sample_id(s): preview_of(s) for s in samples}, tmp_path)
    number = next(n for n in range(1000) if int(hashlib.sha256(str(n).encode()).hexdigest(), 16) % VALID_SHARE == 0)
    file = tmp_path / CHATS
    rows = [json.loads(line) | {"lineage": str(number)} for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(BadInput, match="every lineage is for the validation loss"):
        train_to_predict(tmp_path, made.toy_config(task="predict-with-tools"), tmp_path / "model")


def test_every_answer_is_valid_whatever_the_weights_say(agent: PredictionAgent) -> None:
    """The model made two steps, so its answers mean nothing; their form is held."""
    samples = [labelled(i) for i in range(2)]
    answers = agent.answer([(Question.of(s), tools_of(s)) for s in samples])
    assert len(answers) == 2
    for answer in answers:
        assert set(answer.values) == set(VALUES) and all(math.isfinite(v) and v >= 0 for v in answer.values.values())
        assert 0 <= answer.sure <= 1
        assert answer.price_s == price_table().price(answer.calls)
        assert len(set(answer.calls)) == len(answer.calls)
        assert all(sum(d.probabilities.values()) == pytest.approx(1) for d in answer.decisions)


def test_leaning_moves_the_trade_of_price_for_accuracy(agent: PredictionAgent) -> None:
    sample = labelled()
    question = Question.of(sample), tools_of(sample)
    hurried = agent.answer([question], lean=1e6)[0]
    assert hurried.measured and hurried.calls[-1] in MEASURING and not MEASURING & set(hurried.calls[:-1])
    patient = agent.answer([question], lean=-1e6)[0]
    assert patient.calls[-1] == "execute", "it goes on until nothing is known better"
    assert patient.values == {name: float(text) for name, text in value_texts(label_values(sample)).items()}
    assert agent.answer([(question[0], None)], lean=-1e6)[0].calls == ()


def test_no_answer_comes_before_every_tool_that_measures_has_failed(agent: PredictionAgent) -> None:
    class FailedTools:
        def call(self, name: str) -> ToolReply:
            return ToolReply({"error": "compile_failed"})

    answer = agent.answer([(Question.of(labelled()), FailedTools())], lean=1e6)[0]
    assert not answer.measured and set(answer.calls) >= MEASURING


def test_an_answer_behind_a_preview_is_as_sure_as_the_preview(agent: PredictionAgent) -> None:
    tools = tools_of(labelled(), expected_share=0.95)

    class PreviewAlone:
        def call(self, name: str) -> ToolReply:
            return ToolReply({"error": "timeout"}) if name == "execute" else tools.call(name)

    answer = agent.answer([(Question.of(labelled()), PreviewAlone())], lean=1e6)[0]
    assert answer.measured and answer.sure == 0.95


def test_training_and_answering_read_the_same_tokens(agent: PredictionAgent) -> None:
    """Up to the first value of an answer without tools, and up to the reply of a first call."""
    sample = labelled()
    question, tools = Question.of(sample), tools_of(sample)
    alone = make_chat(tools, (), with_tools=False)
    row = encode_chat(agent.tokenizer, question, pieces_of(alone), 1024, False)
    asked = agent.discuss(question, None, likeliest(0.0)).ids
    assert row["input_ids"][: len(asked)] == asked
    assert row["labels"][len(asked) - 1] != IGNORED
    called = agent.discuss(question, tools, likeliest(-1e6))
    order = calls_of(called.decisions)
    row = encode_chat(agent.tokenizer, question, pieces_of(make_chat(tools, order)), 1024, True)
    assert row["input_ids"][: len(called.ids)] == called.ids


def test_reinforcement_rewards_right_values_less_their_price(agent: PredictionAgent, tmp_path: Path) -> None:
    """A run is one sequence: what the model wrote is marked, and its reward is what the policy says of its calls."""
    from random import Random

    sample = labelled()
    question = RecordedQuestion.of(tools_of(sample, wrong=3.0))
    for seed in range(6):
        rollout = roll_out(agent, question, Random(seed))
        calls = tuple(rollout.ended.split()[:-1])
        measured = [name for name in calls if name in ("preview", "execute")]
        share = 0.0 if not measured else evaluate_plans(sample, preview_of(sample, wrong=3.0))[(measured[-1],)].share
        assert rollout.reward == pytest.approx(reward_of(share, calls))
        assert len(rollout.tokens) == len(rollout.own) == len(rollout.logprobs)
        assert all((logprob < 0) == bool(own) for own, logprob in zip(rollout.own, rollout.logprobs, strict=True))


def _train_base(folder: Path, **changes: int) -> tuple[list[LabelledSample], Config]:
    """The samples of a base that is trained in a folder, and a recipe that reinforces it."""
    samples = made.samples(4, 1)
    write_chats(samples, {sample_id(s): preview_of(s) for s in samples}, folder)
    config = made.toy_config(task="predict-with-tools", context=1024)
    train_to_predict(folder, config, folder / "model")
    practice = replace(config, method="grpo", base=str(folder / "model"), batch=2, generations=2)
    return samples, replace(practice, **changes)  # type: ignore[arg-type]


def test_reinforcement_takes_steps_and_keeps_what_the_model_is(tmp_path: Path) -> None:
    needs.package("trl")
    samples, practice = _train_base(tmp_path, max_steps=9, lora_r=0)
    practice = replace(practice, epochs=1 / len(samples))  # a step has two runs of one question
    record = reinforce(tmp_path, practice, tmp_path / "reinforced")
    assert record["steps"] == 1 and len(record["rollouts"]) == 2
    again = reinforce(tmp_path, practice, tmp_path / "reinforced")
    assert (again["status"], again["rollouts"]) == ("already finished", record["rollouts"])
    assert PredictionAgent.load(tmp_path / "reinforced").answer([(Question.of(samples[0]), None)])[0].calls == ()
    with pytest.raises(MissingDependency, match="no model that predicts with tools"):
        reinforce(tmp_path, replace(practice, base=str(tmp_path)), tmp_path / "other")


def test_reinforcement_follows_the_whole_recipe(tmp_path: Path) -> None:
    needs.package("torch")
    config = made.toy_config(
        method="grpo", task="tools", batch=4, generations=2, epochs=2.0, max_steps=99, betas=(0.8, 0.95),
        weight_decay=0.1, warmup=0.3, bf16="yes",
    )  # fmt: skip
    task = RolloutTask(["a", "b", "c"], lambda model, prompt: pytest.fail("not run"), 0.7)
    settings = _grpo_settings(config, tmp_path, 64, task)
    expected = {"adam_beta1": 0.8, "adam_beta2": 0.95, "weight_decay": 0.1, "warmup_steps": 0.3, "bf16": True}
    assert expected.items() <= settings.items()
    assert settings["max_steps"] == 3, "two epochs of three questions, two questions a step"


def test_interrupted_reinforcement_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    needs.package("trl")
    samples, practice = _train_base(tmp_path, max_steps=3, lora_r=2, save_steps=1)
    steps = []

    def stop_after_two(step: int, total: int, note: str) -> None:
        steps.append(step)
        if len(steps) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reinforce(tmp_path, practice, tmp_path / "reinforced", stop_after_two)
    record = reinforce(tmp_path, practice, tmp_path / "reinforced", stop_after_two)
    assert steps == [1, 2, 2, 3], "the second step was not saved"
    assert record["steps"] == 3 and len(record["rollouts"]) == 6
    assert not (tmp_path / "reinforced" / "adapter_config.json").exists(), "adapters are part of the weights"
    assert PredictionAgent.load(tmp_path / "reinforced").answer([(Question.of(samples[0]), None)])


def test_a_model_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingDependency, match="predicts with tools"):
        PredictionAgent.load(tmp_path)


def test_the_answer_is_json_with_every_key_once() -> None:
    document = json.loads("1".join(answer_literals()).removesuffix("<|im_end|>"))
    assert list(document) == list(ANSWER_KEYS)


def test_the_shipped_model_calls_a_tool_and_repeats_its_reply() -> None:
    needs.package("torch")
    shipped = PredictionAgent.load(SHIPPED_AGENT)
    samples = [labelled(i) for i in range(6)]
    answers = shipped.answer([(Question.of(s), tools_of(s)) for s in samples])
    for sample, answer in zip(samples, answers, strict=True):
        assert answer.calls  # a program that it does not know is not guessed
        reply = tools_of(sample).call(answer.calls[-1]).values
        assert reply is not None
        assert answer.values == {name: float(text) for name, text in value_texts(reply).items()}
    written = shipped.answer([(Question.of(s), tools_of(s)) for s in samples], repeat=False)
    same = sum(a.values[name] == b.values[name] for a, b in zip(answers, written, strict=True) for name in VALUES)
    assert same >= 0.5 * len(VALUES) * len(samples)  # what it has learned of reading numbers


def test_an_answer_that_no_tool_measured_abstains(agent: PredictionAgent, tmp_path: Path) -> None:
    """A model goes on after a failed call, and would print numbers with confidence."""
    program = Program("__global__ void broken(float* a) { a[0] = undeclared; }\nint main() {}\n", "handwritten", "x")
    tools = LiveTools(program, Target("gfx942", "-O3", "mi300x"))
    assert json.loads(tools.call("preview").text) == {"error": "compile_failed"}
    prediction = predict_program(agent, tmp_path, program, Target("gfx942", "-O3", "mi300x"))
    [kernel] = prediction.document().kernels
    assert kernel.abstained and kernel.reason_code == "not_measured" and "no tool measured" in kernel.reason
    assert "a guess" in prediction.notes[0]
