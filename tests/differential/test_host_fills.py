"""What host code writes into arrays before a launch, worked out without running it, against a native build of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import needs
import numpy as np
import pytest

from hipsynth.profiling.preview.contents.statements import harmless
from hipsynth.profiling.preview.host import host_launches

STUB = """#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>
enum { hipMemcpyHostToDevice };
template <class T> int hipMalloc(T** p, size_t n) { return *p = (T*)calloc(1, n), 0; }
inline int hipMemcpy(void* d, const void* s, size_t n, int) { return memcpy(d, s, n), 0; }
inline int hipMemset(void* d, int v, size_t n) { return memset(d, v, n), 0; }
"""
# name -> host code that fills `held`, and the type of its elements and their number
FILLS = {
    "remainders": ("int", 1000, "for (int i = 0; i < 1000; ++i) held[i] = (i * 7919 - 500) % 1000;"),
    "congruential": (
        "unsigned",
        4096,
        "unsigned r = 12345; for (auto& v : held) v = (r = r * 1664525u + 1013904223u) >> 7;",
    ),
    "signed from unsigned": (
        "int",
        512,
        "unsigned x = 7; for (int i = 0; i < 512; i++) { x = x * 2654435761u + 3; held[i] = x; }",
    ),
    "shifts": ("uint64_t", 300, "uint64_t s = 1; for (int i = 0; i < 300; ++i) held[i] = s ^= s << 13, s ^= s >> 7;"),
    "clustered": ("int", 999, "for (size_t i = 0; i < held.size(); i += 3) held[i] = (i / 16) * 16 + (i & 3);"),
    "sorted rows": (
        "int",
        501,
        "held[0] = 0; for (int r = 0; r < 500; ++r) held[r + 1] = held[r] + 8 + r % 3 * 8;",
    ),
    "pushed": (
        "int",
        -1,
        "unsigned x = 5; for (int r = 0; r < 90; ++r) for (int k = 0; k < 4 + r % 3; ++k) {"
        " x = x * 1664525u + 1013904223u; if (x % 5 == 0) continue; held.push_back((r + (x >> 20)) % 90); }",
    ),
    "a chain": ("int", 64, "for (int i = 63; i >= 0; --i) held[i] = i == 63 ? 0 : held[i + 1] + (i ^ 5);"),
    "while": ("short", 100, "int i = 0, n = 27; while (n != 1) { held[i++] = n; n = n % 2 ? 3 * n + 1 : n / 2;"
              " if (i == 100) break; }"),
    "negative": ("int", 200, "for (int i = 0; i < 200; ++i) { int a = i - 100; held[i] = a / 7 * 10 + a % 7; }"),
    "characters": ("uint8_t", 700, "for (int i = 0; i < 700; ++i) held[i] = (uint8_t)(i * 31 + 200);"),
    "overflowing": ("int", 64, "int64_t p = 3; for (int i = 0; i < 64; ++i) { held[i] = (int)(p >> 5);"
                    " p = (p * 11) & 0xffffffffff; }"),
    "floats": ("int", 256, "for (int i = 0; i < 256; ++i) held[i] = (int)(std::sqrt((float)i) * 10.0f + 0.25f);"),
    "local arrays of numbers": (
        "int",
        128,
        "std::vector<int> size(16, 3); size[2] = size[5] = 9;"
        " for (int i = 0; i < 128; ++i) held[i] = size[i % 16] * i;",
    ),
    "counts": (
        "unsigned",
        256,
        "std::vector<unsigned char> data(900); unsigned x = 1;"
        " for (auto& v : data) ++held[v = (x = x * 1664525u + 1013904223u) >> 24];",
    ),
    "counts after": (
        "int",
        64,
        "int bins[8] = {1, 2}; unsigned s = 3; for (int i = 0; i < 64; i++) { s ^= s << 13, s ^= s >> 17, s ^= s << 5;"
        " bins[s % 8]++; held[i] = bins[i % 8]--; }",
    ),
    "places": ("int", 30, "int k = 0; for (int i = 0; i < 30; i += 2) { held[k++] = i; held[k++] += i && k; }"),
    "two at once": (
        "int",
        20,
        "std::vector<int> other(20); for (int i = 0; i < 20; ++i) held[i] = other[19 - i] = i * 3 + other[i];",
    ),
    "casts that do not fit": (
        "int",
        90,
        "unsigned r = 7; for (int i = 0; i < 90; ++i) { r = r * 1664525u + 1013904223u;"
        " held[i] = (int)r % 100 + static_cast<int>(r) / 3 + int(r + i) % 7; }",
    ),
    "copies of elements": (
        "int",
        40,
        "std::vector<short> step(20, -3); int at = 0; for (int s : step) { s += at; held[at++] = s % 4; }"
        " for (short s : step) held[at++] = s;",
    ),
    "negative state": (
        "int",
        20,
        "int s = 5; for (int i = 0; i < 10; ++i) held[i] = s -= 3;"
        " for (int i = 10; i < 20; ++i) held[i] = s % 4 + s / 3;",
    ),
    "iota": ("int", 100, "std::iota(held.begin(), held.end(), 17);"),
    "set": ("int", 50, "memset(held.data(), 0xff, 200);"),
    "in a function": ("int", 77, "fill(held, 3);"),
    "state goes on": (
        "unsigned",
        60,
        "unsigned r = 9; for (int i = 0; i < 30; ++i) held[i] = r = r * 69069u + 1;"
        " for (int i = 30; i < 60; ++i) held[i] = r = r * 69069u + 1;",
    ),
    "set anew": (
        "unsigned",
        40,
        "unsigned r = 9; for (int i = 0; i < 20; ++i) held[i] = r = r * 69069u + 1; r = 4;"
        " for (int i = 20; i < 40; ++i) held[i] = r = r * 69069u + 1;",
    ),
}  # fmt: skip
FUNCTION = "void fill(std::vector<int>& to, int by) { for (size_t i = 0; i < to.size(); ++i) to[i] = i * by % 50; }\n"


def program(kind: str, count: int, code: str, launch: str) -> str:
    made = f"std::vector<{kind}> held({count});" if count >= 0 else f"std::vector<{kind}> held;"
    return f"""{FUNCTION}
