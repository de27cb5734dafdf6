"""Compiles one source file to an object file; a Job holds everything the result depends on."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.errors import BadInput, CompileFailed
from hipsynth.core.files import SOURCE_BYTES, folder_around, leads_somewhere, read_regular
from hipsynth.toolchain import driver, pch
from hipsynth.toolchain import flags as flag_parser
from hipsynth.toolchain.diagnostics import read_messages
from hipsynth.toolchain.driver import CompileLimits
from hipsynth.toolchain.locate import HERE, Toolchain

CACHE_VERSION = 3  # of builds; raise it with the recipe of precompiled headers (pch.py), too
# Text that may read files of the source's folder: all but `#include <name>`.
_INCLUDES_FILES = re.compile(
    r"(?:#|%:)\s*(?:(?:include(?:_next)?|import|embed)\b(?!\s*<)|/\*|\\\r?\n)|incbin|\.include\b|__has_(?:include|embed)"
)
_NAMES_ITS_FILE = re.compile(r"__FILE__|__FILE_NAME__|__BASE_FILE__|__builtin_FILE|assert|source_location")
# Folders whose headers the compiler lists only if it is told to list those of the system, too.
_SYSTEM_FOLDER_FLAGS = frozenset({"-isystem", "-idirafter"})
# Lines that are comments whatever stands around them, such as the marks of headers that were written in.
_COMMENT_LINE = re.compile(r"^[ \t]*//(?:(?!\*/)[^\\\n])*$", re.MULTILINE)


@dataclass(frozen=True)
class CompileJob:
    """One compile: everything that its result depends on."""

    toolchain: Toolchain
    source: Path
    text: str
    side: str  # "device-gfx90a", "host"
    flags: flag_parser.Flags
    template: driver.DriverCommands
    limits: CompileLimits
    shows: tuple[Path, ...] = ()  # what the compiler sees besides the toolchain
    extra: tuple[str, ...] = ()  # further cc1 arguments; not in the key, so `side` must distinguish them

    @property
    def key(self) -> str:
        """Build cache key. Contains the source's folder and name only if the result can depend on them."""
        places = {str(self.toolchain.root): "{root}", str(HERE): "{here}"}  # independent of the checkout's path
        words = [_replace_paths(word, places) for word in (*self.template.cc1, *self.template.link)]
        parts: list[object] = [CACHE_VERSION, self.side, self.toolchain.identity, words]
        reads_files = self.flags.names_files or _may_include_files(self.text)
        if reads_files or _NAMES_ITS_FILE.search(self.text):  # so may what it includes
            parts.append(self.source.name)
        if reads_files:
            parts.append(str(self.source.resolve().parent))
        if self.flags.names_files:
            parts.append(str(Path.cwd()))
        digest = hashlib.sha256(json.dumps(parts).encode())
        digest.update(self.text.encode(errors="surrogateescape"))
        return digest.hexdigest()


def _replace_paths(word: str, places: Mapping[str, str]) -> str:
    for place, name in places.items():
        word = word.replace(place, name)
    return word


def new_job(
    toolchain: Toolchain,
    source: Path,
    side: str,
    flags: flag_parser.Flags,
    arguments: Sequence[str],
    limits: CompileLimits | None,
    roots: Iterable[Path] | None,
) -> CompileJob:
    """The job that compiles `source` with driver `arguments`.

    `roots`: the folders that the program may include files from, besides the toolchain's; default: its own folder and
    those that its flags name. Raises BadInput for a source that is no regular file of at most 8 MiB or a link that
    leads out of these folders, UsageError for flags that the compiler rejects.
    """
    limits = limits or CompileLimits()
    text = read_source(source, roots)
    commands = driver.driver_commands(toolchain, arguments, flags, limits)
    shows = _readable_paths(source, text, flags) if roots is None else tuple(root.absolute() for root in roots)
    return CompileJob(toolchain, source, text, side, flags, commands, limits, shows)


def _readable_paths(source: Path, text: str, flags: flag_parser.Flags) -> tuple[Path, ...]:
    """What a program on its own may read: its source, its folder if it includes files of it, and what flags name."""
    source_path = source.resolve()
    needs_folder = flags.names_files or _may_include_files(text)
    readable = [source_path.parent if needs_folder and source_path.parent != Path("/") else source_path]
    readable += paths_in_flags(flags, source_path.parent)
    if any(path.resolve() == Path("/") for path in readable):
        raise BadInput(f"{source}: -I / would show the whole file system to the program", remedy="name its folders")
    return tuple(dict.fromkeys(readable))


def _may_include_files(text: str) -> bool:
    """Whether a source may read files of its folder: a build of one that does not is that of its text anywhere."""
    return _INCLUDES_FILES.search(_COMMENT_LINE.sub("", text)) is not None


def paths_in_flags(flags: flag_parser.Flags, folder: Path) -> list[Path]:
    """The existing folders and files that -I, -include and the like name, under the names that the compiler is given.

    `folder`: that of the source, which relative names start from.
    """
    words = _anchor_paths(list(flags.device), folder)
    paths: list[Path] = []
    for position, word in enumerate(words):
        is_path = word in flag_parser.PATH_FLAGS
        named = word[2:] if word.startswith("-I") else words[position + 1] if is_path else ""
        if named and leads_somewhere(named):
            paths.append(Path(named).absolute())
    return paths


