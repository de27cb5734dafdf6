"""Flatten: which includes are inlined, which are kept, and how translation units are merged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hipsynth.source.parse import ParseConfig
from hipsynth.synth.frontend.pass_input import BuildConfiguration, ProgramSource
from hipsynth.synth.frontend.passes.flatten import flatten_program, program_sources
from hipsynth.synth.frontend.pipeline import PipelineResult, run_steps
from hipsynth.synth.frontend.shared_state import find_lasting_pragma

HIP = "#include <hip/hip_runtime.h>\n"


def _flat(folder: Path, files: dict[str, str], config: ParseConfig) -> str:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    main = folder / "main.hip"
    result, problems = flatten_program(main, main.read_bytes(), folder, config)
    assert result is not None, problems
    return result.decode()


def test_a_guarded_header_is_inlined_once(config: ParseConfig, tmp_path: Path) -> None:
    guarded = "#ifndef A_H\n#define A_H\nint fromA;\n#endif\n"
    files = {"main.hip": HIP + '#include "a.h"\n#include "b.h"\n#include "a.h"\n', "a.h": guarded}
    text = _flat(tmp_path, {**files, "b.h": '#pragma once\n#include "a.h"\nint fromB;\n'}, config)
    assert text.count("int fromA;") == 1
    assert text.count("int fromB;") == 1
    assert '#include "' not in text and "#pragma once" not in text
    assert "#include <hip/hip_runtime.h>" in text


def test_a_header_without_guard_is_inlined_each_time(config: ParseConfig, tmp_path: Path) -> None:
    main = HIP + '#define X(n) int a##n;\n#include "x.def"\n#undef X\n#define X(n) int b##n;\n#include "x.def"\n'
    assert _flat(tmp_path, {"main.hip": main, "x.def": "X(1)\n"}, config).count("X(1)") == 2


def test_an_inactive_include_disappears(config: ParseConfig, tmp_path: Path) -> None:
    main = HIP + '#if 0\n#include "gone.h"\n#else\n#include "used.h"\n#endif\n'
    text = _flat(tmp_path, {"main.hip": main, "gone.h": "int gone;\n", "used.h": "int used;\n"}, config)
    assert "int used;" in text and "int gone;" not in text and '#include "' not in text


def test_includes_in_comments_and_strings_are_ignored(config: ParseConfig, tmp_path: Path) -> None:
    main = HIP + '/*\n#include "a.h"\n*/\nconst char* s = R"(\n#include "a.h"\n)";\n#include "a.h"\n'
    text = _flat(tmp_path, {"main.hip": main, "a.h": "int fromA;\n"}, config)
    assert text.count("int fromA;") == 1
    assert text.count('#include "a.h"') == 2


def test_comments_behind_an_include_stay_whole(config: ParseConfig, tmp_path: Path) -> None:
    main = HIP + '#include "a.h" /* begins\nends */\n#include "b.h" /* one */ // two\n'
    text = _flat(tmp_path, {"main.hip": main, "a.h": "int fromA;  // A", "b.h": "#pragma once /* x\ny */\n"}, config)
    assert text == HIP + "int fromA;  // A\n/* begins\nends */\n/* x\ny */\n"


def test_an_include_may_go_on_in_the_next_line(config: ParseConfig, tmp_path: Path) -> None:
    main = HIP + '#include \\\n  "a.h"\n# \\\r\n  include "b.h"\nint own;\n'
    text = _flat(tmp_path, {"main.hip": main, "a.h": "int fromA;\n", "b.h": "int fromB;\n"}, config)
    assert text == HIP + "int fromA;\nint fromB;\nint own;\n"


def test_nested_folders_resolve_beside_the_includer(config: ParseConfig, tmp_path: Path) -> None:
    files = {"main.hip": HIP + '#include "in/a.h"\n', "in/a.h": '#include "b.h"\n', "in/b.h": "int inner;\n"}
    assert "int inner;" in _flat(tmp_path, {**files, "b.h": "int outer;\n"}, config)


def test_include_folders(config: ParseConfig, tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "shared.h").write_text("int fromCommon;\n")
    files = {"main.hip": HIP + "#include <shared.h>\n"}
    named = replace(config, include=(tmp_path / "common",))
    assert "int fromCommon;" in _flat(tmp_path / "program", files, named)


def test_units_are_merged_and_their_internal_names_kept_distinct(config: ParseConfig, tmp_path: Path) -> None:
    unit = (
        HIP
        + "#define N {n}\nstatic int state = N;\n__global__ void k{n}(int* p) {{ p[0] = N; }}\n"
        + "int get{n}() {{ return state; }}\n"
    )
    (tmp_path / "one.hip").write_text(unit.format(n=1))
    (tmp_path / "two.hip").write_text(unit.format(n=2))
    (tmp_path / "main.hip").write_text("int get1();\nint get2();\nint main() { return get1() + get2(); }\n")
    sources = program_sources(tmp_path)
    assert [p.name for p in sources] == ["one.hip", "two.hip", "main.hip"]
    outcome = run_steps(
        ProgramSource(sources[-1].read_bytes(), sources[-1], tmp_path, BuildConfiguration(tuple(sources))),
        ["flatten"],
        config,
    )
    assert outcome.source is not None, outcome.diagnostics
    text = outcome.source.text.decode()
    assert "static int state = N;" in text and "static int state_two = N;" in text
    assert text.count("#undef N") == 2


def _merge(folder: Path, files: dict[str, str], config: ParseConfig) -> PipelineResult:
    for name, text in files.items():
        (folder / name).write_text(text)
    sources = program_sources(folder)
    build = BuildConfiguration(tuple(sources))
    return run_steps(ProgramSource(sources[-1].read_bytes(), sources[-1], folder, build), ["flatten"], config)


def test_units_may_have_enumerators_of_one_name(config: ParseConfig, tmp_path: Path) -> None:
    unit = HIP + "namespace {{ enum {{ SIZE = {n} }}; enum class E{n} {{ left }}; }}\nint get{n}() {{ return SIZE; }}\n"
    main = "int get4();\n__global__ void k() {}\nint main() { return get4() + get5() + SIZE + int(E5::left); }\n"
    outcome = _merge(tmp_path, {"a.hip": unit.format(n=4), "main.hip": unit.format(n=5) + main}, config)
    assert outcome.source is not None, outcome.diagnostics
    text = outcome.source.text.decode()
    assert "SIZE_main = 5" in text and "get5() + SIZE_main + int(E5::left)" in text


def test_a_header_without_guard_that_units_cannot_share(config: ParseConfig, tmp_path: Path) -> None:
    use = HIP + '#include "plain.h"\n__global__ void k{n}() {{}}\nint get{n}() {{ return counter++; }}\n'
    files = {"a.hip": use.format(n=1), "main.hip": use.format(n=2) + "int main() { return get2(); }\n"}
    outcome = _merge(tmp_path, {"plain.h": "static int counter = 3;\n", **files}, config)
    (problem,) = outcome.diagnostics
    assert (problem.reason, problem.message) == ("name_collision", "plain.h:1:12: redefinition of 'counter'")


@pytest.mark.parametrize(
    ("before", "guard", "differs"),
    [
        ("#define WIDTH 64\n", "#pragma once\n", True),
        ("#define WIDTH 32\n", "#pragma once\n", True),  # the other unit does not define it: #ifdef may tell
        ("#define LENGTH 64\n", "#pragma once\n", False),
        ("#define WIDTH 64\n", "", False),  # included in each unit again
    ],
)
def test_a_header_that_units_see_with_other_macros_is_refused(
    before: str, guard: str, differs: bool, config: ParseConfig, tmp_path: Path
) -> None:
    use = '#include "conf.h"\nstatic int w{n}() {{ return WIDTH; }}\n'
    files = {
        "conf.h": guard + "#ifndef WIDTH\n#define WIDTH 32\n#endif\n",
        "a.hip": HIP + before + use.format(n=1) + "__global__ void k() {}\nint f() { return w1(); }\n",
        "main.hip": HIP + use.format(n=2) + "int f();\nint main() { return f() + w2(); }\n",
    }
    outcome = _merge(tmp_path, files, config)
    assert (outcome.source is None) == differs, outcome.diagnostics
    if differs:
        assert outcome.diagnostics[0].reason == "header_differs" and "conf.h" in outcome.diagnostics[0].message


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("static int counter = 10;\nstatic int next() { return counter++; }\n", "counter"),
        ("namespace {\nint counter;\nint next() { return counter++; }\n}\n", "counter"),
        ("static int next() {\n  static int steps;\n  return steps++;\n}\n", "steps"),
        (
            "inline int next() {\n  static int steps;\n  return steps++;\n}\nstatic const char* const name = 0;\n"
            "struct S { static S& one() { static S s; return s; } int n = 0; };\n"
            "static int f() { int n = 1; return n; }\n",
            "",
        ),
    ],
)
def test_variables_of_which_each_unit_has_its_own_are_not_shared(
    header: str, name: str, config: ParseConfig, tmp_path: Path
) -> None:
    files = {
        "common.h": "#pragma once\n" + header,
        "a.hip": HIP + '#include "common.h"\n__global__ void k() {}\nint get() { int own = next(); return own; }\n',
        "main.hip": HIP + '#include "common.h"\nint get();\nint main() { return get() + next(); }\n',
    }
    outcome = _merge(tmp_path, files, config)
    assert (outcome.source is None) == bool(name), outcome.diagnostics
    if name:
        assert outcome.diagnostics[0].reason == "name_collision" and outcome.diagnostics[0].message.startswith(name)


@pytest.mark.parametrize(
    ("text", "pragma"),
    [
        ("#pragma clang fp contract(off)\nint f();", "clang fp contract(off)"),
        ("namespace n {\n#pragma clang fp contract(off)\n}", "clang fp contract(off)"),
        ('extern "C" {\n#pragma clang fp contract(off)\n}', "clang fp contract(off)"),
        ("void f() {\n  #pragma unroll\n  #pragma clang fp contract(off)\n}", ""),
        ("// #pragma STDC FP_CONTRACT OFF\nint f();", ""),
        ("#pragma STDC FP_CONTRACT OFF // why\n", "STDC FP_CONTRACT OFF"),
        ("#pragma pack(push, 1)\nstruct S {};\n#pragma pack(pop)\n#pragma pack(2)\n#pragma pack()", ""),
        ("#pragma pack(push, 1)\nstruct S {};", "pack(push, 1)"),
        ("#pragma pack (4)\nstruct S {};", "pack (4)"),
        ("#pragma clang optimize off\nint f();\n#pragma clang optimize on", ""),
    ],
)
def test_pragmas_that_hold_to_the_end_are_found(text: str, pragma: str) -> None:
    assert find_lasting_pragma(text.encode()) == pragma


@pytest.mark.parametrize("place", ["a.hip", "part.h"])
def test_units_that_set_a_pragma_for_others_are_refused(place: str, config: ParseConfig, tmp_path: Path) -> None:
    files = {
        "part.h": "int part();\n",
        "a.hip": HIP + '#include "part.h"\n__global__ void k(float* p) { p[0] = p[1] * p[2] - p[3]; }\n',
        "main.hip": HIP + "__global__ void m(float* p) { p[0] = p[1] * p[2] - p[3]; }\nint main() {}\n",
    }
    outcome = _merge(tmp_path, {**files, place: files[place] + "#pragma clang fp contract(off)\n"}, config)
    assert [(d.reason, d.message.partition(":")[0]) for d in outcome.diagnostics] == [("unsupported", place)]


def test_a_program_asks_for_its_own_header(config: ParseConfig, tmp_path: Path) -> None:
    main = HIP + '#if __has_include("config.h")\n#include "config.h"\n#else\n#define SCALE 1\n#endif\nint s = SCALE;\n'
    text = _flat(tmp_path, {"main.hip": main, "config.h": "#define SCALE 7\n"}, config)
    assert "#if 1\n" in text and "#define SCALE 7" in text
    other = HIP + '#if __has_include("hip/hip_fp16.h")\n#include "hip/hip_fp16.h"\n#endif\nint s;\n'
    assert '__has_include("hip/hip_fp16.h")' in _flat(tmp_path, {"main.hip": other}, config)


def test_unknown_passes_are_refused(config: ParseConfig) -> None:
    from hipsynth.core.errors import UsageError

    with pytest.raises(UsageError, match="polish"):
        run_steps(ProgramSource(b"int a;"), ["polish"], config)
