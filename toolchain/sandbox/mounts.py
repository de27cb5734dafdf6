"""The mounts of a sandbox: read-only paths and one writable folder."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.files import leads_to_file
from hipsynth.core.folders import is_shared_folder
from hipsynth.core.languages import INCLUDED_SUFFIXES
from hipsynth.core.scratch import PREFIX, process_folder, scratch_folder
from hipsynth.toolchain.sandbox import bubblewrap

JOBS = "jobs"  # below the process's scratch folder: the folders that jobs write to
_JOB = re.compile(rf"(?:/[\w.+@~-]+)*/{PREFIX}[^/\s]+/{JOBS}/[\w.-]+")


@dataclass(frozen=True)
class SandboxView:
    """`read_only`: (path inside, path outside) pairs. `writable`: where jobs write at most `writable_bytes`.

    `identities`: device and inode of each path outside. A sandbox keeps showing what it was created with, so it is not
    used for a file that has been replaced since.
    """

    read_only: tuple[tuple[Path, Path], ...]
    writable: Path
    writable_bytes: int
    identities: tuple[tuple[int, int], ...]


def jobs_folder() -> Path:
    """The folder of this process with those of its jobs; sandboxes with the same read-only paths are then shared."""
    folder = process_folder().resolve() / JOBS
    if not folder.is_dir():
        folder.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0:  # jobs of root run as another user
            folder.parent.chmod(0o711)
    return folder


@contextlib.contextmanager
def job_folder() -> Iterator[Path]:
    """A folder for one job, which writes to it or to a folder inside; it is removed at the end of the block."""
    with scratch_folder(within=jobs_folder()) as folder:
        yield folder


def hide_job_folders(text: str) -> str:
    """The text with "<scratch>" for the folders of jobs, of this process or of one whose results are used again."""
    return _JOB.sub("<scratch>", text)


def view_of(scratch: Path, writable_bytes: int, read_only: Iterable[Path], mounts: Mapping[str, Path]) -> SandboxView:
    """The view for a job that writes to `scratch` and reads the given paths.

    All jobs of a process with a folder below `jobs_folder` share a view of the process's scratch folder.
    """
    own_folder = process_folder().resolve()
    jobs = own_folder / JOBS
    shared = scratch.is_relative_to(jobs) and not any(Path(inside).is_relative_to(jobs) for inside in mounts)
    pairs = {path.resolve(): path.resolve() for path in _list_readable(read_only) if path.exists()}
    if shared:
        bubblewrap.hand_over_below(own_folder, pairs)
        pairs = {inside: outside for inside, outside in pairs.items() if not outside.is_relative_to(own_folder)}
        pairs[own_folder] = own_folder
    pairs |= {Path(inside): outside.resolve() for inside, outside in mounts.items()}
    paths_shown: dict[Path, Path] = {}
    for inside, outside in sorted(pairs.items(), key=lambda pair: (len(pair[0].parts), pair[0])):  # parents first
        if not _is_covered(inside, outside, paths_shown):
            paths_shown[inside] = outside
    statuses = [path.stat() for path in paths_shown.values()]
    identities = tuple((entry.st_dev, entry.st_ino) for entry in statuses)
    return SandboxView(tuple(paths_shown.items()), jobs if shared else scratch, writable_bytes, identities)


def _list_readable(paths: Iterable[Path]) -> Iterator[Path]:
    """The paths, but of a folder that holds more than a program only the files that a program in it may include."""
    for path in paths:
        if not is_shared_folder(path.resolve()):
            yield path
            continue
        listed = (file for file in sorted(path.iterdir()) if file.suffix in INCLUDED_SUFFIXES)
        yield from (file for file in listed if leads_to_file(file))


def _is_covered(inside: Path, outside: Path, paths_shown: Mapping[Path, Path]) -> bool:
    """Whether a folder that is already shown has this path in it."""
    return any(
        inside.is_relative_to(folder) and (origin / inside.relative_to(folder)).resolve() == outside
        for folder, origin in paths_shown.items()
    )
