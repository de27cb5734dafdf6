"""The routes. Bodies and answers are in serving/schema.py, the work is in serving/service.py."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.staticfiles import StaticFiles

from hipsynth.core.documents import to_json
from hipsynth.core.errors import HipsynthError
from hipsynth.profiling.matrix.targets import matrix
from hipsynth.profiling.metrics import bottleneck, paper_ids, roofline, table
from hipsynth.serving.meter import RequestMeter
from hipsynth.serving.pool import WorkerProblem
from hipsynth.serving.schema import AcceptedJob, Chat, Compare, Job, Predict, Problem, Profile
from hipsynth.serving.service import JobState, Service
from hipsynth.serving.worker import problem_of
from hipsynth.simulator import devices

WEB = Path(__file__).parent / "web"
SHARED_WEB = Path(roofline.__file__).parents[1] / "reports" / "web"
# Reason of a typed error -> status; others are 422: the request is well-formed, but its program cannot be used.
STATUS = {
    "no_model": 404,
    "superseded": 409,
    "busy": 429,
    "missing": 503,
    "worker_died": 503,
    "timeout": 503,
    "internal_error": 500,
}
MESSAGE = 400  # most characters: a pattern can be long
ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem} for code in (400, 401, 403, 404, 409, 413, 422, 429, 500, 503)
}


def make_app(service: Service, version: str) -> tuple[FastAPI, RequestMeter]:
    """The application without its guard, and its metrics."""

    @contextlib.asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await service.close()

    app = FastAPI(title="hipsynth", version=version, docs_url=None, redoc_url=None, lifespan=life, responses=ERRORS)
    meter = RequestMeter(service)
    _add_errors(app)
    _add_work(app, service)
    _add_state(app, service, meter)
    _add_page(app)
    return app, meter


def problem(status: int, words: dict[str, str]) -> JSONResponse:
    return JSONResponse(Problem(**words).model_dump(), status, {"retry-after": "1"} if status in (429, 503) else None)


def _add_errors(app: FastAPI) -> None:
    async def typed(_: Request, error: Exception) -> Response:
        words = error.document if isinstance(error, WorkerProblem) else None
        if words is None:
            assert isinstance(error, HipsynthError)
            words = problem_of(error)
        return problem(STATUS.get(words["error"], 422), words)

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        message = f"{place}: {first['msg']}"[:MESSAGE]
        return problem(422, {"error": "invalid", "message": message, "remedy": "see /openapi.json"})

    async def other(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = "not_found" if error.status_code == 404 else "http"
        response = problem(error.status_code, {"error": code, "message": str(error.detail)})
        response.headers.update(error.headers or {})
        if error.status_code == 405:
            response.headers["allow"] = ", ".join(methods_of(app, request))
        return response

    async def defect(_: Request, error: Exception) -> Response:
        what = {"message": "hipsynth itself failed", "cause": type(error).__name__, "remedy": "report it"}
        return problem(500, {"error": "internal_error", **what})

    app.add_exception_handler(Exception, defect)
    app.add_exception_handler(HipsynthError, typed)
    app.add_exception_handler(WorkerProblem, typed)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, other)


def methods_of(app: FastAPI, request: Request) -> list[str]:
    """The methods of all routes of a path; a route knows only its own."""
    found = [route for route in app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in found for method in getattr(route, "methods", None) or ()})


async def while_there(request: Request, work: Coroutine[Any, Any, dict[str, Any]]) -> Response:
    """The answer of some work, which is cancelled if the client goes away first."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(gone())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0] not in done:
            return Response(status_code=499)  # nobody reads it
        return JSONResponse(tasks[0].result())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _add_work(app: FastAPI, service: Service) -> None:
    @app.post("/v1/predict", response_model=dict[str, Any])
    async def predict(body: Predict, request: Request) -> Response:
        """The document of `synth predict --json` for one target."""
        return await while_there(request, service.predict(body.model_dump()))

    @app.post("/v1/compare", response_model=dict[str, Any])
    async def compare(body: Compare, request: Request) -> Response:
        """Two predictions side by side, and the ratios b / a."""
        return await while_there(request, service.compare(body.a.model_dump(), body.b.model_dump()))

    @app.post("/v1/profile", status_code=202, response_model=AcceptedJob)
    async def profile(body: Profile) -> AcceptedJob:
        """Starts a job that executes the program in the simulator."""
        return AcceptedJob(job=service.submit(body.model_dump()).id)

    @app.get("/v1/jobs/{job}", response_model=Job)
    async def job_state(job: str, wait_s: Annotated[float, Query(ge=0, le=30)] = 0) -> Response:
        """The state of a job; with `wait_s`, as soon as it has ended, or after so many seconds."""
        return _view(await service.job(job, wait_s))

    @app.delete("/v1/jobs/{job}", response_model=Job)
    async def cancel(job: str) -> Response:
        """Stops a job; one that has ended stays as it is."""
        return _view(service.cancel(job))

    @app.post("/v1/chat/completions", response_model=dict[str, Any])
    async def chat(body: Chat, request: Request) -> Response:
        """OpenAI's chat completions, answered by the trained language model."""
        answered = await while_there(request, service.chat(body.model_dump()))
        if answered.status_code != 200:
            return answered
        return _completion(json.loads(bytes(answered.body)), body, str(service.settings.model))


