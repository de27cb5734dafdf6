"""Build plans of CMake projects: CMake configures them in the sandbox, without a network and without ROCm."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest
from file_trees import write

from hipsynth.core.scratch import scratch_folder
from hipsynth.profiling.survey import discover
from hipsynth.profiling.survey.build import try_plans
from hipsynth.profiling.survey.build_files import cmake
from hipsynth.profiling.survey.build_files.cmake import CMakeConfiguration, cmake_plans
from hipsynth.profiling.survey.build_plan import BuildPlan, Invocation
from hipsynth.profiling.survey.discover import find_programs

pytestmark = pytest.mark.usefixtures("sandboxed")
MAIN = "#include <hip/hip_runtime.h>\n__global__ void k(int* p) { *p = 1; }\nint main() { return 0; }\n"
HEAD = "cmake_minimum_required(VERSION 3.21)\nproject(sample VERSION 3.1.4 LANGUAGES CXX HIP)\n"


def configure(root: Path, text: str, files: dict[str, str] | None = None, folder: str = ".") -> CMakeConfiguration:
    """Configures FOLDER/CMakeLists.txt with `text`, beside main.hip and other.hip."""
    write(root / folder, {"CMakeLists.txt": text, "main.hip": MAIN, "other.hip": MAIN})
    return cmake_plans(write(root, files or {}) / folder / "CMakeLists.txt", root, "gfx90a")


def plans_of(root: Path, text: str, files: dict[str, str] | None = None, folder: str = ".") -> dict[str, BuildPlan]:
    made = configure(root, text, files, folder)
    assert not made.problem
    return {plan.name: plan for plan in made.plans}


def relative(paths: object, root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in paths]  # type: ignore[attr-defined]


SAMPLE = f"""{HEAD}
set(CMAKE_HIP_STANDARD 20)
set(CMAKE_BUILD_TYPE RelWithDebInfo)
function(add_sample name)
  add_executable(${{name}} ${{ARGN}})
  target_link_libraries(${{name}} PRIVATE helper roc::rocblas m)
