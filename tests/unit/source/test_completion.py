"""Half-written statements are completed by what the kernel has not used yet, and by what similar ones say."""

from __future__ import annotations

import pytest

from hipsynth.source.completion.repair import (
    close_before,
    complete_statements,
    declare_name,
    delete_statement,
    find_cuts,
    position_of,
)
from hipsynth.source.completion.words import close_brackets, drop_unfinished, split_tokens
from hipsynth.toolchain.diagnostics import read_compiler_errors

KERNEL = """__global__ void axpy(const float* x, const float* y, float* out, float alpha, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  {body}
}}
int main() {{ return 0; }}
"""


def completions(body: str, half: str) -> list[str]:
    """What the completions of `half`, which `body` holds, have in place of it."""
    text = KERNEL.format(body=body)
    start = text.index(half)
    cut = start + len(half)
    before = len(text[:start].rstrip())
    return [found[before : len(found) - (len(text) - cut)].strip() for found in complete_statements(text, cut)]


@pytest.mark.parametrize(
    ("half", "rest", "expected"),
    [
        ("out[i] = alpha * x[i] +", "", "out[i] = alpha * x[i] + y[i];"),
        ("if (i <", "\n  out[i] = alpha * x[i] + y[i];", "if (i < n)"),
        ("const int j = blockIdx.y *", "", "const int j = blockIdx.y *blockDim.y + threadIdx.y;"),
        ("__syncthreads", "", "__syncthreads();"),
        ("float sum =", "\n  sum += x[i] * y[i];\n  out[i] = sum * alpha * n;", "float sum = 0;"),
        ("out[", "", "out[n] = i;"),
    ],
)
def test_the_first_completion(half: str, rest: str, expected: str) -> None:
    assert completions(half + rest, half)[0] == expected


def test_a_loop_runs_to_a_number_that_is_not_used_yet() -> None:
    half = "for (int k = 0; k"
    found = completions(f"{half}\n  out[i] = alpha * x[i] + y[i];", half)
    assert found[0] == "for (int k = 0; k < n; ++k)"


def test_a_loop_gets_the_brace_that_its_block_lacks() -> None:
    half = "for (int k = 0;"
    found = completions(f"{half}\n    out[i] += x[k];\n  }}", half)
    assert found[0].endswith("{")


def test_similar_statements_are_followed() -> None:
    body = "float a = fmaf(x[i], alpha, 1.0f);\n  float b = fmaf(x[i], alpha,\n  out[i] = a + b + n;"
    assert completions(body, "float b = fmaf(x[i], alpha,")[0] == "float b = fmaf(x[i], alpha, 1.0f);"


def test_a_shared_array_gets_the_dimensions_of_its_use() -> None:
    body = "__shared__ float tile\n  tile[threadIdx.y][threadIdx.x] = x[i];"
    assert completions(body, "__shared__ float tile")[0] == "__shared__ float tile[32][33];"


def test_the_last_completion_is_no_statement() -> None:
    found = completions("out[i] = alpha *", "out[i] = alpha *")
    assert found[-1] == ";" and len(found) > 2


def test_nothing_is_completed_outside_of_kernels() -> None:
    assert list(complete_statements("int f() { return 1 +", 20)) == []


def test_cuts_are_where_statements_are_open() -> None:
    text = KERNEL.format(body="float a = x[i] *\n  out[i] = a;")
    at = text.index("out[i]")
    assert find_cuts(text, at)[0] == text.index("x[i] *") + len("x[i] *")


def test_an_undeclared_name_is_declared_before_its_use() -> None:
    text = KERNEL.format(body="out[i] = scale * x[i] + y[i] + alpha + n;")
    changed = declare_name(text, "scale", text.index("scale"))
    assert changed is not None and changed.index("auto scale = ") < changed.index("out[i] = scale")
    assert declare_name(text.replace("scale", "scale(i)"), "scale", text.index("scale")) is None


def test_deleting_keeps_lines_and_braces() -> None:
    text = KERNEL.format(body="out[i] = ? x[i];")
    changed = delete_statement(text, text.index("?"))
    assert changed.count("\n") == text.count("\n") and changed.count("}") == text.count("}") and "?" not in changed


def test_a_bracket_is_closed_before_the_end_of_its_statement() -> None:
    text = KERNEL.format(body="out[i] = alpha * (x[i] + y[i;")
    changed = close_before(text, text.index("y[i;") + 3)
    assert changed is not None and "(x[i] + y[i]);" in changed
    assert close_before(text, text.index("out[i]")) is None


def test_brackets_and_unfinished_words() -> None:
    words = [token.text for token in split_tokens("a[f(x, 2")]
    assert close_brackets(words) == ")]"
    assert drop_unfinished(["x", "=", "a", "+", "f", "("]) == 3


def test_positions_count_bytes() -> None:
    assert position_of("/* ü */ x\ny", 1, 10) == 8
    assert position_of("a\nb", 9, 9) == 3


def test_errors_of_the_compiler_are_read() -> None:
    said = "k.hip:3:7: error: use of undeclared identifier 'j'\nk.hip:4:1: fatal error: x\nk.hip:5:1: warning: y\n"
    first, second = read_compiler_errors(said)
    assert (first.line, first.column, first.undeclared) == (3, 7, "j")
    assert (second.line, second.message, second.undeclared) == (4, "x", "")
