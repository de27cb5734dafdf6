"""Build plans of programs from build files and command lines, without building anything."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from file_trees import write

from hipsynth.core.errors import BadInput
from hipsynth.profiling.survey.build_files import makefile
from hipsynth.profiling.survey.build_files.commands import plans_of, simple_commands, steps_of
from hipsynth.profiling.survey.build_plan import BuildPlan, Invocation
from hipsynth.profiling.survey.discover import find_programs
from hipsynth.profiling.survey.sources import scan_folder

KERNEL = "#include <hip/hip_runtime.h>\n__global__ void k(int* p) { *p = 1; }\n"
MAIN = KERNEL + "int main() { return 0; }\n"


def plans_from(text: str, folder: Path) -> list[BuildPlan]:
    return plans_of(steps_of(simple_commands(text, folder)), folder, "make")


def test_objects_and_archives_lead_back_to_their_sources(tmp_path: Path) -> None:
    text = """
make: Entering directory '/p'
hipcc -std=c++14 -Iinc -DN=4 -c src/a.cpp -o build/a.o
cd lib && g++ -O2 -c b.cc -o b.o && ar rcs libb.a b.o
gcc -c -o build/c.o c.c
hipcc build/a.o build/c.o -Llib -lb -lrocblas -lm -o tool > log.txt 2>&1
make: Leaving directory '/p'
"""
    (plan,) = plans_from(text, tmp_path)
    units = {unit.path.name: unit for unit in plan.units}
    assert plan.name == "tool" and plan.libraries == ("rocblas", "m")
    assert {name: unit.language for name, unit in units.items()} == {"a.cpp": "hip", "b.cc": "c++", "c.c": "c"}
    assert units["a.cpp"].path == Path("/p/src/a.cpp") and units["a.cpp"].flags() == "-std=c++14 -DN=4 -I /p/inc"
    assert units["b.cc"].path == Path("/p/lib/b.cc") and units["b.cc"].options == ("-O2",)


def test_patterns_for_sources_are_those_of_the_shell(tmp_path: Path) -> None:
    write(tmp_path, {"a.cpp": "", "lib/b.cpp": "", "lib/c.cpp": "", "d.txt": ""})
    (plan,) = plans_from("hipcc *.cpp lib/[bx].cpp -o app\n", tmp_path)
    assert [unit.path for unit in plan.units] == [tmp_path / "a.cpp", tmp_path / "lib/b.cpp"]


def test_a_folder_that_goes_while_a_pattern_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def vanish(folder: Path, pattern: str) -> list[Path]:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(folder))

    monkeypatch.setattr(Path, "glob", vanish)
    assert plans_from("hipcc *.hip -o prog", tmp_path) == []


def test_options_of_a_compiler_call(tmp_path: Path) -> None:
    text = (
        "if true; then CXX=1 /opt/rocm/bin/hipcc -x hip --offload-arch=gfx90a -fgpu-rdc -include k.h -ffast-math \\\n"
    )
    text += "  -Wall -march=native -D 'A=\"x y\"' main.cu -o main; fi; rm -f main.o"
    (plan,) = plans_from(text, tmp_path)
    (unit,) = plan.units
    assert plan.relocatable and unit.language == "hip" and unit.preludes == (tmp_path / "k.h",)
    assert unit.defines == ('A="x y"',) and unit.options == ("-ffast-math",)


def test_code_objects_for_the_module_api_are_a_build_product(tmp_path: Path) -> None:
    text = "hipcc --genco --offload-arch=gfx90a k.hip -o k.co\nhipcc main.hip -o main\n"
    (plan,) = plans_from(text, tmp_path)
    assert [unit.path.name for unit in plan.units] == ["main.hip"]
    assert [made.output.name for made in plan.code_objects] == ["k.co"]


def test_invalid_shell_syntax_is_skipped(tmp_path: Path) -> None:
    assert plans_from('echo "unbalanced\nhipcc -o\n-c\n\x00\n', tmp_path) == []


def test_include_folders_are_found_by_header_name(tmp_path: Path) -> None:
    text = '#include <util/check.h>\n#include "near.h"\n#include <vector>\n' + MAIN
    files = {
        "deep/er/prog.hip": text,
        "common/util/check.h": "",
        "deep/er/near.h": "",
        "far/util/check.h": "",
        "vector": "",
    }
    (program,) = find_programs(write(tmp_path, {**files, "deep/common/util/check.h": ""}), "gfx90a")
    assert program.plans[0].units[0].includes == (tmp_path / "deep/common",)


def test_hip_headers_without_their_folder(tmp_path: Path) -> None:
    write(tmp_path, {"old.hip": "#include <hip_runtime.h>\nint main() {}\n"})
    (program,) = find_programs(tmp_path, "gfx90a")
    assert [folder.parts[-2:] for folder in program.plans[0].units[0].includes] == [("include", "hip")]


@pytest.mark.usefixtures("sandboxed")
def test_hip_is_chosen_among_programming_models(tmp_path: Path) -> None:
    cmake = """cmake_minimum_required(VERSION 3.13)
