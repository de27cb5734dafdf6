"""Models that learn to use tools: what they read, what counts in the loss, and what earns a reward. No simulator."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import needs
import pytest
from fake_tuning import TEXT, without_simulator, write_traces

from hipsynth.core.errors import BadInput, MissingDependency
from hipsynth.synth.llm.endpoint import NoAnswer
from hipsynth.training.data.encode import IGNORED
from hipsynth.training.models.base import load_base
from hipsynth.training.models.config import load_config
from hipsynth.training.models.grpo import Rollout
from hipsynth.tuning.agent.prompts import DONE
from hipsynth.tuning.reason.chat_text import TEMPLATE, brief_messages, calls_in
from hipsynth.tuning.reason.grpo import roll_out, train_with_grpo, training_questions
from hipsynth.tuning.reason.kernel_rewrite import kernels_in, replace_kernels
from hipsynth.tuning.reason.local_model import LocalModel
from hipsynth.tuning.reason.sft import SPECIAL, encode_chat, read_chats, train_on_chats
from hipsynth.tuning.tools import ToolSession, run_tool
from hipsynth.tuning.trial import target_of

needs.installed("torch", "transformers")

TARGET = target_of("gfx942")
WRONG = TEXT.replace("2.0f", "/* wrong */ 1.0f")
HINTS = 1  # the number of the move that restricts the pointers
TINY = replace(load_config("tools-tiny"), max_steps=3, batch=1)


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    without_simulator(monkeypatch)


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Chats of two lineages to train on, and of one that is held out."""
    write_traces(tmp_path / "traces", ["train", "train", "test"])
    return tmp_path / "traces"


def tokenizer_of(traces: Path) -> Any:
    texts = [json.dumps(chat["messages"]) for chat in read_chats(traces)["train"]]
    tokenizer = load_base("tiny", texts, SPECIAL, TINY.tiny)[1]
    tokenizer.chat_template = TEMPLATE
    return tokenizer


class ScriptedModel(LocalModel):
    """Writes the given answers, one a turn; the last is repeated."""

    def __init__(self, tokenizer: Any, answers: list[str], context: int = 100_000) -> None:
        super().__init__(None, tokenizer, context)
        self.answers = answers

    def _write_answer(self, ids: list[int]) -> tuple[list[int], list[float]]:
        text = self.answers[min(len(self.turns), len(self.answers) - 1)]
        wrote = self.tokenizer(f"{text}<|im_end|>", add_special_tokens=False)["input_ids"]
        return wrote, [-1.0] * len(wrote)


def asked(name: str, **arguments: Any) -> str:
    return f"so\n<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def test_only_the_assistants_words_count_in_the_loss(traces: Path) -> None:
    tokenizer = tokenizer_of(traces)
    chats = read_chats(traces)["train"]
    assert chats
    for chat in chats:
        made = encode_chat(tokenizer, chat, 100_000)
        assert made is not None and len(made["input_ids"]) == len(made["labels"]) and made["cut_lines"] == 0
        learned = tokenizer.decode([label for label in made["labels"] if label != IGNORED])
        expected = ""
        for message in brief_messages(chat["messages"]):
            if message["role"] == "assistant" and message.get("weight") != 0:
                calls = [f"\n<tool_call>{json.dumps(c['function'])}</tool_call>" for c in message.get("tool_calls", [])]
                expected += message["content"] + "".join(calls) + "<|im_end|>"
        assert learned == expected
        for said in ("speedup", "Tools:", "```cpp"):
            assert said in tokenizer.decode(made["input_ids"]) and said not in learned


def test_long_chats_lose_results_and_then_do_not_fit(traces: Path) -> None:
    tokenizer, chat = tokenizer_of(traces), read_chats(traces)["train"][0]
    whole = encode_chat(tokenizer, chat, 100_000)
    assert whole is not None
    cut = encode_chat(tokenizer, chat, len(whole["input_ids"]) - 1)
    assert cut is not None and cut["cut_lines"] == 1 and encode_chat(tokenizer, chat, 50) is None


def moves_of(kernel: str, *plans: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"move": n, "transformation": "t", "kernel": kernel, "plan": p, "why": "w"} for n, p in enumerate(plans)]


def test_every_proposed_move_is_a_line_without_what_most_share() -> None:
    wide: dict[str, Any] = {"shape": [64, 4, 1]}
    rows = moves_of("k", {**wide, "coarsen": 2}, {**wide, "jam": True, "coarsen": 4}, {"shape": [8, 8, 1]}, wide)

    def shown(text: str) -> str:
        return str(brief_messages([{"role": "tool", "name": "propose", "content": text}])[0]["content"])

    assert shown(json.dumps({"moves": rows})) == "0 t coarsen=2\n1 t jam coarsen=4\n2 t shape=8x8x1\n3 t"
    cut = json.dumps({"moves": rows})[:-30] + " [cut]"
    assert [line[:3] for line in shown(cut).splitlines()] == ["0 t", "1 t", "2 t"]
    two = [*rows[:1], {**rows[1], "kernel": "other"}]
    assert shown(json.dumps({"moves": two})).splitlines()[1].startswith("1 t other ")
    assert shown(json.dumps({"moves": []})) == "no moves"


