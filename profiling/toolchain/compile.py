"""Compiles HIP programs: the device side to a code object with its disassembly, the host side to an executable."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from profiling.toolchain import driver, pch
from profiling.toolchain import flags as flag_parser
from profiling.toolchain.driver import CompileLimits
from profiling.toolchain.elf import kernels_in
from profiling.toolchain.locate import HERE, Toolchain, cache_dir, check_arch, find
from synth.errors import BadInput, CompileFailed, Missing

CACHE_VERSION = 2
RUNTIME = Path(__file__).resolve().parents[1] / "sim" / "libhipsynth_hip.so"
_KEEP_BUILDS = 20_000


@dataclass(frozen=True)
class DeviceBuild:
    """One program compiled for one architecture. Paths lie in the caller's folder."""

    code_object: Path  # ELF, not bundled
    disassembly: Path  # text of `llvm-objdump -d`
    kernels: tuple[str, ...]  # mangled names, at least one
    arch: str
    flags: str
    key: str  # of the build cache: equal keys mean equal machine code
    provenance: Mapping[str, str] = field(default_factory=dict)
    cached: bool = False
    precompiled_header: bool = False
    seconds: float = 0.0


@dataclass(frozen=True)
class HostBuild:
    """A program's host side, linked with the runtime library; runs wherever the checkout lies."""

    executable: Path
    key: str
    provenance: Mapping[str, str] = field(default_factory=dict)
    cached: bool = False
    seconds: float = 0.0


@dataclass(frozen=True)
class _Job:
    """One compile: everything that its result depends on, and where things go."""

    toolchain: Toolchain
    source: Path
    text: str
    side: str  # "device-gfx90a", "host"
    flags: flag_parser.Flags
    template: driver.Template
    limits: CompileLimits

    @property
    def key(self) -> str:
        places = {str(self.toolchain.root): "{root}", str(HERE): "{here}"}  # where the checkout lies does not matter
        words = [_replaced(word, places) for word in (*self.template.cc1, *self.template.link)]
        parts: list[object] = [CACHE_VERSION, self.side, self.toolchain.identity, words]
        if re.search(r"__FILE__|__FILE_NAME__|__BASE_FILE__|assert|source_location", self.text):
            parts.append(self.source.name)
        if self.flags.names_files or re.search(r"^\s*#\s*(include|embed)\s*(\"|[A-Z_])", self.text, re.MULTILINE):
            parts.append(str(self.source.resolve().parent))
        digest = hashlib.sha256(json.dumps(parts).encode())
        digest.update(self.text.encode())
        return digest.hexdigest()


def _replaced(word: str, places: Mapping[str, str]) -> str:
    for place, name in places.items():
        word = word.replace(place, name)
    return word


def compile_device(
    source: Path,
    arch: str,
    flags: str,
    out_dir: Path,
    *,
    toolchain: Toolchain | None = None,
    limits: CompileLimits | None = None,
    use_cache: bool = True,
    use_pch: bool = True,
    roots: Iterable[Path] | None = None,
) -> DeviceBuild:
    """Compiles the kernels of `source` for `arch` into OUT_DIR/<stem>.co and OUT_DIR/<stem>.s.

    `flags` is one string, split like a shell does; relative paths in it are meant from the source's folder.
    `roots`: folders that quoted includes may come from (default: any).
    Raises UsageError (unknown arch or flag), CompileFailed with the compiler's diagnostics, BadInput with reason
    "no_kernel", Missing when there is no compiler.
    """
    check_arch(arch)
    parsed = flag_parser.parse(flags)
    toolchain = toolchain or find()
    arguments = driver.device_arguments(toolchain, arch, parsed)
    job = _Job(
        toolchain, source, _read(source), f"device-{arch}", parsed,
        driver.template(toolchain, arguments, parsed), limits or CompileLimits(),
    )  # fmt: skip
    start = time.monotonic()
    out_dir.mkdir(parents=True, exist_ok=True)
    targets = [out_dir / f"{source.stem}.co", out_dir / f"{source.stem}.s"]
    cached = use_cache and _load(job, targets, roots)
    header = False
    if not cached:
        with tempfile.TemporaryDirectory(prefix="hipsynth-") as scratch:
            made, headers, header = _device(job, Path(scratch), use_pch)
            _check_roots(source, headers, roots)
            if use_cache:
                _store(job, made, headers)
            for path, target in zip(made, targets, strict=True):
                shutil.copyfile(path, target)
    kernels = kernels_in(targets[0])
    if not kernels:
        raise BadInput(
            f"{source}: no kernel in the file",
            cause="the compiler found no __global__ function to emit",
            remedy="templates need an instantiation; host-only programs cannot be profiled",
            reason="no_kernel",
        )
    provenance = toolchain.provenance() | {
        "arch": arch,
        "flags": flags,
        "source_sha256": _sha(job.text),
        "code_sha256": hashlib.sha256(targets[0].read_bytes()).hexdigest(),
    }
    seconds = time.monotonic() - start
    return DeviceBuild(targets[0], targets[1], kernels, arch, flags, job.key, provenance, bool(cached), header, seconds)


