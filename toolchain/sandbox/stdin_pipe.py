"""Standard input of a job: a pipe that a thread fills, since a job could change a file whose descriptor it has."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Iterator
from pathlib import Path

_PART_BYTES = 1 << 16
_LOOK_MS = 50  # how long it may take to notice that the job has ended


@contextlib.contextmanager
def feed_input(source: Path | int | None) -> Iterator[int]:
    """A descriptor to read the bytes of a file or open descriptor from; nothing if `source` is None.

    Reading goes ahead of the job by what a pipe holds, and ends with the block.
    """
    if source is None:
        descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
        return
    file = os.dup(source) if isinstance(source, int) else os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    reader, writer = os.pipe()
    input_ended = threading.Event()
    thread = threading.Thread(target=_copy_bytes, args=(file, writer, input_ended), daemon=True)
    thread.start()
    try:
        yield reader
    finally:
        os.close(reader)
        input_ended.set()
        thread.join()


def _copy_bytes(file: int, writer: int, ended: threading.Event) -> None:
    """Copies from a descriptor to a pipe until the file ends or nobody reads, and closes both."""
    os.set_blocking(writer, False)
    try:
        while _wait_ready(file, select.POLLIN, ended) and (part := os.read(file, _PART_BYTES)):
            view = memoryview(part)
            while view and _wait_ready(writer, select.POLLOUT, ended):
                view = view[os.write(writer, view) :]
    except OSError:  # a source that cannot be read ends the input; a pipe that nobody reads ends this thread
        return
    finally:
        os.close(file)
        os.close(writer)


def _wait_ready(descriptor: int, event: int, ended: threading.Event) -> bool:
    """Waits until a descriptor is ready; False if the job has ended."""
    poll = select.poll()
    poll.register(descriptor, event)
    while not ended.is_set():
        if poll.poll(_LOOK_MS):
            return True
    return False
