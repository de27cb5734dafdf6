"""The compiler: found, fed with HIP headers, run under limits, its results cached by content.

>>> from profiling.toolchain import compile_device, compile_host
>>> build = compile_device(Path("copy.hip"), "gfx90a", "-O3", Path("out"))
>>> build.code_object, build.disassembly, build.kernels, build.provenance
"""

from profiling.toolchain.builds import prune_builds
from profiling.toolchain.compile import DeviceBuild, HostBuild, compile_device, compile_host
from profiling.toolchain.driver import CompileLimits, run_time_compiler
from profiling.toolchain.elf import kernels_in
from profiling.toolchain.flags import Flags
from profiling.toolchain.flags import parse as parse_flags
from profiling.toolchain.locate import Toolchain, archs, cache_dir, check_arch, find, thrust_version
from profiling.toolchain.tree import build_tree

__all__ = [
    "CompileLimits",
    "DeviceBuild",
    "Flags",
    "HostBuild",
    "Toolchain",
    "archs",
    "build_tree",
    "cache_dir",
    "check_arch",
    "compile_device",
    "compile_host",
    "find",
    "kernels_in",
    "parse_flags",
    "prune_builds",
    "run_time_compiler",
    "thrust_version",
]
