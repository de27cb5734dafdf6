"""Locates the compiler and the header tree."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hipsynth.core.cache import cache_dir
from hipsynth.core.errors import MissingDependency, UsageError
from hipsynth.core.installation import install_command, install_packages, set_up_by
from hipsynth.core.reasons import Reason

HERE = Path(__file__).resolve().parent
PACKAGED_TREE = HERE / "tree"  # in a wheel of `make wheels`


@functools.cache
def read_inputs() -> Mapping[str, Any]:
    """inputs.toml: the contents of the header tree (cached)."""
    return tomllib.loads((HERE / "inputs.toml").read_text())


def compilable_archs() -> tuple[str, ...]:
    """The architectures that can be compiled for."""
    return tuple(read_inputs()["archs"])


def check_arch(arch: str) -> str:
    """Returns `arch`, or raises UsageError (reason "bad_arch") naming the known ones."""
    if arch not in read_inputs()["archs"]:
        raise UsageError(
            f"unknown architecture {arch!r}", remedy="one of: " + ", ".join(compilable_archs()), reason=Reason.BAD_ARCH
        )
    return arch


@dataclass(frozen=True)
class Toolchain:
    """A usable compiler with its headers. `identity`: hash over everything that can affect generated code."""

    kind: str  # "rocm" | "debian"
    clang: Path
    lld: Path
    objdump: Path
    root: Path  # for --rocm-path: a ROCm installation, or our tree with the same layout
    include_flags: tuple[str, ...]
    compiler_version: str
    headers_version: str
    identity: str

    @functools.cached_property
    def folders(self) -> tuple[Path, ...]:
        """Folders that a compile reads besides system files."""
        folders_here = [HERE / name for name in ("include", "override")]
        # Packages of ROCm may consist of links to other places.
        parts = [self.root / name for name in ("include", "share", "amdgcn", "lib", "llvm")]
        tools = [path.resolve().parents[1] for path in (self.clang, self.lld, self.objdump)]
        linked = [path.resolve() for path in [*parts, *tools] if path.exists()]
        apart = [path for path in linked if not path.is_relative_to(self.root.resolve()) and path != Path("/usr")]
        return (self.root, *folders_here, *dict.fromkeys(apart))

    @property
    def libclang(self) -> Path:
        """The compiler's libclang; raises MissingDependency if it is not installed."""
        return find_libclang(self.clang)

    def provenance(self) -> dict[str, str]:
        """The facts about the compiler that a label records."""
        return {
            "compiler": self.compiler_version,
            "headers": self.headers_version,
            "toolchain": self.kind,
            "toolchain_identity": self.identity,
        }


def recipe_key() -> str:
    """Hash of the entries of inputs.toml that determine the tree's contents."""
    table = {key: read_inputs()[key] for key in ("recipe", "archs", "wheels", "controls")}
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:12]