def test_calls_are_read_from_text_and_nonsense_has_no_name() -> None:
    said, calls = calls_in(f"I look.{asked('profile', program='v0')}", 3)
    assert said == "I look.so" and [(c.id, c.name, json.loads(c.arguments)) for c in calls] == [
        ("call_3", "profile", {"program": "v0"})
    ]
    for text in ("<tool_call>{not json}</tool_call>", "<tool_call>[1]</tool_call>", '<tool_call>{"arguments": 1}'):
        assert [call.name for call in calls_in(text, 0)[1]] == [""]
    assert calls_in(DONE, 0) == (DONE, ())


def test_results_are_shortened_to_what_decides(traces: Path) -> None:
    for chat in read_chats(traces)["train"]:
        shown = brief_messages(chat["messages"])
        for long, short in zip(chat["messages"], shown, strict=True):
            assert short["role"] == long["role"]
            if long["role"] == "tool":
                assert 0 < len(short["content"]) <= min(len(long["content"]), 1000) or long["name"] == "propose"
            if "It is " in short["content"] and " -> " in short["content"]:
                named = short["content"].partition(" (")[2].partition(")")[0]
                assert named in shown[shown.index(short) - 1]["content"]
    failed = {"role": "tool", "name": "apply", "content": json.dumps({"error": "unknown_move", "message": "no move 9"})}
    assert "no move 9" in brief_messages([failed])[0]["content"]
    assert brief_messages([{"role": "tool", "name": "apply", "content": "{cut"}])[0]["content"] == "{cut"


@pytest.mark.parametrize(
    ("answers", "reward", "ended"),
    [
        ([asked("propose", program="v0"), asked("apply", program="v0", move=HINTS), DONE], math.log(2), "finished"),
        ([asked("compile", source=WRONG, replaces="v0"), DONE], 0.0, "finished"),
        ([asked("compile", source=WRONG), f"{DONE}: 10 times faster"], 0.0, "finished"),
        ([f"{DONE}: v0 is 100 times as fast"], 0.0, "finished"),
        (["I cannot"], 0.0, "nonsense"),
        ([asked("profile", program="v9")], 0.0, "loop"),
    ],
)  # fmt: skip
def test_only_a_verified_gain_is_rewarded(traces: Path, answers: list[str], reward: float, ended: str) -> None:
    found = roll_out(ScriptedModel(tokenizer_of(traces), answers), TEXT, TARGET)
    assert (found.reward, found.ended) == (pytest.approx(reward), ended)
    assert len(found.tokens) == len(found.own) == len(found.logprobs) and sum(found.own) > 0


def test_a_rollout_is_one_sequence_of_own_and_told_tokens(traces: Path) -> None:
    tokenizer = tokenizer_of(traces)
    found = roll_out(ScriptedModel(tokenizer, [asked("profile", program="v0"), DONE]), TEXT, TARGET)
    own = tokenizer.decode([t for t, mine in zip(found.tokens, found.own, strict=True) if mine])
    told = tokenizer.decode([t for t, mine in zip(found.tokens, found.own, strict=True) if not mine])
    assert own == f"{asked('profile', program='v0')}<|im_end|>{DONE}<|im_end|>"
    assert "scale:" in told and "```cpp" not in told and "```cpp" in tokenizer.decode(found.prompt)
    assert all((p < 0) == bool(mine) for p, mine in zip(found.logprobs, found.own, strict=True))


def test_a_chat_beyond_the_context_ends_the_run(traces: Path) -> None:
    model = ScriptedModel(tokenizer_of(traces), [DONE], context=200)
    with pytest.raises(NoAnswer, match="reads 200"):
        model.ask({"messages": [{"role": "user", "content": TEXT}], "tools": []})
    assert roll_out(model, TEXT, TARGET) == Rollout([], [], [], [], 0.0, "endpoint: too_long")


def test_training_makes_a_model_that_can_be_driven(traces: Path, tmp_path: Path) -> None:
    record = train_on_chats(traces, TINY, tmp_path / "model")
    counts = {part: len(rows) for part, rows in read_chats(traces).items()}
    assert record["samples"] == counts and min(counts.values()) > 1
    assert record["steps"] == 3 and record["task"] == "tools"
    assert train_on_chats(traces, TINY, tmp_path / "model")["status"] == "already finished"
    from hipsynth.training.models.base import load_trained

    model, tokenizer = load_trained(tmp_path / "model", record)
    local = LocalModel(model, tokenizer, record["context"], most=8)
    found = roll_out(local, TEXT, TARGET)
    assert found.reward == 0.0 and sum(found.own) == sum(len(turn.wrote) for turn in local.turns) > 0
    assert [arch for _, arch in training_questions(traces).values()] == ["gfx942"] * 2
    again = local.turns[1].read
    assert again[: len(local.turns[0].read)] == local.turns[0].read


