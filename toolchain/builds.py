"""Content-addressed build cache: an entry holds the outputs, the hashes of the user headers that were read, and the
paths at which a header would have been read before them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from hipsynth.core.cache import cache_dir
from hipsynth.core.errors import BadInput
from hipsynth.core.files import SOURCE_BYTES, copy_regular, read_regular, replace_atomically
from hipsynth.toolchain.translation_unit import CompileJob, check_shown, list_missing_paths, paths_in_flags

_KEEP_BUILDS = 20_000
_NAMED_HEADER = re.compile(
    r"(?:#[ \t]*include(?:_next)?|__has_include(?:_next)?[ \t]*\()(?:[ \t]|/\*(?:[^*\n]|\*(?!/))*\*/)*"
    r'["<](?P<name>[^">\n]+)[">]'
)
_ASSEMBLER_FILE = re.compile(r"incbin|\.include\b")  # directives whose files the compiler does not list


def entry_of(job: CompileJob) -> Path:
    """The cache folder of a build (it may not exist)."""
    return cache_dir() / "builds" / job.key[:2] / job.key[2:40]


def load_build(job: CompileJob, targets: Sequence[Path]) -> bool:
    """Copies a stored build to `targets`; False if there is none, or a header has changed, has come into being where it
    would be read, or may not be read now."""
    entry = entry_of(job)
    try:
        headers: dict[str, str] = json.loads((entry / "headers.json").read_text())
        if any(_hash_header(Path(path)) != digest for path, digest in headers.items()):
            return False
        if any(os.path.lexists(path) for path in json.loads((entry / "absent.json").read_text())):
            return False
        check_shown(job, map(Path, headers))
        for number, target in enumerate(targets):
            shutil.copyfile(entry / str(number), target)
        os.utime(entry)
    except (OSError, ValueError, TypeError, AttributeError, BadInput):
        return False
    return True


def _hash_header(header: Path) -> str:
    return hashlib.sha256(read_regular(header, SOURCE_BYTES)).hexdigest()


def _read_texts(job: CompileJob, headers: Sequence[Path]) -> dict[Path, str]:
    """The source and the headers, by their paths."""
    texts = {path.resolve(): read_regular(path, SOURCE_BYTES).decode(errors="surrogateescape") for path in headers}
    return {job.source.resolve(): job.text} | texts


def _list_absent(job: CompileJob, texts: Mapping[Path, str]) -> list[str]:
    """Where a header that is not there would be found by a name in the source or a header: in the file's own folder, or
    in one that the compiler searches. Also names of __has_include, and folders that flags name."""
    source_folder = job.source.resolve().parent
    searched = (*job.shows, *paths_in_flags(job.flags, source_folder))
    folders = [path for path in dict.fromkeys(searched) if path.is_dir()]
    places = {
        folder / name
        for path, text in texts.items()
        for name in {match["name"] for match in _NAMED_HEADER.finditer(text)}
        for folder in (path.parent, *folders)
    }
    places.update(list_missing_paths(job.flags, source_folder))
    return sorted(str(place) for place in places if not os.path.lexists(place))


def store_build(job: CompileJob, outputs: Sequence[Path], headers: Sequence[Path], began: float) -> None:
    """Stores a build, unless files that the compiler does not list may be part of it, or a header was written after the
    compile `began` (as time.time()). Failure to cache is not an error."""
    entry = entry_of(job)
    try:
        if any(path.stat().st_mtime > began for path in headers):
            return
        texts = _read_texts(job, headers)
        if any(map(_ASSEMBLER_FILE.search, texts.values())):
            return
        with replace_atomically(entry) as fresh:
            fresh.mkdir()
            for number, path in enumerate(outputs):
                copy_regular(path, fresh / str(number))
            read = {str(path.resolve()): _hash_header(path) for path in headers}
            (fresh / "headers.json").write_text(json.dumps(read))
            (fresh / "absent.json").write_text(json.dumps(_list_absent(job, texts)))
        if job.key.startswith("000"):
            prune_builds()
    except (OSError, BadInput):
        return


def prune_builds(keep: int = _KEEP_BUILDS) -> int:
    """Deletes all but the `keep` most recently used builds; returns the number deleted."""
    entries = sorted((cache_dir() / "builds").glob("*/*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for entry in entries[keep:]:
        shutil.rmtree(entry, ignore_errors=True)
    return max(0, len(entries) - keep)
