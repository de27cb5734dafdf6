"""Starts and stops the server: its socket, its token, the runtime file that editors read, signals."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
import secrets
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import uvicorn

from hipsynth.core.cache import cache_dir
from hipsynth.core.errors import BadInput, UsageError
from hipsynth.serving.app import make_app
from hipsynth.serving.connections import configure_server
from hipsynth.serving.limits import ServerSettings
from hipsynth.serving.middleware import Guard
from hipsynth.serving.service import Service

TOKEN_BYTES = 32
STOP_S = 1  # for answers in progress once the server shall end
FOLDER_MODE, FILE_MODE = 0o700, 0o600


@dataclass(frozen=True)
class Address:
    """Where the server is, and what opens it."""

    url: str
    token: str

    @property
    def link(self) -> str:
        return f"{self.url}/?token={self.token}"


def open_socket(port: int) -> socket.socket:
    """A socket on loopback. Raises UsageError if the port is in use or may not be taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        used = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        problem = f"port {port} is in use" if used else f"port {port} cannot be used"
        raise UsageError(problem, cause=str(error), remedy="give another --port, or 0 for any free one") from error
    return listener


def runtime_folder() -> Path:
    """Where running servers leave their address and token: $XDG_RUNTIME_DIR/hipsynth, else in the cache."""
    place = os.environ.get("XDG_RUNTIME_DIR")
    return Path(place) / "hipsynth" if place else cache_dir() / "run"


@contextlib.contextmanager
def announce_address(address: Address) -> Iterator[Path]:
    """A file that only its owner can read, for as long as the server runs. Raises BadInput if it cannot be written."""
    path = runtime_folder() / f"serve-{os.getpid()}.json"
    record = {"url": address.url, "token": address.token, "pid": os.getpid(), "version": version("hipsynth")}
    try:
        path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        _remove_stale(path.parent)
        path.unlink(missing_ok=True)  # of an earlier process of this number
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, FILE_MODE)
        with os.fdopen(descriptor, "w") as file:
            json.dump(record, file)
    except OSError as error:
        raise BadInput(f"{path} cannot be written", cause=str(error), remedy="set XDG_RUNTIME_DIR") from error
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _remove_stale(folder: Path) -> None:
    """Deletes the files of servers that were killed."""
    for path in folder.glob("serve-*.json"):
        number = path.stem.removeprefix("serve-")
        if number.isdecimal() and not Path(f"/proc/{number}").exists():
            path.unlink(missing_ok=True)


class Server(uvicorn.Server):
    """uvicorn's server, which says when it listens and stops, and ends with exit code 0 at SIGTERM and Ctrl-C."""

    def __init__(self, config: uvicorn.Config, on_listen: Callable[[], None], on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self.on_listen, self.on_stop = on_listen, on_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.on_listen()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop_server)
        yield

    def _stop_server(self) -> None:
        self.on_stop()
        self.should_exit = True


def serve_until_stopped(port: int, settings: ServerSettings, on_listen: Callable[[Address], None]) -> None:
    """Serves on loopback until SIGTERM or Ctrl-C; `on_listen` is called once connections are accepted.

    Raises UsageError for a port in use, BadInput if the runtime file cannot be written.
    """
    with open_socket(port) as listening:
        number = listening.getsockname()[1]
        address = Address(f"http://127.0.0.1:{number}", secrets.token_urlsafe(TOKEN_BYTES))
        with announce_address(address):
            asyncio.run(_run_server(listening, number, address, settings, on_listen))


async def _run_server(
    listening: socket.socket,
    number: int,
    address: Address,
    settings: ServerSettings,
    on_listen: Callable[[Address], None],
) -> None:
    service = Service(settings)
    app, meter = make_app(service, version("hipsynth"))
    config = configure_server(
        Guard(app, address.token, number, meter),
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=STOP_S,
    )
    try:
        await Server(config, lambda: on_listen(address), service.stopping.set).serve([listening])
    finally:
        await service.close()


def log_to_stderr() -> None:
    """The access log, a line per request without texts of programs; of other loggers only warnings."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("hipsynth.access").setLevel(logging.INFO)
