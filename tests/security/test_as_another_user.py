"""All attacks again as an ordinary user: there, sandboxes are made in other ways (user namespaces) than for root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hipsynth.toolchain import locate

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"
NOBODY = 65534
FILES = [
    "test_sandbox_privileges", "test_results",
    *(pytest.param(name, marks=pytest.mark.full)
      for name in ("test_between_jobs", "test_hostile_sources", "test_build_folders")),
]  # fmt: skip


def environment(folder: Path) -> dict[str, str]:
    """For a Python that the user may run: this one's packages, a cache of its own with this one's header tree."""
    cache = folder / "cache"
    cache.mkdir()
    shutil.copytree(locate.tree_path(), cache / locate.tree_path().name, symlinks=True)
    for path in (cache / locate.tree_path().name).rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    packages = [str(ROOT), *(path for path in sys.path if "site-packages" in path and os.access(path, os.R_OK))]
    return {
        "PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder), "HIPSYNTH_CACHE": str(cache),
        "PYTHONPATH": os.pathsep.join(packages), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not below pytest's own folders, which only this user may enter."""
    with tempfile.TemporaryDirectory(prefix="hipsynth-user-") as made:
        yield Path(made)


@pytest.mark.skipif(os.geteuid() != 0, reason="is an ordinary user already")
@pytest.mark.parametrize("name", FILES)
def test_the_attacks_of(name: str, folder: Path) -> None:
    env = environment(folder)
    for path in (folder, folder / "cache"):
        os.chown(path, NOBODY, NOBODY)

    def as_user(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PYTHON, *words], cwd=ROOT, env=env, user=NOBODY, group=NOBODY, extra_groups=[], text=True, timeout=900,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip

    usable = as_user("-c", "import pytest, numpy, hipsynth.simulator._core")
    if usable.returncode != 0:
        pytest.skip(f"no Python that another user may run has the packages: {usable.stdout[-200:]}")
    done = as_user("-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/security/{name}.py")
    assert done.returncode == 0, done.stdout[-4000:]