@functools.cache
def own_headers_identity() -> str:
    """Hash of our own headers: include/ adds headers that the wheels lack, override/ precedes the system's thrust."""
    digest = hashlib.sha256()
    for path in sorted([*HERE.glob("include/**/*.h"), *HERE.glob("override/**/*.h")]):
        digest.update(path.relative_to(HERE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def thrust_version() -> str:
    """Version of the system's thrust headers ("1.17.2"), or "" if they are not installed."""
    header = Path(read_inputs()["compiler"]["thrust_root"]) / "version.h"
    try:
        match = re.search(r"\bTHRUST_VERSION (\d+)", header.read_text())
    except OSError:
        return ""
    if not match:
        return ""
    number = int(match.group(1))
    return f"{number // 100000}.{number // 100 % 1000}.{number % 100}"


def identity_of(*parts: str) -> str:
    """A short hash over the given versions and hashes, our own headers and the thrust version."""
    return hashlib.sha256(json.dumps([*parts, own_headers_identity(), thrust_version()]).encode()).hexdigest()[:16]


def tree_path() -> Path:
    """Path of the header tree for this recipe: the one in our wheel, else one in the cache (it may not exist yet)."""
    if (read_manifest(PACKAGED_TREE) or {}).get("recipe") == recipe_key():
        return PACKAGED_TREE
    return cache_dir() / f"tree-{recipe_key()}"


def find_tool(name: str) -> Path | None:
    """An LLVM tool of the required release: `name-22` on PATH, else in Debian's folder of that release."""
    release = read_inputs()["compiler"]["release"]
    tool_path = shutil.which(f"{name}-{release}")
    if tool_path:
        return Path(tool_path)
    path = Path(f"/usr/lib/llvm-{release}/bin/{name}")
    return path if path.exists() else None


def find_libclang(clang: Path) -> Path:
    """The libclang beside a compiler, else that of the extra "libclang"; raises MissingDependency without either."""
    folder = clang.resolve().parents[1] / "lib"
    libraries = [path for name in ("libclang-[0-9]*.so*", "libclang.so*") for path in sorted(folder.glob(name))]
    if not (libraries := libraries or _packaged_libclang()):
        release = read_inputs()["compiler"]["release"]
        raise MissingDependency(
            "the compiler's libclang is not installed",
            cause=f"there is no libclang.so in {folder}",
            remedy=f"{install_packages(f'libclang1-{release}')}    (or: {install_command('libclang')})",
        )
    return libraries[0]


def _packaged_libclang() -> list[Path]:
    """The libclang of the Python package clang (libclang-ng), if it is installed; nothing of it is imported."""
    spec = importlib.util.find_spec("clang")
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    return [path for folder in folders for path in folder.glob("native/libclang.so")]


@functools.cache
def compiler_version(clang: Path) -> str:
    """The first line of `clang --version`. Raises MissingDependency if it does not run."""
    try:
        result = subprocess.run([clang, "--version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingDependency(
            f"{clang} does not run", cause=str(error), remedy=install_packages("clang-22")
        ) from error
    return result.stdout.splitlines()[0].strip()


def rocm_root() -> Path | None:
    """A ROCm installation with a compiler and HIP headers: $ROCM_PATH, else /opt/rocm."""
    for candidate in (os.environ.get("ROCM_PATH"), "/opt/rocm"):
        if not candidate:
            continue
        root = Path(candidate)
        if rocm_clang(root) and (root / "include/hip/hip_runtime.h").exists():
            return root
    return None


def rocm_clang(root: Path) -> Path | None:
    """The clang++ of a ROCm installation, if it has one."""
    for folder in ("llvm/bin", "lib/llvm/bin"):
        if (root / folder / "clang++").exists():
            return root / folder / "clang++"
    return None


def find_toolchain() -> Toolchain:
    """The toolchain to use: ROCm if installed, else Debian's clang with our header tree.

    Raises MissingDependency (exit code 4) with the command that installs the missing part.
    """
    key = (os.environ.get("ROCM_PATH"), str(cache_dir()), os.environ.get("PATH"))
    return _find_cached(key)


@functools.lru_cache(maxsize=8)
def _find_cached(_key: tuple[str | None, ...]) -> Toolchain:
    root = rocm_root()
    return _rocm_toolchain(root) if root else _debian_toolchain()


def _rocm_toolchain(root: Path) -> Toolchain:
    clang = rocm_clang(root)
    assert clang is not None
    folder = clang.parent
    headers = "HIP " + ".".join(hip_version(root))
    compiler = compiler_version(clang)
    override = () if (root / "include/thrust").exists() else ("-isystem", str(HERE / "override"))
    return Toolchain(
        kind="rocm",
        clang=clang,
        lld=folder / "lld",
        objdump=folder / "llvm-objdump",
        root=root,
        include_flags=(*override, "-isystem", str(root / "include")),
        compiler_version=compiler,
        headers_version=headers,
        identity=identity_of("rocm", str(root), compiler, headers),
    )


def hip_version(root: Path) -> tuple[str, str, str]:
    """Major and minor version and patch of the HIP headers in a ROCm layout.

    Raises MissingDependency if they do not say it."""
    path = root / "include/hip/hip_version.h"
    text = path.read_text() if path.is_file() else ""
    numbers = [re.search(rf"\bHIP_VERSION_{part}\s+(\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    if not all(numbers):
        problem = f"{path} tells no version of HIP"
        raise MissingDependency(problem, cause=f"{root} does not have the layout of ROCm", remedy="see `synth doctor`")
    major, minor, patch = (match.group(1) for match in numbers if match)
    return major, minor, patch


def missing_packages() -> list[str]:
    """Debian packages of the compiler that are not installed."""
    tools = {"clang-22": "clang++", "lld-22": "lld", "llvm-22": "llvm-objdump"}
    return [package for package in read_inputs()["compiler"]["apt"] if find_tool(tools[package]) is None]


def require_compiler() -> None:
    """Raises MissingDependency if packages of the compiler are not installed."""
    lacking = missing_packages()
    if lacking:
        raise MissingDependency(
            "the AMDGPU compiler is not installed",
            cause="not found: " + ", ".join(lacking),
            remedy=install_packages(*lacking),
        )


def _debian_toolchain() -> Toolchain:
    require_compiler()
    tree = tree_path().resolve()  # a sandbox shows folders at their real places
    manifest = read_manifest(tree)
    if manifest is None:
        raise MissingDependency(
            "the HIP header tree is not built",
            cause=f"no manifest in {tree}",
            remedy=set_up_by("python -m hipsynth.toolchain"),
        )
    with contextlib.suppress(OSError):  # build_tree() removes trees that are long unused
        os.utime(tree)
    clang, lld, objdump = find_tool("clang++"), find_tool("lld"), find_tool("llvm-objdump")
    assert clang and lld and objdump
    compiler = compiler_version(clang)
    arguments = [part for folder in ("override", "include") for part in ("-isystem", str(HERE / folder))]
    return Toolchain(
        kind="debian",
        clang=clang,
        lld=lld,
        objdump=objdump,
        root=tree,
        include_flags=(*arguments, "-isystem", str(tree / "include")),
        compiler_version=compiler,
        headers_version=manifest["headers_version"],
        identity=identity_of("debian", compiler, manifest["identity"]),
    )


def read_manifest(tree: Path) -> dict[str, Any] | None:
    """The manifest of a complete tree, or None. It is written last, so its presence means that the tree is complete."""
    try:
        document: dict[str, Any] = json.loads((tree / "manifest.json").read_text())
    except (OSError, ValueError):
        return None
    return document