def read_source(source: Path, roots: Iterable[Path] | None = None) -> str:
    """A source's text; bytes that are not UTF-8 (old encodings in comments) are kept as surrogates. Raises BadInput."""
    allowed = [source.absolute().parent] if roots is None else list(roots)
    return read_regular(source, SOURCE_BYTES, inside=folder_around(source, allowed)).decode(errors="surrogateescape")


def source_sha256(text: str) -> str:
    """SHA-256 of a source's text as read by read_source."""
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def object_of(job: CompileJob, scratch: Path, use_pch: bool) -> tuple[Path, list[Path], bool]:
    """Compiles a source; returns the object file, the user headers read, and whether a precompiled header was used.

    Raises CompileFailed with the diagnostics.
    """
    words = None
    if use_pch and job.flags.allows_pch and pch.is_eligible(job.text):
        words = pch.use_header(job.toolchain, job.template, job.limits)
    try:
        return *_compile_unit(job, scratch, words or job.template.cc1), words is not None
    except CompileFailed as error:
        if words is None or not read_messages(error.diagnostics).precompiled_header:
            raise
    pch.forget_header(words)  # the precompiled header is damaged: retry without it
    return *_compile_unit(job, scratch, job.template.cc1), False


def _compile_unit(job: CompileJob, scratch: Path, words: Sequence[str]) -> tuple[Path, list[Path]]:
    object_path, dependencies = scratch / "unit.o", scratch / "unit.d"
    source = job.source.resolve()
    names = {"{input}": str(source), "{object}": str(object_path)}
    command = _anchor_paths([names.get(word, word) for word in words], source.parent)
    command += [
        *job.extra,
        "-dependency-file",
        str(dependencies),
        "-MT",
        "unit",
        f"-fmacro-prefix-map={source.parent}/=",
    ]
    lists_all = not _SYSTEM_FOLDER_FLAGS.isdisjoint(job.flags.device)
    command += ["-sys-header-deps"] if lists_all else []
    driver.run_tool(job.toolchain, command, scratch, job.limits, str(job.source), shows=job.shows)
    _require_unchanged(job)
    ours = driver.precompiled_folder()
    headers = [path for path in _read_dependencies(dependencies) if path != source and path.parent != ours]
    return object_path, _leave_out_system(job, headers) if lists_all else headers


def _require_unchanged(job: CompileJob) -> None:
    """The compiler has read the source once more: its result must be that of the text which the job says. Raises
    BadInput."""
    if read_regular(job.source, SOURCE_BYTES).decode(errors="surrogateescape") != job.text:
        raise BadInput(f"{job.source} changed while it was compiled", remedy="run the command again")


def _leave_out_system(job: CompileJob, headers: Iterable[Path]) -> list[Path]:
    """Headers without those of the toolchain and the system, unless they lie in a folder that flags name."""
    named = [path.resolve() for path in paths_in_flags(job.flags, job.source.resolve().parent)]
    system = [*(path.resolve() for path in job.toolchain.folders), Path("/usr")]

    def is_users(path: Path) -> bool:
        resolved = path.resolve()
        return any(map(resolved.is_relative_to, named)) or not any(map(resolved.is_relative_to, system))

    return [path for path in headers if is_users(path)]


def _anchor_paths(words: list[str], folder: Path) -> list[str]:
    """Resolves relative paths of -I, -include and the like against the source's folder, then the working folder."""
    result = list(words)
    for position, prefix, name in _find_paths(words):
        place = next((place for place in _list_anchors(name, folder) if leads_somewhere(place)), name)
        result[position] = f"{prefix}{place}"
    return result


def _find_paths(words: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """The paths of -I, -include and the like: position of the word, what precedes the path in it, and the path."""
    for position, word in enumerate(words):
        if word.startswith("-I") and len(word) > 2:
            yield position, "-I", word[2:]
        elif position and words[position - 1] in ("-I", *flag_parser.PATH_FLAGS):
            yield position, "", word


def _list_anchors(name: str, folder: Path) -> list[Path]:
    """Where a path of a flag may lead: from the source's folder, then from the working folder."""
    return list(dict.fromkeys(base / name for base in (folder, Path.cwd())))


def list_missing_paths(flags: flag_parser.Flags, folder: Path) -> list[Path]:
    """The places at which a path of a flag would be found before the one that is there, if there is one."""
    missing: list[Path] = []
    for _, _, name in _find_paths(flags.device):
        missing += itertools.takewhile(lambda place: not leads_somewhere(place), _list_anchors(name, folder))
    return missing


def _read_dependencies(path: Path) -> list[Path]:
    """The files named in a make-style dependency file; a line break that is not escaped is part of a name."""
    text = (
        read_regular(path, SOURCE_BYTES, inside=path.parent)
        .decode(errors="surrogateescape")
        .replace("\\\n", " ")
        .partition(":")[2]
    )
    words = re.findall(r"(?:\\ |[^ ])+", text.removesuffix("\n"))
    return [Path(re.sub(r"\\([ #])", r"\1", word).replace("$$", "$")) for word in words]


OUTSIDE = "includes a file from outside the allowed folders"


def check_shown(job: CompileJob, headers: Iterable[Path]) -> None:
    """Raises CompileFailed if a header lies outside what the job may read.

    In the sandbox the compiler cannot read such a header, but without it or in another program's build it could.
    """
    allowed = [path.resolve() for path in (*job.shows, *job.toolchain.folders)]
    for path in headers:
        resolved = path.resolve()
        if not any(resolved.is_relative_to(root) for root in allowed):
            raise CompileFailed(f"{job.source}: {OUTSIDE}", cause=str(path))
