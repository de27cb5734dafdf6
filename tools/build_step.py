"""A step of a build: a command that is quiet unless it fails."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class BuildFailure(Exception):
    """A step failed; the message says which and what to do."""


def run_step(command: Sequence[str], failure: str, environment: Mapping[str, str], folder: Path | None = None) -> None:
    """Runs a command. Raises BuildFailed with `failure` and what it printed."""
    process = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if process.returncode:
        raise BuildFailure(f"{failure}\n{process.stdout}{process.stderr}")
