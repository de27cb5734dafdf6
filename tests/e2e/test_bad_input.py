"""For any bad input, `synth` gives an exit code, one JSON document with --json, a helpful message, and no traceback."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs
import pytest
from child_processes import child_process, is_running, wait_until

from hipsynth.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "hipsynth.cli.main"]
START = "#include <hip/hip_runtime.h>\n#include <cassert>\n#include <cstdio>\n#include <unistd.h>\n"
HOST = "int main() { int* p; if (hipMalloc(&p, 1024)) return 9; k<<<1, 256>>>(p); (void)hipDeviceSynchronize(); "


def source(body: str, host: str = 'std::puts("done");') -> str:
    return f"{START}__global__ void k(int* p) {{ {body} }}\n{HOST}{host} }}\n"


GOOD = source("p[threadIdx.x] = 1;")
# name -> (text, reason in the profile document)
PROGRAMS: dict[str, tuple[str, str]] = {
    "host_only": ('#include <cstdio>\nint main() { std::puts("hello"); }\n', "no_kernel"),
    "no_launch": (f'{START}__global__ void k() {{}}\nint main() {{ std::puts("usage"); }}\n', "no_dispatch"),
    "nonsense": (source("nonsense();"), "compile_failed"),
    "just_past_the_end": (source("p[threadIdx.x + 1] = 1;"), "illegal_access"),
    "far_away": (source("p[threadIdx.x + 1000000000ll] = 1;"), "illegal_access"),
    "null": (source("*(volatile int*)nullptr = threadIdx.x;"), "illegal_access"),
    "trap": (source("__builtin_trap();"), "trap"),
    "abort": (source("abort();"), "trap"),
    "assertion": (source("assert(p == nullptr);"), "assertion"),
    "endless_kernel": (source("for (volatile int* q = p;;) q[0] = q[0] + 1;"), "timeout"),
    "endless_host": (source("", "for (;;) usleep(1000);"), "timeout"),
    "host_crash": (source("", "*(volatile int*)8 = 1;"), "host_crash"),
    "forks": (source("", "if (fork() == 0) return 3;"), "forbidden_call"),
}
FAST = ("nonsense", "just_past_the_end", "host_crash")


@pytest.fixture(scope="module")
def simulator() -> None:
    needs.simulator()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that no verb can use, and one good program."""
    path = tmp_path_factory.mktemp("input")
    (path / "good.hip").write_text(GOOD)
    (path / "empty.hip").touch()
    (path / "latin1.hip").write_bytes(b"// caf\xe9\n" + GOOD.encode())
    (path / "compiled.out").write_bytes(b"\x7fELF\x02\0\xd0")
    (path / "loop.hip").symlink_to(path / "loop.hip")
    (path / "folder.hip").mkdir()
    for name in ("none", "mixed"):
        (path / name).mkdir()
    for name in ("good", "latin1"):
        shutil.copy(path / f"{name}.hip", path / "mixed")
    return path