if (NOT DEFINED MODEL)
  message(FATAL_ERROR "pick a model")
endif ()
include(${MODEL}.cmake)
add_executable(app main.cpp ${SOURCES})
target_compile_definitions(app PRIVATE USE_${NAME})
"""
    models = {
        "hip.cmake": "set(SOURCES hip.cpp)\nset(NAME HIP)\n",
        "cuda.cmake": "set(SOURCES cuda.cu)\nset(NAME CUDA)\n",
    }
    main = '#if defined(USE_HIP)\n#include "device.h"\n#endif\nint main() { return device(); }\n'
    files = {"CMakeLists.txt": cmake, "main.cpp": main, "hip.cpp": KERNEL + "int device() { return 0; }\n", **models}
    (program,) = find_programs(write(tmp_path, {**files, "device.h": "int device();\n"}), "gfx90a")
    assert [unit.path.name for unit in program.plans[0].units] == ["main.cpp", "hip.cpp"]
    assert program.plans[0].units[0].defines == ("USE_HIP",)


def test_what_is_a_program_and_what_is_not(tmp_path: Path) -> None:
    files = {
        "hip.cpp": MAIN,
        "cuda.cu": "#include <cuda_runtime.h>\nint main() { cudaMalloc(0, 0); }\n",
        "host.cpp": "int main() { return 0; }\n",
        "comment.cpp": "// #include <hip/hip_runtime.h>\n/* int main() { hipMalloc(); } */ int x;\n",
        "kernel.hip": KERNEL,
        "by_header.cpp": '#include "gpu.h"\nint\nmain(int argc, char** argv)\n{ return 0; }\n',
        "gpu.h": "#include <hip/hip_runtime_api.h>\n",
    }
    write(tmp_path, files)
    for name in ("pipe.hip", "Makefile"):
        os.mkfifo(tmp_path / name)  # nobody writes into them: whoever reads one waits for ever
    found = {program.id: program for program in find_programs(tmp_path, "gfx90a")}
    assert sorted(found) == ["by_header.cpp", "cuda.cu", "hip.cpp"]
    assert found["cuda.cu"].refusal[0] == "cuda_source"
    assert [[unit.path.name for unit in plan.units] for plan in found["hip.cpp"].plans] == [
        ["hip.cpp"],
        ["hip.cpp", "comment.cpp", "kernel.hip"],
    ]


def test_sources_named_like_included_headers_belong_to_a_program(tmp_path: Path) -> None:
    files = {
        "app/main.hip": '#include "../lib/parse.h"\n' + MAIN,
        "lib/parse.h": "int parse();\n",
        "lib/parse.cpp": '#include "deep.h"\nint parse() { return deep(); }\n',
        "lib/deep.h": "int deep();\n",
        "lib/deep.cc": "int deep() { return 0; }\n",
        "lib/other.cpp": "int other() { return 0; }\n",
    }
    (program,) = find_programs(write(tmp_path, files), "gfx90a")
    assert [unit.path.name for unit in program.plans[1].units] == ["main.hip", "parse.cpp", "deep.cc"]


def test_a_main_beside_its_hip_sources_in_another_folder_is_a_program(tmp_path: Path) -> None:
    files = {
        "app/main.cpp": '#include "../gpu/solve.h"\nint main() { return solve(); }\n',
        "gpu/solve.h": "int solve();\n",
        "gpu/solve.hip": KERNEL + "int solve() { return 0; }\n",
        "cpu/main.cpp": "int main() { return 0; }\n",
    }
    (program,) = find_programs(write(tmp_path, files), "gfx90a")
    assert program.id == "app/main.cpp"
    assert [unit.path.name for unit in program.plans[1].units] == ["main.cpp", "solve.hip"]


def test_folders_whose_main_lies_elsewhere_are_listed(tmp_path: Path) -> None:
    """A common layout: x-hip holds the kernels, and its Makefile compiles ../x-cuda/main.cpp with them."""
    files = {
        "x-hip/Makefile": "x:\n\thipcc -o x kernels.cpp ../x-cuda/main.cpp\n",
        "x-hip/kernels.cpp": KERNEL,
        "x-hip/more.cpp": KERNEL,
        "x-cuda/main.cpp": "void launch();\nint main() { launch(); }\n",
        "lib/part.cpp": KERNEL,
    }
    root = write(tmp_path / "all", files)
    assert [(p.id, p.refusal[0]) for p in find_programs(root, "gfx90a")] == [
        ("x-cuda/main.cpp", ""),
        ("lib/part.cpp", "no_main"),
        ("x-hip/more.cpp", "no_main"),
    ]
    (alone,) = find_programs(root / "x-hip", "gfx90a")
    assert (alone.id, alone.refusal[0]) == ("kernels.cpp", "no_main")
    assert str(root / "x-cuda/main.cpp") in alone.refusal[1], alone.refusal


def test_programs_that_use_only_a_portable_library(tmp_path: Path) -> None:
    thrust = "#include <thrust/device_vector.h>\nint main() { thrust::device_vector<int> v(4); }\n"
    cuda = "#include <cuda_runtime.h>\n" + thrust
    found = find_programs(write(tmp_path, {"both.cu": thrust, "cuda.cu": cuda}), "gfx90a")
    assert [(program.id, program.refusal[0]) for program in found] == [("both.cu", ""), ("cuda.cu", "cuda_source")]


def test_commented_commands_are_not_run() -> None:
    text = "# hipcc -o a a.hip\nhipcc -o b b.hip  # -DOLD\n  #./b 4\necho '#' && ./b 5\n"
    assert [command.words for command in simple_commands(text, Path("/x"))] == [
        ["hipcc", "-o", "b", "b.hip"],
        ["echo", "#"],
        ["./b", "5"],
    ]


def test_run_lines_of_the_documentation(tmp_path: Path) -> None:
    readme = "Run it:\n```\n$ ./prog 1024 --fast\n./prog <size>\nhipcc -o ./prog prog.hip -lm\n```\nor `./other 3`.\n"
    (program,) = find_programs(write(tmp_path, {"x/prog.hip": MAIN, "README.md": readme}), "gfx90a")
    assert program.calls == (Invocation(("1024", "--fast")),)


def test_run_lines_of_scripts_come_first(tmp_path: Path) -> None:
    script = "# ./prog 1 2\n./prog 64 ../data/in.txt\n"
    write(tmp_path, {"x/prog.hip": MAIN, "x/run": script, "README.md": "`./prog 7`", "run.sh": "x/prog $1\n"})
    (program,) = find_programs(tmp_path, "gfx90a")
    assert program.calls == (Invocation(("64", "../data/in.txt")), Invocation(("7",)))


def test_mains_provided_by_a_test_framework(tmp_path: Path) -> None:
    test = "#define CATCH_CONFIG_MAIN\n#include <hip/hip_runtime.h>\n#include <catch.hpp>\n"
    (program,) = find_programs(write(tmp_path, {"tests.cpp": test}), "gfx90a")
    assert program.id == "tests.cpp"


def test_guessed_builds_link_openmp_if_needed(tmp_path: Path) -> None:
    files = {"threads.cpp": "#include <omp.h>\n" + MAIN, "plain.cpp": MAIN}
    plain, threads = find_programs(write(tmp_path, files), "gfx90a")
    assert (plain.plans[0].libraries, threads.plans[0].libraries) == ((), ("omp",))


def test_compile_commands_give_flags(tmp_path: Path) -> None:
    entries = [
        {"directory": str(tmp_path), "command": "hipcc -DX=2 -std=c++20 -c main.hip -o main.o", "file": "main.hip"}
    ]
    write(tmp_path, {"compile_commands.json": json.dumps(entries), "main.hip": MAIN})
    (program,) = find_programs(tmp_path, "gfx90a")
    assert program.plans[0].origin == "commands" and program.plans[0].units[0].flags() == "-std=c++20 -DX=2"


def test_compiler_calls_of_shell_scripts_are_read(tmp_path: Path) -> None:
    script = """#!/bin/sh
