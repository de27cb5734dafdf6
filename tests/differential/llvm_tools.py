"""LLVM's programs, where they are installed, and the libraries that they are linked with."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

CLANG = shutil.which("clang-22")
MC = shutil.which("llvm-mc-22") or shutil.which("llvm-mc")
OBJDUMP = shutil.which("llvm-objdump-22") or shutil.which("llvm-objdump")


def library_of(program: str | None, name: str) -> Path | None:
    """The shared library whose name begins with `name`; it contains the program's instruction and builtin tables."""
    if program is None or shutil.which("ldd") is None:
        return None
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    found = re.search(rf"{name}\S* => (\S+)", linked)
    return Path(found[1]) if found else None
