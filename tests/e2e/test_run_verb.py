"""`synth run` as a user starts it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import needs
import pytest

from hipsynth.cli.main import main

PROGRAMS = Path(__file__).parents[1] / "kernels" / "programs"


def synth_run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return synth(["run", *arguments], cwd)


def synth(arguments: list[str], cwd: Path | None) -> subprocess.CompletedProcess[str]:
    needs.compiler()
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))}
    command = [sys.executable, "-m", "hipsynth.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd, timeout=120, check=False)


def test_output_arguments_and_exit_code_are_the_programs_own(tmp_path: Path) -> None:
    done = synth_run(str(PROGRAMS / "exit_code.hip"), "--", "7", "return", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (7, "to stdout\n") and done.stderr.startswith("to stderr\nnote: ")
    done = synth_run(str(PROGRAMS / "exit_code.hip"), "--no-sandbox", "--", "7", "return", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (7, "to stdout\n", "to stderr\n")


def test_program_without_kernels_runs(tmp_path: Path) -> None:
    done = synth_run(str(PROGRAMS / "no_kernel.hip"), cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_sandboxed_output_and_exit_code(tmp_path: Path) -> None:
    done = synth_run(str(PROGRAMS / "exit_code.hip"), "--", "9", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (9, "to stdout\n")
    program_stderr, note = done.stderr.splitlines()
    assert program_stderr == "to stderr" and note.startswith("note: the program returned 9 (in a sandbox: no network")


def test_simulator_failure_exits_with_3(tmp_path: Path) -> None:
    done = synth_run(str(PROGRAMS / "out_of_bounds.hip"), "--arch", "gfx942", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout == "before\n"
    assert done.stderr.startswith("error: illegal_access: ") and done.stderr.count("illegal_access") == 1
    assert "Traceback" not in done.stderr


@functools.cache
def profile_stray_write() -> subprocess.CompletedProcess[str]:
    return synth(["profile", str(PROGRAMS / "stray_write.hip"), "--arch", "gfx942", "--", "2560"], None)


@pytest.mark.parametrize("sandbox", ["--sandbox", "--no-sandbox"])
def test_an_access_that_hardware_lets_pass_is_noted_and_strict_stops_as_a_profile_does(
    sandbox: str, tmp_path: Path
) -> None:
    source = str(PROGRAMS / "stray_write.hip")
    done = synth_run(source, sandbox, "--", "2560", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "after 0\n") and "hipsynth: warning: out of bounds: " in done.stderr
    note = "note: --strict stops at the access outside its arrays"
    assert done.stderr.splitlines()[-1].startswith(f"{note} ({source}:7), as ")
    strict = synth_run(source, sandbox, "--strict", "--arch", "gfx942", "--", "2560", cwd=tmp_path)
    profiled = profile_stray_write()
    assert strict.returncode == profiled.returncode == 3
    (said,) = (line for line in strict.stderr.splitlines() if line.startswith("error: "))
    assert said.removeprefix("error: ") in profiled.stderr


def test_a_failure_of_a_script_is_printed_once(tmp_path: Path) -> None:
    needs.package("triton")
    script = tmp_path / "script.py"
    script.write_text("print('before')\nimport cupy\n")
    done = synth_run(str(script), "--arch", "gfx942", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "before\n")
    assert done.stderr.startswith("error: needs_library: ") and done.stderr.count("No module named 'cupy'") == 1


def test_json_is_one_document(tmp_path: Path) -> None:
    done = synth_run(str(PROGRAMS / "exit_code.hip"), "--json", "--", "0", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert (document["status"], document["exit_code"], document["stdout"]) == ("ok", 0, "to stdout\n")
    assert document["kernels"][0]["dispatches"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([str(PROGRAMS / "exit_code.hip"), "--arch", "gfx1"], 2, "unknown architecture"),
        ([str(PROGRAMS / "exit_code.hip"), "--arch", "gfx942", "--device", "mi250"], 2, "not a gfx942"),
        ([str(PROGRAMS / "exit_code.hip"), "--flags=-Wrong-flag"], 2, "flag"),
    ],
)
def test_bad_input(arguments: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", *arguments])
    printed = capsys.readouterr().err
    assert (ended.value.code, says in printed, "Traceback" in printed) == (code, True, False), printed


def test_a_missing_file(tmp_path: Path) -> None:
    done = synth_run("missing.hip", cwd=tmp_path)
    assert done.returncode == 3 and "no such file" in done.stderr and "Traceback" not in done.stderr


HEADER = "#pragma once\n#include <hip/hip_runtime.h>\nvoid fill(float* p, int n, float v);\n"
FILL = """#include "fill.h"
__global__ void fill_kernel(float* p, int n, float v) { int i = threadIdx.x; if (i < n) p[i] = v * SCALE; }
void fill(float* p, int n, float v) { fill_kernel<<<1, 64>>>(p, n, v); }
"""
MAIN = """#include "fill.h"
#include <cstdio>
#include <fstream>
int main(int argc, char** argv) {
  int n = 0;
  std::ifstream("count.txt") >> n;
  float *p, h[64];
  if (n < 1 || n > 64 || argc != 2 || hipMalloc(&p, n * sizeof(float)) != hipSuccess) return 2;
  fill(p, n, argv[1][0] - '0');
  if (hipMemcpy(h, p, n * sizeof(float), hipMemcpyDeviceToHost) != hipSuccess) return 3;
  std::printf("%d times %g\\n", n, h[n - 1]);
}
"""
READS = """#include <hip/hip_runtime.h>
#include <fstream>
__global__ void empty() {}
int main(int argc, char** argv) {
  int n = 0;
  std::ifstream(argv[1]) >> n;
  empty<<<1, n>>>();
  std::printf("%d\\n", n);
  return hipDeviceSynchronize();
}
"""
RULES = "fill: main.cpp parts/fill.cpp\n\thipcc -Iinclude -DSCALE=5 $^ -o $@\n"


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """A program of two files, a header in a folder of its own, a file of data and a Makefile."""
    files = {"include/fill.h": HEADER, "parts/fill.cpp": FILL, "main.cpp": MAIN, "count.txt": "3", "Makefile": RULES}
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_several_files_with_headers_data_and_arguments(several: Path) -> None:
    files = ["main.cpp", "parts/fill.cpp"]
    done = synth(["run", *files, "-Iinclude", "-DSCALE=3", "--arch", "gfx90a", "--", "2"], several)
    assert (done.returncode, done.stdout) == (0, "3 times 6\n"), done.stderr
    done = synth(["run", *files, "--flags", "-O1 -I include -DSCALE=4", "2"], several)  # from the working folder
    assert (done.returncode, done.stdout) == (0, "3 times 8\n"), done.stderr
    arguments = ["profile", *files, "-Iinclude", "-DSCALE=3", "--arch", "gfx90a", "--json", "--", "2"]
    result = json.loads(synth(arguments, several).stdout)["results"][0]
    assert (result["status"], result["stdout"]) == ("ok", "3 times 6\n")
    assert [kernel["name"] for kernel in result["kernels"]] == ["fill_kernel"]


COUNTED = """#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
__global__ void fill(int* x, int n) { x[threadIdx.x] = n; }
int main() {
  const char* count = getenv("COUNT");
  int *x, n = count ? atoi(count) : 1;
  if (hipMalloc(&x, 256)) return 1;
  fill<<<n, 64>>>(x, n);
  printf("%d groups\\n", n);
  return hipDeviceSynchronize() != hipSuccess;
}
"""


def test_a_program_finds_the_variables_that_are_set_for_it(tmp_path: Path) -> None:
    (tmp_path / "counted.hip").write_text(COUNTED)
    for words, groups in ((["--env", "COUNT=3"], 3), (["--env", "COUNT=2", "--no-sandbox"], 2), ([], 1)):
        done = synth(["run", "counted.hip", *words], tmp_path)
        assert (done.returncode, done.stdout) == (0, f"{groups} groups\n"), done.stderr
    arguments = ["profile", "counted.hip", "--env", "COUNT=5", "--arch", "gfx942", "--json"]
    [kernel] = json.loads(synth(arguments, tmp_path).stdout)["results"][0]["kernels"]
    assert kernel["grid"] == [5, 1, 1]
    for word, problem in (("LD_PRELOAD=x", "cannot be set"), ("NEVER_SET", "is not set here"), ("=x", "no variable")):
        done = synth(["run", "counted.hip", "--env", word], tmp_path)
        assert done.returncode == 2 and problem in done.stderr


def test_files_named_in_arguments_can_be_read_wherever_they_lie(tmp_path: Path) -> None:
    (tmp_path / "prog").mkdir()
    (tmp_path / "prog/reads.hip").write_text(READS)
    (tmp_path / "elsewhere.txt").write_text("64")
    arguments = ["profile", "prog/reads.hip", "--arch", "gfx90a", "--json", "--", "elsewhere.txt"]
    result = json.loads(synth(arguments, tmp_path).stdout)["results"][0]
    assert (result["status"], result["stdout"], result["kernels"][0]["block"]) == ("ok", "64\n", [64, 1, 1])


def test_a_single_file_hints_at_missing_sources(several: Path) -> None:
    done = synth(["run", "main.cpp", "-Iinclude"], several)
    assert done.returncode == 3 and "is this the whole program?" in done.stderr
    done = synth(["profile", "main.cpp", "--arch", "gfx90a"], several)
    assert done.returncode == 3 and "is this the whole program?" in done.stderr


def test_a_folder_is_built_as_its_makefile_says(several: Path) -> None:
    needs.make()
    done = synth(["run", ".", "--", "2"], several)
    assert (done.returncode, done.stdout) == (0, "3 times 10\n"), done.stderr
    done = synth(["profile", "main.cpp", "--project", ".", "--arch", "gfx942", "--json", "--", "1"], several)
    assert json.loads(done.stdout)["results"][0]["stdout"] == "3 times 5\n"
    (several / "other.hip").write_text("#include <hip/hip_runtime.h>\nint main() { return hipDeviceSynchronize(); }\n")
    done = synth(["profile", "."], several)
    assert done.returncode == 2 and "main.cpp, other.hip" in done.stderr and "--project" in done.stderr


def test_folders_beside_the_programs_are_seen_only_when_asked_for(several: Path) -> None:
    needs.make()
    app = several / "app"
    app.mkdir()
    for name in ("main.cpp", "parts", "count.txt", "Makefile"):
        (several / name).rename(app / name)
    (app / "Makefile").write_text(RULES.replace("-Iinclude", "-I../include"))
    done = synth(["run", "app", "--", "2"], several)
    assert done.returncode == 3 and "fill.h lies outside app" in done.stderr
    assert "let the compiler see them: -I include" in done.stderr
    done = synth(["run", "app", "-I", "include", "--", "2"], several)
    assert (done.returncode, done.stdout) == (0, "3 times 10\n"), done.stderr
    assert "lies outside the surveyed folder: survey the one above" in synth(["survey", "app"], several).stdout
    done = synth(["run", "app/Makefile"], several)
    assert done.returncode == 3 and "give its folder: app" in done.stderr


def test_prerequisites_outside_the_folder_are_seen_with_their_include_folder(several: Path) -> None:
    needs.make()
    app = several / "app"
    app.mkdir()
    for name in ("main.cpp", "parts", "count.txt", "Makefile"):
        (several / name).rename(app / name)
    rules = RULES.replace("-Iinclude", "-I../include").replace("main.cpp", "main.cpp ../include/fill.h", 1)
    assert rules.count("../include/fill.h") == 1
    (app / "Makefile").write_text(rules)
    done = synth(["run", "app", "-I", "include", "--", "2"], several)
    assert (done.returncode, done.stdout) == (0, "3 times 10\n"), done.stderr


def test_the_usage_of_a_program_without_arguments_is_shown(tmp_path: Path) -> None:
    text = "#include <hip/hip_runtime.h>\n#include <cstdio>\n__global__ void k() {}\n"
    (tmp_path / "asks.hip").write_text(text + 'int main(int n, char**) { std::puts("usage: asks N"); return n < 2; }\n')
    done = synth(["profile", "asks.hip"], tmp_path)
    assert done.returncode == 3 and "launched no kernel" in done.stderr and "usage: asks N" in done.stderr


def test_names_of_older_hip_headers_are_defined(tmp_path: Path) -> None:
    text = "#include <hip/hip_runtime.h>\nint main() { char b[4]; memset(b, 7, 4); return b[3]; }\n"
    (tmp_path / "older.hip").write_text(text)
    assert synth_run("older.hip", cwd=tmp_path).returncode == 7
    (tmp_path / "wrong.hip").write_text(text.replace("b[3]", "nobody"))
    done = synth_run("wrong.hip", cwd=tmp_path)
    assert done.returncode == 3 and "undeclared identifier 'nobody'" in done.stderr


def test_device_code_across_files_is_linked_when_asked(tmp_path: Path) -> None:
    (tmp_path / "square.hip").write_text(
        "#include <hip/hip_runtime.h>\n__device__ int square(int x) { return x * x; }\n"
        "static __constant__ int more;\nstatic __managed__ int counted = 1;\n"
        "static void set_more(int n) { (void)hipMemcpyToSymbol(HIP_SYMBOL(more), &n, 4); }\n"
        "static __global__ void change(int* p, int n) { *p += n + more + counted; }\n"
        "void plus(int* p, int n) { set_more(n); counted += 0; change<<<1, 1>>>(p, n); }\n"
    )
    (tmp_path / "main.hip").write_text(
        "#include <hip/hip_runtime.h>\nextern __device__ int square(int);\n"
        "void plus(int*, int);\nstatic __constant__ int more;\nstatic __managed__ int counted = 2;\n"
        "static int set_more(int n) { return hipMemcpyToSymbol(HIP_SYMBOL(more), &n, 4); }\n"
        "static __global__ void change(int* p) { *p *= counted + more; }\n"
        "__global__ void nine(int* p) { *p = square(3); }\n"
        "__global__ void less(int* p, int n) { __shared__ int s[9]; s[n] = *p; __syncthreads(); *p = s[n] - n; }\n"
        "int main() { int *p, h = 0; if (hipMalloc(&p, 4) || set_more(1) || counted != 2) return 1;\n"
        "  nine<<<1, 1>>>(p); less<<<1, 1>>>(p, 2); change<<<1, 1>>>(p); plus(p, 20);\n"
        "  return hipMemcpy(&h, p, 4, hipMemcpyDeviceToHost) == hipSuccess ? h : 1; }\n"
    )
    assert synth_run("main.hip", "square.hip", "--flags", "-O3 -fgpu-rdc", cwd=tmp_path).returncode == 62
    done = synth_run("main.hip", "square.hip", cwd=tmp_path)
    assert done.returncode == 3 and "want --flags '-O3 -fgpu-rdc'" in done.stderr


def test_each_file_has_managed_variables_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "other.hip").write_text(
        "#include <hip/hip_runtime.h>\nstatic __managed__ int sum = 10;\n"
        "static __global__ void count() { sum += 3; }\n"
        "int other() { count<<<1, 1>>>(); (void)hipDeviceSynchronize(); return sum; }\n"
    )
    (tmp_path / "main.hip").write_text(
        "#include <hip/hip_runtime.h>\nint other();\nstatic __managed__ int sum = 20;\n"
        "static __global__ void count() { sum += 5; }\n"
        "int main() { count<<<1, 1>>>(); const int theirs = other(); return theirs == 13 ? sum : 1; }\n"
    )
    assert synth_run("main.hip", "other.hip", cwd=tmp_path).returncode == 25


WRITES = """#include <hip/hip_runtime.h>
#include <fstream>
#include <iostream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
int main(int argc, char** argv) {
  std::string line;
  std::getline(std::cin, line);
  std::printf("%s, %s\\n", line.c_str(), argc > 1 ? argv[1] : "");
  std::ofstream("data.txt") << "changed";
  mkdir("out", 0755);
  std::ofstream("out/made.txt") << "made";
  if (symlink("/etc/passwd", "out/passwd") || mkfifo("out/pipe", 0644)) return 1;
  int device = 0;
  return hipGetDevice(&device);
}
"""


def test_input_is_passed_on_and_files_are_kept_when_asked(tmp_path: Path) -> None:
    (tmp_path / "writes.hip").write_text(WRITES)
    (tmp_path / "data.txt").write_text("original")
    command = [sys.executable, "-m", "hipsynth.cli.main", "run", "writes.hip"]
    done = subprocess.run(
        command, input="given\n", cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "given, \n" and "data.txt, out/made.txt (--keep FOLDER copies them out" in done.stderr
    given = (tmp_path / "data.txt").open()
    done = subprocess.run(
        [*command, "--keep", "kept", "--", "word"],
        stdin=given, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout == "original, word\n" and "2 of 2 files that it wrote are in kept" in done.stderr
    kept = {str(path.relative_to(tmp_path / "kept")) for path in (tmp_path / "kept").rglob("*") if not path.is_dir()}
    assert kept == {"data.txt", "out/made.txt"} and (tmp_path / "data.txt").read_text() == "original"
    again = subprocess.run([*command, "--keep", "kept"], cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert again.returncode == 2


RACY = """#include <hip/hip_runtime.h>
__global__ void turn(int* a) {
  __shared__ int s[128];
  s[threadIdx.x] = a[threadIdx.x] + threadIdx.x + 1;
  BARRIER
  a[threadIdx.x] = s[threadIdx.x ^ 64];
}
int main() {
  int* a;
  if (hipMalloc(&a, 512) != hipSuccess) return 1;
  turn<<<1, 128>>>(a);
  return hipDeviceSynchronize();
}
"""


@pytest.mark.parametrize("sandbox", ["--sandbox", "--no-sandbox"])
def test_races_are_told_and_exit_with_5(sandbox: str, tmp_path: Path) -> None:
    (tmp_path / "racy.hip").write_text(RACY.replace("BARRIER", ""))
    (tmp_path / "fine.hip").write_text(RACY.replace("BARRIER", "__syncthreads();"))
    done = synth_run("racy.hip", "--races", sandbox, cwd=tmp_path)
    assert done.returncode == 5 and done.stderr.startswith("race: kernel turn(int*), two waves of a group, no barrier")
    done = synth_run("fine.hip", "--races", sandbox, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert synth_run("racy.hip", sandbox, cwd=tmp_path).returncode == 0


def test_races_are_in_the_document(tmp_path: Path) -> None:
    (tmp_path / "racy.hip").write_text(RACY.replace("BARRIER", ""))
    done = synth_run("racy.hip", "--races", "--json", cwd=tmp_path)
    assert done.returncode == 5 and len(json.loads(done.stdout)["races"]) == 1


HASTY = """#include <hip/hip_runtime.h>
__global__ void fill(int* out) { *out = 7; }
int main() {
  int* out;
  if (hipHostMalloc(&out, 4, 0) != hipSuccess) return 1;
  *out = 0;
  fill<<<1, 1>>>(out);
  WAIT
  return *out;
}
"""


@pytest.mark.parametrize("stream", ["oldest", "youngest"])
def test_late_work_shows_what_the_program_does_not_wait_for(stream: str, tmp_path: Path) -> None:
    (tmp_path / "hasty.hip").write_text(HASTY.replace("WAIT", ""))
    (tmp_path / "waits.hip").write_text(HASTY.replace("WAIT", "(void)hipDeviceSynchronize();"))
    assert synth_run("hasty.hip", cwd=tmp_path).returncode == 7
    assert synth_run("hasty.hip", "--late", stream, cwd=tmp_path).returncode == 0
    assert synth_run("waits.hip", "--late", stream, cwd=tmp_path).returncode == 7