def test_a_program_is_asked_about_on_each_architecture(tmp_path: Path) -> None:
    write_traces(tmp_path / "traces", ["train", "train"])
    file = tmp_path / "traces" / "train.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(row | {"arch": arch}) + "\n" for row in rows for arch in ("gfx942", "gfx90a")))
    questions = training_questions(tmp_path / "traces")
    assert len(questions) == 4 and len({text for text, _ in questions.values()}) == 2


def test_turns_read_only_what_is_new(traces: Path) -> None:
    texts = [json.dumps(chat["messages"]) for chat in read_chats(traces)["train"]]
    model, tokenizer = load_base("tiny", texts, SPECIAL, TINY.tiny)
    local, fresh = (LocalModel(model.eval(), tokenizer, 1536, most=6) for _ in range(2))
    read = tokenizer(texts[0])["input_ids"]
    for ids in (read[:40], read[:55], read[:30] + read[70:90], read[:20]):
        wrote, logprobs = local._write_answer(ids)
        fresh.clear()
        expected = fresh._write_answer(ids)
        assert wrote == expected[0] and logprobs == pytest.approx(expected[1], abs=1e-4)
        assert local._cache.get_seq_length() == len(local._known) == len(ids) + len(wrote) - 1


KERNELS = """template <typename T>
static __global__ void __launch_bounds__(256) one(T* a) { if (a) { a[0] = 1; } }
__global__ void two(int* b) { b[0] = 2; }
int main() { one<<<1, 1>>>(p); two<<<1, 1>>>(q); }
"""


def test_an_answers_kernels_take_the_place_of_the_programs() -> None:
    assert list(kernels_in(KERNELS)) == ["one", "two"]
    assert kernels_in(KERNELS)["one"].startswith("template") and kernels_in(KERNELS)["one"].endswith("a[0] = 1; } }")
    answer = "I write:\n```cpp\n__global__ void two(int* b) { b[0] = 3; }\n__global__ void new(int* b) {}\n```\nDone"
    assert replace_kernels(KERNELS, answer) == KERNELS.replace("b[0] = 2", "b[0] = 3")
    for nonsense in ("", "faster", "```cpp\n__global__ void two(int* b) { b[0]", "```cpp\nvoid two() {}\n```"):
        assert replace_kernels(KERNELS, nonsense) == KERNELS


MANY_GPUS = """
from pathlib import Path
from hipsynth.training.models.trainer import prepare_deepspeed, training_arguments
from hipsynth.training.models.config import load_config
config = load_config("tools-coder-7b")
prepare_deepspeed(config)
made = training_arguments(config, Path("checkpoints"), 4000)
assert config.task == "tools" and made.deepspeed.endswith("zero3.json") and made.bf16
assert made.hf_deepspeed_config.is_zero3() and made.max_steps == 2000
"""


@pytest.mark.full
def test_the_recipe_for_many_gpus_builds_its_run(tmp_path: Path) -> None:
    """In a process of its own: the arguments set up the whole process for DeepSpeed."""
    needs.package("deepspeed")
    done = subprocess.run([sys.executable, "-c", MANY_GPUS], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_wrong_with_a_folder_is_said(traces: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingDependency, match="uses tools"):
        train_with_grpo(traces, replace(load_config("tools-grpo"), base=str(tmp_path)), tmp_path / "out")
    (traces / "train.jsonl").write_text('{"messages": []}\n')
    with pytest.raises(BadInput, match="line 1 is no chat"):
        read_chats(traces)
    (traces / "train.jsonl").write_text("")
    with pytest.raises(BadInput, match="no chats"):
        read_chats(traces)


@pytest.mark.full
def test_reinforcement_takes_steps_with_the_tools_as_environment(traces: Path, tmp_path: Path) -> None:
    needs.package("trl")
    train_on_chats(traces, TINY, tmp_path / "model")
    config = replace(load_config("tools-grpo"), base=str(tmp_path / "model"), max_steps=1, batch=2, generations=2)
    record = train_with_grpo(traces, config, tmp_path / "reinforced")
    assert (
        record["steps"] == 1 and len(record["rollouts"]) == 2 and (tmp_path / "reinforced" / "hipsynth.json").exists()
    )


def test_moves_are_proposed_by_the_gain_that_previews_expect() -> None:
    session = ToolSession(TARGET)
    session.add(TEXT, made="source")
    moves = run_tool(session, "propose", {"program": "v0"}).document["moves"]
    gains = [row.get("gain") for row in moves]
    assert gains[0] == 1.5 and gains == sorted(gains, key=lambda gain: -(gain or 0.0))
    assert None in gains  # what has no preview is still proposed
    numbers = sorted(row["move"] for row in moves)
    assert numbers == list(range(len(moves)))  # a number stays that of the move, whatever its place
    unseen = run_tool(session, "propose", {"program": "v0", "preview": 0}).document["moves"]
    assert not any(row.get("gain") for row in unseen)
    text = brief_messages([{"role": "tool", "name": "propose", "content": json.dumps({"moves": moves})}])[0]["content"]
    assert "gain=1.5" in text.splitlines()[0]
