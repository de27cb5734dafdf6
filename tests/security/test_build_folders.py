"""Hostile build folders: what they run, read and name stays in the sandbox and in the folder, and ends."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import needs
import pytest
from click.testing import CliRunner
from leftovers import left_running

from hipsynth.cli.main import cli
from hipsynth.core.errors import BadInput
from hipsynth.core.scratch import scratch_folder
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.backends.sim import SimBackend
from hipsynth.profiling.survey import project
from hipsynth.profiling.survey.build import BuildResult, try_plans
from hipsynth.profiling.survey.build_files import cmake, makefile
from hipsynth.profiling.survey.discover import find_programs
from hipsynth.profiling.survey.project import folder_programs
from hipsynth.simulator.limits import RunLimits
from hipsynth.toolchain import CompileLimits, parse_flags, sandbox

pytestmark = pytest.mark.usefixtures("with_make")
MAIN = "#include <hip/hip_runtime.h>\n__global__ void k(int* p) { *p = 1; }\nint main() { return 0; }\n"
RULE = "prog: main.hip\n\thipcc $(FLAGS) -o prog main.hip\n"
SECRET = "the_secret_of_another_folder"
TARGET = Target("gfx90a", "-O1", "mi250")
HEAD = "cmake_minimum_required(VERSION 3.21)\nproject(x LANGUAGES CXX HIP)\n"
CMAKE = HEAD + "add_executable(x main.hip)\n"
SHELL = 'execute_process(COMMAND sh -c "{}")\n'

# Name -> the files of the folder; {out} is a folder outside of it, with a file `secret.h`.
FOLDERS: dict[str, dict[str, str]] = {
    "shell": {"Makefile": "X := $(shell touch {out}/made; cat {out}/secret.h /etc/shadow)\nFLAGS = -DX='$X'\n" + RULE},
    "shell assignment": {"Makefile": "FLAGS != echo -DX=`cat {out}/secret.h`; touch {out}/made\n" + RULE},
    "one shell": {
        "Makefile": ".ONESHELL:\n.SHELLFLAGS = -c\n" + RULE + "\t+touch {out}/made\n\tcp {out}/secret.h here\n"
    },
    "include": {"Makefile": "-include {out}/secret.h /etc/shadow\ninclude {out}/rules.mk\n" + RULE},
    "another shell": {"Makefile": "SHELL = {out}/run\n" + RULE + "\t$(shell echo touch {out}/made)\n"},
    "recursive": {"Makefile": RULE + "all:\n\t+$(MAKE) -f $(firstword $(MAKEFILE_LIST)) all\n\tmake all\n"},
    "fork bomb": {"Makefile": "X := $(shell f() {{ f | f & }}; f)\n" + RULE},
    "waits": {"Makefile": "X := $(shell sleep 600)\n" + RULE},
    "floods": {"Makefile": "X := $(shell yes >&2)\n" + RULE},
    "a daemon": {"Makefile": "X := $(shell (setsid sleep 600 >/dev/null 2>&1 &))\n" + RULE},
    "network": {"Makefile": "X := $(shell exec 3<>/dev/tcp/127.0.0.1/80 && touch {out}/made)\n" + RULE},
    "flags": {"Makefile": "FLAGS = -Xclang -load -fplugin={out}/p.so -foptimization-record-file={out}/made @{out}/a\n"
              + RULE},
    "objects outside": {"Makefile": "prog: main.hip\n\thipcc -o {out}/made main.hip {out}/other.hip {out}/secret.o\n"},
    "cmake runs": {"CMakeLists.txt": CMAKE + "execute_process(COMMAND touch {out}/made)\n"
                   "add_custom_command(OUTPUT y COMMAND touch {out}/made)\nadd_custom_target(z ALL DEPENDS y)\n"},
    "cmake writes": {"CMakeLists.txt": CMAKE + "file(WRITE {out}/made text)\n"},
    "cmake copies": {"CMakeLists.txt": CMAKE + "file(COPY {out}/secret.h DESTINATION {out}/made)\n"},
    "cmake downloads": {"CMakeLists.txt": CMAKE + "file(DOWNLOAD file://{out}/secret.h s.h)\n"
                        "file(DOWNLOAD http://127.0.0.1:1/x ${{CMAKE_SOURCE_DIR}}/made)\n"},
    "cmake reads": {"CMakeLists.txt": CMAKE + "execute_process(COMMAND cat {out}/secret.h OUTPUT_VARIABLE S)\n"
                    "file(GLOB T {out}/* ..)\nadd_definitions(-DS=${{S}} ${{T}})\nfile(READ {out}/secret.h S)\n"},
    "cmake configures": {"CMakeLists.txt": CMAKE + "configure_file(link.h c.h)\nconfigure_file({out}/secret.h a.h)\n"
                         "configure_file(../out/secret.h b.h COPYONLY)\n"},
    "cmake links": {"CMakeLists.txt": CMAKE + "file(CREATE_LINK {out}/secret.h ${{CMAKE_BINARY_DIR}}/s.h SYMBOLIC)\n"
                    "file(CREATE_LINK {out} ${{CMAKE_BINARY_DIR}}/sub SYMBOLIC)\n"},
    "cmake moves its answers": {"CMakeLists.txt": CMAKE + SHELL.format(
        "cd ${{CMAKE_BINARY_DIR}}/.cmake/api/v1; mkdir /tmp/r; rm -rf reply; ln -s /tmp/r reply")},
    "cmake moves its folder": {"CMakeLists.txt": CMAKE + SHELL.format(
        "cd ${{CMAKE_BINARY_DIR}}/..; mv build was; ln -s {out} build; mv ../work ../moved")},
    "cmake includes": {"CMakeLists.txt": CMAKE + "include(link.cmake)\ninclude({out}/secret.cmake)\n"
                       "add_subdirectory({out} out)\n"},
    "cmake lists": {"CMakeLists.txt": HEAD + "file(GLOB_RECURSE S /proc/*/environ)\nfile(GLOB T {out}/*)\n"
                    "add_executable(x main.hip ${{S}} ${{T}})\n"},
    "cmake loops": {"CMakeLists.txt": CMAKE + "while(TRUE)\nendwhile()\n"},
    "cmake recurses": {"CMakeLists.txt": CMAKE + "function(f)\nf()\nendfunction()\nf()\n"},
    "cmake expands": {"CMakeLists.txt": CMAKE + "set(x a)\n" + 'set(x "${{x}}${{x}}")\n' * 50},
    "cmake waits": {"CMakeLists.txt": CMAKE + SHELL.format("sleep 600")},
    "cmake floods": {"CMakeLists.txt": CMAKE + "while(TRUE)\nmessage(SEND_ERROR xxxxxxxx)\nendwhile()\n"},
    "cmake fills the disk": {"CMakeLists.txt": CMAKE + SHELL.format(
        "for n in 1 2 3 4 5 6 7 8 9; do yes | head -c 8000000 > \\$n; done; sleep 600")},
    "cmake forks": {"CMakeLists.txt": CMAKE + SHELL.format("f() {{ f | f & }}; f")},
    "cmake leaves a daemon": {"CMakeLists.txt": CMAKE + SHELL.format("setsid sleep 600 >/dev/null 2>&1 &")},
    "cmake fetches": {"CMakeLists.txt": CMAKE + "include(FetchContent)\nFetchContent_Declare(y URL http://127.0.0.1:1/y)\n"
                      "FetchContent_Populate(y)\n"},
    "a script": {"build.sh": "cat {out}/secret.h\ntouch {out}/made\nhipcc -o prog main.hip /*/*/*/*/*.hip /**/*\n"},
    "commands": {"compile_commands.json": '[{{"directory": "{out}", "file": "other.hip", "arguments": ["hipcc", '
                 '"-fplugin={out}/p.so", "-include", "{out}/secret.h", "-o", "{out}/made", "-c", "other.hip"]}}]'},
}  # fmt: skip


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "secret.h").write_text(f"#define {SECRET} 1\n")
    (folder / "secret.cmake").write_text(f"add_definitions(-D{SECRET})\n")
    (folder / "rules.mk").write_text(f"FLAGS = -D{SECRET}\n")
    (folder / "CMakeLists.txt").write_text(f"add_executable({SECRET} other.hip)\n")
    (folder / "other.hip").write_text(MAIN.replace("main", SECRET))
    (folder / "run").write_text("#!/bin/sh\n")
    (folder / "run").chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (makefile, cmake):
        limits = replace(module._LIMITS, **sandbox.time_limits(1.0), output_bytes=1 << 16, scratch_bytes=32 << 20)
        monkeypatch.setattr(module, "_LIMITS", replace(limits, memory_bytes=256 << 20))


@pytest.mark.parametrize("name", FOLDERS)
def test_a_hostile_build_folder(name: str, tmp_path: Path, outside: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for file, text in FOLDERS[name].items():
        (folder / file).write_text(text.format(out=outside))
    (folder / "main.hip").write_text(MAIN)
    (folder / "link.h").symlink_to(outside / "secret.h")
    (folder / "link.cmake").symlink_to(outside / "secret.cmake")
    before = (sorted(folder.iterdir()), sorted(outside.iterdir()))
    (program,) = find_programs(folder, "gfx90a")
    assert program.plans, "at least the guess remains"
    for plan in program.plans:
        assert SECRET not in repr((plan.written, plan.calls)), plan
        for unit in plan.units:
            assert SECRET not in repr((unit.defines, unit.options, unit.undefines))
            assert "plugin" not in unit.flags() and parse_flags(" ".join(unit.options)) is not None
    assert (sorted(folder.iterdir()), sorted(outside.iterdir())) == before
    assert not left_running()


def test_answers_that_name_other_folders(tmp_path: Path, outside: Path) -> None:
    """A project may change what CMake answered: a program of another folder would be copied with that folder."""
    (tmp_path / "CMakeLists.txt").touch()
    run = cmake._Run(tmp_path / "CMakeLists.txt", tmp_path, "gfx90a", (), tmp_path / "scratch", frozenset())
    replies = run.build / ".cmake/api/v1/reply"
    replies.mkdir(parents=True)
    target = {"type": "EXECUTABLE", "name": "x", "artifacts": [{"path": "x"}], "paths": {"source": ".", "build": "."}}
    model = {"configurations": [{"directories": [{"source": "."}], "targets": [{"jsonFile": "target.json"}]}]}
    index = {"objects": [{"kind": "codemodel", "jsonFile": "model.json"}]}
    for name, document in (("index-1.json", index), ("model.json", model), ("target.json", target)):
        (replies / name).write_text(json.dumps(document))
    assert [found.source for found in run._read_reply()[0]] == [tmp_path] and run._read_reply()[1] == ["x"]
    for place, sources in ((str(outside), [outside]), ("..", []), ("/etc", []), ("out/../../..", [])):
        (replies / "target.json").write_text(json.dumps({**target, "paths": {"source": place, "build": "."}}))
        assert [read.source for read in run._read_reply()[0]] == sources, place
    for damaged in ("[" * 100_000, "{}", "[]", '{"type": "EXECUTABLE", "name": 1}', '{"type": 3}', "\0"):
        (replies / "target.json").write_text(damaged)
        assert run._read_reply()[0] == []
    (replies / "target.json").unlink()
    (replies / "target.json").symlink_to(outside / "secret.h")
    assert run._read_reply()[0] == []


READS = """#include <hip/hip_runtime.h>
#include <cstdio>
__global__ void leak(int* p) { *p = 1; }
int main(int argc, char** argv) {
  unsigned char text[3] = {};
  if (std::FILE* file = argc > 1 ? std::fopen(argv[1], "r") : nullptr) (void)!std::fread(text, 1, 3, file);
  int* p;
  if (hipMalloc(&p, 4) != hipSuccess) return 1;
  leak<<<dim3(text[0] + 1, text[1] + 1, text[2] + 1), 1>>>(p);
  return hipDeviceSynchronize();
}
"""
RUN = "prog: main.hip\n\thipcc -o prog main.hip\nrun: prog\n\t./prog {}\n"
# What the Makefile starts the program with -> the grid, which tells the first three letters of the file that it read;
# None: the program is refused.
STARTS = {
    "a file outside": ("{out}/secret.h", None),
    "a file above": ("../out/secret.h", None),
    "a link to a file outside": ("link.h", None),
    "the user's working folder": ("secret.h", (1, 1, 1)),
    "a file of its own": ("data.txt", (ord("a") + 1, ord("b") + 1, ord("c") + 1)),
    "its own by a path": ("$(CURDIR)/data.txt", (ord("a") + 1, ord("b") + 1, ord("c") + 1)),
}


@pytest.mark.parametrize("what", STARTS)
def test_build_files_show_a_program_no_file_outside_its_folder(
    what: str, tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is shown reaches counters, here by the grid, and so a corpus that is published."""
    needs.simulator()
    needs.compiler()
    argument, grid = STARTS[what]
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "main.hip").write_text(READS)
    (folder / "data.txt").write_text("abc")
    (folder / "link.h").symlink_to(outside / "secret.h")
    (folder / "Makefile").write_text(RUN.format(argument.format(out=outside)))
    (outside / "secret.h").chmod(0o600)
    monkeypatch.chdir(outside)
    bad: list[BadInput] = []
    with scratch_folder() as scratch:
        found = list(folder_programs(folder, "gfx90a", scratch, bad.append))
        results = [SimBackend().profile(one, TARGET, scratch / "out", RunLimits(sampling_units=0)) for one in found]
    assert [(error.reason, "secret.h" in str(error)) for error in bad] == ([] if grid else [("outside", True)])
    assert [kernel.grid for result in results for kernel in result.kernels] == ([grid] if grid else [])


