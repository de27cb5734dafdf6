"""Sources that are not UTF-8 throughout: where the other bytes may be, and the same program as UTF-8 text.

A compiler copies the bytes of string literals and ignores those of comments, so many sources are Latin-1 there.
Passes keep all bytes (offsets count bytes); only the finished text is written as UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

BOM = b"\xef\xbb\xbf"
COMMENT = rb"//(?:\\\r?\n|[^\n])*|/\*.*?\*/"
# The names of the groups are the kinds of `split_pieces`.
_PIECE = re.compile(
    rb"(?P<comment>" + COMMENT + rb")"
    rb'|(?P<raw>(?:(?<!\w)(?:u8|(?P<wide_raw>[uUL])))?(?<!\w\w)R"(?P<mark>[^()\\ ]{0,16})\(.*?\)(?P=mark)")'
    rb'|(?P<literal>(?:(?<!\w)(?P<wide>[uUL]))?(?:"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'))',
    re.S,
)
_ESCAPES = {ord("\\"): b"\\\\", ord('"'): b'\\"', ord("\n"): b"\\n", ord("\t"): b"\\t"}


def split_pieces(source: bytes) -> Iterator[tuple[str, int, int]]:
    """(kind, start, end) of each comment, raw string and other literal, in order: "comment", "raw" or "literal"."""
    for match in _PIECE.finditer(source):
        yield next(kind for kind in ("comment", "raw", "literal") if match[kind] is not None), *match.span()


def is_utf8(source: bytes) -> bool:
    """Whether the bytes are UTF-8 text."""
    try:
        source.decode()
    except UnicodeDecodeError:
        return False
    return True


def find_misplaced(source: bytes) -> int | None:
    """The offset of the first byte that is not UTF-8 and stands outside comments and narrow literals; None if none."""
    if is_utf8(source):
        return None
    covered = bytearray(source)
    for match in _PIECE.finditer(source):
        if match["wide"] is None and match["wide_raw"] is None:
            covered[match.start() : match.end()] = b" " * (match.end() - match.start())
    try:
        covered.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def to_utf8(source: bytes) -> bytes:
    """The same program as UTF-8: other bytes of comments are taken as Latin-1, those of literals become escapes.

    Raises UnicodeDecodeError if there are others (see `find_misplaced`).
    """
    if is_utf8(source):
        return source
    result, position = [], 0
    for kind, start, end in split_pieces(source):
        piece = source[start:end]
        if not is_utf8(piece):
            piece = (
                _encode_comment(piece)
                if kind == "comment"
                else _encode_literal(piece)
                if kind == "literal"
                else _encode_raw(piece)
            )
        result += [source[position:start], piece]
        position = end
    converted = b"".join([*result, source[position:]])
    converted.decode()
    return converted


def _encode_comment(piece: bytes) -> bytes:
    return piece.decode(errors="surrogateescape").translate({0xDC00 + i: i for i in range(128, 256)}).encode()


def _encode_literal(piece: bytes) -> bytes:
    """Octal escapes, because a hexadecimal one would go on with the digits after it."""
    text = piece.decode(errors="surrogateescape")
    return b"".join(b"\\%03o" % (ord(c) - 0xDC00) if 0xDC80 <= ord(c) <= 0xDCFF else c.encode() for c in text)


def _encode_raw(piece: bytes) -> bytes:
    """A raw string as an ordinary one, in which escapes are possible."""
    head, _, rest = piece.partition(b'R"')
    mark = rest[: rest.index(b"(")]
    body = rest[len(mark) + 1 : -len(mark) - 2].replace(b"\r\n", b"\n")
    return head + b'"' + _encode_literal(b"".join(_ESCAPES.get(c, bytes([c])) for c in body)) + b'"'
