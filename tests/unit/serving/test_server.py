"""The server without its workers: who may ask what, what is refused, superseded, cancelled, kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import document_samples
import pytest
from asgi import PORT, TOKEN, AsgiClient, HttpReply

from hipsynth.core.documents import document_json, from_json
from hipsynth.core.errors import ErrorDocument
from hipsynth.core.reasons import Reason
from hipsynth.serving.app import make_app
from hipsynth.serving.documents import ImprovedProgram
from hipsynth.serving.limits import BODY_BYTES, ServerSettings
from hipsynth.serving.middleware import Guard
from hipsynth.serving.pool import WorkerLost, WorkerProblem
from hipsynth.serving.service import Service, prediction_difference
from hipsynth.training.models.documents import PredictDocument
from hipsynth.tuning.optimize.documents import SearchEnd

BODY = {"source": "__global__ void secret_name() {}", "arch": "gfx90a", "flags": "-O3"}
ORIGIN = {"origin": f"http://127.0.0.1:{PORT}"}
Work = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]


def document(name: str = "k", duration: float = 2.0) -> dict[str, Any]:
    return document_json(document_samples.predict_document(name, duration))


class ServerBench:
    """A guarded application whose pools answer by `work`; `asked` lists what they were asked."""

    def __init__(self, work: Work | None = None, **settings: Any) -> None:
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.service = Service(ServerSettings(**settings))
        self.work = work
        for pool in self.service.pools:
            pool._ask_idle_worker = self._answer  # type: ignore[method-assign]
        app, self.meter = make_app(self.service, "1")
        self.app = Guard(app, TOKEN, PORT, self.meter)
        self.client = AsgiClient(self.app)

    async def _answer(self, kind: str, request: object, *_: object) -> dict[str, Any]:
        if kind == "prepare":
            return {}
        body = document_json(request)
        self.asked.append((kind, body))
        return await self.work(kind, body) if self.work else document()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(bounded())


def asks(requests: list[tuple[str, str, Mapping[str, str] | None]], headers: Mapping[str, str]) -> list[HttpReply]:
    async def all_of() -> list[HttpReply]:
        client = AsgiClient(ServerBench().app, headers)
        return [await client.ask(method, path, headers=extra) for method, path, extra in requests]

    return asyncio.run(all_of())


HOST = {"host": f"127.0.0.1:{PORT}"}
BEARER = {"authorization": f"Bearer {TOKEN}"}


def test_who_may_ask() -> None:
    application = ServerBench().app
    for headers, status in (
        ({**HOST, **BEARER}, 200),
        ({"host": f"localhost:{PORT}", **BEARER}, 200),
        ({**HOST, **BEARER, **ORIGIN}, 200),
        (HOST, 401),
        ({**HOST, "authorization": f"Bearer {TOKEN[:20]}"}, 401),
        ({**HOST, "authorization": f"Bearer {TOKEN}x"}, 401),
        ({**HOST, "authorization": "Bearer "}, 401),
        ({**HOST, "authorization": f"Basic {TOKEN}"}, 401),
        ({**HOST, "authorization": "Bearer tök"}, 401),
        ({**HOST, "cookie": f"hipsynth-{PORT}={TOKEN}"}, 401),
        ({**HOST, "cookie": "=;;;\x7f"}, 401),
        ({"host": "evil.example", **BEARER}, 400),
        ({"host": "127.0.0.1:1", **BEARER}, 400),
        (BEARER, 400),
        ({**HOST, **BEARER, "origin": "http://evil.example"}, 403),
        ({**HOST, **BEARER, "origin": "http://127.0.0.1:1"}, 403),
        ({**HOST, **BEARER, "origin": "null"}, 403),
        ({**HOST, **BEARER, "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        ({**HOST, **BEARER, "content-length": "-1"}, 413),
    ):
        answer = asyncio.run(AsgiClient(application, headers).ask("GET", "/metrics"))
        assert answer.status == status, headers
        assert "default-src 'none'" in answer.headers["content-security-policy"], headers
        assert status == 200 or answer.json["error"], headers


def test_port_80_needs_no_number() -> None:
    bench = ServerBench()
    guard = Guard(bench.app, TOKEN, 80, bench.meter)
    assert {"127.0.0.1", "127.0.0.1:80"} < guard.hosts and "127.0.0.1" not in bench.app.hosts


def test_health_needs_no_token_but_the_right_host() -> None:
    (answer,) = asks([("GET", "/healthz", None)], HOST)
    assert (answer.status, answer.json) == (200, {"status": "ok"})
    (answer,) = asks([("GET", "/healthz", None)], {"host": "evil.example"})
    assert answer.status == 400


def test_the_link_becomes_a_cookie() -> None:
    bad, entered = asks([("GET", "/?token=old", None), ("GET", f"/?token={TOKEN}", None)], HOST)
    assert bad.status == 401 and "set-cookie" not in bad.headers
    assert entered.status == 303 and entered.headers["location"] == "/"
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite" in cookie and TOKEN not in cookie
    own = {**HOST, "cookie": cookie.partition(";")[0]}
    page, script, foreign = asks(
        [("GET", "/", None), ("GET", "/web/roofline.js", None), ("POST", "/v1/predict", {"origin": "http://x"})], own
    )
    assert (page.status, script.status, foreign.status) == (200, 200, 403)
    assert b"workbench" in page.body and b"export function mount" in script.body
    (outside,) = asks([("GET", "/web/../app.py", None)], own)
    assert outside.status == 404


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_of_five_megabytes(declared: bool) -> None:
    async def test() -> None:
        bench = ServerBench()
        size = {"content-length": str(5 << 20)} if declared else {}
        answer = await bench.client.ask("POST", "/v1/predict", headers=size, parts=[b" " * (1 << 20)] * 5)
        assert answer.status == 413 and answer.json["error"] == "too_large"
        assert not bench.asked

    assert BODY_BYTES < 5 << 20
    run(test)


INVALID_BODIES: list[Any] = [
    {},
    [],
    {**BODY, "version": False},
    {**BODY, "version": "1"},
    {**BODY, "unknown": 1},
    {**BODY, "arch": "gfx1"},
    {**BODY, "source": 1},
    {**BODY, "source": "\ud800"},
    {**BODY, "source": "x" * ((1 << 20) + 1)},
    {**BODY, "grid": [0]},
    {**BODY, "grid": [1, 1, 1, 1]},
    {**BODY, "name": "../../etc/passwd"},
    {**BODY, "values": {"n": True}},
    {**BODY, "flags": "'-O3'"},
]


def test_strict_bodies() -> None:
    async def test() -> None:
        bench = ServerBench()
        for body in INVALID_BODIES:
            answer = await bench.client.ask("POST", "/v1/predict", body)
            assert (answer.status, answer.json["error"], bench.asked) == (422, "invalid", []), str(body)[:80]

    run(test)


@pytest.mark.parametrize(
    ("route", "wrong", "error", "named"),
    [
        ("/v1/predict", {"flags": "-O3\0"}, "bad_flag", r"-O3\x00"),
        ("/v1/profile", {"flags": "-O2 -O9"}, "bad_flag", "-O9"),
        ("/v1/profile", {"device": "mi300x", "arch": "gfx90a"}, "usage", "devices of gfx90a"),
        ("/v1/profile", {"arch": "mi300x"}, "usage", "mi300x is a device"),
        ("/v1/predict", {"device": "gfx942"}, "usage", "gfx942 is an architecture"),
    ],
)
def test_a_refused_target_is_named(route: str, wrong: dict[str, str], error: str, named: str) -> None:
    async def test() -> None:
        bench = ServerBench()
        answer = await bench.client.ask("POST", route, {**BODY, **wrong})
        assert (answer.status, answer.json["error"]) == (422, error) and not bench.asked
        assert named in answer.json["cause"] + answer.json["remedy"]

    run(test)


@pytest.mark.parametrize("raw", [b"\x00\xff\xfe", b"{", b"[" * 100_000, b'{"source": "\xff"}'])
def test_a_binary_body(raw: bytes) -> None:
    async def test() -> None:
        answer = await ServerBench().client.ask("POST", "/v1/predict", parts=[raw])
        assert answer.status in (400, 422) and answer.json["error"]

    run(test)


def wait_on_the_first(begun: asyncio.Event, ended: asyncio.Event) -> Work:
    """Work that ends for the source "first" only when it is cancelled; the events say when it began and was."""

    async def work(_: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if body["source"] != "first":
            return document()
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError("unreachable")

    return work


def test_the_newest_version_ends_older_ones() -> None:
    async def test() -> None:
        begun, ended = asyncio.Event(), asyncio.Event()
        bench = ServerBench(wait_on_the_first(begun, ended))
        edit = {**BODY, "document": "a"}
        first = asyncio.ensure_future(
            bench.client.ask("POST", "/v1/predict", {**edit, "version": 1, "source": "first"})
        )
        await begun.wait()
        second = await bench.client.ask("POST", "/v1/predict", {**edit, "version": 2})
        other = await bench.client.ask("POST", "/v1/predict", {**edit, "document": "b", "version": 1})
        late = await bench.client.ask("POST", "/v1/predict", {**edit, "version": 1, "source": "late"})
        answers = [await first, second, other, late]
        assert [answer.status for answer in answers] == [409, 200, 200, 409]
        assert answers[0].json["error"] == "superseded" and ended.is_set()
        assert all(not running.tasks for running in bench.service.documents.values())

    run(test)


def test_a_newer_version_ends_a_search_for_an_older_one() -> None:
    async def test() -> None:
        begun, ended = asyncio.Event(), asyncio.Event()
        bench = ServerBench(wait_on_the_first(begun, ended))
        edit = {**BODY, "document": "a"}
        first = await bench.client.ask("POST", "/v1/swizzle", {**edit, "version": 1, "source": "first"})
        await begun.wait()
        second = await bench.client.ask("POST", "/v1/swizzle", {**edit, "version": 2})
        await asyncio.wait_for(ended.wait(), 5)
        names = [answer.json["job"] for answer in (first, second)]
        states = [(await bench.client.ask("GET", f"/v1/jobs/{name}?wait_s=30")).json["state"] for name in names]
        assert states == ["cancelled", "done"]

    run(test)


def test_a_client_that_goes_away_ends_the_work() -> None:
    async def test() -> None:
        begun, ended, gone = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def work(_: str, __: Mapping[str, Any]) -> dict[str, Any]:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return document()

        bench = ServerBench(work)
        asking = asyncio.ensure_future(bench.client.ask("POST", "/v1/predict", BODY, gone=gone))
        await begun.wait()
        gone.set()
        await ended.wait()
        await asking
        assert bench.service.predictors.running == 0

    run(test)


def test_a_full_queue_refuses() -> None:
    async def test() -> None:
        release = asyncio.Event()

        async def work(_: str, __: Mapping[str, Any]) -> dict[str, Any]:
            await release.wait()
            return document()

        bench = ServerBench(work, predictors=1, queue=1, jobs=1)
        asking = [
            asyncio.ensure_future(bench.client.ask("POST", "/v1/predict", {**BODY, "name": str(n)})) for n in range(2)
        ]
        while bench.service.predictors.waiting < 1:
            await asyncio.sleep(0)
        refused = await bench.client.ask("POST", "/v1/predict", {**BODY, "name": "c"})
        assert refused.status == 429 and refused.headers["retry-after"] == "1" and refused.json["error"] == "busy"
        jobs = [await bench.client.ask("POST", "/v1/profile", {**BODY, "name": str(n)}) for n in range(2)]
        await asyncio.sleep(0)
        jobs += [await bench.client.ask("POST", "/v1/profile", {**BODY, "name": "x"}) for _ in range(2)]
        assert jobs[0].status == 202 and jobs[-1].status == 429
        release.set()
        assert [(await one).status for one in asking] == [200, 200]

    run(test)


def test_an_undone_edit_is_answered_from_the_cache() -> None:
    async def test() -> None:
        bench = ServerBench()
        for version in (1, 2):
            answer = await bench.client.ask("POST", "/v1/predict", {**BODY, "document": "a", "version": version})
            assert answer.json == document()
        await bench.client.ask("POST", "/v1/predict", {**BODY, "flags": "-O2"})
        assert len(bench.asked) == 2 and bench.service.cache.hits == 1
        small = ServerBench(cache_bytes=1)
        for _ in range(2):
            await small.client.ask("POST", "/v1/predict", BODY)
        assert len(small.asked) == 2 and small.service.cache.held == 0

    run(test)


@pytest.mark.parametrize(
    ("reason", "questions"), [(Reason.TIMEOUT, 2), (Reason.DISK_FULL, 2), (Reason.UNKNOWN_KERNEL, 1), (Reason.NONE, 1)]
)
def test_a_prediction_that_lacked_time_is_made_again(reason: Reason, questions: int) -> None:
    async def test() -> None:
        async def work(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
            lacking = replace(document_samples.KERNEL, duration_ns=None, abstained=bool(reason), reason_code=reason)
            results = (document_samples.prediction(document_samples.KERNEL, lacking),)
            return document_json(PredictDocument(program=document_samples.PROGRAM, model="m", results=results))

        bench = ServerBench(work)
        for _ in range(2):
            assert (await bench.client.ask("POST", "/v1/predict", BODY)).status == 200
        assert len(bench.asked) == questions

    run(test)


def test_jobs() -> None:
    async def test() -> None:
        release = asyncio.Event()

        async def work(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
            assert kind == "profile"
            if body["source"] == "lost":
                raise WorkerLost("the worker process ended")
            await release.wait()
            return profile

        profile = document_json(document_samples.profile_document())
        bench = ServerBench(work, executors=1, execute_s=7.0)
        names = [
            (await bench.client.ask("POST", "/v1/profile", {**BODY, "source": text})).json["job"]
            for text in ("first", "second", "lost")
        ]
        await asyncio.sleep(0)
        states = [(await bench.client.ask("GET", f"/v1/jobs/{name}")).json for name in names]
        assert [state["state"] for state in states] == ["running", "queued", "queued"]
        assert states[0]["limit_s"] == 7.0 and states[0]["document"] is None
        cancelled = await bench.client.ask("DELETE", f"/v1/jobs/{names[1]}")
        assert cancelled.status == 200 and cancelled.json["state"] == "cancelled"
        release.set()
        done = await bench.client.ask("GET", f"/v1/jobs/{names[0]}?wait_s=30")
        assert done.json["state"] == "done" and done.json["document"] == profile
        again = await bench.client.ask("DELETE", f"/v1/jobs/{names[0]}")
        assert again.json["state"] == "done"
        lost = await bench.client.ask("GET", f"/v1/jobs/{names[2]}?wait_s=30")
        assert lost.json["state"] == "failed" and lost.json["problem"]["error"] == "worker_died"
        assert (await bench.client.ask("GET", "/v1/jobs/none")).status == 404

    run(test)


def test_a_verification_is_a_job_and_only_a_sure_answer_is_kept() -> None:
    async def test() -> None:
        answers = iter([False, True])

        async def work(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
            assert kind == "verify" and (body["original"], body["source"]) == ("before", BODY["source"])
            about = {"original": "o", "changed": "k", "arch": "gfx90a", "flags": "-O3", "checks": [], "speedup": None}
            return {**about, "verified": next(answers)}

        bench = ServerBench(work)
        for verified in (False, True, True):
            accepted = await bench.client.ask("POST", "/v1/verify", {**BODY, "original": "before"})
            assert accepted.status == 202
            state = await bench.client.ask("GET", f"/v1/jobs/{accepted.json['job']}?wait_s=30")
            assert (state.json["state"], state.json["document"]["verified"]) == ("done", verified)
        assert len(bench.asked) == 2
        assert (await bench.client.ask("POST", "/v1/verify", BODY)).status == 422

    run(test)


@pytest.mark.parametrize(
    ("kind", "ended", "late", "kept"),
    [
        ("optimize", "nothing_left", False, True),
        ("optimize", "clock", False, False),
        ("optimize", "budget", True, False),
    ],
)
def test_a_search_is_a_job_with_a_budget_and_is_kept_unless_the_clock_ended_it(
    kind: str, ended: str, late: bool, kept: bool
) -> None:
    async def test() -> None:
        async def work(asked: str, body: Mapping[str, Any]) -> dict[str, Any]:
            assert asked == kind and (body["source"], body["budget_s"]) == (BODY["source"], 90.0)
            return answer

        report = document_samples.optimize_document(SearchEnd(ended), late=late)
        answer = document_json(ImprovedProgram(report=report, source="faster", diff="+faster", assumed=()))
        bench = ServerBench(work, search_s=90.0)
        for _ in range(2):
            accepted = await bench.client.ask("POST", f"/v1/{kind}", {**BODY, "budget_s": 3600})
            assert accepted.status == 202
            state = await bench.client.ask("GET", f"/v1/jobs/{accepted.json['job']}?wait_s=30")
            assert (state.json["state"], state.json["document"]) == ("done", answer)
        assert len(bench.asked) == (1 if kept else 2)
        assert (await bench.client.ask("POST", f"/v1/{kind}", {**BODY, "budget_s": 0})).status == 422

    run(test)


def test_compare_gives_ratios() -> None:
    async def test() -> None:
        async def work(_: str, body: Mapping[str, Any]) -> dict[str, Any]:
            return document(duration=2.0 if body["flags"] == "-O3" else 3.0)

        answer = await ServerBench(work).client.ask("POST", "/v1/compare", {"a": BODY, "b": {**BODY, "flags": "-O1"}})
        rows = {row["metric"]: row for row in answer.json["difference"]}
        assert rows["duration_ns"] == {"kernel": "k", "metric": "duration_ns", "a": 2.0, "b": 3.0, "ratio": 1.5}
        assert rows["HBM_GFLOPS"]["ratio"] == 1.0 and rows["L1_Cache_Bandwidth"]["ratio"] is None

    run(test)


def test_compare_takes_the_longest_launch_of_a_kernel() -> None:
    def predict_launches(*durations: float | None) -> PredictDocument:
        kernels = [replace(document_samples.KERNEL, duration_ns=duration) for duration in durations]
        results = (document_samples.prediction(*kernels),)
        return PredictDocument(program=document_samples.PROGRAM, model="m", results=results)

    rows = prediction_difference(predict_launches(8.0, 2.0), predict_launches(3.0, 12.0, None))
    assert [(row.a, row.b, row.ratio) for row in rows if row.metric == "duration_ns"] == [(8.0, 12.0, 1.5)]


UNCOMPILED = {"error": "compile_failed", "message": "no", "cause": "", "remedy": "", "diagnostics": "kernel.hip:1: no"}


def test_a_refusal_of_a_worker_is_passed_on() -> None:
    async def test() -> None:
        async def work(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
            raise WorkerProblem(from_json(ErrorDocument, UNCOMPILED))

        answer = await ServerBench(work).client.ask("POST", "/v1/predict", BODY)
        assert answer.status == 422 and answer.json == UNCOMPILED

    run(test)


def test_chat_completions() -> None:
    async def test() -> None:
        async def work(_: str, body: Mapping[str, Any]) -> dict[str, Any]:
            assert body["messages"] == [{"role": "user", "content": "hello"}] and body["max_tokens"] == 400
            return {"content": "hi", "finish": "stop", "prompt": 3, "written": 1}

        asked = {"messages": [{"role": "user", "content": "hello"}], "temperature": 0}
        none = await ServerBench().client.ask("POST", "/v1/chat/completions", asked)
        assert none.status == 404 and "--model" in none.json["remedy"]
        bench = ServerBench(work, model=Path("somewhere"))
        answer = (await bench.client.ask("POST", "/v1/chat/completions", asked)).json
        assert answer["choices"][0]["message"] == {"role": "assistant", "content": "hi"}
        assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
        streamed = await bench.client.ask("POST", "/v1/chat/completions", {**asked, "stream": True})
        assert streamed.headers["content-type"].startswith("text/event-stream")
        assert streamed.body.endswith(b"data: [DONE]\n\n") and b'"delta"' in streamed.body

    run(test)


def test_metrics_and_log_hold_no_source_and_no_token(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        bench = ServerBench()
        with caplog.at_level(logging.INFO, "hipsynth.access"):
            await bench.client.ask("POST", "/v1/predict", BODY)
            await bench.client.ask("GET", f"/?token={TOKEN}")
            await bench.client.ask("GET", "/made/up/\nname")
        text = (await bench.client.ask("GET", "/metrics")).body.decode()
        assert 'hipsynth_requests_total{outcome="ok",route="/v1/predict"} 1.0' in text
        assert "hipsynth_cache_hits 0.0" in text and "hipsynth_workers_lost 0.0" in text
        assert "made" not in text
        lines = [record.getMessage() for record in caplog.records if record.name == "hipsynth.access"]
        assert len(lines) == 3 and "POST '/v1/predict' 200" in lines[0]
        assert not any(word in line for line in lines for word in (TOKEN, "secret_name", "\n"))

    run(test)


def test_options_name_every_device() -> None:
    async def test() -> None:
        found = (await ServerBench().client.ask("GET", "/v1/options")).json
        assert {"mi250", "mi300x"} <= {device["name"] for device in found["devices"]}
        assert all(device["plot"]["peaks"] for device in found["devices"])
        assert "-O3" in {row["flags"] for row in found["flags"]} and len(found["metrics"]) == 12
        shown = [row["title"] for row in found["metrics"] if row["shown"]]
        assert len(shown) == 10 and "L1/L2/HBM GFLOPS" in shown

    run(test)


def test_waiting_for_a_job_ends_when_the_server_stops_and_no_header_is_built_beside_it() -> None:
    async def work(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if kind == "profile":
            await asyncio.sleep(3600)
        return document()

    async def test() -> None:
        bench = ServerBench(work)
        accepted = await bench.client.ask("POST", "/v1/profile", BODY)
        polled = asyncio.create_task(bench.client.ask("GET", f"/v1/jobs/{accepted.json['job']}?wait_s=30"))
        await asyncio.sleep(0.1)
        assert not polled.done()
        targets = set(bench.service.targets)
        await bench.client.ask("POST", "/v1/predict", BODY | {"flags": "-O3 -DNEW=1"})
        assert bench.service.targets == targets
        bench.service.stopping.set()
        answer = await polled
        assert (answer.status, answer.json["state"]) == (200, "running")
        await bench.service.close()

    run(test)
