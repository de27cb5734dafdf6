"""Additional builds of the simulator core beside the default one: with sanitizers, or instrumented for profiling."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def find_compiler_runtime(compiler: str, name: str) -> Path:
    """A runtime library of clang, such as libclang_rt.asan-x86_64.so; raises OSError if it is not installed."""
    process = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    path = Path(process.stdout.strip())
    if not path.is_absolute() or not path.exists():
        raise OSError(f"{name} is not installed (Debian: libclang-rt-22-dev)")
    return path.resolve()


@dataclass(frozen=True)
class NativeBuild:
    """A build in build/NAME with the CMake options (`-DNAME=VALUE`) in which it differs from the default one."""

    name: str
    options: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return ROOT / "build" / self.name

    @property
    def module_folder(self) -> Path:
        """The folder of the installed module and runtime library."""
        return self.folder / "installed" / "hipsynth" / "simulator"

    def compile_core(self) -> None:
        """Configures (only the first time) and compiles. Raises CalledProcessError."""
        options = [*self.options, f"-DPython_EXECUTABLE={sys.executable}", f"-DPython3_EXECUTABLE={sys.executable}"]
        if not (self.folder / "CMakeCache.txt").exists():
            configure = ["cmake", "-S", str(ROOT), "-B", str(self.folder), "-G", "Ninja", "-Wno-dev"]
            subprocess.run([*configure, *options], check=True)
        subprocess.run(["cmake", "--build", self.folder, "-j", str(os.cpu_count() or 1)], check=True)

    def install_core(self) -> None:
        """Compiles, and installs inside the build folder instead of the package. Raises CalledProcessError."""
        self.compile_core()
        command = ["cmake", "--install", str(self.folder), "--prefix", str(self.folder / "installed")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def build_environment(self) -> dict[str, str]:
        """The environment in which Python and simulated programs use the installed core."""
        library = self.module_folder / "libhipsynth_hip.so"
        return os.environ | {"HIPSYNTH_NATIVE": str(self.module_folder), "HIPSYNTH_RUNTIME": str(library)}
