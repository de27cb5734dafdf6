"""Compiling: the same machine code with and without a precompiled header, cache invalidation, clear errors."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hipsynth.core.errors import BadInput, CompileFailed, MissingDependency, UsageError
from hipsynth.core.files import hash_file
from hipsynth.core.languages import SourceLanguage
from hipsynth.core.reasons import Reason
from hipsynth.simulator.build import build_file
from hipsynth.toolchain import (
    DeviceBuild,
    compilable_archs,
    compile_device,
    compile_host,
    driver,
    find_toolchain,
    parse_flags,
    pch,
    translation_unit,
)
from hipsynth.toolchain.compile import RUNTIME
from hipsynth.toolchain.driver import CompileLimits
from hipsynth.toolchain.elf import kernels_in
from hipsynth.toolchain.project import CompileUnit, compile_project

COPY = """// a comment
#include <cstdio>
#include <hip/hip_runtime.h>

__global__ void copy(const double* a, double* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = a[i] * sqrt(a[i]) + expf(float(a[i]));
  if (i == n) printf("end %d\\n", i);
}
int main() { std::printf("%d\\n", 6 * 7); return 3; }
"""

# What a precompiled header may instantiate: vector operators, packed halves, wavefront functions, the C++ library.
TEMPLATES = """#include <vector>
#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>

template <typename T> __device__ T twice(T x) { return x + x; }

__global__ void mix(float4* a, __half2* h, int* b) {
  a[threadIdx.x] = twice(a[threadIdx.x]) * 2.0f;
  h[threadIdx.x] = __hadd2(h[threadIdx.x], h[threadIdx.x]);
  b[threadIdx.x] = __shfl_down(max(b[threadIdx.x], 1), 3) + __popcll(__ballot(b[threadIdx.x] > 2));
}
int main() {
  std::vector<float> host(4);
  return static_cast<int>(host.size()) - 4;
}
"""

THRUST = """#include <thrust/device_vector.h>
#include <iostream>

__global__ void add(double* a, double* b, double* sum, std::size_t count) {
  for (auto i = threadIdx.x + blockIdx.x * blockDim.x; i < count; i += blockDim.x * gridDim.x) sum[i] = a[i] + b[i];
}
int main() {
  thrust::device_vector<double> a(1000, 1), b(1000, 3), sum(1000);
  add<<<4, 256>>>(a.data().get(), b.data().get(), sum.data().get(), sum.size());
  return hipDeviceSynchronize() != hipSuccess || sum[0] != 4 || sum[999] != 4;
}
"""


def write(folder: Path, text: str, name: str = "program.hip") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache that has the header tree."""
    root = find_toolchain().root
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / root.name).symlink_to(root)
    monkeypatch.setenv("HIPSYNTH_CACHE", str(cache))
    return cache


def compiled_with_header(source: Path, arch: str, flags: str, out: Path) -> DeviceBuild:
    """A build that uses the precompiled header: it is built at its second use, unless another test is building it."""
    deadline = time.monotonic() + 300
    while True:
        build = compile_device(source, arch, flags, out, use_cache=False)
        if build.precompiled_header or time.monotonic() > deadline:
            return build


@pytest.mark.one_in(2)
@pytest.mark.parametrize("arch", compilable_archs())
@pytest.mark.parametrize("flags", ["-O3", "-O3 -ffast-math", "-O3 -munsafe-fp-atomics"])
@pytest.mark.parametrize("text", [COPY, TEMPLATES], ids=["copy", "templates"])
def test_a_precompiled_header_changes_no_byte(arch: str, flags: str, text: str, tmp_path: Path) -> None:
    source = write(tmp_path, text)
    with_header = compiled_with_header(source, arch, flags, tmp_path / "with")
    without = compile_device(source, arch, flags, tmp_path / "without", use_cache=False, use_pch=False)
    assert (with_header.precompiled_header, without.precompiled_header) == (True, False)
    assert with_header.code_object.read_bytes() == without.code_object.read_bytes()
    assert with_header.disassembly.read_bytes() == without.disassembly.read_bytes()
    assert len(with_header.kernels) == 1