endfunction()
add_library(helper STATIC)
file(GLOB HELPERS helper/*.cpp)
target_sources(helper PRIVATE ${{HELPERS}})
target_include_directories(helper PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}}/../common)
target_compile_features(helper PUBLIC cxx_std_20)
foreach(item main other)
  add_sample(${{item}} ${{item}}.hip)
endforeach()
target_compile_definitions(main PRIVATE -DONE=1 $<$<CONFIG:Debug>:SLOW>)
target_compile_options(main PRIVATE -munsafe-fp-atomics)
enable_testing()
add_test(NAME first COMMAND main --size 16 ${{CMAKE_CURRENT_SOURCE_DIR}}/main.hip "two words")
"""


def test_targets_with_their_libraries_flags_and_tests(tmp_path: Path) -> None:
    plans = plans_of(tmp_path, SAMPLE, {"a/helper/h.cpp": "int h;", "common/h.h": ""}, "a")
    assert sorted(plans) == ["main", "other"]
    main = plans["main"]
    assert relative((unit.path for unit in main.units), tmp_path) == ["a/main.hip", "a/helper/h.cpp"]
    assert [unit.language for unit in main.units] == ["hip", "hip"]  # C++ is compiled with hipcc
    assert main.units[0].standard == "gnu++20" and main.units[0].defines == ("NDEBUG", "ONE=1")[::-1]
    assert main.units[0].options == ("-O2", "-munsafe-fp-atomics")
    assert [unit.includes for unit in main.units] == [(tmp_path / "common",)] * 2
    assert main.libraries == ("roc::rocblas", "m") and main.folder == tmp_path / "a" and main.origin == "cmake"
    assert main.calls == (Invocation(("--size", "16", "main.hip", "two words")),) and plans["other"].calls == ()


def test_code_objects_of_custom_commands_and_object_libraries(tmp_path: Path) -> None:
    text = f"""{HEAD}
add_executable(load main.hip)
add_custom_target(object COMMAND ${{HIP_HIPCC_EXECUTABLE}} --genco ${{CMAKE_CURRENT_SOURCE_DIR}}/k.hip -o k.co)
add_custom_command(OUTPUT l.co COMMAND echo l COMMAND hipcc --genco ${{CMAKE_SOURCE_DIR}}/l.hip -o l.co)
add_custom_target(all_objects DEPENDS l.co)
add_library(module OBJECT m.hip)
target_compile_options(module PRIVATE --cuda-device-only)
add_dependencies(load module)
add_custom_command(TARGET load POST_BUILD COMMAND ${{CMAKE_COMMAND}} -E copy $<TARGET_OBJECTS:module>
  $<TARGET_FILE_DIR:load>/m.co)
"""
    files = dict.fromkeys(("k.hip", "l.hip", "m.hip"), "__global__ void k() {}\n")
    (plan,) = plans_of(tmp_path, text, files).values()
    made = {one.output.name: one.unit.path.name for one in plan.code_objects}
    assert made | {"k.co": "k.hip", "l.co": "l.hip", "m.co": "m.hip"} == made
    assert all(one.output.parent == tmp_path for one in plan.code_objects if one.output.suffix == ".co")


def test_switches_for_amd_devices_are_on(tmp_path: Path) -> None:
    text = HEAD + (
        'option(ENABLE_HIP "" OFF)\noption(APP_USE_HIP "a; b" OFF)\noption(USE_CUDA "" OFF)\noption(OTHER "" ON)\n'
        "foreach(name ENABLE_HIP APP_USE_HIP COMPILE_HIP USE_CUDA OTHER)\n  if(${name})\n"
        "    add_executable(${name} main.hip)\n  endif()\nendforeach()\n"
    )
    assert sorted(plans_of(tmp_path, text)) == ["APP_USE_HIP", "COMPILE_HIP", "ENABLE_HIP", "OTHER"]


def test_generated_files_belong_to_the_plan(tmp_path: Path) -> None:
    text = HEAD + (
        'set(NAME tiny)\noption(FAST "" ON)\nset(PLACE ${CMAKE_CURRENT_BINARY_DIR})\n'
        "configure_file(config.h.in ${CMAKE_CURRENT_BINARY_DIR}/gen/config.h @ONLY)\n"
        "configure_file(kept.h.in kept.h)\nconfigure_file(part.cpp.in part.cpp)\n"
        "add_executable(app main.hip part.cpp)\ntarget_include_directories(app PRIVATE ${PROJECT_BINARY_DIR}/gen)\n"
    )
    files = {
        "config.h.in": '#define NAME "@NAME@" // ${NAME}\n#cmakedefine FAST 1\n#cmakedefine SLOW\n// @PLACE@\n',
        "kept.h.in": "other\n",
        "kept.h": "mine\n",
        "part.cpp.in": "int part = @PROJECT_VERSION_MAJOR@;\n",
    }
    (plan,) = plans_of(tmp_path, text, files).values()
    assert {path.relative_to(tmp_path).as_posix(): text for path, text in plan.written} == {
        "gen/config.h": f'#define NAME "tiny" // ${{NAME}}\n#define FAST 1\n/* #undef SLOW */\n// {tmp_path}\n',
        "part.cpp": "int part = 3;\n",
    }
    assert relative((unit.path for unit in plan.units), tmp_path) == ["main.hip", "part.cpp"]
    assert plan.units[0].includes == (tmp_path / "gen",)


def test_projects_that_write_into_their_own_folder_are_configured_in_a_copy(tmp_path: Path) -> None:
    text = HEAD + (
        "configure_file(v.h.in ${CMAKE_CURRENT_SOURCE_DIR}/v.h)\nfile(WRITE ${CMAKE_SOURCE_DIR}/../w.h text)\n"
        "add_executable(app main.hip)\ntarget_include_directories(app PRIVATE ../common)\n"
    )
    made = plans_of(tmp_path, text, {"a/v.h.in": "@PROJECT_VERSION@", "common/c.h": ""}, "a")
    assert relative((path for path, _ in made["app"].written), tmp_path) == ["a/v.h", "w.h"]
    assert made["app"].units[0].includes == (tmp_path / "common",) and made["app"].folder == tmp_path / "a"
    assert not (tmp_path / "a/v.h").exists() and not (tmp_path / "w.h").exists()


