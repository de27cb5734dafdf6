"""The cache folder, for everything that can be regenerated: header tree, precompiled headers, builds, models."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def cache_dir() -> Path:
    """$HIPSYNTH_CACHE, else <checkout>/.cache/hipsynth, else $XDG_CACHE_HOME/hipsynth (~/.cache/hipsynth)."""
    chosen = os.environ.get("HIPSYNTH_CACHE")
    if chosen:
        return Path(chosen).expanduser().resolve()
    if (REPOSITORY / "pyproject.toml").exists() and os.access(REPOSITORY, os.W_OK):
        return REPOSITORY / ".cache" / "hipsynth"
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "hipsynth"