def compile_host(
    source: Path,
    flags: str,
    out_dir: Path,
    *,
    toolchain: Toolchain | None = None,
    limits: CompileLimits | None = None,
    runtime: Path | None = None,
    use_cache: bool = True,
    use_pch: bool = True,
    roots: Iterable[Path] | None = None,
) -> HostBuild:
    """Compiles the host side of `source` into the executable OUT_DIR/<stem>.

    Of `flags` only what shapes the program's text is used (-D, -U, -I, -std, -include), plus -O1. The executable is
    linked with `runtime` (default: the simulator's HIP runtime library), found again through an rpath.
    Raises as compile_device does.
    """
    parsed = flag_parser.parse(flags)
    toolchain = toolchain or find()
    runtime = runtime or RUNTIME
    if not runtime.exists():
        raise Missing("the HIP runtime library is not built", cause=f"no file {runtime}", remedy="make setup")
    arguments = driver.host_arguments(toolchain, parsed, runtime)
    made = driver.template(toolchain, arguments, parsed)
    job = _Job(toolchain, source, _read(source), "host", parsed, made, limits or CompileLimits())
    start = time.monotonic()
    out_dir.mkdir(parents=True, exist_ok=True)
    target = out_dir / source.stem
    cached = use_cache and _load(job, [target], roots)
    if not cached:
        with tempfile.TemporaryDirectory(prefix="hipsynth-") as scratch:
            built, headers = _host(job, Path(scratch), use_pch)
            _check_roots(source, headers, roots)
            if use_cache:
                _store(job, [built], headers)
            shutil.copyfile(built, target)
    target.chmod(0o755)
    provenance = toolchain.provenance() | {"source_sha256": _sha(job.text)}
    return HostBuild(target, job.key, provenance, bool(cached), time.monotonic() - start)


def _read(source: Path) -> str:
    try:
        return source.read_text()
    except UnicodeDecodeError as error:
        remedy = f"convert it, for example: iconv -f latin1 -t utf-8 {source.name}"
        raise BadInput(f"{source}: is not UTF-8 text", cause=str(error), remedy=remedy) from error
    except OSError as error:
        raise BadInput(f"{source}: cannot be read", cause=str(error), remedy="give the path of a HIP file") from error


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _object(job: _Job, scratch: Path, use_pch: bool) -> tuple[Path, list[Path], bool]:
    """cc1: source -> object file; with the user headers it read, and whether a precompiled header served."""
    words = None
    if use_pch and job.flags.plain and pch.eligible(job.text):
        words = pch.use(job.toolchain, job.template, job.limits)
    try:
        return *_compile_unit(job, scratch, words or job.template.cc1), words is not None
    except CompileFailed as error:
        if words is None or not re.search(r"precompiled|PCH|AST file", error.diagnostics):
            raise
    pch.forget(words)  # a damaged header must not fail programs
    return *_compile_unit(job, scratch, job.template.cc1), False


def _compile_unit(job: _Job, scratch: Path, words: Sequence[str]) -> tuple[Path, list[Path]]:
    made, dependencies = scratch / "unit.o", scratch / "unit.d"
    source = job.source.resolve()
    names = {"{input}": str(source), "{object}": str(made)}
    command = _anchored([names.get(word, word) for word in words], source.parent)
    command += ["-dependency-file", str(dependencies), "-MT", "unit", f"-fmacro-prefix-map={source.parent}/="]
    driver.run_tool(command, scratch, job.limits, str(job.source))
    ours = cache_dir() / "pch"
    headers = [path for path in _dependencies(dependencies) if path != source and path.parent != ours]
    return made, headers


