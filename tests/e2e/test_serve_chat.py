"""The chat route with a language model that is trained here: through the project's own client of such endpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator

import needs
import pytest
import training_corpus as made
from click.testing import CliRunner
from test_serve import BODY, KERNEL, ServeProcess

from hipsynth.cli.main import cli
from hipsynth.synth.llm.endpoint import Client, NoAnswer

pytestmark = pytest.mark.full
ASKED = {"messages": [{"role": "user", "content": "What will this kernel do?"}], "max_tokens": 12}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    needs.package("torch")
    needs.package("transformers")
    needs.sandbox()
    folder = tmp_path_factory.mktemp("chat")
    made.write_corpus(folder / "corpus", made.samples(15, 2))
    (folder / "toy.toml").write_text(made.TOY)
    words = ["train", folder / "corpus", "--config", folder / "toy.toml", "--out", folder / "model", "--json"]
    trained = CliRunner().invoke(cli, list(map(str, words)))
    assert trained.exit_code == 0 and json.loads(trained.stdout)["status"] == "finished", trained.output
    running = ServeProcess(folder, "--model", str(folder / "model"))
    yield running
    assert running.stop() == 0


@pytest.fixture
def client(server: ServeProcess) -> Client:
    return Client(f"{server.url}/v1", server.token)


def test_another_tool_gets_an_answer(client: Client) -> None:
    first, second = client.ask(ASKED), client.ask(ASKED)
    assert first.text == second.text, "greedy decoding"
    assert first.finish in ("stop", "length") and first.read and first.written
    assert 0 < first.written <= ASKED["max_tokens"] and (first.written == 12) == (first.finish == "length")


def test_a_stream_says_the_same(server: ServeProcess, client: Client) -> None:
    status, text = server.ask("POST", "/v1/chat/completions", {**ASKED, "stream": True})
    first, end = (line.removeprefix("data: ") for line in text.strip().split("\n\n"))
    assert (status, end) == (200, "[DONE]")
    assert json.loads(first)["choices"][0]["delta"]["content"] == client.ask(ASKED).text


def test_messages_that_are_too_long(client: Client) -> None:
    with pytest.raises(NoAnswer, match="tokens long"):
        client.ask({"messages": [{"role": "user", "content": "word " * 5000}]})


def test_code_that_does_not_compile_is_completed(server: ServeProcess) -> None:
    status, answer = server.ask("POST", "/v1/predict", {**BODY, "source": KERNEL.replace("2 * a[i]", "2 * a[i")})
    (result,) = answer["results"]
    assert status == 200 and result["source"] == "completed" and result["metrics"]["L1_Cache_Bandwidth"] > 0
    assert any("does not compile" in note for note in result["notes"])


def test_a_client_that_goes_away_leaves_the_model_free(server: ServeProcess, client: Client) -> None:
    hasty = Client(f"{server.url}/v1", server.token, timeout_s=0.2)
    with pytest.raises(NoAnswer):
        hasty.ask({**ASKED, "messages": [{"role": "user", "content": "again " * 80}], "max_tokens": 600})
    assert client.ask(ASKED).written
    assert "hipsynth_workers_lost 0.0" in server.ask("GET", "/metrics")[1]
