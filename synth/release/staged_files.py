"""Replaces the files of a release so that an interruption costs nothing: the new release is made in a folder inside,
and takes the old one's place once it is complete. What was interrupted then is finished by the next call."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from hipsynth.core.files import RESULT_BYTES, read_regular, write_whole
from hipsynth.core.store.release import CONFIGS, STAGE, STAGED, is_release_file


def stage_files(out: Path) -> Path:
    """A folder for the new release, which begins with the data files of the old one."""
    stage = out / STAGE
    shutil.rmtree(stage, ignore_errors=True)
    for config in CONFIGS:
        (stage / config).mkdir(parents=True)
        for path in (out / config).glob("*.parquet"):
            _link_file(path, stage / config / path.name)
    return stage


def _link_file(path: Path, link: Path) -> None:
    try:
        os.link(path, link)  # files are replaced, never changed
    except OSError:  # a file system without links
        shutil.copyfile(path, link)


def _move_file(source: Path, target: Path) -> None:
    source.replace(target)


def commit_files(out: Path) -> None:
    """Makes what was staged the release."""
    stage = out / STAGE
    names = sorted(path.relative_to(stage).as_posix() for path in stage.rglob("*") if path.is_file())
    write_whole(stage / STAGED, "".join(f"{name}\n" for name in names), durable=True)
    finish_commit(out)


def finish_commit(out: Path) -> None:
    """Finishes an interrupted commit; removes what was staged without one. Does nothing if there is neither."""
    stage = out / STAGE
    if not (stage / STAGED).exists():
        shutil.rmtree(stage, ignore_errors=True)
        return
    names = read_regular(stage / STAGED, RESULT_BYTES, inside=out).decode().splitlines()
    for config in CONFIGS:
        (out / config).mkdir(exist_ok=True)
    for name in names:
        if (stage / name).is_file():  # else it was moved before the interruption
            _move_file(stage / name, out / name)
    for path in (path for config in CONFIGS for path in (out / config).iterdir()):
        name = path.relative_to(out).as_posix()
        if is_release_file(name) and name not in names:
            path.unlink()
    shutil.rmtree(stage)
