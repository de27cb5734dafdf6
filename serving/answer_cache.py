"""A cache of answers, keyed by the content of the request, so that undoing an edit costs nothing."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict

from hipsynth.core.documents import JsonObject, to_json


def key_of(kind: str, request: object) -> str:
    """The hash of a question (serving/requests.py)."""
    return hashlib.sha256(json.dumps([kind, to_json(request)], sort_keys=True).encode()).hexdigest()


class Cache:
    """The least recently used answers leave first; `most_bytes` counts them as JSON text."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.held, self.hits = most_bytes, 0, 0
        self._answers: OrderedDict[str, bytes] = OrderedDict()

    def get(self, key: str) -> JsonObject | None:
        """The answer to an equal request, which counts as used last, or None."""
        text = self._answers.get(key)
        if text is None:
            return None
        self.hits += 1
        self._answers.move_to_end(key)
        document: JsonObject = json.loads(text)
        return document

    def put(self, key: str, document: JsonObject) -> None:
        """Keeps an answer, and drop those used longest ago until all fit `most_bytes`."""
        text = json.dumps(document).encode()
        self.held += len(text) - len(self._answers.pop(key, b""))
        self._answers[key] = text
        while self.held > self.most_bytes:
            self.held -= len(self._answers.popitem(last=False)[1])
