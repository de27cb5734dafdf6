"""HTTP connections whose clients cannot hold the server up: each part of an exchange that is the client's has a limit
of time, and where connections run out, the one that has waited longest for its client gives way to a new one.

All clients of a server on loopback have the same address, so a share for each address would say nothing. What tells
them apart is whose turn it is: after a request that was received in full it is the server's, and such a connection is
never dropped for another.
"""

from __future__ import annotations

import asyncio
import enum
import json
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hipsynth.core.documents import to_json
from hipsynth.core.errors import ErrorDocument
from hipsynth.core.reasons import Reason
from hipsynth.serving.limits import ANSWER_S, BODY_S, CONNECTIONS, HEADER_BYTES, HEADERS_S

# A new connection is read from before so many newer ones can be accepted that it gives way to them.
ACCEPTED_AT_ONCE = CONNECTIONS // 4
_ERROR = ErrorDocument(Reason.TOO_SLOW, "the request did not arrive in time", "", "send it at once", "")
_BODY = json.dumps(to_json(_ERROR)).encode()
REQUEST_TIMEOUT = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)


class ClientTurn(enum.Enum):
    """The next step that a client owes the server."""

    SEND_HEADERS = enum.auto()
    SEND_BODY = enum.auto()
    TAKE_ANSWER = enum.auto()


TURN_S = {ClientTurn.SEND_HEADERS: HEADERS_S, ClientTurn.SEND_BODY: BODY_S, ClientTurn.TAKE_ANSWER: ANSWER_S}
RECEIVING = {h11.IDLE: ClientTurn.SEND_HEADERS, h11.SEND_BODY: ClientTurn.SEND_BODY}


def configure_server(app: Any, **settings: Any) -> uvicorn.Config:
    """uvicorn's configuration of a server on loopback whose connections and requests are bounded."""
    return uvicorn.Config(
        app,
        http=BoundedConnection,
        ws="none",
        limit_concurrency=CONNECTIONS,
        backlog=ACCEPTED_AT_ONCE,
        h11_max_incomplete_event_size=HEADER_BYTES,
        **settings,
    )


class BoundedConnection(H11Protocol):
    """One of uvicorn's connections. `turn`: what the client has to do, None while it is the server's turn; `since`:
    the event loop's time at which this began."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.turn: ClientTurn | None = None
        self.since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._follow_turn()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._follow_turn()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._follow_turn()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._follow_turn()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._follow_turn()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._set_turn(None)

    def _follow_turn(self) -> None:
        if self.transport.is_closing() or self.flow.write_paused:
            self._set_turn(ClientTurn.TAKE_ANSWER)
        else:
            self._set_turn(RECEIVING.get(self.conn.their_state))

    def _set_turn(self, turn: ClientTurn | None) -> None:
        """The limit of time of a turn counts from its begin: a client that sends a byte at a time wins none."""
        if turn is self.turn:
            return
        if self._timer is not None:
            self._timer.cancel()
        self.turn, self.since = turn, self.loop.time()
        self._timer = self.loop.call_later(TURN_S[turn], self._refuse_slow_client) if turn else None

    def _refuse_slow_client(self) -> None:
        if self.turn is ClientTurn.TAKE_ANSWER or self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self._drop_connection()
            return
        self.transport.write(REQUEST_TIMEOUT)
        self.transport.close()
        self._follow_turn()

    def _drop_connection(self) -> None:
        self._set_turn(None)
        self.transport.abort()

    def _make_room(self) -> None:
        """At the limit on connections, drops the one that has waited longest for its client; if none waits for one, a
        request of the new connection is answered with 503."""
        if self.limit_concurrency is None or len(self.connections) < self.limit_concurrency:
            return
        others = (
            connection
            for connection in self.connections
            if isinstance(connection, BoundedConnection) and connection is not self
        )
        oldest = min((connection for connection in others if connection.turn), key=lambda one: one.since, default=None)
        if oldest is not None:
            oldest._drop_connection()
