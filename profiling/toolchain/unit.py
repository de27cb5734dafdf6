"""Compiles one source file to an object file; a Job holds everything the result depends on."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hipsynth.profiling.toolchain import driver, pch
from hipsynth.profiling.toolchain import flags as flag_parser
from hipsynth.profiling.toolchain.driver import CompileLimits
from hipsynth.profiling.toolchain.locate import HERE, Toolchain
from hipsynth.synth.core.cache import cache_dir
from hipsynth.synth.core.errors import BadInput, CompileFailed

CACHE_VERSION = 2


@dataclass(frozen=True)
class Job:
    """One compile: everything that its result depends on."""

    toolchain: Toolchain
    source: Path
    text: str
    side: str  # "device-gfx90a", "host"
    flags: flag_parser.Flags
    template: driver.Template
    limits: CompileLimits
    extra: tuple[str, ...] = ()  # further cc1 arguments; not in the key, so `side` must distinguish them

    @property
    def key(self) -> str:
        """Build cache key. Contains the source's folder and name only if the result can depend on them."""
        places = {str(self.toolchain.root): "{root}", str(HERE): "{here}"}  # independent of the checkout's path
        words = [_replaced(word, places) for word in (*self.template.cc1, *self.template.link)]
        parts: list[object] = [CACHE_VERSION, self.side, self.toolchain.identity, words]
        if re.search(r"__FILE__|__FILE_NAME__|__BASE_FILE__|assert|source_location", self.text):
            parts.append(self.source.name)
        if self.flags.names_files or re.search(r"^\s*#\s*(include|embed)\s*(\"|[A-Z_])", self.text, re.MULTILINE):
            parts.append(str(self.source.resolve().parent))
        if self.flags.names_files:
            parts.append(str(Path.cwd()))
        digest = hashlib.sha256(json.dumps(parts).encode())
        digest.update(self.text.encode(errors="surrogateescape"))
        return digest.hexdigest()


def _replaced(word: str, places: Mapping[str, str]) -> str:
    for place, name in places.items():
        word = word.replace(place, name)
    return word


def read_source(source: Path) -> str:
    """A source's text; bytes that are not UTF-8 (old encodings in comments) are kept as surrogates. Raises BadInput."""
    try:
        return source.read_bytes().decode(errors="surrogateescape")
    except OSError as error:
        raise BadInput(f"{source}: cannot be read", cause=str(error), remedy="give the path of a HIP file") from error


def sha(text: str) -> str:
    """SHA-256 of a source's text as read by read_source."""
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def object_of(job: Job, scratch: Path, use_pch: bool) -> tuple[Path, list[Path], bool]:
    """Compiles a source; returns the object file, the user headers read, and whether a precompiled header was used.

    Raises CompileFailed with the diagnostics.
    """
    words = None
    if use_pch and job.flags.plain and pch.eligible(job.text):
        words = pch.use(job.toolchain, job.template, job.limits)
    try:
        return *_compile_unit(job, scratch, words or job.template.cc1), words is not None
    except CompileFailed as error:
        if words is None or not re.search(r"precompiled|PCH|AST file", error.diagnostics):
            raise
    pch.forget(words)  # the precompiled header is damaged: retry without it
    return *_compile_unit(job, scratch, job.template.cc1), False


def _compile_unit(job: Job, scratch: Path, words: Sequence[str]) -> tuple[Path, list[Path]]:
    made, dependencies = scratch / "unit.o", scratch / "unit.d"
    source = job.source.resolve()
    names = {"{input}": str(source), "{object}": str(made)}
    command = _anchored([names.get(word, word) for word in words], source.parent)
    command += [
        *job.extra,
        "-dependency-file",
        str(dependencies),
        "-MT",
        "unit",
        f"-fmacro-prefix-map={source.parent}/=",
    ]
    driver.run_tool(command, scratch, job.limits, str(job.source))
    ours = cache_dir() / "pch"
    headers = [path for path in _dependencies(dependencies) if path != source and path.parent != ours]
    return made, headers


def _anchored(words: list[str], folder: Path) -> list[str]:
    """Resolves relative paths of -I, -isystem and -include against the source's folder, then the working folder."""
    result = list(words)
    for position in range(1, len(words)):
        if words[position - 1] in ("-I", "-isystem", "-include"):
            places = [base / words[position] for base in (folder, Path.cwd())]
            result[position] = str(next((place for place in places if place.exists()), words[position]))
    return result


def _dependencies(path: Path) -> list[Path]:
    """The files named in a make-style dependency file."""
    text = path.read_text(errors="surrogateescape").replace("\\\n", " ").partition(":")[2]
    return [Path(word.replace("\\ ", " ").replace("$$", "$")) for word in re.findall(r"(?:\\.|\S)+", text)]


OUTSIDE = "includes a file from outside the allowed folders"


def check_roots(source: Path, headers: Sequence[Path], roots: Iterable[Path] | None) -> None:
    """Raises CompileFailed if a header lies outside all `roots`; None allows any."""
    if roots is None:
        return
    allowed = [root.resolve() for root in roots]
    for path in headers:
        resolved = path.resolve()
        if not any(resolved.is_relative_to(root) for root in allowed):
            raise CompileFailed(f"{source}: {OUTSIDE}", cause=str(path))
