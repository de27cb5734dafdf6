"""Bad input to the front end is a value with a reason code, never an exception."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from local_copies import make_copies

from hipsynth.source.includes import include_runtime
from hipsynth.source.parse import MAX_BYTES, ParseConfig, parse_source
from hipsynth.synth.frontend.augment import find_items
from hipsynth.synth.frontend.pass_input import BuildConfiguration
from hipsynth.synth.frontend.sandboxed_copies import AugmentRequest, vary_isolated

HEAD = b"#include <hip/hip_runtime.h>\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "empty_file"),
        (b" \n\t\n", "empty_file"),
        (b"int a\xff\xfe;\n", "not_utf8"),
        (b"int a;\0", "not_text"),
        (b" " * MAX_BYTES + b"int a;", "too_large"),
        (HEAD + b"__global__ void k(int* p) { p[0] = ; }\n", "syntax_error"),
        (HEAD + b"__global__ void k(int* p) { p[0] = undeclared; }\n", "syntax_error"),
        (HEAD + b"__global__ void k(int* p) {", "syntax_error"),
        (HEAD + b'#include "absent.h"\n', "missing_include"),
        (HEAD + b"#error no\n", "syntax_error"),
    ],
)
def test_text_that_cannot_be_used(config: ParseConfig, text: bytes, reason: str) -> None:
    unit, diagnostics = parse_source(text, config)
    assert unit is None
    assert diagnostics[0].reason == reason


def test_missing_file_and_folder(config: ParseConfig, tmp_path: Path) -> None:
    assert parse_source(tmp_path / "absent.hip", config)[1][0].reason == "missing_file"
    assert parse_source(tmp_path, config)[1][0].reason == "not_a_file"


def test_an_error_has_line_and_column(config: ParseConfig) -> None:
    _, diagnostics = parse_source(HEAD + b"\nint f() {\n  return x;\n}\n", config)
    assert (diagnostics[0].line, diagnostics[0].column) == (4, 10)


def test_the_line_of_an_error_is_the_users_where_a_header_was_put_in_front(config: ParseConfig) -> None:
    text = include_runtime("__global__ void k(int* p) {\n  p[0] = undeclared;\n}\n")
    _, diagnostics = parse_source(text.encode(), config)
    assert (diagnostics[0].line, diagnostics[0].column) == (2, 10)


@pytest.mark.parametrize("text", ["int main() { return 0; }\n", "// __global__ in a comment only\nint main() {}\n"])
def test_a_program_without_a_kernel(config: ParseConfig, tmp_path: Path, text: str) -> None:
    (tmp_path / "host.hip").write_text(text)
    varied = make_copies(find_items(tmp_path / "host.hip")[0], 1, 0, config)
    assert varied.programs == ()
    assert [f.reason for f in varied.failures] == ["no_kernel"]


def test_a_file_name_that_is_not_utf8(config: ParseConfig, tmp_path: Path) -> None:
    path = tmp_path / "odd\udcff.hip"
    path.write_bytes(HEAD + b"__global__ void k() {}\nint main() {}\n")
    (failure,) = vary_isolated(AugmentRequest(find_items(path)[0], config)).failures
    assert (failure.reason, failure.message) == ("bad_input", r"bad_input: the name 'odd\udcff.hip' is not UTF-8")


def test_headers_outside_the_folder_are_not_read(config: ParseConfig, tmp_path: Path) -> None:
    (tmp_path / "secret.h").write_text("static const int secret = 1;\n")
    inside = tmp_path / "program"
    inside.mkdir()
    (inside / "main.hip").write_text(HEAD.decode() + '#include "../secret.h"\n__global__ void k() {}\nint main() {}\n')
    varied = make_copies(find_items(inside / "main.hip")[0], 1, 0, config)
    assert [f.reason for f in varied.failures] == ["include_outside"]


def test_a_build_that_cannot_be_flattened_is_not_replaced_by_a_part_of_it(config: ParseConfig, tmp_path: Path) -> None:
    texts = {
        "a.hip": '#define WIDTH 64\n#include "conf.h"\n__global__ void k() {}\nint run() { return WIDTH; }\n',
        "main.hip": '#include "conf.h"\nint run();\n__global__ void m() {}\nint main() { return run(); }\n',
        "conf.h": "#pragma once\n#ifndef WIDTH\n#define WIDTH 32\n#endif\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(HEAD.decode() + text if name != "conf.h" else text)
    (item,) = find_items(tmp_path)
    alone = BuildConfiguration((tmp_path / "main.hip",))
    item = replace(item, builds=(*item.build_configurations, alone))
    (failure,) = make_copies(item, 1, 0, config).failures
    assert failure.reason == "header_differs"


@pytest.mark.parametrize("odd", ["part.hip", "part.h"])
def test_other_bytes_are_no_obstacle_in_comments_but_elsewhere(odd: str, config: ParseConfig, tmp_path: Path) -> None:
    (tmp_path / "main.hip").write_bytes(
        HEAD + b'#include "part.h"\n__global__ void k(int* p) { *p = f(); }\nint main() {}\n'
    )
    (tmp_path / "part.h").write_bytes(b"__device__ int f();\n")
    (tmp_path / "part.hip").write_bytes(HEAD + b'#include "part.h"\n__device__ int f() { return 1; }\n')
    with (tmp_path / odd).open("ab") as file:
        file.write(b"// caf\xe9\n")
    (item,) = find_items(tmp_path)
    made = make_copies(item, 1, 0, config)
    assert not made.failures and all("// café" in program.text for program in made.programs)
    with (tmp_path / odd).open("ab") as file:
        file.write(b"int caf\xe9;\n")
    (failure,) = make_copies(item, 1, 0, config).failures
    assert failure.reason == "not_utf8" and f"{odd}: byte" in failure.message
