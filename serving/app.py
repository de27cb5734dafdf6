"""The routes. Bodies and answers are in serving/schema.py, the work is in serving/service.py."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.staticfiles import StaticFiles

from hipsynth.core.documents import from_json, to_json
from hipsynth.core.errors import ErrorDocument, HipsynthError
from hipsynth.core.reasons import Reason
from hipsynth.profiling.matrix.targets import load_matrix
from hipsynth.profiling.metrics import bottleneck, display_title, metric_table, paper_ids, roofline, shown_ids
from hipsynth.serving.documents import (
    AcceptedJob,
    ChatAnswer,
    ChatChoice,
    ChatCompletion,
    ChatText,
    ChatUsage,
    Comparison,
    DeviceChoice,
    FlagChoice,
    Health,
    JobDocument,
    MetricChoice,
    Readiness,
    ServerChoices,
)
from hipsynth.serving.pool import WorkerProblem
from hipsynth.serving.prometheus import RequestMeter
from hipsynth.serving.schema import Chat, Compare, Improve, Predict, Profile, Verify
from hipsynth.serving.service import JobState, Service
from hipsynth.serving.worker import problem_of
from hipsynth.simulator import devices
from hipsynth.training.models.documents import PredictDocument

WEB = Path(__file__).parent / "web"
SHARED_WEB = Path(roofline.__file__).parents[1] / "reports" / "web"
# Reason of a typed error -> status; others are 422: the request is well-formed, but its program cannot be used.
STATUS: Mapping[str, int] = {
    Reason.NO_MODEL: 404,
    Reason.SUPERSEDED: 409,
    Reason.BUSY: 429,
    Reason.MISSING: 503,
    Reason.WORKER_DIED: 503,
    Reason.TIMEOUT: 503,
    Reason.INTERNAL_ERROR: 500,
}
MESSAGE = 400  # most characters: a pattern can be long
ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorDocument} for code in (400, 401, 403, 404, 409, 413, 422, 429, 500, 503)
}


def make_app(service: Service, version: str) -> tuple[FastAPI, RequestMeter]:
    """The application without its guard, and its metrics."""

    @contextlib.asynccontextmanager
    async def manage_service(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await service.close()

    app = FastAPI(
        title="hipsynth", version=version, docs_url=None, redoc_url=None, lifespan=manage_service, responses=ERRORS
    )
    meter = RequestMeter(service)
    _add_errors(app)
    _add_predictions(app, service)
    _add_jobs(app, service)
    _add_state(app, service, meter)
    _add_page(app)
    return app, meter


def problem_response(status: int, words: ErrorDocument) -> JSONResponse:
    """An error as the answer to a request."""
    problem = to_json(replace(words, diagnostics=words.diagnostics or ""))
    return JSONResponse(problem, status, {"retry-after": "1"} if status in (429, 503) else None)


def _add_errors(app: FastAPI) -> None:
    async def answer_typed_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, WorkerProblem | HipsynthError)
        words = error.problem if isinstance(error, WorkerProblem) else problem_of(error)
        return problem_response(STATUS.get(words.error, 422), words)

    async def answer_invalid_request(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        message = f"{place}: {first['msg']}"[:MESSAGE]
        return problem_response(422, ErrorDocument(Reason.INVALID, message, remedy="see /openapi.json"))

    async def answer_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = Reason.NOT_FOUND if error.status_code == 404 else Reason.HTTP
        response = problem_response(error.status_code, ErrorDocument(code, str(error.detail)))
        response.headers.update(error.headers or {})
        if error.status_code == 405:
            response.headers["allow"] = ", ".join(methods_of(app, request))
        return response

    async def answer_defect(_: Request, error: Exception) -> Response:
        cause = type(error).__name__
        return problem_response(500, ErrorDocument(Reason.INTERNAL_ERROR, "hipsynth itself failed", cause, "report it"))

    app.add_exception_handler(Exception, answer_defect)
    app.add_exception_handler(HipsynthError, answer_typed_error)
    app.add_exception_handler(WorkerProblem, answer_typed_error)
    app.add_exception_handler(RequestValidationError, answer_invalid_request)
    app.add_exception_handler(HTTPException, answer_http_error)


def methods_of(app: FastAPI, request: Request) -> list[str]:
    """The methods of all routes of a path; a route knows only its own."""
    routes = [route for route in app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in routes for method in getattr(route, "methods", None) or ()})


async def while_there(request: Request, work: Coroutine[object, None, object]) -> Response:
    """The document of some work, which is cancelled if the client goes away first."""

    async def await_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks: list[asyncio.Future[object]] = [asyncio.ensure_future(work), asyncio.ensure_future(await_disconnect())]
    try:
        finished, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0] not in finished:
            return Response(status_code=499)  # nobody reads it
        return JSONResponse(to_json(tasks[0].result()))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _add_predictions(app: FastAPI, service: Service) -> None:
    """Requests that are answered at once."""

    @app.post("/v1/predict", response_model=PredictDocument)
    async def predict(body: Predict, request: Request) -> Response:
        """The document of `synth predict --json` for one target."""
        return await while_there(request, service.predict(body))

    @app.post("/v1/compare", response_model=Comparison)
    async def compare(body: Compare, request: Request) -> Response:
        """Two predictions side by side, and the ratios b / a."""
        return await while_there(request, service.compare(body.a, body.b))

    @app.post("/v1/chat/completions", response_model=ChatCompletion)
    async def chat(body: Chat, request: Request) -> Response:
        """OpenAI's chat completions, answered by the trained language model."""
        answered = await while_there(request, service.chat(body))
        if answered.status_code != 200:
            return answered
        answer = from_json(ChatAnswer, json.loads(bytes(answered.body)))
        return _completion_response(answer, body, str(service.settings.model))