# Build files of a program of main.hip and a file outside, directly, by a link, and as a source whatever its name.
NAMED_SOURCES = {
    "make": {"Makefile": "prog: main.hip\n\thipcc -o prog main.hip {out}/secret.h.c\n"},
    "a link": {"Makefile": "prog: main.hip\n\thipcc -o prog main.hip link.c\n"},
    "any file": {"Makefile": "prog: main.hip\n\thipcc -o prog main.hip -x c {out}/secret.h\n"},
    "script": {"build.sh": "hipcc -o prog main.hip {out}/secret.h.c\n"},
    "commands": {
        "compile_commands.json": '[{{"directory": "{out}", "arguments": ["hipcc", "-c", "{folder}/main.hip"]}},'
        ' {{"directory": "{out}", "arguments": ["hipcc", "-c", "secret.h.c"]}}]'
    },
    "cmake": {"CMakeLists.txt": HEAD + "add_executable(x main.hip {out}/secret.h.c)\n"},
}


@pytest.mark.parametrize("what", NAMED_SOURCES)
def test_build_files_bring_no_source_outside_the_folder_into_a_corpus(
    what: str, tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of a program is stored even if it does not compile: by its first plan, as if that had failed."""
    monkeypatch.setattr(project, "try_plans", lambda surveyed, *_: BuildResult(surveyed.plans[0]))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "main.hip").write_text(MAIN)
    (outside / "secret.h.c").write_text(f"int {SECRET};\n")
    (folder / "link.c").symlink_to(outside / "secret.h.c")
    for path in outside.glob("secret*"):
        path.chmod(0o600)
    for name, text in NAMED_SOURCES[what].items():
        (folder / name).write_text(text.format(out=outside, folder=folder))
    bad: list[BadInput] = []
    with scratch_folder() as scratch:
        found = list(folder_programs(folder, "gfx90a", scratch, bad.append))
    assert not any(SECRET in program.text for program in found)
    assert found or [(error.reason, "secret.h" in str(error)) for error in bad] == [("outside", True)]


def test_files_that_the_user_names_are_shown_wherever_they_are(outside: Path, tmp_path: Path) -> None:
    needs.compiler()
    (tmp_path / "main.hip").write_text(READS)
    (outside / "secret.h").write_text("abc")
    words = ["profile", str(tmp_path / "main.hip"), "--arch", "gfx90a", "--json", "--", str(outside / "secret.h")]
    done = CliRunner().invoke(cli, words, standalone_mode=False)
    (result,) = json.loads(done.stdout)["results"]
    assert result["kernels"][0]["grid"] == [ord("a") + 1, ord("b") + 1, ord("c") + 1]


def test_plans_that_name_files_outside_do_not_build(tmp_path: Path, outside: Path) -> None:
    """The compiler sees the folder only; what the plans name elsewhere is missing there."""
    needs.compiler()
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "main.hip").write_text(f'#include "secret.h"\n#ifdef {SECRET}\n#error SEEN\n#endif\n' + MAIN)
    (folder / "Makefile").write_text(f"FLAGS = -I{outside} -include {outside}/secret.h\n" + RULE)
    (program,) = find_programs(folder, "gfx90a")
    with scratch_folder() as scratch:
        built = try_plans(program, "gfx90a", scratch, [folder.resolve()], CompileLimits(time_s=10))
    assert built.artefacts is None and built.reason in ("missing_header", "compile_failed", "outside")
    assert "SEEN" not in built.diagnostics


def test_long_lists_of_programs_end(tmp_path: Path) -> None:
    """Four thousand files of which none is a program."""
    for number in itertools.chain(range(2000)):
        (tmp_path / f"{number}.hip").symlink_to("/dev/zero" if number % 2 else "nowhere")
    assert find_programs(tmp_path, "gfx90a") == []


def test_links_out_of_a_folder_are_not_read(tmp_path: Path) -> None:
    """Of a survey: a link would bring the lines of a file elsewhere into its report."""
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (folder / "main.hip").write_text(MAIN.replace("main()", "main(int argc, char** argv)"))
    secret = {"Makefile": "prog: main.hip\n\thipcc -DSECRET -o prog main.hip\n", "README.md": "$ ./main SECRET\n"}
    secret |= {"run.sh": "./main SECRET\n", "secret.hip": MAIN}
    for name, text in secret.items():
        (outside / name).write_text(text)
        (folder / name).symlink_to(outside / name)
    (program,) = find_programs(folder, "gfx90a")
    assert program.id == "main.hip" and "SECRET" not in repr((program.plans, program.calls))