def _view(job: JobState | None) -> Response:
    if job is None:
        raise HTTPException(404, "there is no job of this name; finished ones are kept for a while")
    return JSONResponse(job.view())


def _completion(answer: dict[str, Any], body: Chat, model: str) -> Response:
    head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": body.model or model}
    message = {"role": "assistant", "content": answer["content"]}
    usage = {"prompt_tokens": answer["prompt"], "completion_tokens": answer["written"]}
    usage["total_tokens"] = sum(usage.values())
    if not body.stream:
        choice = {"index": 0, "message": message, "finish_reason": answer["finish"]}
        return JSONResponse({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
    choice = {"index": 0, "delta": message, "finish_reason": answer["finish"]}
    chunk = json.dumps({**head, "object": "chat.completion.chunk", "choices": [choice], "usage": usage})
    return PlainTextResponse(f"data: {chunk}\n\ndata: [DONE]\n\n", media_type="text/event-stream")


def _add_state(app: FastAPI, service: Service, meter: RequestMeter) -> None:
    @app.get("/healthz", response_model=dict[str, str])
    async def healthz() -> dict[str, str]:
        """Whether the server is alive; needs no token."""
        return {"status": "ok"}

    @app.get("/readyz", response_model=dict[str, bool])
    async def readyz() -> dict[str, bool]:
        """Whether predictions are warm; they are answered before, but later."""
        return {"ready": service.ready.is_set(), "model": service.settings.model is not None}

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        return Response(meter.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1/options", response_model=dict[str, Any])
    async def options() -> dict[str, Any]:
        """What a page or an editor offers: targets, flag sets, metrics, and the device's roofs."""
        return choices(service)


def choices(service: Service) -> dict[str, Any]:
    return {
        "devices": [_device(name) for name in devices.list_devices()],
        "default_device": devices.default_device(devices.DEFAULT_ARCH),
        "flags": [{"flags": row.flags, "about": row.doc} for row in matrix().flag_sets],
        "metrics": [_metric(name) for name in paper_ids()],
        "units": dict(bottleneck.UNITS),
        "execute_s": service.settings.execute_s,
        "model": service.settings.model is not None,
    }


def _device(name: str) -> dict[str, Any]:
    device = devices.load_device(name)
    return {"name": name, "title": device.title, "arch": device.arch, "plot": to_json(roofline.plot_kernels(name, []))}


def _metric(name: str) -> dict[str, str]:
    return {"id": name, "title": table().metrics[name].title, "unit": table().metrics[name].unit}


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(WEB / "index.html", media_type="text/html; charset=utf-8")

    @app.get("/web/roofline.js", include_in_schema=False)
    async def component() -> Response:
        return FileResponse(SHARED_WEB / "roofline.js", media_type="text/javascript; charset=utf-8")

    app.mount("/web", StaticFiles(directory=WEB), name="web")