if [ -z "$HIP_PATH" ]; then HIP_PATH=/opt/rocm; fi
$HIP_PATH/bin/hipcc -I../ -DFAST main.hip -o prog
for f in *.hip; do hipcc $f -o ${f%.hip}; done
rm -rf / --no-preserve-root
"""
    (program,) = find_programs(write(tmp_path, {"build.sh": script, "main.hip": MAIN}), "gfx90a")
    assert [(plan.origin, plan.name) for plan in program.plans] == [("script", "prog"), ("guess", "main")]
    assert program.plans[0].units[0].defines == ("FAST",)


@pytest.mark.parametrize(
    "text",
    [
        '[{"directory": 1}, 2',
        '[{"directory": "/", "arguments": [1, "main.hip"]}]',
        '[{"directory": "/", "arguments": "hipcc main.hip"}]',
        '[{"directory": "/", "arguments": ["hipcc", "a\\u0000.hip"]}]',
        '[{"directory": "/", "arguments": ["hipcc", "a\\ud800.hip"]}]',
        '[{"directory": "\\u0000", "command": "hipcc *.hip"}]',
        '[{"directory": "/", "command": null}]',
        "[" * 200_000,
        "7",
    ],
)
def test_damaged_compile_commands_are_no_error(text: str, tmp_path: Path) -> None:
    write(tmp_path, {"compile_commands.json": text, "main.hip": MAIN})
    assert [plan.origin for plan in find_programs(tmp_path, "gfx90a")[0].plans] == ["guess"]


MAKEFILE = """
ROCM := /opt/rocm
HIPCC ?= $(ROCM)/bin/hipcc
ifeq ($(shell which $(HIPCC) > /dev/null; echo $$?), 0)
FOUND := yes
endif
prog: main.o part.o
\t$(HIPCC) $^ -o $@
%.o: %.hip
\t$(HIPCC) -DFOUND_$(FOUND) -DP_$(shell hipconfig --platform) -c $< -o $@
run: prog
\t./prog 7 8
evil:
\ttouch /tmp/hipsynth-evil
$(shell touch outside-of-the-sandbox)
"""


@pytest.mark.usefixtures("with_make")
def test_of_several_makefiles_the_one_named_for_hip_comes_first(tmp_path: Path) -> None:
    write(tmp_path, {"Makefile": "app: main.cu\n\tnvcc -DCUDA $< -o $@\n", "main.cu": MAIN})
    write(tmp_path, {"Makefile.hip": "app: main.cu\n\thipcc -DUSE_HIP $< -o $@\nrun: app\n\t./app 5\n"})
    (program,) = find_programs(tmp_path, "gfx90a")
    assert [plan.units[0].defines for plan in program.plans[:2]] == [("USE_HIP",), ("CUDA",)]
    assert program.plans[0].calls == (Invocation(("5",)),)


@pytest.mark.usefixtures("with_make")
def test_a_makefile_without_a_default_compiler(tmp_path: Path) -> None:
    write(tmp_path, {"Makefile": "prog: main.hip\n\t$(HIPCC) -DX $< -o $@\n", "main.hip": MAIN})
    (program,) = find_programs(tmp_path, "gfx90a")
    assert program.plans[0].origin == "make" and program.plans[0].units[0].defines == ("X",)


def test_a_goal_over_its_limit_ends_the_search_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"Makefile": "prog:\nother:\nlast:\n", "main.hip": MAIN})
    texts = {(): "hipcc main.hip -o prog", ("other",): "", ("last",): "hipcc main.hip -o last"}
    monkeypatch.setattr(makefile, "make_available", lambda: True)
    monkeypatch.setattr(makefile, "dry_run", lambda path, view, goals: texts.get(goals, ""))
    assert [plan.name for plan in makefile.make_plans(tmp_path / "Makefile", tmp_path, "gfx90a")] == ["prog"]


def test_make_runs_in_the_sandbox(tmp_path: Path) -> None:
    write(tmp_path, {"Makefile": MAKEFILE, "main.hip": MAIN, "part.hip": KERNEL})
    (program,) = find_programs(tmp_path, "gfx90a")
    plan = program.plans[0]
    assert plan.origin == "make" and plan.name == "prog" and plan.calls == (Invocation(("7", "8")),)
    assert [unit.path.name for unit in plan.units] == ["main.hip", "part.hip"]
    assert plan.units[0].defines == ("FOUND_yes", "P_amd")
    assert not (tmp_path / "outside-of-the-sandbox").exists()


@pytest.mark.parametrize(
    ("main", "reads"),
    [
        ("int main(int argc, char** argv) { return argc > 1; }", True),
        ("int main(int, char** v) { return v[1][0]; }", True),
        ("int main(int n, const char* const* words) { return use(words + 1); }", True),
        ("int main(int argc, char* argv[]) { return 0; }", False),
        ("int main() { char v[3]; return v[1]; }", False),
        ("int main(int, char** argv) { int a[3], ar[3], arg[3]; return a[0] + ar[0] + arg[0]; }", False),
    ],
)
def test_which_mains_read_their_arguments(main: str, reads: bool, tmp_path: Path) -> None:
    write(tmp_path, {"main.hip": f"#include <hip/hip_runtime.h>\n{main}\n"})
    assert find_programs(tmp_path, "gfx90a")[0].reads_arguments is reads


def test_names_that_are_too_long_for_a_path_lead_nowhere(tmp_path: Path) -> None:
    name = "a" * 300
    calls = [{"directory": str(tmp_path), "file": "main.hip", "command": f"hipcc -I {name} -c main.hip -o main.o"}]
    write(tmp_path, {
        "main.hip": f'#include "{name}.h"\n#include <{name}.h>\n{MAIN}',
        "compile_commands.json": json.dumps(calls),
        "build.sh": f"hipcc {name}.hip -o other\n./main {name}.txt\n",
    })  # fmt: skip
    (program,) = find_programs(tmp_path, "gfx90a")
    assert all(unit.path == program.main and not unit.includes for plan in program.plans for unit in plan.units)


def test_a_folder_that_may_not_be_read_is_no_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated, as nothing is unreadable for root. A folder within it is left out, as before."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "a.hip").write_text("int main() {}\n")
    scan = os.scandir

    def refuse(path: str) -> object:
        if Path(path).name == refused:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    refused = "inner"
    assert [path.name for path in scan_folder(tmp_path).sources] == ["a.hip"]
    refused = tmp_path.name
    with pytest.raises(BadInput, match="may not be read") as caught:
        scan_folder(tmp_path)
    assert caught.value.reason == "unreadable_file" and caught.value.cause == "Permission denied"
