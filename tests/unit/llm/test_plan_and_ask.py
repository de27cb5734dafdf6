"""What is asked, at what pace, how often again, and what a second run asks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from chat_server import Handler, completion, serving

from hipsynth.core.errors import BadInput, UsageError
from hipsynth.synth.llm import ask
from hipsynth.synth.llm.ask import RequestPolicy, answer_journal, ask_all
from hipsynth.synth.llm.endpoint import Client, EndpointFailed
from hipsynth.synth.llm.prompts import ModelRequest, choose_rows, load_prompts, plan_requests


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask, "FIRST_WAIT_S", 0.01)


def _requests(
    count: int | None = None, temperatures: tuple[float, ...] = (0.2, 1.0), **options: Any
) -> list[ModelRequest]:
    prompts = load_prompts()
    chosen = choose_rows(prompts, ["saxpy", "gather"], ["plain", "tuned"])
    return plan_requests(prompts, chosen, temperatures, "m", count, **options)


def test_the_grid_comes_once_by_default_and_a_larger_count_continues_it() -> None:
    once = _requests()
    assert len({r.key for r in once}) == len(once) == 8
    more = _requests(11, seed=5)
    assert [r.name for r in more[:8]] == [r.name for r in once]
    assert [r.body["seed"] for r in more] == [5] * 8 + [6] * 3
    first = once[0]
    assert first.body["temperature"] == 0.2 and first.body["stream"] is False and "seed" not in first.body
    assert [m["role"] for m in first.body["messages"]] == ["system", "user"]
    assert first.problem.text in first.body["messages"][1]["content"]
    assert first.level.text in first.body["messages"][1]["content"]


def test_the_shipped_prompts_are_whole() -> None:
    prompts = load_prompts()
    assert len(prompts.problems) >= 24 and len(prompts.levels) >= 3
    assert len({problem.lineage for problem in prompts.problems}) == len(prompts.problems)


def test_unknown_names_and_broken_prompts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no problem called 'x'"):
        choose_rows(load_prompts(), ["x"], [])
    with pytest.raises(BadInput):
        load_prompts(tmp_path)
    (tmp_path / "problems.toml").write_text('[[problem]]\nname = "a"\n')
    with pytest.raises(BadInput, match="cannot be used"):
        load_prompts(tmp_path)
    (tmp_path / "problems.toml").write_text(
        '[[problem]]\nname = "a"\nkind = "k"\ntext = "t"\nsize = "1"\n[[level]]\nname = "l"\ntext = "t"\n'
    )
    (tmp_path / "user.j2").write_text("")
    for template, problem in (
        ("nothing", "nothing"),
        ("problem.name + 1", "can only concatenate"),
        ("1 / 0", "division"),
        ("'{}'.format()", "index"),
    ):
        (tmp_path / "system.j2").write_text("{{ " + template + " }}")
        prompts = load_prompts(tmp_path)
        with pytest.raises(BadInput, match=problem):
            prompts.messages(prompts.problems[0], prompts.levels[0])


def test_answers_are_asked_once_and_kept(tmp_path: Path) -> None:
    wanted = _requests()
    with serving(lambda handler, body: handler.send(completion(body["messages"][1]["content"]))) as server:
        client = Client(server.url)
        first = ask_all(wanted[:5], client, answer_journal(tmp_path / "a"), RequestPolicy())
        (tmp_path / "a").open("ab").write(b'\n{"key": "torn", "res')
        second = ask_all(wanted, client, answer_journal(tmp_path / "a"), RequestPolicy())
        assert len(server.requests) == 8
    assert (first.reused, second.reused) == (0, 5)
    assert {key: answer.text for key, answer in second.answers.items()} == {
        r.key: r.body["messages"][1]["content"] for r in wanted
    }
    record = answer_journal(tmp_path / "a").read()[wanted[7].key]
    assert record["request"] == wanted[7].body and '"m-1"' in record["raw"]


def test_requests_at_a_time_and_per_minute_are_bounded(tmp_path: Path) -> None:
    inside: list[None] = []
    most: list[int] = []

    def slowly(handler: Handler, _: object) -> None:
        inside.append(None)
        most.append(len(inside))
        time.sleep(0.05)
        inside.pop()
        handler.send(completion("x"))

    with serving(slowly) as server:
        ask_all(_requests(24), Client(server.url), answer_journal(tmp_path / "a"), RequestPolicy(at_once=3))
        assert 1 < max(most) <= 3
    with serving(lambda handler, _: handler.send(completion("x"))) as server:
        start = time.monotonic()
        ask_all(_requests(6), Client(server.url), answer_journal(tmp_path / "b"), RequestPolicy(per_minute=600))
        took = time.monotonic() - start
    assert took >= 0.5, "five gaps of 0.1 s"


def test_retry_after_holds_back_all_requests(tmp_path: Path) -> None:
    times: list[float] = []

    def limited(handler: Handler, _: object) -> None:
        times.append(time.monotonic())
        if len(times) == 1:
            handler.send(b"slow down", 429, Retry_After="1")
        else:
            handler.send(completion("x"))

    with serving(limited) as server:
        asked = ask_all(_requests(8), Client(server.url), answer_journal(tmp_path / "a"), RequestPolicy(at_once=1))
    assert len(asked.answers) == 8 and not asked.failed
    assert times[1] - times[0] >= 0.99


def test_failures_are_counted_and_nothing_finished_is_lost(tmp_path: Path) -> None:
    def odd(handler: Handler, body: dict[str, Any]) -> None:
        if (body["temperature"], body["seed"]) == (0.2, 0):
            handler.send(b"{", 200)
        elif (body["temperature"], body["seed"]) == (1.0, 1):
            handler.send(b"busy", 503)
        else:
            handler.send(completion("x"))

    wanted = _requests(16, seed=0)
    with serving(odd) as server:
        asked = ask_all(wanted, Client(server.url), answer_journal(tmp_path / "a"), RequestPolicy(at_once=1, retries=2))
        assert len(server.requests) == 4 + 8 + 3 * 4
    assert asked.failed == {"bad_json": 4, "http_503": 4} and len(asked.answers) == 8
    assert "bad_json" in asked.examples and not asked.stopped
    with serving(lambda handler, _: handler.send(completion("y"))) as server:
        again = ask_all(wanted, Client(server.url), answer_journal(tmp_path / "a"), RequestPolicy())
        assert len(server.requests) == 8 and again.reused == 8 and not again.failed


def test_asking_ends_where_it_cannot_help(tmp_path: Path) -> None:
    with serving(lambda handler, _: handler.send(b"who?", 401)) as server:
        with pytest.raises(EndpointFailed) as caught:
            ask_all(_requests(), Client(server.url), answer_journal(tmp_path / "a"), RequestPolicy(at_once=2))
        assert len(server.requests) < len(_requests())
        assert "api-key-env" in caught.value.remedy and caught.value.exit_code == 4

    def dies(handler: Handler, _: object) -> None:
        if len(server.requests) <= 3:
            handler.send(completion("x"))

    with serving(dies) as server:
        asked = ask_all(_requests(40), Client(server.url), answer_journal(tmp_path / "b"), RequestPolicy(1, retries=1))
    assert len(asked.answers) == 3 and asked.stopped
    assert asked.failed == {"unreachable": ask.GIVE_UP, "not_asked": 40 - 3 - ask.GIVE_UP}