def test_packages_that_are_not_installed(tmp_path: Path) -> None:
    text = f"""{HEAD}
find_package(hip REQUIRED)
find_package(rocblas 4 CONFIG)
find_package(Strange REQUIRED COMPONENTS part)
find_package(Optional QUIET)
find_package(OpenMP)
if(NOT rocblas_FOUND OR hip_VERSION VERSION_LESS 6 OR Optional_FOUND OR NOT TARGET Strange::part)
  message(FATAL_ERROR "not like ROCm")
endif()
find_library(HIPRTC hiprtc REQUIRED)
find_library(ODD odd_library)
add_executable(plain main.hip)
target_link_libraries(plain PRIVATE hip::device OpenMP::OpenMP_CXX ${{HIPRTC}})
if(ODD OR TARGET Optional::Optional)
  target_link_libraries(plain PRIVATE optional)
endif()
add_executable(strange other.hip)
target_link_libraries(strange PRIVATE Strange::part Typing::Error ${{Strange_LIBRARIES}})
add_executable(generated nowhere.hip)
add_executable(threads a.cpp)
set_target_properties(threads PROPERTIES COMPILE_FLAGS "${{OpenMP_CXX_FLAGS}}")
find_package(MPI REQUIRED)
if(MPI_CXX_FOUND AND TARGET MPI::MPI_CXX AND TARGET hip::host)
  target_link_libraries(threads PRIVATE ${{MPI_CXX_LIBRARIES}})
endif()
"""
    plans = plans_of(tmp_path, text, {"a.cpp": MAIN})
    assert plans["plain"].libraries == ("hip::device", "OpenMP::OpenMP_CXX", "hiprtc")
    assert set(plans["strange"].libraries) == {"Strange::part", "Typing::Error", "Strange"}
    assert not plans["generated"].units[0].path.exists()
    assert sorted(plans["threads"].libraries) == ["MPI", "omp"]


def test_a_project_that_needs_an_optional_package_is_configured_with_all_packages(tmp_path: Path) -> None:
    text = f"""{HEAD}
find_package(Strange)
if(NOT Strange_FOUND)
  message(FATAL_ERROR "install Strange first")
endif()
add_executable(app main.hip)
target_link_libraries(app Strange::Strange)
"""
    assert plans_of(tmp_path, text)["app"].libraries == ("Strange::Strange",)
    found = configure(tmp_path, text + "include(NoSuchModule)\n").problem
    assert found == "CMake: CMakeLists.txt:6: install Strange first"


def test_what_would_be_fetched_is_missing_where_it_is_used(tmp_path: Path) -> None:
    text = f"""{HEAD}
include(FetchContent)
include(ExternalProject)
FetchContent_Declare(far GIT_REPOSITORY https://nowhere.invalid/far.git)
FetchContent_MakeAvailable(far)
add_library(Far::far ALIAS far)
ExternalProject_Add(away GIT_REPOSITORY https://nowhere.invalid/away.git)
add_executable(app main.hip)
add_executable(user other.hip)
target_link_libraries(user PRIVATE Far::far)
"""
    plans = plans_of(tmp_path, text)
    assert (plans["app"].libraries, plans["user"].libraries) == ((), ("far",))


def test_commands_of_find_hip(tmp_path: Path) -> None:
    text = (
        "cmake_minimum_required(VERSION 3.5)\nproject(old)\nfind_package(HIP REQUIRED)\n"
        "set_source_files_properties(main.hip PROPERTIES HIP_SOURCE_PROPERTY_FORMAT 1)\n"
        "hip_add_library(part STATIC other.hip)\n"
        "hip_add_executable(app main.hip HIPCC_OPTIONS -DX=2 NVCC_OPTIONS -DNO)\ntarget_link_libraries(app part)\n"
        "set_target_properties(app PROPERTIES HIP_SEPARABLE_COMPILATION ON)\nadd_executable(cu a.cu)\n"
    )
    plans = plans_of(tmp_path, text, {"a.cu": MAIN})
    assert [unit.path.name for unit in plans["app"].units] == ["main.hip", "other.hip"]
    assert plans["app"].units[0].defines == ("X=2",) and plans["app"].relocatable
    assert plans["cu"].units[0].language == "hip"


