"""The front end's parser settings on this machine: the toolchain's flags, header tree and builtin headers."""

from __future__ import annotations

import functools
import subprocess

from hipsynth.core.cache import cache_dir
from hipsynth.core.errors import MissingDependency
from hipsynth.core.installation import install_packages
from hipsynth.source.parse import ParseConfig
from hipsynth.toolchain import find_toolchain
from hipsynth.toolchain.driver import COMPATIBILITY


@functools.cache
def frontend_config(arch: str = "gfx90a") -> ParseConfig:
    """Parser settings for `arch` with the headers of the installed toolchain; raises MissingDependency if there is
    none."""
    toolchain = find_toolchain()
    try:
        command = [str(toolchain.clang), "-print-resource-dir"]
        resources = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingDependency(
            f"{toolchain.clang} does not run", cause=str(error), remedy=install_packages("clang-22")
        ) from error
    args = ("-x", "hip", f"--offload-arch={arch}", "-nogpulib", f"--rocm-path={toolchain.root}", *COMPATIBILITY)
    return ParseConfig((*args, *toolchain.include_flags, "-resource-dir", resources), cache_dir() / "preambles")
