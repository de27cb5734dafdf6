"""Bytes that are not UTF-8: kept where the compiler ignores or copies them, refused elsewhere."""

from __future__ import annotations

import pytest

from hipsynth.source.encoding import find_misplaced, to_utf8


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (b"// caf\xe9\nint a;", "// café\nint a;"),
        (b"/* \xfcber\n */", "/* über\n */"),
        (b'puts("caf\xe9 5\\n");', 'puts("caf\\351 5\\n");'),
        (b"char c = '\xe9';", "char c = '\\351';"),
        (b'R"x(a"\\\xe9\nb)x"', '"a\\"\\\\\\351\\nb"'),
        (b'u8"\xe9"', 'u8"\\351"'),
        ("// naïve\nint ö;".encode(), "// naïve\nint ö;"),
        (b'"// \xe9"', '"// \\351"'),
    ],
)
def test_the_same_program_as_utf8(source: bytes, expected: str) -> None:
    assert find_misplaced(source) is None
    assert to_utf8(source).decode() == expected


@pytest.mark.parametrize(
    ("source", "at"), [(b"int \xe9;", 4), (b"// a\nint b\xff;", 10), (b'L"\xe9"', 2), (b'int x; LR"(\xe9)"', 11)]
)
def test_bytes_elsewhere_are_refused(source: bytes, at: int) -> None:
    assert find_misplaced(source) == at
    with pytest.raises(UnicodeDecodeError):
        to_utf8(source if b'"' not in source else b"\xff" + source)
