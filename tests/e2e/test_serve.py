"""`synth serve` as other programs use it: over a socket, with real workers, killed and stopped."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs
import pytest
from click.testing import CliRunner

from hipsynth.cli.main import cli

KERNEL = """#include <hip/hip_runtime.h>
__global__ void twice(float* a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] = 2 * a[i];
}
int main() {
  float* a;
  hipMalloc(&a, 4096 * 4);
  hipMemset(a, 0, 4096 * 4);
  twice<<<16, 256>>>(a, 4096);
  hipDeviceSynchronize();
}
"""
ENDLESS = KERNEL.replace("hipDeviceSynchronize();", "for (volatile int i = 0;; i = i + 1) {}")
BODY = {"source": KERNEL, "arch": "gfx90a", "flags": "-O3"}
PATIENCE_S = 120.0
ROOT = Path(__file__).resolve().parents[2]


class ServeProcess:
    """A running `synth serve --port 0 --json`."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "hipsynth.cli.main", "serve", "--port", "0", "--json", "--workers", "1"]
        command += options
        self.log = (folder / "log").open("w+")
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=self.log, text=True, start_new_session=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert set(json.loads(line)) == {"url", "token"}
        self.url, self.token = json.loads(line)["url"], json.loads(line)["token"]

    def ask(self, method: str, path: str, body: Any = None, token: str | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=PATIENCE_S)
        headers = {"authorization": f"Bearer {self.token if token is None else token}"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, json.loads(text) if answer.headers["content-type"] == "application/json" else text

    def job(self, body: Any, until: tuple[str, ...] = ("done", "failed", "cancelled")) -> dict[str, Any]:
        status, accepted = self.ask("POST", "/v1/profile", body)
        assert status == 202
        return self.until(accepted["job"], until)

    def until(self, job: str, states: tuple[str, ...]) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            status, state = self.ask("GET", f"/v1/jobs/{job}?wait_s=0.1")
            assert status == 200
            if state["state"] in states:
                found: dict[str, Any] = state
                return found
        raise AssertionError(f"the job is never {states}")

    def workers(self) -> list[int]:
        """The worker processes that execute programs or predict."""
        return [pid for pid in children(self.process.pid) if "hipsynth.serving.worker" in command_of(pid)]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for path in listed for word in path.read_text().split()]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def descendants(pid: int) -> set[int]:
    own = set(children(pid))
    return own.union(*(descendants(child) for child in own))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    needs.simulator()
    needs.sandbox()
    running = ServeProcess(tmp_path_factory.mktemp("serve"))
    yield running
    if running.process.poll() is None:
        running.stop()


def without_times(document: dict[str, Any]) -> dict[str, Any]:
    for result in document["results"]:
        result.pop("seconds", None)
    document["program"].pop("path")
    return document


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.hip"
    path.write_text(KERNEL)
    return path


