"""Complete surveys of small folders like those found in practice."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import needs
import pytest
from hip_programs import require_compiler
from triton_samples import DOUBLE

from hipsynth.core.journal import Journal
from hipsynth.core.program import Program
from hipsynth.core.reasons import Reason
from hipsynth.core.store import CorpusWriter
from hipsynth.profiling import metrics
from hipsynth.profiling.survey import SurveyOptions, SurveyReport, SurveyRow, survey_folder
from hipsynth.profiling.survey.discover import find_programs
from hipsynth.profiling.survey.report import report_table
from hipsynth.profiling.survey.run_survey import _finished_rows, _row_key
from hipsynth.profiling.survey.sources import scan_folder

pytestmark = pytest.mark.full  # tests/e2e/test_survey_verb.py is the smaller form

HIP = "#include <hip/hip_runtime.h>\n#include <cstdio>\n"

# A kernel, a device variable and a constant of the same names in two files: each file must get its own.
PART = """#include <hip/hip_runtime.h>
#include "shared.h"
static __device__ int bias = BIAS;
static __global__ void kernel(int* p) { p[threadIdx.x] += bias + offset; }
int NAME(int* p) {
  int value = 10 * BIAS;
  if (hipMemcpyToSymbol(HIP_SYMBOL(offset), &value, sizeof value) != hipSuccess) return 1;
  kernel<<<1, 64>>>(p);
  return hipDeviceSynchronize();
}
"""
SHARED = "#pragma once\n__constant__ int offset;\nint first(int*);\nint second(int*);\n"
MAIN = """#include <hip/hip_runtime.h>
#include <cstdio>
#include "shared.h"
int main() {
  int *p, h[64];
  if (hipMalloc(&p, sizeof h) != hipSuccess || hipMemset(p, 0, sizeof h) != hipSuccess) return 2;
  if (first(p) || second(p) || hipMemcpy(h, p, sizeof h, hipMemcpyDeviceToHost) != hipSuccess) return 3;
  std::printf(h[5] == 33 ? "PASSED\\n" : "FAILED: %d\\n", h[5]);
  return h[5] == 33 ? 0 : 1;
}
"""
MAKEFILE = """HIPCC = /opt/rocm/bin/hipcc
OBJECTS = main.o first.o second.o
multi: $(OBJECTS)
\t$(HIPCC) $(OBJECTS) -o $@
first.o: parts/part.hip
\t$(HIPCC) -Iinclude -DBIAS=1 -DNAME=first -c $< -o $@
second.o: parts/other.hip
\t$(HIPCC) -Iinclude -DBIAS=2 -DNAME=second -c $< -o $@
main.o: main.cc
\t$(HIPCC) -Iinclude -c $< -o $@
"""
LINKED_LIST = """cmake_minimum_required(VERSION 3.21)
project(linked LANGUAGES CXX HIP)
add_library(square STATIC square.hip)
set_target_properties(square PROPERTIES HIP_SEPARABLE_COMPILATION ON)
add_executable(linked linked.hip)
set_target_properties(linked PROPERTIES HIP_SEPARABLE_COMPILATION ON)
target_link_libraries(linked PRIVATE square)
set(SIDE 8)
configure_file(side.h.in ${CMAKE_CURRENT_BINARY_DIR}/side.h)
target_include_directories(linked PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
"""
LINKED = """extern __device__ int square(int);
__global__ void kernel(int* p) { p[threadIdx.x] = square(threadIdx.x); }
int main() {
  int *p, h[64];
  (void)hipMalloc(&p, sizeof h);
  kernel<<<1, SIDE * SIDE>>>(p);
  (void)hipMemcpy(h, p, sizeof h, hipMemcpyDeviceToHost);
  std::puts(h[9] == 81 ? "results match" : "wrong");
}
"""
LOADER = """int main(int argc, char** argv) {
  std::string path = std::string(argv[0]).substr(0, std::string(argv[0]).rfind('/')) + "/set.co";
  hipModule_t module; hipFunction_t f; int *p, h = 0;
  if (hipMalloc(&p, 4) != hipSuccess || hipModuleLoad(&module, path.c_str()) != hipSuccess) return 2;
  if (hipModuleGetFunction(&f, module, "set") != hipSuccess) return 3;
  void* args[] = {&p};
  if (hipModuleLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, args, nullptr) != hipSuccess) return 4;
  if (hipMemcpy(&h, p, 4, hipMemcpyDeviceToHost) != hipSuccess || h != 77) return 5;
  std::puts("Test passed");
}
"""
FILES = {
    "multi/Makefile": MAKEFILE,
    "multi/main.cc": MAIN,
    "multi/parts/part.hip": PART,
    "multi/parts/other.hip": PART,
    "multi/include/shared.h": SHARED,
    "linked/CMakeLists.txt": LINKED_LIST,
    "linked/linked.hip": HIP + '#include "side.h"\n' + LINKED,
    "linked/side.h.in": "#define SIDE @SIDE@\n",
    "linked/square.hip": "#include <hip/hip_runtime.h>\n__device__ int square(int x) { return x * x; }\n",
    "loader/Makefile": "loader: set.co\n\thipcc loader.hip -o $@\nset.co: set.hip\n\thipcc --genco $< -o $@\n",
    "loader/loader.hip": HIP + "#include <string>\n" + LOADER,
    "loader/set.hip": '#include <hip/hip_runtime.h>\nextern "C" __global__ void set(int* p) { *p = 77; }\n',
    "library.hip": "#include <rocblas/rocblas.h>\n" + HIP + "int main() {}\n",
    "selfcheck.hip": HIP + 'int main() { hipDeviceSynchronize(); std::puts("Verification FAILED"); }\n',
    "repeats/Makefile": "repeats: repeats.hip\n\thipcc $< -o $@\nrun: repeats\n\t./repeats 64 1000000000\n",
    "repeats/repeats.hip": HIP + "__global__ void again() {}\nint main(int, char** v) {"
    + " for (int i = 0; i < std::atoi(v[2]); ++i) again<<<1, 64>>>(); }\n",
    "arguments.hip": HIP
    + 'int main(int n, char** v) { hipDeviceSynchronize(); if (n < 2) { std::puts("usage: arguments N"); return 1; }'
    + ' return v[1][0] != \'7\'; }\n',
    "example.hip": HIP
    + 'int main(int n, char** v) { hipDeviceSynchronize(); if (n < 3) { std::printf("usage: %s N M\\n'
    + 'for example\\n  %s 5 --twice\\n", v[0], v[0]); return 1; } return v[1][0] != \'5\'; }\n',
    "named_option.hip": HIP
    + 'int main(int n, char** v) { hipDeviceSynchronize(); if (n == 3 && v[1][1] == 109 && v[2][0] == 101) return 0;'
    + ' std::puts("not there; use the other method with \\"-m event\\" argument."); return 1; }\n',
    "aborts.hip": HIP
    + 'int main(int n, char** v) { hipDeviceSynchronize(); if (n < 2) { std::puts("usage: aborts N"); return 1; }'
    + " __builtin_trap(); }\n",
    "named.hip": HIP
    + '#include <cstring>\nint main(int, char** v) { hipDeviceSynchronize(); return std::strcmp(v[0], "./named"); }\n',
    "named": "\x7fELF, built long ago\n",
    "crashes.hip": HIP
    + "int main(int, char** v) { int* p; hipMalloc(&p, 4); return v[1][0] != '7'; }\n",
    "README.md": "Not without: ./crashes 7 \nTo see it end: ./aborts 3 \nStart `./arguments 7`, and it ends.\n",
    "data/reader.hip": HIP + 'int main() { FILE* f = std::fopen("in.txt", "r"); hipDeviceSynchronize();'
    + ' FILE* g = std::fopen("out.txt", "w"); return f && g ? 0 : 1; }\n',
    "data/in.txt": "1\n",
    "neighbour/away.hip": HIP + 'int main() { FILE* f = std::fopen("../data/in.txt", "r"); hipDeviceSynchronize();'
    + ' return f && !std::fopen("../data/in.txt", "w") && !std::fopen("../data/new.txt", "w") ? 0 : 1; }\n',
    "prepared/Makefile": "prepared: prepared.hip\n\thipcc $< -o $@\nnumbers: seed\n\tsort -n seed > numbers\n"
    + "run: prepared numbers\n\techo start\n\ttime ./prepared 9 <numbers >log 2>&1\n",
    "prepared/seed": "7\n3\n",
    "prepared/prepared.hip": HIP + "int main(int n, char** v) { int x = 0; hipDeviceSynchronize();"
    + " return n == 2 && v[1][0] == '9' && std::scanf(\"%d\", &x) == 1 && x == 3 ? 0 : 1; }\n",
    "older.hip": "#include <hip/hip_runtime.h>\nint main() { char b[4]; memset(b, 0, 4); return strlen(b); }\n",
    "nomain.hip": HIP + "__global__ void k() {}\n",
}  # fmt: skip
EXPECTED = {
    "multi/main.cc": ("passed", ""),
    "linked/linked.hip": ("passed", ""),
    "loader/loader.hip": ("passed", ""),
    "library.hip": ("failed", "needs_library"),
    "selfcheck.hip": ("failed", "self_check_failed"),
    "repeats/repeats.hip": ("failed", "timeout"),
    "arguments.hip": ("ran", ""),
    "example.hip": ("ran", ""),
    "named_option.hip": ("ran", ""),
    "aborts.hip": ("failed", "host_crash"),
    "crashes.hip": ("ran", ""),
    "named.hip": ("ran", ""),
    "data/reader.hip": ("ran", ""),
    "neighbour/away.hip": ("ran", ""),
    "latin1.hip": ("ran", ""),
    "prepared/prepared.hip": ("ran", ""),
    "older.hip": ("ran", ""),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_compiler()
    needs.make()
    root = tmp_path_factory.mktemp("samples")
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "latin1.hip").write_bytes(HIP.encode() + b'// caf\xe9\nint main() { std::puts("\xe9"); return 0; }\n')
    return root


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report") / "survey.json"


@pytest.fixture(scope="module")
def report(folder: Path, out: Path) -> SurveyReport:
    return survey_folder(folder, SurveyOptions(timeout_s=2.0, workers=2, count=False), out)


@pytest.fixture
def rows(report: SurveyReport) -> dict[str, SurveyRow]:
    return {row.program: row for row in report.rows}


def test_every_program_gets_the_expected_verdict(rows: dict[str, SurveyRow]) -> None:
    assert {name: (row.status, row.reason) for name, row in rows.items()} == EXPECTED


def test_rows_say_how_a_program_was_built_and_started(rows: dict[str, SurveyRow]) -> None:
    assert rows["multi/main.cc"].plan == "make" and rows["multi/main.cc"].files == 3
    assert rows["multi/main.cc"].dispatches == 2
    assert rows["linked/linked.hip"].plan == "cmake" and rows["linked/linked.hip"].files == 2
    assert rows["arguments.hip"].arguments == ("7",)
    assert rows["example.hip"].arguments == ("5", "--twice")
    assert rows["prepared/prepared.hip"].arguments == ("9",)
    assert rows["named_option.hip"].arguments == ("-m", "event")
    assert rows["aborts.hip"].arguments == ("3",)
    assert "a smaller problem than `64 1000000000`" in rows["repeats/repeats.hip"].message
    assert re.search(r"after [1-9][\d,]* launches of kernel again", rows["repeats/repeats.hip"].message)
    assert rows["selfcheck.hip"].evidence == "Verification FAILED"
    assert "rocBLAS" in rows["library.hip"].message and not rows["library.hip"].compiled


def test_nothing_is_written_into_the_surveyed_folder(report: SurveyReport, folder: Path) -> None:
    assert report.rows and sorted(path.name for path in (folder / "data").iterdir()) == ["in.txt", "reader.hip"]


def test_a_second_call_resumes_the_first(report: SurveyReport, folder: Path, out: Path) -> None:
    waiting: list[int] = []

    def start(total: int):  # type: ignore[no-untyped-def]
        waiting.append(total)
        return lambda _name: None

    again = survey_folder(folder, SurveyOptions(timeout_s=2.0, count=False), out, start)
    assert waiting == [0] and again.totals == report.totals
    stored = json.loads(out.read_text())
    assert stored["totals"] == vars(report.totals) and stored["conditions"]["timeout_s"] == 2.0
    longer = survey_folder(folder, SurveyOptions(timeout_s=3.0, count=False), out, start)
    assert waiting == [0, 1] and longer.reasons == report.reasons  # only what ran out of time before is tried again


def test_rows_of_an_interrupted_call_are_kept(report: SurveyReport, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "survey.json"
    with Journal(tmp_path / "survey.json.journal") as journal:
        for row in report.rows[1:]:
            journal.append({**asdict(row), "timeout_s": 2.0})
    (tmp_path / "survey.json.journal").open("ab").write(b'0badc0de {"program": "torn')
    waiting: list[int] = []

    def start(total: int):  # type: ignore[no-untyped-def]
        waiting.append(total)
        return lambda _name: None

    again = survey_folder(folder, SurveyOptions(timeout_s=2.0, count=False), out, start)
    assert waiting == [1] and again.totals == report.totals and not out.with_name("survey.json.journal").exists()


def test_rows_are_tried_again_whose_labels_are_elsewhere(report: SurveyReport, folder: Path, tmp_path: Path) -> None:
    """Rows of another corpus, of one that is gone, and failures that the program did not cause."""
    corpus, out = tmp_path / "corpus", tmp_path / "survey.json"
    options = SurveyOptions(corpus=corpus)
    labelled = Program("int main() { return 0; }", "real", "surveyed", name="labelled")
    row = report.rows[0]
    rows = [
        replace(row, key="labelled", labels=3, stored=(labelled.id,)),
        replace(row, key="none", labels=0),
        replace(row, key="full", status="failed", reason=Reason.DISK_FULL),
    ]
    with Journal(tmp_path / "survey.json.journal") as journal:
        for row in rows:
            journal.append(asdict(row))
    assert _finished_rows(out, options).keys() == {"none"}
    with CorpusWriter(corpus, metrics.all_ids()) as writer:
        writer.add_program(Program("int main() {}", "real", "other", name="other").record(), "")
    assert _finished_rows(out, options).keys() == {"none"}, "a corpus of other programs"
    with CorpusWriter(corpus, metrics.all_ids()) as writer:
        writer.add_program(labelled.record(), "")
    assert _finished_rows(out, options).keys() == {"none", "labelled"}
    (program, *_) = find_programs(folder, options.arch)
    scanned = scan_folder(folder)
    keys = {_row_key(program, replace(options, corpus=place), scanned) for place in (None, corpus, tmp_path / "other")}
    assert len(keys) == 3


LAUNCHES = """#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
__global__ void spread(float* a, int n, int by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] += by;
}
int main(int argc, char** argv) {
  int n = 1 << 20, iterations = 400;
  if (argc > 1) n = atoi(argv[1]);
  if (argc > 2) iterations = atoi(argv[2]);
  float *a, first;
  if (hipMalloc(&a, n * sizeof(float)) || hipMemset(a, 0, n * sizeof(float))) return 2;
  for (int i = 0; i < iterations; ++i) spread<<<(n + 255) / 256, 256>>>(a, n, i);
  if (hipMemcpy(&first, a, sizeof first, hipMemcpyDeviceToHost)) return 2;
  std::puts(first == iterations * (iterations - 1) / 2 ? "PASSED" : "FAILED");
}
"""


def test_programs_that_do_not_fit_get_smaller_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_compiler()
    folder, out = tmp_path / "folder", tmp_path / "survey.json"
    folder.mkdir()
    (folder / "launches.hip").write_text(LAUNCHES)
    monkeypatch.chdir(folder)
    (row,) = survey_folder(folder, SurveyOptions(budget_s=0.4, shrink=True), out).rows
    assert (row.status, row.shrunk, row.completed, row.executed_all) == ("ran", "passed", True, False)
    assert "self-check" in row.evidence and "400 launches did not fit the budget" in row.evidence
    assert re.fullmatch(r"synth profile launches\.hip --budget 0\.4s -- \d+ \d+", row.command)
    words = [int(word) for word in row.command.split()[-2:]]
    assert words[0] <= 1 << 20 and 1 < words[1] <= 40
    again = survey_folder(folder, SurveyOptions(budget_s=0.4, shrink=True), out)
    assert (
        again.rows == [row]
        and "fits: synth profile" in report_table(again)
        and "kernels with counters" in report_table(again)
    )
    assert again.totals.executed_all == 0 and again.totals.shrunk == 1


def test_without_shrinking_nothing_more_is_tried(tmp_path: Path) -> None:
    require_compiler()
    (tmp_path / "launches.hip").write_text(LAUNCHES)
    (row,) = survey_folder(tmp_path, SurveyOptions(budget_s=0.2)).rows
    assert row.status == "ran" and not row.command and row.spending[0].incomplete > 0


def test_scripts_with_triton_kernels_are_programs(tmp_path: Path) -> None:
    needs.package("triton")
    check = "print('PASSED' if x.eq({}).all() else 'FAILED: another value')\n"
    launch = "x = torch.ones(64, device='cuda')\ndouble[(1,)](x, BLOCK=64)\n"
    files = {
        "right.py": DOUBLE + launch + check.format(2),
        "wrong.py": DOUBLE + launch + check.format(3) + "raise SystemExit(1)\n",
        "test_own.py": DOUBLE + "def test_double():\n    " + launch.replace("\n", "\n    ") + "assert x.eq(2).all()\n",
        "unused.py": DOUBLE,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    report = survey_folder(tmp_path, SurveyOptions(budget_s=30))
    rows = {row.program: row for row in report.rows}
    assert {name: (row.status, str(row.reason), row.plan) for name, row in rows.items()} == {
        "right.py": ("passed", "", "python"),
        "wrong.py": ("failed", "self_check_failed", "python"),
        "test_own.py": ("passed", "", "pytest"),
        "unused.py": ("failed", "no_main", ""),
    }
    assert [rows[name].dispatches for name in ("right.py", "wrong.py", "test_own.py")] == [1, 1, 1]
