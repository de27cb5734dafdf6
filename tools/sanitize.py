"""Runs the tests of the C++ core under sanitizers: `python -m tools.sanitize [PYTEST ARGUMENT]...`, or `make sanitize`.

Builds the simulator with AddressSanitizer and UndefinedBehaviorSanitizer in build/sanitize and installs it there
instead of in the package; HIPSYNTH_NATIVE names the folder. The sanitizer's runtime is preloaded into Python and into
the simulated programs.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tools.native_build import ROOT, NativeBuild, find_compiler_runtime

BUILD = NativeBuild("sanitize", ("-DHIPSYNTH_SANITIZE=ON",))
# All tests that run the core, in Python's process or in a simulated program's; training only uses its results.
# Conformance comes first, as in the whole suite: devices kept by other tests would change its memory addresses.
TESTS = ("tests/conformance", "tests/unit", "tests/property", "tests/differential", "tests/kernels", "tests/e2e")
LEFT_OUT = (
    *("--ignore-glob=*/test_train*", "--ignore-glob=*/test_predict*", "--ignore-glob=*/test_augment*"),
    "--deselect=tests/e2e/test_bad_input.py::test_help_is_quick",  # asserts a time limit
    # Deliberately reads mapped memory that AddressSanitizer does not know as an allocation.
    "--deselect=tests/kernels/test_programs_hip_api.py::test_wild_pointers_and_lying_code_objects_are_errors",
)


def find_runtime() -> Path:
    """The shared sanitizer runtime library of the compiler used for the build."""
    found_by_cmake = next((BUILD.folder / "CMakeFiles").glob("*/CMakeCXXCompiler.cmake")).read_text()
    compiler = found_by_cmake.split('set(CMAKE_CXX_COMPILER "', 1)[1].split('"', 1)[0]
    return find_compiler_runtime(compiler, "libclang_rt.asan-x86_64.so")


def build_environment() -> dict[str, str]:
    """Environment for the sanitized module. Leak detection is off, because Python keeps memory until it exits."""
    return BUILD.build_environment() | {
        "HIPSYNTH_PRELOAD": str(find_runtime()),
        "LD_PRELOAD": str(find_runtime()),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:use_sigaltstack=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def main(arguments: list[str]) -> int:
    start = time.monotonic()
    try:
        BUILD.install_core()
        extra = build_environment()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"sanitize: {error}", file=sys.stderr)
        return 4
    command = [sys.executable, "-m", "pytest", "-m", "not full", *(arguments or (*TESTS, *LEFT_OUT))]
    code = subprocess.run(command, cwd=ROOT, env=extra, check=False).returncode
    print(f"sanitize: {'clean' if code == 0 else 'FAILED'} in {time.monotonic() - start:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
