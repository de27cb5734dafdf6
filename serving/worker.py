"""A worker process: reads requests from standard input and writes answers, each a length and JSON, one at a time.
A length of zero comes before the answer, when the request has been read: without it another worker may take it.

SIGUSR1 gives up the request in progress, within the next step of Python; the process stays warm. It ends when its
input closes, so no worker outlives the server.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import BinaryIO

from hipsynth.core import stop_signal
from hipsynth.core.documents import to_json
from hipsynth.core.errors import CompileFailed, ErrorDocument, HipsynthError, locate_defect, name_scratch_sources
from hipsynth.core.reasons import Reason

HEADER = 8  # bytes of a length
TAKEN_HEADER = bytes(HEADER)
ReportProgress = Callable[[str], None]
Answer = Callable[
    [str, object, ReportProgress], object
]  # of a kind of request and its JSON; what to report of long work
SENT_TEXT_NAME = "kernel.hip"  # what messages call the text that was sent


class RequestCancelled(BaseException):
    """The request was cancelled; its answer is no longer needed."""


class RequestLoop:
    """Answers requests; `busy` tells the signal handler whether there is work to give up."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO, answer: Answer) -> None:
        self.requests, self.answers, self.busy = requests, answers, False
        self._answer = answer
        signal.signal(signal.SIGUSR1, self._give_up)

    def _give_up(self, _: int, frame: FrameType | None) -> None:
        """Raises RequestCancelled, but not within an import: a module that is half loaded may never load again. The
        server repeats its signal."""
        if self.busy and not stop_signal.is_importing(frame):
            self.busy = False
            raise RequestCancelled

    def run(self) -> None:
        """Answers requests (8 bytes of length, then JSON) until the stream ends; cancelled ones as such."""
        while request := self._read_exactly():
            self._write_answer(TAKEN_HEADER)
            answer: dict[str, object] = {"cancelled": True}
            with contextlib.suppress(RequestCancelled):
                try:
                    self.busy = True
                    answer = handle_request(request, self._answer, self._report_progress)
                finally:
                    self.busy = False
            self._write_document(answer)

    def _report_progress(self, line: str) -> None:
        """Sends a line about the work, which is not given up meanwhile: the server repeats its signal."""
        self.busy = False
        self._write_document({"progress": line})
        self.busy = True

    def _write_document(self, document: dict[str, object]) -> None:
        text = encode_answer(document)
        self._write_answer(len(text).to_bytes(HEADER, "big") + text)

    def _write_answer(self, frame: bytes) -> None:
        self.answers.write(frame)
        self.answers.flush()

    def _read_exactly(self) -> bytes:
        head = self.requests.read(HEADER)
        return self.requests.read(int.from_bytes(head, "big")) if len(head) == HEADER else b""


def encode_answer(answer: object) -> bytes:
    """JSON text; infinite and undefined numbers, which JSON does not have, become null."""
    try:
        return json.dumps(answer, allow_nan=False).encode()
    except ValueError:
        return json.dumps(replace_nonfinite(answer), allow_nan=False).encode()


def replace_nonfinite(value: object) -> object:
    """The value with null in place of NaN and infinities, which JSON does not have."""
    if isinstance(value, dict):
        return {name: replace_nonfinite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [replace_nonfinite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def answer_request(kind: str, body: object, report: ReportProgress) -> object:
    """The document of a request of the HTTP server or of an editor."""
    from hipsynth.serving import handlers  # within the first request, so that an import that fails is an answer

    return handlers.answer(kind, body, report)


def handle_request(request: bytes, answer: Answer, report: ReportProgress) -> dict[str, object]:
    """What is sent back for a request: its document, or the problem."""
    try:
        document = json.loads(request)
        return {"document": to_json(answer(document["kind"], document["body"], report))}
    except HipsynthError as error:
        return {"problem": to_json(problem_of(error))}
    except Exception as error:
        file, line = locate_defect(error)
        cause = f"{type(error).__name__}, seen at {file.name}:{line}"
        remedy = "report it with the source"
        failure = HipsynthError("hipsynth itself failed", cause=cause, remedy=remedy, reason=Reason.INTERNAL_ERROR)
        return {"problem": to_json(problem_of(failure))}


def problem_of(error: HipsynthError) -> ErrorDocument:
    """An error as --json prints it, with the compiler's messages."""
    diagnostics = error.diagnostics if isinstance(error, CompileFailed) else ""
    words = error.reason, error.what, error.cause, error.remedy, diagnostics
    return ErrorDocument(*(name_scratch_sources(text, SENT_TEXT_NAME) for text in words))


def main(answer: Answer = answer_request) -> None:
    """Serves standard input and output until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends its workers
    stop_signal.request_signal_at_parents_end(signal.SIGKILL)  # also in native code
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if len(sys.argv) > 1:
        os.nice(int(sys.argv[1]))  # executed programs give way to predictions
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not get among the answers
    RequestLoop(sys.stdin.buffer, answers, answer).run()


if __name__ == "__main__":
    main()