def synth(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, cwd=cwd, env=environment, timeout=300, check=False
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


def refused(*arguments: str, cwd: Path, code: int, says: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    """The JSON error document of a command that must fail; stderr must hold the same message."""
    done = synth(*arguments, "--json", cwd=cwd, env=env)
    assert done.returncode == code, done.stderr
    return read_refusal(done.stdout, done.stderr, says)


def read_refusal(out: str, err: str, says: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(out)
    assert list(document) == ["error", "message", "cause", "remedy"]
    assert says in " ".join(document.values()), document
    assert document["message"] in err and "Traceback" not in out + err
    return document


BAD_REQUESTS = [
    ("frobnicate", 2, "frobnicate"),
    ("profile", 2, "PATH"),
    ("profile good.hip --bogus", 2, "--bogus"),
    ("profile good.hip --timeout 0", 2, "--timeout"),
    ("profile good.hip --engine spark", 2, "local, ray"),
    ("profile good.hip --effort 0", 2, "--effort"),
    ("profile good.hip --asm", 2, "--lines"),
    ("profile good.hip --effort 2 --exact", 2, "--exact"),
    ("profile good.hip --arch gfx1100", 2, "gfx942"),
    ("profile good.hip --flags=-O9", 2, "-ffast-math"),
    ("profile good.hip --flags=@nothing", 2, "@default"),
    ("profile good.hip --device h100", 2, "mi300x"),
    ("profile good.hip --backend abacus", 2, "rocprof"),
    ("profile good.hip --backend recorded:nowhere", 4, "recorded"),
    ("profile missing.hip", 3, "missing.hip"),
    ("predict loop.hip", 3, "in a circle"),
    ("predict empty.hip", 3, "empty.hip: no kernel in the file"),
    ("optimize empty.hip", 3, "empty.hip: the file is empty"),
    ("profile empty.hip", 3, "empty.hip: the file is empty"),
    ("run empty.hip", 3, "empty.hip: the file is empty"),
    ("profile latin1.hip", 3, "iconv"),
    ("profile compiled.out", 3, "the source of this compiled program"),
    ("profile folder.hip", 3, "--out"),
    ("profile none --out corpus", 3, "*.hip"),
    ("profile good.hip --out corpus", 2, "--out"),
    ("run missing.hip", 3, "no such file"),
    ("run folder.hip", 3, "no HIP program"),
    ("run good.hip --arch gfx1100", 2, "gfx942"),
    ("run good.hip --flags=-o/etc/passwd", 2, "-o"),
    ("generate --count 0 --out new", 2, "--count"),
    ("generate --count 1 --out new --family zebra", 2, "gemm"),
    ("generate --count 1 --out good.hip/new", 3, "good.hip"),
    ("augment missing.hip", 3, "missing.hip"),
    ("augment good.hip --out good.hip/new", 3, "good.hip"),
    ("stats missing", 3, "not a corpus"),
    ("stats good.hip", 3, "not a corpus"),
    ("export missing --out samples", 3, "not a corpus"),
    ("export missing --format xml --out samples", 2, "chat-jsonl"),
    ("train missing --config tiny-cpu --out model", 3, "not a corpus"),
    ("train missing --config enormous --out model", 2, "tiny-cpu"),
    ("evaluate missing missing", 3, "not a corpus"),
    ("report missing --out page.html", 3, "not a corpus"),
    ("predict good.hip --arch gfx1100", 2, "gfx942"),
    ("predict good.hip --arch gfx942 --model missing", 3, "synth train"),
    ("doctor --bogus", 2, "--bogus"),
    ("profile good.hip --timeout nan", 2, "finite"),
    ("run good.hip --memory inf", 2, "finite"),
    ("run good.hip --memory 0.1", 2, "0.25"),
    ("profile mixed --out good.hip", 2, "is a file"),
]
FAST_REQUESTS = [row for number, row in enumerate(BAD_REQUESTS) if number % 6 == 0]


@pytest.mark.parametrize(("arguments", "code", "says"), FAST_REQUESTS)
def test_a_bad_request(
    arguments: str,
    code: int,
    says: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as ended:
        main([*arguments.split(), "--json"])
    printed = capsys.readouterr()
    assert ended.value.code == code, printed.err
    read_refusal(printed.out, printed.err, says)


@pytest.mark.full
@pytest.mark.parametrize(("arguments", "code", "says"), BAD_REQUESTS)
def test_every_bad_request(arguments: str, code: int, says: str, folder: Path) -> None:
    refused(*arguments.split(), cwd=folder, code=code, says=says)


def profiled(name: str, tmp_path: Path) -> dict[str, Any]:
    text, reason = PROGRAMS[name]
    (tmp_path / f"{name}.hip").write_text(text)
    arguments = [f"{name}.hip", "--arch", "gfx942", "--timeout", "2", "--json"]
    done = synth("profile", *arguments, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert result["status"] == "failed" and result["reason"] in reason.split("|"), done.stderr
    assert f"error: gfx942 -O3: {result['reason']}: " in done.stderr
    return result  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", FAST)
def test_a_bad_program(name: str, tmp_path: Path, simulator: None) -> None:
    profiled(name, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in FAST])
def test_every_bad_program(name: str, tmp_path: Path, simulator: None) -> None:
    profiled(name, tmp_path)


def test_the_profile_document_keeps_the_contract(folder: Path, simulator: None) -> None:
    flags = "-O3   -ffast-math "
    arguments = ["good.hip", "--arch", "gfx942", "--arch", "gfx90a", "--flags", flags, "--flags=-O1", "--json"]
    done = synth("profile", *arguments, cwd=folder)
    assert (done.returncode, done.stderr) == (0, ""), "no progress where stderr is no terminal"
    document = json.loads(done.stdout)
    assert list(document) == ["program", "results"] and list(document["program"]) == ["id", "path"]
    cells = [(one["arch"], one["flags"]) for one in document["results"]]
    assert cells == [(arch, given) for arch in ("gfx942", "gfx90a") for given in (flags, "-O1")]
    for one in document["results"]:
        contract = "arch flags status reason exit_code stdout kernels device message"
        assert list(one) == [*contract.split(), "plot"]
        assert (one["status"], one["reason"], one["exit_code"], one["stdout"]) == ("ok", "", 0, "done\n")
        (kernel,) = one["kernels"]
        contract = "name dispatches grid block counters metrics duration_ns backend backend_version"
        extensions = "extra_metrics expected_error no_evidence bottleneck sampled groups_simulated reused"
        extensions += " error_estimate metric_error_estimate same_shape"
        assert list(kernel) == [*contract.split(), *extensions.split()]
        assert (kernel["name"], kernel["grid"], kernel["block"]) == ("k", [1, 1, 1], [256, 1, 1])
        assert kernel["counters"]["SQ_WAVES"] == 4 and len(kernel["metrics"]) == 12


@pytest.mark.full
def test_one_unreadable_program_does_not_stop_a_folder(folder: Path, tmp_path: Path, simulator: None) -> None:
    arguments = [str(folder / "mixed"), "--out", "corpus", "--arch", "gfx90a", "--flags=-O3", "--json"]
    done = synth("profile", *arguments, cwd=tmp_path)
    document = json.loads(done.stdout)
    assert (done.returncode, document["measured"], document["failed"]) == (5, 1, {"unreadable": 1})
    assert "latin1.hip" in document["failures"][0]["name"] and "iconv" in document["failures"][0]["message"]


@pytest.mark.parametrize("verb", ["profile", "run", "augment"])
def test_without_a_toolchain(verb: str, folder: Path, tmp_path: Path) -> None:
    env = {"HIPSYNTH_CACHE": str(tmp_path / "nothing"), "ROCM_PATH": str(tmp_path)}
    if Path("/opt/rocm").exists():
        pytest.skip("a ROCm installation is used first")
    refused(verb, "good.hip", cwd=folder, code=4, says="make setup", env=env)


def test_without_the_runtime_library(folder: Path, simulator: None) -> None:
    env = {"HIPSYNTH_RUNTIME": "/nowhere/lib.so"}
    refused("run", "good.hip", cwd=folder, code=4, says="HIPSYNTH_RUNTIME", env=env)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A full file system of 1 MiB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    arguments = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)]
    if not shutil.which("mount") or subprocess.run(arguments, capture_output=True, check=False).returncode != 0:
        pytest.skip("no right to mount a small file system")
    try:
        (mount / "filler").write_bytes(bytes(900_000))
        (mount / "rest").write_bytes(bytes((1 << 20) - 900_000 - (8 << 12)))
        yield mount
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_a_full_disk(small_disk: Path, tmp_path: Path) -> None:
    error = refused("generate", "--count", "40", "--out", str(small_disk / "p"), cwd=tmp_path, code=3, says="space")
    assert "No space left" in error["cause"]
    (small_disk / "filler").unlink()
    done = synth("generate", "--count", "40", "--out", str(small_disk / "p"), "--json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["count"]) == (0, 40), done.stderr


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full here")
def test_standard_output_on_a_full_disk(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        arguments = ["generate", "--count", "1", "--out", "p", "--json"]
        done = subprocess.run(
            [*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=ENV
        )
    assert done.returncode == 3 and "No space left" in done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


def test_a_closed_pipe(tmp_path: Path) -> None:
    command = f"{' '.join(COMMAND)} generate --help | true"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, cwd=tmp_path, env=ENV)
    assert (done.returncode, done.stderr) == (0, "")


ENV = {**os.environ, "PYTHONPATH": str(ROOT)}


def test_an_interrupt_is_one_document_and_no_traceback(tmp_path: Path, simulator: None) -> None:
    (tmp_path / "slow.hip").write_text(source("", "for (;;) usleep(1000);"))
    command = [*COMMAND, "profile", "slow.hip", "--arch", "gfx90a", "--json"]
    environment, pipe = {**ENV, "TMPDIR": str(tmp_path)}, subprocess.PIPE
    with child_process(command, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe) as process:
        assert wait_until(lambda: is_running(tmp_path, "slow"), 120)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)
    document = json.loads(out)  # with what had ended, if something had
    found = document["results"][0]["reason"] if "results" in document else document["error"]
    assert (process.returncode, found) == (130, "interrupted")
    assert "Traceback" not in err and "interrupted" in err


def test_progress_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    arguments = [*COMMAND, "generate", "--count", "3", "--workers", "1", "--json", "--out"]
    quiet = subprocess.run([*arguments, "a"], capture_output=True, text=True, cwd=tmp_path, env=ENV)
    assert (quiet.returncode, quiet.stderr) == (0, "")
    controller, terminal = pty.openpty()
    with subprocess.Popen([*arguments, "b"], stdout=subprocess.PIPE, stderr=terminal, cwd=tmp_path, env=ENV) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
    os.close(terminal)
    assert json.loads(printed)["count"] == 3
    assert b"generate 3/3" in os.read(controller, 65536)
    os.close(controller)


def test_help_loads_little(tmp_path: Path) -> None:
    """What makes help slow is what it imports: that it is few modules does not depend on the machine's load."""
    code = (
        "import sys; from hipsynth.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print(len(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=ENV)
    assert int(done.stderr) < 300


@pytest.mark.full
def test_every_verb_has_help_with_examples(tmp_path: Path) -> None:
    from hipsynth.cli.main import VERBS

    for verb in VERBS:
        done = synth(verb, "--help", cwd=tmp_path)
        assert done.returncode == 0 and "Examples:" in done.stdout and f"synth {verb}" in done.stdout
        assert "--json" in done.stdout