def test_checks_of_the_compiler_are_answered_by_a_real_one(tmp_path: Path) -> None:
    text = f"""{HEAD}
include(CheckIncludeFileCXX)
include(CheckCXXSourceCompiles)
check_include_file_cxx(vector HAS_VECTOR)
check_include_file_cxx(no_such.h HAS_NOTHING)
check_cxx_source_compiles("#include <hip/hip_runtime.h>\\nint main() {{ return hipSuccess; }}" HAS_HIP)
add_executable(app main.hip)
target_compile_definitions(app PRIVATE V=${{HAS_VECTOR}} N=${{HAS_NOTHING}} H=${{HAS_HIP}})
"""
    assert set(plans_of(tmp_path, text)["app"].units[0].defines) == {"V=1", "N=", "H=1"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (HEAD + 'message(FATAL_ERROR "pick a\nmodel")\nadd_executable(x main.hip)', "CMakeLists.txt:3: pick a"),
        (HEAD + "if(NOT\nset(", "CMakeLists.txt:3: Parse error."),
        ("cmake_minimum_required(VERSION 99.1)\nproject(x)", "CMakeLists.txt:1: CMake 99.1 or higher is required."),
        (HEAD + "add_subdirectory(../out)\n", "CMakeLists.txt:3: add_subdirectory given source"),
        (HEAD + "file(DOWNLOAD http://127.0.0.1/x y STATUS s)\nlist(GET s 0 r)\nmessage(FATAL_ERROR r${r})", ":5: r"),
        ("cmake_minimum_required(VERSION 3.5)\nproject(x LANGUAGES CUDA)", "No CMAKE_CUDA_COMPILER could be found"),
        (HEAD + "find_program(X no_such_program REQUIRED)", "Could not find X using the following names:"),
    ],
)
def test_the_first_error_is_the_reason(tmp_path: Path, text: str, problem: str) -> None:
    made = configure(tmp_path, text)
    assert problem in made.problem and made.problem.startswith("CMake: ") and not made.plans
    assert str(cmake.rocm.PLACE) not in made.problem and "hipsynth-process" not in made.problem


