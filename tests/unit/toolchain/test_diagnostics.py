"""What compilers and linkers say, as facts."""

from __future__ import annotations

from hipsynth.toolchain.diagnostics import CompilerMessages, read_messages, read_missing_header, replace_places

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


def test_a_missing_header_is_read_from_a_parser_and_a_compiler() -> None:
    assert (
        read_missing_header("'own.h' file not found") == "own.h" == read_missing_header(MISSING.replace("mpi", "own"))
    )
    assert read_missing_header("no 'own.h' file not found") == ""


def test_names_that_older_headers_declared_are_told_from_misspelled_ones() -> None:
    assert read_messages("a.hip:2:3: error: use of undeclared identifier 'printf'").older_name
    assert read_messages("a.hip:2:3: error: no member named 'sort' in namespace 'std'").older_name
    assert not read_messages("a.hip:2:3: error: use of undeclared identifier 'pritnf'").older_name


def test_places_in_one_file_are_replaced() -> None:
    text = "b/x.hip:3:5: error: expected ';' to match b/x.hip\nb/y.h:3:5: note: here\n"
    moved = replace_places(text, "b/x.hip", lambda line, column: f"own.h:{line - 1}:{column}")
    assert moved == "own.h:2:5: error: expected ';' to match b/x.hip\nb/y.h:3:5: note: here\n"