int main() {{
  {made}
  {code}
  {kind}* device;
  hipMalloc(&device, 1 << 16);
  hipMemcpy(device, held.data(), held.size() * sizeof({kind}), hipMemcpyHostToDevice);
  {launch}
}}
"""


@pytest.mark.parametrize("name", FILLS)
def test_arrays_hold_what_a_native_build_writes(name: str, tmp_path: Path) -> None:
    kind, count, code = FILLS[name]
    source = tmp_path / "native.cpp"
    write = f"fwrite(device, 1, held.size() * sizeof({kind}), stdout);"
    source.write_text(STUB + program(kind, count, code, write))
    subprocess.run(
        [str(needs.compiler().clang), "-O1", "-fwrapv", "-w", str(source), "-o", str(tmp_path / "native")], check=True
    )
    native = subprocess.run([str(tmp_path / "native")], capture_output=True, check=True).stdout
    [launch], _ = host_launches(program(kind, count, code, "use<<<1, 64>>>(device);"))
    (found,) = launch.contents().values()
    assert found.tobytes()[: len(native)] == native
    assert np.frombuffer(native, np.uint8).any()


def test_what_is_not_understood_is_not_known() -> None:
    for code in (
        "for (int i = 0; i < 9; ++i) held[i] = unknown(i);",
        "std::shuffle(held.begin(), held.end(), engine);",
        "for (int i = 0; i < 9; ++i) held[i] = i; for (auto& v : held) v = distribution(engine);",
    ):
        [launch], _ = host_launches(program("int", 9, code, "use<<<1, 64>>>(device);"))
        assert not launch.contents(), code


def test_long_fills_are_repeated() -> None:
    code = "for (int i = 0; i < 3000000; ++i) held[i] = 1 + i % 1000;"
    text = program("int", 3_000_000, code, "use<<<1, 64>>>(device);").replace("1 << 16", "12000000")
    [launch], _ = host_launches(text)
    (found,) = launch.contents().values()
    numbers = found.view(np.int32)
    assert len(numbers) == 3_000_000 and (numbers > 0).all() and (numbers[:1000] == 1 + np.arange(1000)).all()


def test_a_matrix_by_columns_is_filled_in_part() -> None:
    code = "for (int r = 0; r < 200000; ++r) for (int k = 0; k < 5; ++k) held[k * 200000 + r] = 1 + r % 100 + 1000 * k;"
    text = program("int", 1_000_000, code, "use<<<1, 64>>>(device);").replace("1 << 16", "4000000")
    [launch], _ = host_launches(text)
    (found,) = launch.contents().values()
    matrix = found.view(np.int32).reshape(5, 200_000)
    assert (matrix > 0).all() and (matrix // 1000 == np.arange(5)[:, None]).all()


def test_hostile_fills_end() -> None:
    for code in (
        "int x = 3; for (int i = 0; i < 100000000; ++i) held[i % 9] = x = x * x * x;",
        "for (;;) held[0] = 1;",
        "for (int i = 0; i < 9; ++i) held[i] = 1 << (1 << 30);",
        "for (int i = 0; i < 1000000000; ++i) held.push_back(i);",
        "int big[1 << 30] = {1}; for (int i = 0; i < 9; ++i) big[i] = held[i] = i;",
        "std::vector<char> big(1 << 30); for (int i = 0; i < 9; ++i) held[i] = big[i];",
        "for (int k = 0; k < 600; ++k) { held[k % 9] = k; use<<<1, 64>>>(device); }",
    ):
        launches, _ = host_launches(program("int", 9, code, "use<<<1, 64>>>(device);"))
        assert all(len(one) < 1 << 27 for launch in launches for one in launch.contents().values())


def test_only_numbers_and_operators_are_executed() -> None:
    assert harmless(compile("def fill(a):\n    a.append(_f_sqrt(2.0) + len(a))", "<fill>", "exec"))
    for text in ("__import__('os')", "a.__class__", "open('x')", "(lambda: print(1))()"):
        assert not harmless(compile(f"def fill(a):\n    {text}", "<fill>", "exec")), text