def _anchored(words: list[str], folder: Path) -> list[str]:
    """Relative folders and files of -I, -isystem and -include are meant from the source's folder."""
    result = list(words)
    for position in range(1, len(words)):
        if words[position - 1] in ("-I", "-isystem", "-include"):
            place = folder / words[position]
            result[position] = str(place) if place.exists() else words[position]
    return result


def _dependencies(path: Path) -> list[Path]:
    """The files named in a make-style dependency file."""
    text = path.read_text().replace("\\\n", " ").partition(":")[2]
    return [Path(word.replace("\\ ", " ").replace("$$", "$")) for word in re.findall(r"(?:\\.|\S)+", text)]


def _device(job: _Job, scratch: Path, use_pch: bool) -> tuple[list[Path], list[Path], bool]:
    unit, headers, header = _object(job, scratch, use_pch)
    linked, text = scratch / "kernel.co", scratch / "kernel.s"
    driver.run_tool(job.template.linker([str(unit)], str(linked)), scratch, job.limits, str(job.source))
    command = ["/bin/sh", "-c", 'exec "$0" -d kernel.co > kernel.s', str(job.toolchain.objdump)]
    driver.run_tool(command, scratch, job.limits, str(job.source))
    return [linked, text], headers, header


def _host(job: _Job, scratch: Path, use_pch: bool) -> tuple[Path, list[Path]]:
    unit, headers, _ = _object(job, scratch, use_pch)
    linked = scratch / "program"
    driver.run_tool(job.template.linker([str(unit)], str(linked)), scratch, job.limits, str(job.source))
    return linked, headers


def _check_roots(source: Path, headers: Sequence[Path], roots: Iterable[Path] | None) -> None:
    """Refuses a program that read a file from outside the allowed folders."""
    if roots is None:
        return
    allowed = [root.resolve() for root in roots]
    for path in headers:
        resolved = path.resolve()
        if not any(resolved.is_relative_to(root) for root in allowed):
            raise CompileFailed(f"{source}: includes a file from outside the allowed folders", cause=str(path))


# --- the build cache -----------------------------------------------------------------------------------------------


def _entry(job: _Job) -> Path:
    return cache_dir() / "builds" / job.key[:2] / job.key[2:40]


def _load(job: _Job, targets: Sequence[Path], roots: Iterable[Path] | None) -> bool:
    """Copies a stored build to `targets`; False when there is none or a header it read has changed."""
    entry = _entry(job)
    try:
        headers: dict[str, str] = json.loads((entry / "headers.json").read_text())
        if any(hashlib.sha256(Path(path).read_bytes()).hexdigest() != digest for path, digest in headers.items()):
            return False
        _check_roots(job.source, [Path(path) for path in headers], roots)
        for number, target in enumerate(targets):
            shutil.copyfile(entry / str(number), target)
        os.utime(entry)
    except (OSError, ValueError):
        return False
    return True


def _store(job: _Job, made: Sequence[Path], headers: Sequence[Path]) -> None:
    """Keeps a build: written beside its place and renamed into it. Failing to cache is no error."""
    entry = _entry(job)
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=".partial-", dir=entry.parent))
        for number, path in enumerate(made):
            shutil.copyfile(path, fresh / str(number))
        read = {str(path.resolve()): hashlib.sha256(path.read_bytes()).hexdigest() for path in headers}
        (fresh / "headers.json").write_text(json.dumps(read))
        if entry.exists():
            shutil.rmtree(entry, ignore_errors=True)
        fresh.rename(entry)
        if job.key.startswith("000"):
            prune_builds()
    except OSError:
        return


def prune_builds(keep: int = _KEEP_BUILDS) -> int:
    """Drops the least recently used builds beyond `keep`; returns how many went."""
    entries = sorted((cache_dir() / "builds").glob("*/*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for entry in entries[keep:]:
        shutil.rmtree(entry, ignore_errors=True)
    return max(0, len(entries) - keep)
