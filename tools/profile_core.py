"""Records the profile for profile-guided optimisation of the simulator core (takes some minutes).

    python -m tools.profile_core            # build an instrumented core, run tools/core_work.py, write the profile
    python -m tools.profile_core --check    # list functions that have changed since, with their share of executions

The default build uses simulator/native/core.proftext (see simulator/native/profile.cmake). An outdated profile
only costs speed: changed functions are compiled without it. Results never depend on it. Recording again from the same
sources gives the same text.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hipsynth import toolchain
from hipsynth.core.errors import HipsynthError, MissingDependency
from hipsynth.core.scratch import scratch_folder
from tools.native_build import ROOT, NativeBuild, find_compiler_runtime

NATIVE = ROOT / "simulator" / "native"
PROFILE = NATIVE / "core.proftext"
BUILD = NativeBuild("profile", ("-DHIPSYNTH_RECORD_PROFILE=ON",))
FOLDERS = ("core", "dispatch", "execute", "memory", "sampling", "timing")  # sources of the static library hipsynth_core
HEAD = "# Written by `python -m tools.profile_core`: how often tools/core_work.py takes each branch of the core.\n"


@dataclass(frozen=True)
class FunctionProfile:
    """One function's record in the text profile of `llvm-profdata merge --text`."""

    name: str  # mangled; FILE:NAME for functions with internal linkage
    text: str
    weight: int  # sum of the execution counts of its regions


def read_profile(text: str) -> list[FunctionProfile]:
    """Parses a text profile. Raises ValueError if it is malformed."""
    functions = []
    for record in text.split("\n\n"):
        lines = [line for line in record.splitlines() if line and line[0] not in "#:"]
        if lines:
            name, _, count, *counters = lines
            if len(counters) != int(count):
                raise ValueError(f"{name}: {count} counters expected, found {len(counters)}")
            functions.append(FunctionProfile(name, record.strip() + "\n", sum(map(int, counters))))
    return functions


# --- recording -------------------------------------------------------------------------------------------------------


def find_profdata() -> Path:
    """The llvm-profdata of the compiler's LLVM release. Raises MissingDependency if it is not installed."""
    objdump = toolchain.find_toolchain().objdump
    tool = objdump.with_name(objdump.name.replace("objdump", "profdata"))
    if not tool.exists():
        raise MissingDependency(f"{tool} not found", remedy="install it (Debian: llvm-22)")
    return tool


def record_profile(part: str, scratch: Path) -> Path:
    """Runs one part of the workload; returns the path of its merged profile."""
    folder = scratch / part
    environment = BUILD.build_environment() | {"LLVM_PROFILE_FILE": str(folder / "%p.profraw")}
    subprocess.run([sys.executable, "-m", "tools.core_work", part], cwd=ROOT, env=environment, check=True)
    merged = scratch / f"{part}.proftext"
    subprocess.run([find_profdata(), "merge", "--text", "-o", merged, folder], check=True)
    return merged


def merge_profiles(parts: Iterable[Path], scratch: Path) -> str:
    """Merges the parts' profiles with equal weight and drops functions that never ran.

    The compiler would treat those as cold, although the workload merely does not cover them.
    """
    weights = {part: sum(function.weight for function in read_profile(part.read_text())) for part in parts}
    most = max(weights.values())
    inputs = [f"--weighted-input={round(most / weight)},{part}" for part, weight in weights.items()]
    merged = scratch / "all.proftext"
    subprocess.run([find_profdata(), "merge", "--text", "-o", merged, *inputs], check=True)
    functions = sorted(read_profile(merged.read_text()), key=lambda function: function.name)
    return HEAD + "\n".join(function.text for function in functions if function.weight)


def write_profile() -> None:
    from tools.core_work import PARTS

    start = time.monotonic()
    find_compiler_runtime(str(toolchain.find_toolchain().clang), "libclang_rt.profile-x86_64.a")
    BUILD.install_core()
    with scratch_folder() as scratch:
        PROFILE.write_text(merge_profiles([record_profile(part, scratch) for part in PARTS], scratch))
    functions = len(read_profile(PROFILE.read_text()))
    print(f"{PROFILE.relative_to(ROOT)}: {functions} functions, in {time.monotonic() - start:.0f} s; now build again")


# --- whether it still fits -------------------------------------------------------------------------------------------


def index_profile(text: str, folder: Path) -> Path:
    """Converts a text profile to the indexed format that the compiler reads; returns its path."""
    (folder / "core.proftext").write_text(text)
    path = folder / "core.profdata"
    subprocess.run([find_profdata(), "merge", "-o", path, folder / "core.proftext"], check=True)
    return path


def list_sources() -> list[Path]:
    return [path for folder in FOLDERS for path in sorted((NATIVE / folder).glob("*.cpp"))]


def generate_headers(folder: Path) -> None:
    """Writes the headers that the build generates from the tables of opcodes, devices and metrics."""
    for package in ("simulator/devices", "profiling/metrics", "simulator/isa"):
        subprocess.run([sys.executable, ROOT / package / "generate.py", folder], check=True)


def list_current_functions(source: Path, profile: Path, headers: Path) -> set[str]:
    """Names of the functions in one source file whose current form matches a record of the profile.

    `headers`: the folder of the generated headers.
    """
    command = [
        str(toolchain.find_toolchain().clang),
        "-x",
        "c++",
        "-std=c++20",
        "-DNDEBUG",
        "-O1",
        "-march=x86-64-v3",
        f"-I{NATIVE}",
        f"-I{headers}",
    ]
    command += ["-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-Wno-profile-instr-out-of-date"]
    process = subprocess.run(
        [*command, f"-fprofile-instr-use={profile}", str(source), "-o", "-"], check=True, capture_output=True, text=True
    ).stdout
    counted = set(re.findall(r'^!(\d+) = !\{!"function_entry_count"', process, re.MULTILINE))
    defined = re.findall(r'^define [^@]*@"?([^"(]+)"?\(.* !prof !(\d+)', process, re.MULTILINE)
    names = {name for name, number in defined if number in counted}
    return names | {f"{source.name}:{name}" for name in names}


def find_outdated(text: str, files: Iterable[Path]) -> list[tuple[FunctionProfile, float]]:
    """Profiled functions that no longer match any of these source files, with their share of all executions."""
    with scratch_folder() as folder:
        profile = index_profile(text, folder)
        headers = folder / "generated"
        generate_headers(headers)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            fitting = set().union(*pool.map(lambda source: list_current_functions(source, profile, headers), files))
    functions = read_profile(text)
    total = sum(function.weight for function in functions)
    lost = [(function, function.weight / total) for function in functions if function.name not in fitting]
    return sorted(lost, key=lambda row: -row[1])


def sum_shares(lost: Iterable[tuple[FunctionProfile, float]]) -> float:
    return sum(part for _, part in lost)


def check_profile() -> None:
    lost = find_outdated(PROFILE.read_text(), list_sources())
    for function, part in lost:
        print(f"{100 * part:8.4f} %  {function.name}")
    print(f"{len(lost)} functions have changed: {100 * sum_shares(lost):.2f} % of the recorded executions")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.profile_core", description="Record the core's profile.")
    parser.add_argument("--check", action="store_true", help="list recorded functions that have changed since")
    options = parser.parse_args(arguments)
    try:
        check_profile() if options.check else write_profile()
    except (HipsynthError, OSError, subprocess.CalledProcessError) as error:
        print(f"profile_core: {error}", file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
