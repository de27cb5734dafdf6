"""Flatten: a name that one file has for itself does not change what another file means."""

from __future__ import annotations

from pathlib import Path

import pytest

from hipsynth.source.parse import ParseConfig
from hipsynth.synth.frontend.pass_input import BuildConfiguration, ProgramSource
from hipsynth.synth.frontend.passes.flatten import program_sources
from hipsynth.synth.frontend.pipeline import PipelineResult, run_steps

HIP = "#include <hip/hip_runtime.h>\n__global__ void {}() {{}}\n"


def _merge(folder: Path, files: dict[str, str], config: ParseConfig) -> PipelineResult:
    for name, text in files.items():
        head = HIP.format("k_" + name.partition(".")[0]) if name.endswith(".hip") else "#pragma once\n"
        (folder / name).write_text(head + text)
    sources = program_sources(folder)
    build = BuildConfiguration(tuple(sources))
    return run_steps(ProgramSource(sources[-1].read_bytes(), sources[-1], folder, build), ["flatten"], config)


MAIN = "int main() {{ return int({}) + get(); }}\n"
RENAMED = {
    "external": (
        {
            "a.hip": "static float scale(int x) { return 2 * x; }\nint get() { return scale(1); }\n",
            "main.hip": "float scale(double x) { return 3 * x; }\nint get();\n" + MAIN.format("scale(1)"),
        },
        ["scale_a(int x)", "return scale_a(1)", "float scale(double", "int(scale(1))"],
    ),
    "header": (
        {
            "pick.h": "__device__ inline long pick(long x) { return x; }\n",
            "a.hip": "namespace { __device__ int pick(int x) { return -x; } }\n"
            "__global__ void n(int* p) { p[0] = pick(1); }\nint get() { return 0; }\n",
            "main.hip": '#include "pick.h"\n__global__ void m(int* p) { p[0] = pick(1); }\nint get();\n'
            + MAIN.format("0"),
        },
        ["int pick_a(int x)", "p[0] = pick_a(1)", "long pick(long", "p[0] = pick(1)"],
    ),
    "use in a header": (
        {
            "near.h": "inline long near(long x) { return x; }\n#define NEAR(x) near(x)\n"
            "template <class T> long twice(T x) { return near(x); }\n",
            "a.hip": "static int near(int x) { return -x; }\nint get() { return near(1); }\n",
            "main.hip": '#include "near.h"\nint get();\n' + MAIN.format("NEAR(1) + twice(1)"),
        },
        ["int near_a(int x)", "return near_a(1)", "return near(x)"],
    ),
    "header of an earlier file": (
        {
            "near.h": "inline int near(int x) { return -x; }\n",
            "a.hip": '#include "near.h"\nint get() { return near(1); }\n',
            "main.hip": "static long near(long x) { return x; }\nint get();\n" + MAIN.format("near(1)"),
        },
        ["int near(int x)", "long near_main(long x)", "int(near_main(1))"],
    ),
    "library": (
        {
            "a.hip": "static int labs(int x) { return x; }\nint get() { return labs(-1); }\n",
            "main.hip": "#include <cstdlib>\nint get();\n" + MAIN.format("labs(-1)"),
        },
        ["int labs_a(int x)", "return labs_a(-1)", "int(labs(-1))"],
    ),
    "variable, type and constant": (
        {
            "parts.h": "namespace parts { enum { SIZE = 7 }; struct Box { int n = 8; }; inline int width = 9; }\n"
            "using namespace parts;\n",
            "a.hip": "namespace { enum { SIZE = 1 }; struct Box { int n = 2; }; }\nstatic int width = 3;\n"
            "int get() { return SIZE + Box().n + width; }\n",
            "main.hip": '#include "parts.h"\nint get();\n' + MAIN.format("SIZE + Box().n + width"),
        },
        ["return SIZE_a + Box_a().n + width_a", "int(SIZE + Box().n + width)"],
    ),
    "macro of a header": (
        {
            "size.h": "#define SIZE 4\n",
            "a.hip": '#include "size.h"\nint get() { return SIZE; }\n',
            "main.hip": "#ifndef SIZE\n#define SIZE 8\n#endif\nint get();\n" + MAIN.format("SIZE"),
        },
        ["#undef SIZE\n#include <hip"],
    ),
}


@pytest.mark.parametrize("case", RENAMED)
def test_a_name_of_one_file_hides_none_of_another(case: str, config: ParseConfig, tmp_path: Path) -> None:
    files, parts = RENAMED[case]
    outcome = _merge(tmp_path, files, config)
    assert outcome.source is not None, outcome.diagnostics
    text = outcome.source.text.decode()
    assert [part for part in parts if part not in text] == []


REFUSED = {
    "external functions": (
        {
            "a.hip": "float scale(int x) { return 2 * x; }\nint get() { return scale(1); }\n",
            "main.hip": "float scale(double x) { return 3 * x; }\nint get();\n" + MAIN.format("scale(1)"),
        },
        "scale",
    ),
    "a name that is printed": (
        {
            "a.hip": "static int scale(int x) { return x + __func__[0]; }\nint get() { return scale(1); }\n",
            "main.hip": "float scale(double x) { return 3 * x; }\nint get();\n" + MAIN.format("scale(1)"),
        },
        "scale",
    ),
    "macro of a header for some": (
        {
            "size.h": "#define SIZE 4\n",
            "a.hip": '#include "size.h"\nint get() { return SIZE; }\n',
            "b.hip": "#ifdef SIZE\nint other() { return 1; }\n#else\nint other() { return 2; }\n#endif\n",
            "main.hip": '#include "size.h"\nint get();\nint other();\n' + MAIN.format("SIZE + other()"),
        },
        "other",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_change_is_refused(case: str, config: ParseConfig, tmp_path: Path) -> None:
    files, name = REFUSED[case]
    (problem,) = _merge(tmp_path, files, config).diagnostics
    assert problem.reason == "name_collision" and name in problem.message


def test_names_that_do_not_meet_stay(config: ParseConfig, tmp_path: Path) -> None:
    files = {
        "shared.h": "inline int pick(int x) { return x; }\nstruct Ctx;\nint use(Ctx* c);\n",
        "a.hip": '#include "shared.h"\nstatic int size = 3, pick_all = 1, sort = 2;\nstruct Ctx { int n; };\n'
        "int use(Ctx* c) { return c ? c->n : pick(size) + pick_all + sort; }\nint get() { return use(nullptr); }\n",
        "main.hip": '#include "shared.h"\n#include <algorithm>\nstruct Field { int size; };\nint get();\n'
        "int main() { int size[2] = {get(), pick(1)}; std::sort(size, size + 2); return size[0] + Field().size; }\n",
    }
    outcome = _merge(tmp_path, files, config)
    assert outcome.source is not None, outcome.diagnostics
    assert "_a" not in outcome.source.text.decode().replace("k_a", "").replace("pick_all", "")
