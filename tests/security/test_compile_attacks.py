"""Attacks through sources and compiler flags: no file outside is read or written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import needs
import pytest

from hipsynth.core.errors import BadInput, CompileFailed, HipsynthError, UsageError
from hipsynth.core.files import copy_regular
from hipsynth.core.folders import copy_folder
from hipsynth.profiling.matrix.targets import resolve_flags
from hipsynth.toolchain import CompileLimits, allowed_flags, compile_device, compile_host, parse_flags, sandbox

pytestmark = pytest.mark.usefixtures("sandboxed")
SECRET = "int the_secret_of_another_folder;"
LIMITS = CompileLimits(time_s=2, memory_bytes=768 << 20, file_bytes=16 << 20)
KERNEL = "__attribute__((global)) void k(int* p) { *p = 1; }\n"


@pytest.fixture(autouse=True, scope="module")
def _compiler() -> None:
    needs.compiler()


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.h").write_text(SECRET)
    return folder / "secret.h"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    folder.mkdir()
    return folder


def compiled(own: Path, text: str, flags: str = "-O1", host: bool = False) -> str:
    """What came out: the error's text, or the code's bytes as text."""
    source = own / "attack.hip"
    source.write_text(text)
    try:
        if host:
            made = compile_host(source, flags, own.parent / "out", limits=LIMITS, use_cache=False).executable
        else:
            made = compile_device(
                source, "gfx90a", flags, own.parent / "out", limits=LIMITS, use_cache=False
            ).code_object
    except HipsynthError as error:
        assert isinstance(error, CompileFailed | BadInput | UsageError) and error.what, error
        return f"error: {error}\n{getattr(error, 'diagnostics', '')}"
    return made.read_bytes().decode("latin-1")


READS = {
    "include": '#include "{secret}"\n',
    "include by a macro": '#define NAME "{secret}"\n#include NAME\n',
    "include by a relative path": '#include "../outside/secret.h"\n',
    "include_next": '#include_next <../outside/secret.h>\n',
    "import": '#import "{secret}"\n',
    "embed": "__attribute__((device)) const unsigned char taken[] = {{\n#embed \"{secret}\"\n}};\n",
    "incbin on the host": 'asm(".incbin \\"{secret}\\"");\n',
    "incbin in a kernel": '__attribute__((global)) void n() {{ asm volatile(".incbin \\"{secret}\\""); }}\n',
    "include in the host's assembler": 'asm(".include \\"{secret}\\"");\n',
    "a module map": '#pragma clang module load "{secret}"\nimport secret;\n',
    "a dependency": '#pragma GCC dependency "{secret}"\n',
    "a symlinked header": '#include "linked_header.h"\n',
    "a header through a symlinked folder": '#include "linked/secret.h"\n',
    "the shadow file": '#include "/etc/shadow"\n',
    "the processes": '#include "/proc/1/environ"\n#include "/proc/self/mem"\n',
}  # fmt: skip


@pytest.mark.parametrize("how", READS)
def test_no_file_outside_is_read(how: str, own: Path, outside: Path) -> None:
    (own / "linked_header.h").symlink_to(outside)
    (own / "linked").symlink_to(outside.parent)
    seen = outside.stat().st_atime_ns
    out = compiled(own, READS[how].format(secret=outside) + KERNEL, host="host" in how)
    assert "the_secret" not in out and "root:" not in out and outside.stat().st_atime_ns == seen, out
    assert out.startswith("error: ") or how == "a dependency", out


def test_no_file_outside_is_even_seen(own: Path, outside: Path) -> None:
    home = [path for path in Path.home().glob(".*") if path.is_file()] if os.access(Path.home(), os.R_OK) else []
    paths = [outside, "/etc/shadow", "/etc/passwd", "/proc/1/environ", Path(__file__), *home]
    lines = "".join(f'#if __has_include("{path}")\n#error SEEN {path}\n#endif\n' for path in paths)
    assert "SEEN" not in compiled(own, lines + KERNEL)


def test_a_diagnostic_quotes_no_file_outside(own: Path, outside: Path) -> None:
    """A line marker moves the errors that follow to another file, whose lines the compiler then shows."""
    out = compiled(own, f'#line 1 "{outside}"\nbroken here;\n# 1 "{outside}" 1\nbroken too;\n' + KERNEL)
    assert out.startswith("error: ") and SECRET not in out


ENDLESS = {
    "/dev/zero": '#include "/dev/zero"\n',
    "a pipe": '#include "pipe"\n',
    "itself": '#include "attack.hip"\n',
    "a macro bomb": "#define A0 x x x x x x x x x x\n"
    + "".join(f"#define A{n + 1} A{n} A{n} A{n} A{n} A{n} A{n} A{n} A{n} A{n} A{n}\n" for n in range(12))
    + "int A12;\n",
    "a template bomb": "template <int N, int M>\n"
    "struct T { static const long v = T<N - 1, M>::v + T<N - 1, M + 1>::v; };\n"
    "template <int M> struct T<0, M> { static const long v = M; };\nstatic_assert(T<900, 0>::v, \"\");\n",
    "a constant that takes long": "constexpr long f(long n) { long s = 0; while (n) s += n--; return s; }\n"
    "static_assert(f(1l << 40));\n",
    "deep nesting": f"int x = {'(' * 100_000}1{')' * 100_000};\n",
    "a huge array": "__attribute__((device)) char big[1l << 40] = {1};\n",
    "60 MB": "",
}  # fmt: skip


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[pytest.mark.full] * (what == "a pipe")) for what in ENDLESS]
)
def test_a_compile_ends_with_a_reason(what: str, own: Path) -> None:
    os.mkfifo(own / "pipe")
    text = ENDLESS[what] + KERNEL if what != "60 MB" else "//" + "x" * (60 << 20)
    out = compiled(own, text)
    assert out.startswith("error: ") or what == "/dev/zero", out[:500]  # the compiler takes a device for an empty file
    assert what != "60 MB" or "larger than 8 MiB" in out


@pytest.mark.parametrize("kind", ["a link", "a pipe", "a device", "a link to a device", "a folder"])
def test_what_is_no_source_is_not_opened(kind: str, own: Path, outside: Path) -> None:
    source = own / "odd.hip"
    if kind == "a pipe":
        os.mkfifo(source)
    elif kind == "a folder":
        source.mkdir()
    else:
        source.symlink_to(outside if kind == "a link" else "/dev/zero")
    path = Path("/dev/zero") if kind == "a device" else source
    with pytest.raises(BadInput) as caught:
        compile_device(path, "gfx90a", "-O1", own / "out", limits=LIMITS)
    assert caught.value.reason in ("outside", "not_a_file") and "the_secret" not in str(caught.value)


# --- flags ----------------------------------------------------------------------------------------------------------

FLAGS = [
    "-Xclang=-load", "-Xclang=-load -Xclang=plugin.so", "-Xclang -plugin", "-foptimization-record-file=made",
    "-fplugin=p.so", "-fpass-plugin=p.so", "-fsave-optimization-record", "-fcrash-diagnostics-dir=made",
    "-ftime-trace=made", "-MF made", "-MD", "-MJ made", "-dependency-file made", "--serialize-diagnostics made",
    "-fmodules-cache-path=made", "-fprofile-instr-generate=made", "-fprofile-use=made", "-fdebug-prefix-map=/=x",
    "-ivfsoverlay made", "-imacros made", "-iwithprefix made", "--sysroot=/", "-isysroot /", "-resource-dir=made",
    "-ccc-install-dir made", "-gcc-toolchain=/", "--hip-path=/", "--hip-device-lib-path=/", "-fmodule-file=made",
    "-include-pch made", "-Wa,-I/", "-Wl,-plugin,p.so", "-Wp,-MD,made", "-Xlinker -plugin", "-Xassembler -I/",
    "-Xpreprocessor -MD", "-Xoffload-linker -plugin", "-T made", "@made", "-DX @made", "-O1 made.o",
    "-mllvm -load=p.so", "-mllvm -info-output-file=made", "-mllvm -print-after-all", "-mllvm -stats-output=made",
    "-mllvm -amdgpu-x=/etc/x", "-mllvm -unroll-x=../x", "-fopenmp=/x.so", "-wrapper p", "--save-temps=obj",
    "-###", "-E", "-M", "--analyze", "-std=c++17@made", "-ffile-prefix-map=/=x", "-o=made",
]  # fmt: skip


@pytest.mark.parametrize("text", FLAGS)
def test_flags_that_read_write_or_load_are_refused_everywhere(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_flags(text)
    with pytest.raises(UsageError):
        resolve_flags([f"-O3 {text}"])
    assert caught.value.reason == "bad_flag"
    assert "made" not in allowed_flags(text).replace("-DX", "") and "p.so" not in allowed_flags(text)


def test_the_whole_file_system_is_no_include_folder(own: Path) -> None:
    assert "error: " in compiled(own, "#include <etc/passwd>\n" + KERNEL, "-I/")
    assert "error: " in compiled(own, "#include <passwd>\n" + KERNEL, "-include /etc/shadow -O1")


# --- what comes out of a compiler that has been taken over ----------------------------------------------------------


@pytest.mark.parametrize("kind", ["link", "pipe", "device", "large"])
def test_an_output_that_is_no_file_is_not_copied(kind: str, own: Path, outside: Path) -> None:
    made = own / "unit.o"
    if kind == "pipe":
        os.mkfifo(made)
    elif kind == "large":
        with made.open("wb") as file:
            file.truncate(1 << 40)
    else:
        made.symlink_to(outside if kind == "link" else "/dev/zero")
    with pytest.raises(BadInput):
        copy_regular(made, own / "copy")
    assert not (own / "copy").exists()


def test_a_compiler_that_leaves_links_gives_nothing_away(
    own: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stands for a compiler that the program has taken over: after each run, its outputs are links."""
    from hipsynth.toolchain import driver

    real = driver.run_tool

    def taken_over(toolchain: object, command: object, folder: Path, *rest: object, **named: object) -> str:
        said = real(toolchain, command, folder, *rest, **named)  # type: ignore[arg-type]
        for path in folder.glob("kernel.*"):
            path.unlink()
            path.symlink_to(outside)
        return said

    monkeypatch.setattr(driver, "run_tool", taken_over)
    out = compiled(own, KERNEL)
    assert out.startswith("error: ") and "the_secret" not in out
    assert not list((own.parent / "out").glob("*"))


def test_copies_for_the_sandbox_keep_the_right_to_execute_only(tmp_path: Path) -> None:
    tool = tmp_path / "tools" / "tool"
    tool.parent.mkdir(mode=0o700)
    shutil.copy("/bin/true", tool)
    tool.chmod(0o6755)
    copy_folder(tool.parent, tmp_path / "copy")
    assert (tmp_path / "copy/tool").stat().st_mode & 0o7777 == 0o755
    (tmp_path / "scratch").mkdir()
    done = sandbox.run_sandboxed([tool], tmp_path / "scratch", read_only=[tool.parent])
    assert (done.status, done.exit_code) == ("ok", 0), done