def verb(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(cli, list(words), prog_name="synth", standalone_mode=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_kernel_without_main_is_predicted_and_executed_alike(server: ServeProcess) -> None:
    alone = {**BODY, "source": KERNEL.partition("int main")[0], "values": {"n": 4096}}
    status, predicted = server.ask("POST", "/v1/predict", alone)
    assert status == 200
    executed = server.job({**alone, "lines": True})["document"]
    (note,) = predicted["results"][0]["notes"]
    assert executed["assumed"] == [note] and "16 x 1 x 1 work-groups" in note
    (guess,), (kernel,) = predicted["results"][0]["kernels"], executed["results"][0]["kernels"]
    assert guess["grid"] == [16, 1, 1] and kernel["dispatches"] == 1
    assert {line["line"] for line in kernel["lines"]} <= {0, 3, 4, 5}, "the lines are those of the text that was sent"


def test_a_prediction_is_the_document_of_synth_predict(server: ServeProcess, file: Path) -> None:
    status, answer = server.ask("POST", "/v1/predict", BODY)
    assert status == 200 and answer["program"]["path"] == "kernel.hip"
    assert without_times(answer) == without_times(verb("predict", str(file), "--arch", "gfx90a", "--json"))


def test_a_job_is_the_document_of_synth_profile(server: ServeProcess, file: Path) -> None:
    done = server.job(BODY)
    assert done["state"] == "done"
    wanted = without_times(verb("profile", str(file), "--arch", "gfx90a", "--json"))
    assert without_times(done["document"]) == wanted and wanted["results"][0]["kernels"]


def test_a_changed_program_is_verified(server: ServeProcess) -> None:
    _, accepted = server.ask("POST", "/v1/verify", {**BODY, "original": KERNEL, "source": KERNEL + "// changed\n"})
    document = server.until(accepted["job"], ("done", "failed"))["document"]
    assert document["verified"] is True and document["speedup"] == pytest.approx(1.0, abs=0.05)


def test_mistakes_are_told(server: ServeProcess) -> None:
    foreign = {**BODY, "source": '#include "/etc/passwd"\n' + KERNEL}
    status, told = server.ask("POST", "/v1/predict", foreign)
    assert status == 200 and told["results"][0]["source"] == "text" and "root:" not in json.dumps(told)
    failed = server.job(foreign)["document"]["results"][0]
    assert failed["reason"] == "compile_failed" and "passwd" in failed["message"]
    assert server.ask("POST", "/v1/predict", {**BODY, "arch": "gfx1"})[0] == 422
    assert server.ask("GET", "/metrics", token=server.token[:-1])[0] == 401
    assert server.ask("GET", "/healthz", token="")[0] == 200
    assert Path(f"/proc/{server.process.pid}").exists()


def test_a_cancelled_job_really_stops(server: ServeProcess) -> None:
    _, accepted = server.ask("POST", "/v1/profile", {**BODY, "source": ENDLESS, "limit_s": 50.0})
    server.until(accepted["job"], ("running",))
    _, state = server.ask("DELETE", f"/v1/jobs/{accepted['job']}")
    assert state["state"] == "cancelled"
    assert server.job({**BODY, "name": "after.hip"})["state"] == "done", "its only worker is free again"


def test_endless_programs_end_at_their_limit(server: ServeProcess) -> None:
    done = server.job({**BODY, "source": ENDLESS, "limit_s": 0.5})
    (result,) = done["document"]["results"]
    assert (result["status"], result["reason"]) == ("failed", "timeout")


def test_kill_9_of_a_worker_costs_that_answer_only(server: ServeProcess) -> None:
    _, accepted = server.ask("POST", "/v1/profile", {**BODY, "source": ENDLESS, "limit_s": 50.0})
    server.until(accepted["job"], ("running",))
    for pid in server.workers():
        os.kill(pid, signal.SIGKILL)
    lost = server.until(accepted["job"], ("failed",))
    assert lost["problem"]["error"] == "worker_died"
    status, _ = server.ask("POST", "/v1/predict", {**BODY, "name": "again.hip"})
    assert status == 200
    assert "hipsynth_workers_lost 1.0" in server.ask("GET", "/metrics")[1]


def test_a_job_tells_the_cost_of_lines(server: ServeProcess) -> None:
    (result,) = server.job({**BODY, "lines": True})["document"]["results"]
    (kernel,) = result["kernels"]
    assert {row["file"] for row in kernel["lines"]} <= {"kernel.hip", ""}
    assert any(row["line"] == 4 and row["bytes"] for row in kernel["lines"])


@pytest.mark.full
def test_memory_is_flat_at_a_thousand_edits_a_minute() -> None:
    needs.sandbox()
    command = [sys.executable, str(ROOT / "benchmarks" / "serve_speed.py"), "--soak", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["flat"] and found["typed"] == 990 and found["typed_answered"] > 0


def test_sigterm_ends_it_with_all_its_processes(server: ServeProcess) -> None:
    _, accepted = server.ask("POST", "/v1/profile", {**BODY, "source": ENDLESS, "limit_s": 50.0})
    server.until(accepted["job"], ("running",))
    running = descendants(server.process.pid)
    assert running
    assert server.stop() == 0
    end = time.monotonic() + PATIENCE_S
    while any(command_of(pid) for pid in running) and time.monotonic() < end:
        time.sleep(0.05)
    assert not [command_of(pid) for pid in running if command_of(pid)]
    server.log.seek(0)
    log = server.log.read()
    assert "'/v1/predict' 200" in log and "__global__" not in log and server.token not in log
