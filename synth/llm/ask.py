"""Asks an endpoint many questions at once, at a bounded rate, with retries; answers are kept as they come."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, cast

from hipsynth.core.journal import ResultJournal
from hipsynth.core.reasons import Reason
from hipsynth.synth.llm.endpoint import ChatReply, Client, EndpointFailed, NoAnswer, read_answer
from hipsynth.synth.llm.prompts import ModelRequest

FIRST_WAIT_S, MOST_BACKOFF_S = 1.0, 60.0
GIVE_UP = 8  # requests in a row without an answer


@dataclass(frozen=True)
class RequestPolicy:
    """How to ask: requests at once, requests per minute (0: no limit), and how often one is repeated."""

    at_once: int = 4
    per_minute: float = 0.0
    retries: int = 4


@dataclass
class RequestAnswers:
    """Answers by the key of their request. `failed` counts requests without an answer by reason, with an example each;
    `stopped` says why asking ended early, "" if it did not."""

    answers: dict[str, ChatReply] = field(default_factory=dict)
    reused: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    stopped: str = ""


class _RateLimiter:
    """Spaces the starts of requests; a server's Retry-After holds back all of them."""

    def __init__(self, per_minute: float, stop: threading.Event) -> None:
        self.gap = 60.0 / per_minute if per_minute else 0.0
        self.stop = stop
        self.next = 0.0
        self.lock = threading.Lock()

    def wait(self) -> None:
        """Returns when the next request may start; raises NoAnswer if asking has ended."""
        while not self.stop.is_set():
            with self.lock:
                left = self.next - time.monotonic()
                if left <= 0:
                    self.next = time.monotonic() + self.gap
                    return
            self.stop.wait(left)
        raise NoAnswer(Reason.NOT_ASKED, "asking ended before its turn")

    def pause(self, seconds: float) -> None:
        with self.lock:
            self.next = max(self.next, time.monotonic() + seconds)


class AnswerRecord(TypedDict):
    """A line of the journal of answers: which question was asked, what was sent, and the answer's bytes as text."""

    problem: str
    level: str
    sample: int
    request: dict[str, object]
    raw: str


def answer_journal(path: Path) -> ResultJournal[AnswerRecord]:
    """The journal of answers: a record per request, with the question, the parameters, and the answer as it came."""

    def checked(record: object) -> AnswerRecord:
        if not isinstance(record, dict):
            raise TypeError("the record of an answer is no object")
        try:
            read_answer(record["raw"].encode())
        except (NoAnswer, AttributeError) as error:
            raise ValueError(str(error)) from None
        return cast(AnswerRecord, record)

    return ResultJournal(path, checked)


def ask_all(
    requests: Sequence[ModelRequest],
    client: Client,
    journal: ResultJournal[AnswerRecord],
    manner: RequestPolicy,
    on_answer: Callable[[str], None] = lambda _: None,
) -> RequestAnswers:
    """Asks what the journal does not answer. Asking ends early where none can succeed, or GIVE_UP in a row failed.

    `on_answer` is called with the name of each finished request. Raises EndpointFailed if asking ends early without any
    answer, BadInput if the journal cannot be written.
    """
    answers = RequestAnswers()
    records = journal.read()
    for request in requests:
        if request.key in records:
            answers.answers[request.key] = read_answer(records[request.key]["raw"].encode())
            on_answer(request.name)
    answers.reused = len(answers.answers)
    todo = [request for request in requests if request.key not in answers.answers]
    stop = threading.Event()
    limiter = _RateLimiter(manner.per_minute, stop)
    pool = ThreadPoolExecutor(manner.at_once)
    try:
        waiting = {pool.submit(_ask_with_retries, request, client, manner, limiter): request for request in todo}
        _gather_answers(waiting, journal, answers, on_answer)
    finally:
        stop.set()
        client.close()
        pool.shutdown(wait=True, cancel_futures=True)
    answers.failed["not_asked"] += len(requests) - len(answers.answers) - answers.failed.total()
    answers.failed = +answers.failed
    return answers


def _gather_answers(
    waiting: Mapping[Future[ChatReply], ModelRequest],
    journal: ResultJournal[AnswerRecord],
    answers: RequestAnswers,
    on_answer: Callable[[str], None],
) -> None:
    in_a_row = 0
    for future in as_completed(waiting):
        request = waiting[future]
        try:
            answer = future.result()
        except NoAnswer as error:
            in_a_row += 1
            answers.failed[error.code] += 1
            answers.examples.setdefault(error.code, f"{request.name}: {error.what}")
            if error.hopeless or in_a_row == GIVE_UP:
                answers.stopped = error.what
                if not answers.answers:
                    raise EndpointFailed(
                        "the endpoint gives no answers", cause=error.what, remedy=error.remedy
                    ) from None
                return
            continue
        in_a_row = 0
        journal.add(request.key, _answer_record(request, answer))
        answers.answers[request.key] = answer
        on_answer(request.name)


def _answer_record(request: ModelRequest, answer: ChatReply) -> AnswerRecord:
    return {
        "problem": request.problem.name,
        "level": request.level.name,
        "sample": request.sample,
        "request": request.body,
        "raw": answer.raw,
    }


def _ask_with_retries(request: ModelRequest, client: Client, manner: RequestPolicy, limiter: _RateLimiter) -> ChatReply:
    for attempt in itertools.count():
        limiter.wait()
        try:
            return client.ask(request.body)
        except NoAnswer as error:
            if not error.again or attempt == manner.retries:
                raise
            wait = error.wait_s or min(FIRST_WAIT_S * 2**attempt, MOST_BACKOFF_S)
            if error.reason == Reason.RATE_LIMITED:
                limiter.pause(wait)
            else:
                limiter.stop.wait(wait)
    raise AssertionError  # the loop does not end