def test_flags_and_architecture_reach_the_code(tmp_path: Path) -> None:
    atomic = "#include <hip/hip_runtime.h>\n__global__ void add(float* p, float v) { atomicAdd(p, v); }\n"
    source = write(tmp_path, atomic)
    safe = compile_device(source, "gfx90a", "-O3", tmp_path / "safe").disassembly.read_text()
    unsafe = compile_device(source, "gfx90a", "-O3 -munsafe-fp-atomics", tmp_path / "unsafe").disassembly.read_text()
    assert "global_atomic_cmpswap" in safe
    assert "global_atomic_add_f32" in unsafe


def test_device_printf_is_buffered(tmp_path: Path) -> None:
    build = compile_device(write(tmp_path, COPY), "gfx942", "-O3", tmp_path)
    assert build.disassembly.read_text().count("\n") < 600  # by host calls it is over 1400
    assert b"hidden_printf_buffer" in build.code_object.read_bytes()


@pytest.mark.parametrize(
    ("text", "fit"),
    [
        ("#include <hip/hip_runtime.h>\n", True),
        ('/* a\n b */ // c\n#include <iostream>\n#include <math.h>\n#include "hip/hip_runtime.h"\n', True),
        ("#define N 4\n#include <hip/hip_runtime.h>\n", False),
        ("#include <thrust/device_vector.h>\n#include <hip/hip_runtime.h>\n", False),
        ('#include "mine.h"\n#include <hip/hip_runtime.h>\n', False),
        ("#ifdef X\n#include <hip/hip_runtime.h>\n#endif\n", False),
        ("int x;\n#include <hip/hip_runtime.h>\n", False),
        ("", False),
        pytest.param("/* " * 100_000, False, id="open comments"),
    ],
)
def test_a_precompiled_header_is_used_only_if_no_code_precedes_it(text: str, fit: bool) -> None:
    assert pch.is_eligible(text) is fit


def test_builds_are_cached_by_content_not_by_path(own_cache: Path, tmp_path: Path) -> None:
    first = compile_device(write(tmp_path / "a", COPY), "gfx90a", "-O3", tmp_path / "out1")
    second = compile_device(write(tmp_path / "b", COPY, "other.hip"), "gfx90a", "-O3", tmp_path / "out2")
    assert (first.cached, second.cached) == (False, True)
    assert first.key == second.key
    assert first.code_object.read_bytes() == second.code_object.read_bytes()
    assert compile_device(write(tmp_path / "b", COPY + "\n"), "gfx90a", "-O3", tmp_path / "out3").key != first.key


@pytest.mark.parametrize(("include", "cached"), [("// #include", True), ("/*\n// */ #include", False)])
def test_an_include_in_a_comment_ties_no_build_to_a_folder(
    include: str, cached: bool, own_cache: Path, tmp_path: Path
) -> None:
    builds = []
    for name in ("one", "two"):
        source = write(tmp_path / name, f'{include} "gone.h"\n{COPY}')
        write(source.parent, "", "gone.h")
        builds.append(compile_device(source, "gfx90a", "-O3", tmp_path / "out").cached)
    assert builds == [False, cached]


def test_a_changed_user_header_makes_a_new_build(own_cache: Path, tmp_path: Path) -> None:
    source = write(
        tmp_path, '#include <hip/hip_runtime.h>\n#include "f.h"\n__global__ void k(int* p) { *p = VALUE; }\n'
    )
    write(tmp_path, "#define VALUE 1111\n", "f.h")
    first = compile_device(source, "gfx90a", "-O3", tmp_path / "out")
    assert "0x457" in first.disassembly.read_text()
    assert compile_device(source, "gfx90a", "-O3", tmp_path / "out").cached
    write(tmp_path, "#define VALUE 2222\n", "f.h")
    second = compile_device(source, "gfx90a", "-O3", tmp_path / "out")
    assert not second.cached
    assert "0x8ae" in second.disassembly.read_text()


VALUE_READER = "#include <hip/hip_runtime.h>\n#include <f.h>\n__global__ void k(int* p) { *p = VALUE; }\n"


@pytest.mark.parametrize("flag", ["-I", "-isystem ", "-idirafter "])
def test_a_changed_header_of_any_folder_of_the_flags_makes_a_new_build(
    flag: str, own_cache: Path, tmp_path: Path
) -> None:
    source = write(tmp_path, VALUE_READER)
    for value, digits in (("1111", "0x457"), ("2222", "0x8ae")):
        write(tmp_path / "inc", f"#define VALUE {value}\n", "f.h")
        for cached in (False, True):
            build = compile_device(source, "gfx90a", f"-O3 {flag}inc", tmp_path / "out")
            assert build.cached is cached and digits in build.disassembly.read_text()


