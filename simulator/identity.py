"""What identifies the simulator as it is built here: its sources, and the tables that it reads."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from hipsynth.simulator import api, devices

TABLES = Path(__file__).parent / "isa"


@functools.cache
def build_identity() -> str:
    """Hashes of the simulator's sources and tables, e.g. "0.1.0-1f2e3d4c-5b6a7988"; raises MissingDependency if not
    built.

    Changes with any of them, and so with what can run: for caches that hold failures, too. Labels carry the version.
    """
    digest = hashlib.sha256()
    for path in sorted([*devices.FOLDER.glob("*.toml"), *TABLES.glob("*.toml")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{api.core_version()}-{digest.hexdigest()[:8]}"
