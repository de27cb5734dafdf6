"""Placeholder until the real module is merged."""
from __future__ import annotations
import atexit, os, shutil, tempfile
from collections.abc import Iterator
import contextlib
from pathlib import Path
_made: dict[int, Path] = {}
def process_folder() -> Path:
    pid = os.getpid()
    if pid not in _made:
        _made[pid] = Path(tempfile.mkdtemp(prefix="hipsynth-")).resolve()
        atexit.register(shutil.rmtree, _made[pid], True)
    return _made[pid]
@contextlib.contextmanager
def scratch_folder(prefix: str = "work-", *, within: Path | None = None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=prefix, dir=within or process_folder()) as name:
        yield Path(name)