def _add_jobs(app: FastAPI, service: Service) -> None:
    """Requests that start a job, and those about jobs."""

    @app.post("/v1/profile", status_code=202, response_model=AcceptedJob)
    async def profile(body: Profile) -> AcceptedJob:
        """Starts a job that executes the program in the simulator."""
        return AcceptedJob(job=service.submit(body).id)

    @app.post("/v1/verify", status_code=202, response_model=AcceptedJob)
    async def verify(body: Verify) -> AcceptedJob:
        """Starts a job that checks whether a changed program does the same, and how much faster it is."""
        return AcceptedJob(job=service.submit_verification(body).id)

    @app.post("/v1/optimize", status_code=202, response_model=AcceptedJob)
    async def optimize(body: Improve) -> AcceptedJob:
        """Starts a job that looks for source changes that make the program faster, and verifies them."""
        return AcceptedJob(job=service.submit_search("optimize", body).id)

    @app.post("/v1/swizzle", status_code=202, response_model=AcceptedJob)
    async def swizzle(body: Improve) -> AcceptedJob:
        """Starts a job that looks for an order of the work-groups in which they share more of the L2."""
        return AcceptedJob(job=service.submit_search("swizzle", body).id)

    @app.get("/v1/jobs/{job}", response_model=JobDocument)
    async def job_state(job: str, wait_s: Annotated[float, Query(ge=0, le=30)] = 0) -> Response:
        """The state of a job; with `wait_s`, as soon as it has ended, or after so many seconds."""
        return _job_response(await service.job(job, wait_s))

    @app.delete("/v1/jobs/{job}", response_model=JobDocument)
    async def cancel(job: str) -> Response:
        """Stops a job; one that has ended stays as it is."""
        return _job_response(service.cancel(job))


def _job_response(job: JobState | None) -> Response:
    if job is None:
        raise HTTPException(404, "there is no job of this name; finished ones are kept for a while")
    return JSONResponse(job.view())


def _completion_response(answer: ChatAnswer, body: Chat, model: str) -> Response:
    text = ChatText("assistant", answer.content)
    choice = ChatChoice(
        index=0,
        message=None if body.stream else text,
        delta=text if body.stream else None,
        finish_reason=answer.finish,
    )
    completion = ChatCompletion(
        id=f"chatcmpl-{uuid.uuid4().hex}",
        created=int(time.time()),
        model=body.model or model,
        object="chat.completion.chunk" if body.stream else "chat.completion",
        choices=(choice,),
        usage=ChatUsage(answer.prompt, answer.written, answer.prompt + answer.written),
    )
    if not body.stream:
        return JSONResponse(to_json(completion))
    chunk = json.dumps(to_json(completion))
    return PlainTextResponse(f"data: {chunk}\n\ndata: [DONE]\n\n", media_type="text/event-stream")


def _add_state(app: FastAPI, service: Service, meter: RequestMeter) -> None:
    @app.get("/healthz", response_model=Health)
    async def healthz() -> Health:
        """Whether the server is alive; needs no token."""
        return Health("ok")

    @app.get("/readyz", response_model=Readiness)
    async def readyz() -> Readiness:
        """Whether predictions are warm; they are answered before, but later."""
        return Readiness(service.ready.is_set(), service.settings.model is not None)

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        return Response(meter.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1/options", response_model=ServerChoices)
    async def options() -> Response:
        """What a page or an editor offers: targets, flag sets, metrics, and the device's roofs."""
        return JSONResponse(to_json(list_choices(service)))


def list_choices(service: Service) -> ServerChoices:
    """What a page or an editor offers."""
    tables = [devices.load_device(name) for name in devices.list_devices()]
    facts = metric_table().metrics
    return ServerChoices(
        devices=tuple(DeviceChoice(d.name, d.title, d.arch, roofline.plot_kernels(d.name, [])) for d in tables),
        default_device=devices.default_device(devices.DEFAULT_ARCH),
        flags=tuple(FlagChoice(row.flags, row.doc) for row in load_matrix().flags),
        metrics=tuple(
            MetricChoice(name, display_title(name), facts[name].unit, name in shown_ids()) for name in paper_ids()
        ),
        units=bottleneck.UNITS,
        execute_s=service.settings.execute_s,
        search_s=service.settings.search_s,
        model=service.settings.model is not None,
    )


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(WEB / "index.html", media_type="text/html; charset=utf-8")

    @app.get("/web/roofline.js", include_in_schema=False)
    async def component() -> Response:
        return FileResponse(SHARED_WEB / "roofline.js", media_type="text/javascript; charset=utf-8")

    app.mount("/web", StaticFiles(directory=WEB), name="web")
