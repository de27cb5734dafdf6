"""What compilers and linkers say, as facts."""

from __future__ import annotations

from hipsynth.toolchain.diagnostics import CompilerMessages, read_messages

MISSING = "x.hip:1:10: fatal error: 'mpi.h' file not found\n    1 | #include <mpi.h>\n"
LINK = """ld.lld: error: unable to find library -lrocfft
ld.lld: error: undefined symbol: plan_create(int)
>>> referenced by x.o
ld.lld: error: undefined symbol: plan_create(int)
"""


def test_errors_are_kept_in_their_order() -> None:
    found = read_messages(MISSING + "x.hip:9:1: warning: unused\nx.hip:3:1: error: unknown type name 'foo'\n")
    assert found.errors == ("'mpi.h' file not found", "unknown type name 'foo'")
    assert found.lines[1] == "x.hip:3:1: error: unknown type name 'foo'"
    assert found.missing_header == "mpi.h" and found.unknown_name and found.incomplete


def test_what_the_linker_lacks_is_named_once() -> None:
    found = read_messages(LINK)
    assert (found.missing_libraries, found.undefined_symbols) == (("rocfft",), ("plan_create(int)",))
    assert found.incomplete and not found.across_files and not found.missing_header
    assert read_messages("ld.lld: error: undefined hidden symbol: twice").across_files


def test_other_facts() -> None:
    assert read_messages("error: 'tex2D' is unavailable: The image/texture API not supported on the device").no_textures
    assert read_messages("fatal error: file 'a.pch' is not a valid precompiled header").precompiled_header
    assert read_messages("error: unable to open output file 'x': 'No space left on device'").disk_full
    assert read_messages("") == CompilerMessages()