def test_a_folder_of_the_flags_that_comes_into_being_makes_a_new_build(own_cache: Path, tmp_path: Path) -> None:
    source = write(tmp_path, VALUE_READER)
    write(tmp_path / "b", "#define VALUE 1111\n", "f.h")
    for digits in ("0x457", "0x8ae"):
        build = compile_device(source, "gfx90a", "-O3 -Ia -Ib", tmp_path / "out")
        assert not build.cached and digits in build.disassembly.read_text()
        write(tmp_path / "a", "#define VALUE 2222\n", "f.h")


def test_a_header_that_names_its_includer_is_built_for_each_name(own_cache: Path, tmp_path: Path) -> None:
    write(tmp_path, "#define NAME __FILE__\n", "name.h")
    for name in ("one.cpp", "two.cpp"):
        source = write(tmp_path, '#include "name.h"\n#include <cstdio>\nint main() { return puts(NAME); }\n', name)
        assert name.encode() in compile_host(source, "-O3", tmp_path / "out").executable.read_bytes()


def test_a_source_that_changes_while_it_is_compiled_is_refused(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = COPY.replace("6 * 7", "6 * 11")
    source, run_tool = write(tmp_path, text), driver.run_tool

    def save_then_run(*args: Any, **named: Any) -> Any:
        source.write_text(COPY)
        return run_tool(*args, **named)

    monkeypatch.setattr(driver, "run_tool", save_then_run)
    with pytest.raises(BadInput, match="changed while it was compiled"):
        compile_device(source, "gfx90a", "-O3", tmp_path / "out", use_pch=False)
    monkeypatch.undo()
    source.write_text(text)
    assert not compile_device(source, "gfx90a", "-O3", tmp_path / "out").cached


@pytest.mark.parametrize("place", ["program.hip", "table.h"])
def test_builds_with_files_of_the_assembler_are_not_cached(own_cache: Path, tmp_path: Path, place: str) -> None:
    texts = {"program.hip": '#include "table.h"\nint main() { return 0; }\n', "table.h": ""}
    texts[place] = f'asm(".incbin \\"{tmp_path}/table.bin\\"");\n{texts[place]}'
    for name, text in texts.items():
        write(tmp_path, text, name)
    builds = []
    for content in ("first", "second"):
        write(tmp_path, content, "table.bin")
        build = compile_host(tmp_path / "program.hip", "-O1", tmp_path / "out")
        builds.append((build.cached, content.encode() in build.executable.read_bytes()))
    assert builds == [(False, True), (False, True)]


@pytest.mark.parametrize("include", ['#include /* f */ "f.h"', '#/**/include "f.h"', '/* f */ #include\\\n"f.h"'])
def test_comments_in_a_directive_hide_no_header(include: str) -> None:
    assert translation_unit._may_include_files(f"{include}\n{COPY}") and not translation_unit._may_include_files(COPY)


def test_a_header_that_a_directive_with_comments_includes_is_part_of_the_build(own_cache: Path, tmp_path: Path) -> None:
    include = '#/**/include "f.h"'
    text = f"{include}\n#include <hip/hip_runtime.h>\n__global__ void k(int* p) {{ *p = VALUE; }}\n"
    for folder, value, number in (("a", "1111", "0x457"), ("b", "2222", "0x8ae")):
        write(tmp_path / folder, f"#define VALUE {value}\n", "f.h")
        build = compile_device(write(tmp_path / folder, text), "gfx90a", "-O3", tmp_path / folder)
        assert number in build.disassembly.read_text()


def test_include_flags_are_relative_to_the_sources_folder(tmp_path: Path) -> None:
    write(tmp_path / "inc", "#define VALUE 1111\n", "v.h")
    write(tmp_path, "#define OTHER 2222\n", "pre.h")
    source = write(
        tmp_path, "#include <hip/hip_runtime.h>\n#include <v.h>\n__global__ void k(int* p) { *p = VALUE + OTHER; }\n"
    )
    build = compile_device(source, "gfx90a", "-O3 -I inc -include pre.h", tmp_path)
    assert "0xd05" in build.disassembly.read_text()


@pytest.mark.parametrize("name", ["a b", "a  b", "a\nb", "a$b", "a#b", "a:b", "a\tb", "\u00e9"])
def test_headers_in_folders_of_any_name_are_followed(
    own_cache: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler escapes some characters in its list of headers, but not all. Nothing is cached before."""
    folder = tmp_path / name
    source = write(folder, '#include "part one.h"\n__global__ void k(float* p) { *p = VALUE; }\n')
    write(folder, "#define VALUE 1.0f\n", "part one.h")
    first = compile_device(source, "gfx90a", "-O3", tmp_path / "first")
    assert not first.cached and compile_device(source, "gfx90a", "-O3", tmp_path / "again").cached
    write(folder, "#define VALUE 2.0f\n", "part one.h")
    monkeypatch.setattr(driver, "run_tool", refuse_to_compile)
    with pytest.raises(CompiledAgain):
        compile_device(source, "gfx90a", "-O3", tmp_path / "second")


class CompiledAgain(Exception):
    pass


def refuse_to_compile(*_: object, **__: object) -> None:
    raise CompiledAgain


def test_the_same_text_beside_another_header_is_another_build(own_cache: Path, tmp_path: Path) -> None:
    text = '#include "f.h"\n#include <hip/hip_runtime.h>\n__global__ void k(int* p) { *p = VALUE; }\n'
    outputs = []
    for name, value in (("a", "1111"), ("b", "2222")):
        write(tmp_path / name, f"#define VALUE {value}\n", "f.h")
        build = compile_device(write(tmp_path / name, text), "gfx90a", "-O3", tmp_path / name)
        outputs.append(build.disassembly.read_text())
    assert "0x457" in outputs[0]
    assert "0x8ae" in outputs[1]


def test_the_code_does_not_depend_on_the_checkouts_path(tmp_path: Path) -> None:
    text = "#include <hip/hip_runtime.h>\n__global__ void k(const char** p) { *p = __FILE__; }\n"
    builds = [
        compile_device(write(tmp_path / name, text), "gfx90a", "-O3", tmp_path / name, use_cache=False) for name in "ab"
    ]
    assert builds[0].code_object.read_bytes() == builds[1].code_object.read_bytes()
    assert b"program.hip" in builds[0].code_object.read_bytes()
    assert str(tmp_path).encode() not in builds[0].code_object.read_bytes()


def test_many_workers_build_one_precompiled_header(own_cache: Path, tmp_path: Path) -> None:
    source, errors = write(tmp_path, COPY), []

    def work(number: int) -> None:
        try:
            compile_device(source, "gfx90a", "-O3", tmp_path / str(number), use_cache=False)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(list((own_cache / "pch").glob("*.pch"))) == 1  # the second use, whichever thread it was
    assert not list((own_cache / "pch").glob("*.partial"))
    assert compile_device(source, "gfx90a", "-O3", tmp_path / "again", use_cache=False).precompiled_header


def test_a_builder_that_is_killed_delays_each_header_by_one_compile(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a command that is killed early again and again would never come past the header."""
    source = write(tmp_path, COPY)

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    def finishes() -> bool | str:
        """Whether the build used a header, or "killed"."""
        try:
            return compile_device(source, "gfx90a", "-O3", tmp_path / "o", use_cache=False).precompiled_header
        except Killed:
            return "killed"

    with monkeypatch.context() as patch:
        patch.setattr(pch, "_compile_header", die)
        assert [finishes() for _ in range(5)] == [False, "killed", False, "killed", False]
    assert [finishes() for _ in range(2)] == [True, True]


def test_a_header_that_another_process_builds_is_not_waited_for(own_cache: Path, tmp_path: Path) -> None:
    source = write(tmp_path, COPY)
    assert not compile_device(source, "gfx90a", "-O3", tmp_path / "a", use_cache=False).precompiled_header
    lock = next((own_cache / "pch").glob("*.lock"))
    with lock.open("a+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert not compile_device(source, "gfx90a", "-O3", tmp_path / "b", use_cache=False).precompiled_header
    assert compile_device(source, "gfx90a", "-O3", tmp_path / "c", use_cache=False).precompiled_header


def test_a_damaged_precompiled_header_fails_no_program(own_cache: Path, tmp_path: Path) -> None:
    source = write(tmp_path, COPY)
    good = compiled_with_header(source, "gfx90a", "-O3", tmp_path / "a").code_object.read_bytes()
    header = next((own_cache / "pch").glob("*.pch"))
    header.write_bytes(header.read_bytes()[:100_000])
    build = compile_device(source, "gfx90a", "-O3", tmp_path / "b", use_cache=False)
    assert build.code_object.read_bytes() == good
    assert not build.precompiled_header
    assert not header.exists()


def test_a_program_that_does_not_compile_shows_the_compilers_errors(tmp_path: Path) -> None:
    source = write(tmp_path, "#include <hip/hip_runtime.h>\n__global__ void k(int* p) { *p = oops; }\n")
    with pytest.raises(CompileFailed) as caught:
        compile_device(source, "gfx90a", "-O3", tmp_path)
    assert caught.value.exit_code == 3
    assert caught.value.reason == "compile_failed"
    assert "program.hip:2:" in caught.value.diagnostics
    assert "oops" in caught.value.cause


def test_an_unknown_flag_is_a_usage_error_with_the_compilers_message(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        compile_device(write(tmp_path, COPY), "gfx90a", "-O3 -fno-such-thing", tmp_path)
    assert caught.value.exit_code == 2
    assert caught.value.reason == "bad_flag"
    assert "-fno-such-thing" in caught.value.cause


def test_the_driver_is_asked_again_where_a_folder_that_it_named_is_gone(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [write(tmp_path / f"gcc/{release}", "", "crtbegin.o").parent for release in (12, 13)]
    commands = [driver.DriverCommands(("-internal-isystem", str(folder)), (f"-L{folder}",)) for folder in answers]
    asked = iter(commands)
    monkeypatch.setattr(driver, "_ask_driver", lambda *_: next(asked))

    def ask() -> driver.DriverCommands:
        return driver.driver_commands(find_toolchain(), ["-x", "hip"], parse_flags("-O3"))

    assert ask() == ask() == commands[0]
    shutil.rmtree(answers[0])
    assert ask() == ask() == commands[1]


def test_an_unknown_architecture_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        compile_device(write(tmp_path, COPY), "gfx1", "-O3", tmp_path)
    assert caught.value.reason == "bad_arch"


def test_a_file_without_a_kernel_has_a_reason(tmp_path: Path) -> None:
    source = write(tmp_path, "#include <hip/hip_runtime.h>\n__device__ int f() { return 1; }\nint main() {}\n")
    with pytest.raises(BadInput) as caught:
        compile_device(source, "gfx942", "-O3", tmp_path)
    assert caught.value.reason == "no_kernel"


def test_a_file_without_a_kernel_may_be_in_any_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BadInput("no kernel", reason=Reason.NO_KERNEL)

    monkeypatch.setattr("hipsynth.toolchain.compile_device", refuse)
    source = tmp_path / "latin1.hip"
    source.write_bytes(b"// caf\xe9\nint main() {}\n")
    with pytest.raises(BadInput, match="no kernel"):
        build_file(source, "gfx90a", "-O3", tmp_path)


def test_without_a_hip_file_there_is_no_device_code_to_link(tmp_path: Path) -> None:
    unit = CompileUnit(write(tmp_path, "int main(void) { return 0; }\n", "main.c"), SourceLanguage.C)
    built = compile_project([unit], "gfx90a", tmp_path / "out", relocatable=True)
    assert not built.devices and subprocess.run([built.executable], check=True).returncode == 0


def test_a_missing_or_binary_file_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        compile_device(tmp_path / "none.hip", "gfx90a", "-O3", tmp_path)
    (tmp_path / "raw.hip").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="does not compile"):
        compile_device(tmp_path / "raw.hip", "gfx90a", "-O3", tmp_path)


def test_a_compile_that_never_ends_is_stopped(tmp_path: Path) -> None:
    text = """#include <hip/hip_runtime.h>
template <int A, unsigned B> struct F {
  static constexpr unsigned v = F<A - 1, B>::v + F<A - 1, B + 1>::v * F<A - 1, B * 3>::v;
};
template <unsigned B> struct F<0, B> { static constexpr unsigned v = B; };
__global__ void k(unsigned* p) { *p = F<40, 1>::v; }
"""
    with pytest.raises(CompileFailed) as caught:
        compile_device(write(tmp_path, text), "gfx90a", "-O3", tmp_path, limits=CompileLimits(time_s=1.5))
    assert "1.5 s of processor time" in caught.value.cause and "--timeout" in caught.value.remedy


@pytest.mark.parametrize("as_root", [False, True])
def test_folders_may_be_named_through_links(as_root: bool, tmp_path: Path) -> None:
    write(tmp_path / "real", "#define KEY 1234\n", "key.h")
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    text = '#include <hip/hip_runtime.h>\n#include "key.h"\n__global__ void k(int* p) { *p = KEY; }\n'
    source, alias = write(tmp_path / "user", text), tmp_path / "alias"
    roots = [tmp_path / "user", alias] if as_root else None
    build = compile_device(source, "gfx90a", f"-O3 -I {alias}", tmp_path / "out", roots=roots, use_cache=False)
    assert "0x4d2" in build.disassembly.read_text()


def test_files_from_outside_the_allowed_folders_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "secret", "#define KEY 1234\n", "key.h")
    text = '#include <hip/hip_runtime.h>\n#include "../secret/key.h"\n__global__ void k(int* p) { *p = KEY; }\n'
    source = write(tmp_path / "user", text)
    for _ in range(2):  # the second time a build is in the cache that has read the header
        with pytest.raises(CompileFailed, match=r"key\.h. file not found"):
            compile_device(source, "gfx90a", "-O3", tmp_path / "out", roots=[tmp_path / "user"])
        compile_device(source, "gfx90a", "-O3", tmp_path / "out", roots=[tmp_path])


def test_a_damaged_code_object_is_bad_input(tmp_path: Path) -> None:
    build = compile_device(write(tmp_path, COPY), "gfx90a", "-O3", tmp_path)
    data = build.code_object.read_bytes()
    for cut in (0, 4, 70, len(data) // 2):
        (tmp_path / "cut.co").write_bytes(data[:cut])
        with pytest.raises(BadInput):
            kernels_in(tmp_path / "cut.co")


def test_provenance_names_compiler_headers_and_source(tmp_path: Path) -> None:
    build = compile_device(write(tmp_path, COPY), "gfx90a", "-O3 -ffast-math", tmp_path)
    assert build.provenance["flags"] == "-O3 -ffast-math"
    assert build.provenance["arch"] == "gfx90a"
    assert "clang version" in build.provenance["compiler"]
    assert build.provenance["headers"].startswith("HIP ")
    assert len(build.provenance["source_sha256"]) == 64
    assert build.provenance["code_sha256"] == hash_file(build.code_object)
    assert not any(str(tmp_path) in value for value in build.provenance.values())


# --- the host side -------------------------------------------------------------------------------------------------


def test_the_host_side_runs(tmp_path: Path) -> None:
    build = compile_host(write(tmp_path, COPY), "-O3", tmp_path / "out")
    ran = subprocess.run([build.executable], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.returncode) == ("42\n", 3)


def test_the_host_side_is_one_build_for_all_optimisation_flags(own_cache: Path, tmp_path: Path) -> None:
    source = write(tmp_path, COPY)
    first = compile_host(source, "-O3", tmp_path)
    assert compile_host(source, "-O3 -ffast-math -munsafe-fp-atomics", tmp_path).cached
    assert not compile_host(source, "-O3 -DX=1", tmp_path).cached
    assert not first.cached


def test_a_missing_runtime_library_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MissingDependency) as caught:
        compile_host(write(tmp_path, COPY), "-O3", tmp_path, runtime=tmp_path / "none.so")
    assert caught.value.remedy == "make setup"


def test_the_runtime_library_is_found_from_anywhere(tmp_path: Path) -> None:
    build = compile_host(write(tmp_path, COPY), "-O3", tmp_path / "out")
    moved = shutil.copy(build.executable, tmp_path / "elsewhere")
    ran = subprocess.run([moved], capture_output=True, cwd="/", env={}, check=False)
    assert ran.returncode == 3
    assert RUNTIME.exists()


def test_thrust_memory_comes_from_hip(tmp_path: Path) -> None:
    source = write(tmp_path, THRUST)
    for arch in compilable_archs():
        assert compile_device(source, arch, "-O3", tmp_path).kernels == ("_Z3addPdS_S_m",)
    program = compile_host(source, "-O3", tmp_path)
    symbols = subprocess.run(["nm", "-D", program.executable], capture_output=True, text=True, check=True).stdout
    assert " U hipMalloc" in symbols
    assert " U hipFree" in symbols
