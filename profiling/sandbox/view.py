"""What a sandbox shows: read-only paths and one writable folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hipsynth.synth.core.scratch import process_folder

JOBS = "jobs"  # below the process's scratch folder: the folders that jobs write to


@dataclass(frozen=True)
class View:
    """`read_only`: (path inside, path outside) pairs. `writable`: a folder, at its own path."""

    read_only: tuple[tuple[Path, Path], ...]
    writable: Path | None


def jobs_folder() -> Path:
    """The folder of this process below which jobs write; sandboxes with the same read-only paths are then shared."""
    folder = process_folder() / JOBS
    if not folder.is_dir():
        folder.mkdir(mode=0o755)
        if os.geteuid() == 0:  # jobs of root run as another user
            folder.parent.chmod(0o711)
            folder.chmod(0o711)
    return folder


def view_of(scratch: Path, read_only: Iterable[Path], mounts: Mapping[str, Path]) -> View:
    """The view for a job that writes to `scratch` and reads the given paths.

    All jobs of a process with a folder below `jobs_folder` share a view of the process's scratch folder.
    """
    own = process_folder()
    jobs = own / JOBS
    shared = scratch.is_relative_to(jobs) and not any(Path(inside).is_relative_to(jobs) for inside in mounts)
    pairs = {path.resolve(): path.resolve() for path in read_only}
    if shared:
        pairs = {inside: outside for inside, outside in pairs.items() if not outside.is_relative_to(own)}
        pairs[own] = own
    pairs |= {Path(inside): outside.resolve() for inside, outside in mounts.items()}
    # Parents first: bubblewrap mounts in this order.
    ordered = sorted(pairs.items(), key=lambda pair: (len(pair[0].parts), pair[0]))
    return View(tuple(ordered), jobs if shared else scratch)
