"""Precompiled headers of hip/hip_runtime.h, one per compile command."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from hipsynth.core.errors import HipsynthError
from hipsynth.core.files import copy_regular, replace_atomically, write_whole
from hipsynth.core.locks import take_lock
from hipsynth.toolchain import locate, sandbox
from hipsynth.toolchain.driver import CompileLimits, DriverCommands, precompiled_folder, run_tool

RECIPE = 2  # of a header; raise it with translation_unit.CACHE_VERSION when its compiler arguments change
KEEP = 48  # precompiled headers to keep, about 13 MB each; the least recently used are deleted first

_WRAPPER = "__clang_hip_runtime_wrapper.h"
# A system header that may precede hip_runtime.h without changing the meaning of either.
_STANDARD = re.compile(r"<c?[a-z_]+(\.h)?>$")
_INCLUDE = re.compile(r"\s*#\s*include\s*([<\"][^>\"]*[>\"])")


def is_eligible(text: str) -> bool:
    """Whether nothing but standard headers precedes the source's include of hip/hip_runtime.h.

    Anything else before it (a macro, a declaration, a conditional, a user header) could change its meaning.
    """
    stripped = re.sub(r"/\*.*?(?:\*/|\Z)", lambda match: "\n" * match.group().count("\n"), text, flags=re.DOTALL)
    for line in stripped.splitlines():
        line = line.split("//", 1)[0].strip()
        if not line or re.fullmatch(r"#\s*pragma\s+once", line):
            continue
        match = _INCLUDE.match(line)
        if not match:
            return False
        name = match.group(1)
        if name in ("<hip/hip_runtime.h>", '"hip/hip_runtime.h"'):
            return True
        if not _STANDARD.match(name):
            return False
    return False


def use_header(toolchain: locate.Toolchain, template: DriverCommands, limits: CompileLimits) -> list[str] | None:
    """The cc1 arguments of `template` with its precompiled header.

    A missing header is built, which takes as long as several compiles, at its second use. None means to compile
    without it: at its first use, while another process builds it, at the first use after the builder was killed (so
    that a command that is killed early again and again still makes progress), and if the disk is full, the folder is
    read-only, or the header does not compile.
    """
    key = hashlib.sha256(json.dumps([RECIPE, toolchain.identity, *template.cc1]).encode()).hexdigest()[:24]
    path = precompiled_folder() / f"{key}.pch"
    if not path.exists():
        try:
            if not _build_header(path, toolchain, template, limits):
                return None
        except (OSError, HipsynthError):
            return None
    else:
        _touch_file(path)
    return with_pch(template.cc1, path)


def _touch_file(path: Path) -> None:
    try:
        os.utime(path, follow_symlinks=False)
    except OSError:
        return


def with_pch(cc1: Sequence[str], path: Path) -> list[str]:
    """The compile command with -include-pch in place of the wrapper include, which the header contains."""
    argv = list(cc1)
    at = argv.index(_WRAPPER)
    argv[at - 1 : at + 1] = ["-include-pch", str(path)]
    return argv


def forget_header(words: Sequence[str]) -> None:
    """Deletes the precompiled header that a compile command uses."""
    Path(words[list(words).index("-include-pch") + 1]).unlink(missing_ok=True)


_USED, _BUILDING = "used", "building"  # what a header's lock file says


def _build_header(path: Path, toolchain: locate.Toolchain, template: DriverCommands, limits: CompileLimits) -> bool:
    """Builds the header if this is the time to do so (see `use_header`); whether it is there."""
    with (path.parent / f"{path.stem}.lock").open("a+") as lock:
        if not take_lock(lock.fileno()):
            return False
        if path.exists():
            return True
        lock.seek(0)
        begins = lock.read() == _USED  # "": first use; _BUILDING: the builder was killed, or failed
        lock.truncate(0)
        lock.write(_BUILDING if begins else _USED)
        lock.flush()
        if begins:
            _compile_header(path, toolchain, template, limits)
    _prune_headers(path.parent)
    return begins


def _compile_header(path: Path, toolchain: locate.Toolchain, template: DriverCommands, limits: CompileLimits) -> None:
    # The header refers to its source, which is therefore kept beside it; concurrent writers may race for it.
    source = path.parent / "prefix.hip"
    if not source.exists():
        write_whole(source, "#include <hip/hip_runtime.h>\n")
    with contextlib.suppress(OSError):  # of another user
        source.chmod(0o644)  # sandboxes of root run as another user
    words = ["-emit-pch" if word == "-emit-obj" else word for word in template.compiler(str(source), "made.pch")]
    # Templates that the headers use are instantiated here, once, and not at the end of every compile.
    words += ["-fno-pch-timestamp", "-fpch-instantiate-templates"]
    with sandbox.job_folder() as folder:
        run_tool(toolchain, words, folder, limits, "hip/hip_runtime.h")
        with replace_atomically(path) as fresh:
            copy_regular(folder / "made.pch", fresh)
            fresh.chmod(0o644)


def _prune_headers(folder: Path) -> None:
    files = sorted(folder.glob("*.pch"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[KEEP:]:
        file.unlink(missing_ok=True)
        file.with_suffix(".lock").unlink(missing_ok=True)