def count_configurations(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    seen: list[Path] = []

    def counted(listfile: Path, *rest: object) -> CMakeConfiguration:
        seen.append(listfile.parent)
        return cmake_plans(listfile, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(discover, "cmake_plans", counted)
    return seen


def test_folders_that_a_project_includes_are_configured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = count_configurations(monkeypatch)
    part = "add_executable(p_${WHICH} p.hip)\n"
    files = {
        "CMakeLists.txt": HEAD + "set(WHICH top)\nadd_subdirectory(in)\n",
        "in/CMakeLists.txt": part,
        "in/p.hip": MAIN,
        "apart/CMakeLists.txt": HEAD + "add_executable(apart apart.hip)\n",
        "apart/apart.hip": MAIN,
        "cpu/CMakeLists.txt": HEAD,
        "cpu/main.cpp": "int main() {}\n",
    }
    programs = {program.id: program for program in find_programs(write(tmp_path, files), "gfx90a")}
    assert seen == [tmp_path, tmp_path / "apart"]
    assert programs["in/p.hip"].plans[0].name == "p_top" and programs["in/p.hip"].plans[0].origin == "cmake"
    assert programs["apart/apart.hip"].plans[0].name == "apart"


def test_parts_of_a_project_that_fails_are_not_tried_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = count_configurations(monkeypatch)
    files = {
        "CMakeLists.txt": HEAD + 'message(FATAL_ERROR "no")\nadd_subdirectory(part)\n',
        "part/CMakeLists.txt": "add_executable(p p.hip)\n",
        "part/p.hip": MAIN,
        "own/CMakeLists.txt": HEAD + "add_executable(o o.hip)\n",
        "own/o.hip": MAIN,
    }
    own, part = find_programs(write(tmp_path, files), "gfx90a")
    assert seen == [tmp_path, tmp_path / "own"]
    assert part.not_configured == "CMake: CMakeLists.txt:3: no" and part.plans[0].origin == "guess"
    assert own.plans[0].origin == "cmake"


def test_a_program_that_needs_its_cmake_project_fails_with_its_problem(tmp_path: Path) -> None:
    needs.compiler()
    files = {
        "CMakeLists.txt": HEAD + 'message(FATAL_ERROR "not here")\n',
        "needy.hip": '#include "generated.h"\n' + MAIN,
        "plain.hip": MAIN,
    }
    built = {}
    for program in find_programs(write(tmp_path, files), "gfx90a"):
        with scratch_folder() as scratch:
            built[program.id] = try_plans(program, "gfx90a", scratch, [tmp_path])
    assert built["plain.hip"].artefacts is not None
    needy = built["needy.hip"]
    assert (needy.reason, needy.message) == (
        "not_configured",
        "CMake: CMakeLists.txt:3: not here; without CMake: generated.h not found",
    )
    assert "generated.h" in needy.diagnostics


def test_an_error_of_the_program_itself_is_named_before_cmakes(tmp_path: Path) -> None:
    needs.compiler()
    files = {
        "CMakeLists.txt": HEAD + 'message(FATAL_ERROR "not here")\n',
        "wrong.hip": MAIN + "int twice(int x) { return y; }\n",
    }
    (program,) = find_programs(write(tmp_path, files), "gfx90a")
    with scratch_folder() as scratch:
        built = try_plans(program, "gfx90a", scratch, [tmp_path])
    assert built.reason == "compile_failed" and "undeclared identifier 'y'" in built.message
    assert built.message.endswith("(CMake: CMakeLists.txt:3: not here)")


def test_generated_sources_and_headers_are_compiled(tmp_path: Path) -> None:
    needs.compiler()
    text = HEAD + (
        "configure_file(part.cpp.in part.cpp)\nconfigure_file(part.h.in inc/part.h)\n"
        "add_executable(app app.hip part.cpp)\ntarget_include_directories(app PRIVATE ${CMAKE_BINARY_DIR}/inc)\n"
    )
    files = {
        "CMakeLists.txt": text,
        "app.hip": '#include "part.h"\n' + MAIN.replace("return 0", "return part() - MAJOR"),
        "part.h.in": "#define MAJOR @PROJECT_VERSION_MAJOR@\nint part();\n",
        "part.cpp.in": "int part() { return @PROJECT_VERSION_MAJOR@; }\n",
    }
    (program,) = find_programs(write(tmp_path, files), "gfx90a")
    with scratch_folder() as scratch:
        built = try_plans(program, "gfx90a", scratch, [tmp_path])
        assert built.artefacts is not None and built.plan.origin == "cmake", built
    assert sorted(tmp_path.iterdir()) == sorted(tmp_path / name for name in files)


def test_folders_with_spaces_and_quotes_in_their_names(tmp_path: Path) -> None:
    text = HEAD + (
        "configure_file(c.in gen/c.h)\nadd_executable(app main.hip)\nenable_testing()\nadd_test(app app main.hip)\n"
        "target_include_directories(app PRIVATE ${CMAKE_BINARY_DIR}/gen inc)\n"
        'target_compile_definitions(app PRIVATE "T=\\"two words\\"")\n'
    )
    folder = "it's (a b)"
    app = plans_of(tmp_path, text, {f"{folder}/c.in": "", f"{folder}/inc/x": ""}, folder)["app"]
    (unit,) = app.units
    assert unit.path == tmp_path / folder / "main.hip" and unit.defines == ('T="two words"',)
    assert unit.includes == (tmp_path / folder / "gen", tmp_path / folder / "inc")
    assert app.calls == (Invocation(("main.hip",)),) and app.written[0][0] == tmp_path / folder / "gen/c.h"


def test_the_plans_do_not_depend_on_where_they_were_made(tmp_path: Path) -> None:
    text = HEAD + "configure_file(c.in c.h)\nadd_executable(app main.hip)\ninclude_directories(${CMAKE_BINARY_DIR})\n"
    first, second = (configure(tmp_path, text, {"c.in": "@CMAKE_BINARY_DIR@"}) for _ in range(2))
    assert first == second and "hipsynth-process" not in repr(first) and first.plans[0].written
