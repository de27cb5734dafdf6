"""What a sandbox shows: read-only paths and one writable folder."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hipsynth.profiling.sandbox import bubblewrap
from hipsynth.synth.core.scratch import process_folder, remove_tree, scratch_folder

JOBS = "jobs"  # below the process's scratch folder: the folders that jobs write to


@dataclass(frozen=True)
class View:
    """`read_only`: (path inside, path outside) pairs. `writable`: a folder, at its own path.

    `identities`: device and inode of each path outside. A sandbox keeps showing what it was created with, so it is not
    used for a file that has been replaced since.
    """

    read_only: tuple[tuple[Path, Path], ...]
    writable: Path
    identities: tuple[tuple[int, int], ...]


def jobs_folder() -> Path:
    """The folder of this process below which jobs write; sandboxes with the same read-only paths are then shared."""
    folder = process_folder().resolve() / JOBS
    if not folder.is_dir():
        folder.mkdir(mode=0o755)
        if os.geteuid() == 0:  # jobs of root run as another user
            folder.parent.chmod(0o711)
            folder.chmod(0o711)
    return folder


_in_use: set[str] = set()  # names of the folders of jobs
_changing = threading.Lock()


@contextlib.contextmanager
def job_folder() -> Iterator[Path]:
    """A folder for one job, which writes to it or to a folder inside; it is removed at the end of the block.

    So is what the job left beside it, where later jobs could see it.
    """
    jobs = jobs_folder()
    with contextlib.ExitStack() as stack:
        with _changing:
            folder = stack.enter_context(scratch_folder(within=jobs))
            _in_use.add(folder.name)
        stack.callback(_sweep, jobs, folder.name)
        if os.geteuid() == 0:
            folder.chmod(0o711)
        yield folder


def _sweep(jobs: Path, ended: str) -> None:
    with _changing:
        _in_use.discard(ended)
        for path in jobs.iterdir():
            if path.name not in _in_use:
                remove_tree(path)
                with contextlib.suppress(OSError):
                    path.unlink()


def _after_fork() -> None:
    global _changing
    _changing = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def view_of(scratch: Path, read_only: Iterable[Path], mounts: Mapping[str, Path]) -> View:
    """The view for a job that writes to `scratch` and reads the given paths.

    All jobs of a process with a folder below `jobs_folder` share a view of the process's scratch folder.
    """
    own = process_folder().resolve()
    jobs = own / JOBS
    shared = scratch.is_relative_to(jobs) and not any(Path(inside).is_relative_to(jobs) for inside in mounts)
    pairs = {path.resolve(): path.resolve() for path in read_only if path.exists()}
    if shared:
        bubblewrap.hand_over_below(own, pairs)
        pairs = {inside: outside for inside, outside in pairs.items() if not outside.is_relative_to(own)}
        pairs[own] = own
    pairs |= {Path(inside): outside.resolve() for inside, outside in mounts.items()}
    shown: dict[Path, Path] = {}
    for inside, outside in sorted(pairs.items(), key=lambda pair: (len(pair[0].parts), pair[0])):  # parents first
        if not _covered(inside, outside, shown):
            shown[inside] = outside
    writable = jobs if shared else scratch
    found = [path.stat() for path in (*shown.values(), writable)]
    return View(tuple(shown.items()), writable, tuple((entry.st_dev, entry.st_ino) for entry in found))


def _covered(inside: Path, outside: Path, shown: Mapping[Path, Path]) -> bool:
    """Whether a folder that is already shown has this path in it."""
    return any(
        inside.is_relative_to(folder) and (origin / inside.relative_to(folder)).resolve() == outside
        for folder, origin in shown.items()
    )
