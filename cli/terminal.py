"""Standard streams: what programs print reaches a terminal only as harmless characters, and pipes and files unchanged.

A terminal acts on control characters: a program could rewrite what is above it, or make the terminal type commands.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import re
import sys
from collections.abc import Callable
from typing import IO, TextIO

# C0 but newline and tab, DEL, C1, and the characters that reorder text.
_CONTROLS = [*range(9), *range(11, 32), *range(127, 160), 0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F),
             *range(0x2066, 0x206A)]  # fmt: skip
STYLES = {"name": "\x1b[1m", "bar": "\x1b[36m", "note": "\x1b[2m"}  # by role: bold, cyan, dim
_RESET = "\x1b[0m"
_STYLE_CODES = re.compile("({})".format("|".join(map(re.escape, (*STYLES.values(), _RESET)))))
_SHOWN = {code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" for code in _CONTROLS}


def escape_controls(text: str) -> str:
    """The text with its control characters, except newline and tab, as escapes such as \\x1b."""
    return text.replace("\r\n", "\n").translate(_SHOWN)


class OutputDecoder:
    """Decodes output that arrives in pieces for a terminal; bytes that are no UTF-8 become escapes such as \\x9b."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")
        self._held = ""  # a carriage return, until the next character is known

    def feed(self, data: bytes, *, end: bool = False) -> str:
        text = self._held + self._decoder.decode(data, end)
        self._held = "\r" if text.endswith("\r") and not end else ""
        return escape_controls(text.removesuffix(self._held))


class Terminal(io.TextIOWrapper):
    """A terminal that is written to harmlessly; `write_control` writes the tool's own control characters."""

    def write(self, text: str, /) -> int:
        return super().write(escape_controls(text))

    def control(self, text: str) -> None:
        super().write(text)
        self.flush()


def style_text(text: str, role: str) -> str:
    """The text in the style of a role of STYLES, for `print_styled`; unchanged if NO_COLOR is set."""
    return text if os.environ.get("NO_COLOR") else f"{STYLES[role]}{text}{_RESET}"


def print_styled(text: str) -> None:
    """Prints lines on the terminal on stdout. The codes of STYLES act; all other control characters are escapes."""
    parts = _STYLE_CODES.split(text + "\n")  # text and codes by turns
    if isinstance(sys.stdout, Terminal):
        sys.stdout.control("".join(part if n % 2 else escape_controls(part) for n, part in enumerate(parts)))
    else:
        sys.stdout.write("".join(parts))


def write_control(text: str) -> None:
    """Writes control characters to the terminal on stderr."""
    if isinstance(sys.stderr, Terminal):
        sys.stderr.control(text)
    else:
        sys.stderr.write(text)
        sys.stderr.flush()


def prepare_streams(*, bars: bool) -> None:
    """Prepares the standard streams for any output. `bars`: libraries draw progress bars on stderr.

    A closed one becomes /dev/null, so that no file opened later takes its number. File names that are no UTF-8 pass
    through pipes and files as the bytes that they are.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != number:
                os.dup2(nothing, number)
                os.close(nothing)
            mode = "w" if number else "r"
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False))
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, io.TextIOWrapper) or isinstance(stream, Terminal):
            continue
        if not stream.isatty():
            stream.reconfigure(errors="surrogateescape")
        elif name == "stdout" or not bars:
            setattr(sys, name, Terminal(stream.buffer, stream.encoding, "backslashreplace", line_buffering=True))


def output_forwarder() -> Callable[[str, bytes], None]:
    """A function that passes a program's output ("out" or "err", bytes) to stdout and stderr as it comes."""
    writers = {"out": _stream_writer(sys.stdout), "err": _stream_writer(sys.stderr)}
    return lambda name, data: writers[name](data)


def _stream_writer(stream: TextIO) -> Callable[[bytes], None]:
    decoder = OutputDecoder()
    stream.flush()
    raw: IO[bytes] | None = getattr(stream, "buffer", None)

    def write(data: bytes) -> None:
        if raw is not None and not stream.isatty():
            raw.write(data)
            raw.flush()
        else:
            stream.write(decoder.feed(data))
            stream.flush()

    return write


def printable_text(text: str) -> str:
    """The text as it may be written to stderr: harmless if that is a terminal."""
    with contextlib.suppress(ValueError, AttributeError):
        return escape_controls(text) if sys.stderr.isatty() else text
    return text
