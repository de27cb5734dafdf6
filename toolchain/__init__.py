"""The HIP compiler: locates it, provides HIP headers, runs it under limits, and caches results by content.

>>> from hipsynth.toolchain import compile_device, compile_host
>>> build = compile_device(Path("copy.hip"), "gfx90a", "-O3", Path("out"))
>>> build.code_object, build.disassembly, build.kernels, build.provenance
"""

from hipsynth.toolchain.builds import prune_builds
from hipsynth.toolchain.compile import DeviceBuild, HostBuild, compile_device, compile_host, disassemble
from hipsynth.toolchain.driver import CompileLimits, run_time_compiler
from hipsynth.toolchain.elf import kernels_in
from hipsynth.toolchain.flag_pattern import flag_pattern
from hipsynth.toolchain.flags import Flags
from hipsynth.toolchain.flags import check_flags as check_flags
from hipsynth.toolchain.flags import only_allowed as allowed_flags
from hipsynth.toolchain.flags import parse_flags as parse_flags
from hipsynth.toolchain.header_tree import build_tree
from hipsynth.toolchain.locate import Toolchain, check_arch, compilable_archs, find_toolchain, thrust_version

__all__ = [
    "CompileLimits",
    "DeviceBuild",
    "Flags",
    "HostBuild",
    "Toolchain",
    "allowed_flags",
    "build_tree",
    "check_arch",
    "check_flags",
    "compilable_archs",
    "compile_device",
    "compile_host",
    "disassemble",
    "find_toolchain",
    "flag_pattern",
    "kernels_in",
    "parse_flags",
    "prune_builds",
    "run_time_compiler",
    "thrust_version",
]
