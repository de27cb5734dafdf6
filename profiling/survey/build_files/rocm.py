"""A stand-in for a ROCm installation: scripts that answer build files' questions for paths, platform and device."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PLACE = "/opt/rocm"  # where build files expect ROCm; the sandbox mounts the stand-in there
# Tool name -> shell body of its script.
_TOOLS = {
    "hipcc": "",
    "hipconfig": "case \"$1\" in -p|--path|-R|--rocmpath) echo /opt/rocm;; -P|--platform) echo amd;; "
    "-C|--cpp_config) echo -D__HIP_PLATFORM_AMD__=1 -I/opt/rocm/include;; esac",
    "amdclang++": "",
    "amdclang": "",
    "clang++": "",
    "clang": "",
    "rocm_agent_enumerator": "echo gfx000; echo {arch}",
    "rocminfo": "echo '  Name:                    {arch}'",
}  # fmt: skip
ENVIRONMENT = {
    "PATH": f"{PLACE}/bin:/usr/bin:/bin",
    "HIP_PATH": PLACE,
    "ROCM_PATH": PLACE,
    "HIP_PLATFORM": "amd",
}


def stand_in(folder: Path, arch: str, tools: Mapping[str, str] | None = None) -> Path:
    """Fills `folder`, to be mounted at PLACE, for the device `arch`. `tools`: further scripts, or other bodies."""
    binaries = folder / "bin"
    binaries.mkdir(parents=True)
    (folder / "include").mkdir()
    for name, body in (_TOOLS | dict(tools or {})).items():
        path = binaries / name
        path.write_text("#!/bin/sh\n" + body.replace("{arch}", arch) + "\nexit 0\n")
        path.chmod(0o755)
    return folder
