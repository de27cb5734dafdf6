"""Answers by the content of their question: an undone edit costs nothing."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

NOT_CONTENT = frozenset({"document", "version"})  # who asks; the answer does not depend on it


def key_of(kind: str, body: Mapping[str, Any]) -> str:
    content = {name: value for name, value in body.items() if name not in NOT_CONTENT}
    return hashlib.sha256(json.dumps([kind, content], sort_keys=True).encode()).hexdigest()


class Cache:
    """The least recently used answers leave first; `most_bytes` counts them as JSON text."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.held, self.hits = most_bytes, 0, 0
        self._answers: OrderedDict[str, bytes] = OrderedDict()

    def get(self, key: str) -> dict[str, Any] | None:
        text = self._answers.get(key)
        if text is None:
            return None
        self.hits += 1
        self._answers.move_to_end(key)
        document: dict[str, Any] = json.loads(text)
        return document

    def put(self, key: str, document: Mapping[str, Any]) -> None:
        text = json.dumps(document).encode()
        self.held += len(text) - len(self._answers.pop(key, b""))
        self._answers[key] = text
        while self.held > self.most_bytes:
            self.held -= len(self._answers.popitem(last=False)[1])
