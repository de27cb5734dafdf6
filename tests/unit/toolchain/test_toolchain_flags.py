"""User flags are validated and split into device and host flags."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipsynth.core.errors import UsageError
from hipsynth.toolchain import parse_flags


@pytest.mark.parametrize(
    ("text", "device", "host"),
    [
        ("", (), ()),
        ("-O3", ("-O3",), ()),
        ("-O3 -ffast-math -munsafe-fp-atomics", ("-O3", "-ffast-math", "-munsafe-fp-atomics"), ()),
        ("--std=c++17 -O2", ("-std=c++17", "-O2"), ("-std=c++17",)),
        ("-D N=4 '-DS=a b' -UX", ("-DN=4", "-DS=a b", "-UX"), ("-DN=4", "-DS=a b", "-UX")),
        ("-include pre.h -O1", ("-include", "pre.h", "-O1"), ("-include", "pre.h")),
        ("-mllvm -amdgpu-early-inline-all=true", ("-mllvm", "-amdgpu-early-inline-all=true"), ()),
        ("-Wall -Wextra -w -O3", ("-O3",), ()),
        ("-O3 -fopenmp", ("-O3",), ("-fopenmp",)),
    ],
)
def test_flags_are_split_into_device_and_host_flags(text: str, device: tuple[str, ...], host: tuple[str, ...]) -> None:
    flags = parse_flags(text)
    assert (flags.device, flags.host) == (device, host)


@pytest.mark.parametrize(
    "text",
    [
        "x.hip", "-", "@args", "-o out", "-c", "-S", "-Xclang -load", "-fplugin=evil.so", "--offload-arch=gfx90a",
        "-mllvm -load=evil.so", "-mllvm --load=evil.so", "-D", "'", "--rocm-path=/x", "-Wl,-rpath,/x", "-fuse-ld=/x",
        "-save-temps", "-l evil", "-march=native", "--config=x", "-fgpu-rdc", "-B/x", "-mprintf-kind=hostcall",
        "-fopenmp=libevil", "-fopenmp-targets=amdgcn",
    ],
)  # fmt: skip
def test_flags_that_choose_files_targets_or_tools_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_flags(text)
    assert caught.value.reason == "bad_flag"
    assert caught.value.cause
    assert caught.value.remedy


@pytest.mark.parametrize(("text", "plain"), [("-O3 -ffast-math", True), ("-DN=1", False), ("-include a.h", False)])
def test_only_flags_that_do_not_affect_headers_are_plain(text: str, plain: bool) -> None:
    assert parse_flags(text).allows_pch is plain


@given(st.text(max_size=30))
def test_any_text_is_valid_flags_or_a_usage_error(text: str) -> None:
    try:
        flags = parse_flags(text)
    except UsageError as error:
        assert error.exit_code == 2
    else:
        assert all(not word.startswith("-o") for word in flags.device)
