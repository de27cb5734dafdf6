"""The backends by name; a backend's module is imported only when it is used."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from hipsynth.core.errors import UsageError, suggest_name
from hipsynth.profiling.backends.protocol import Backend


@dataclass(frozen=True)
class BackendEntry:
    """Module and class of a backend, and whether it takes a folder."""

    module: str
    kind: str
    takes_path: bool


REGISTRY = {
    "sim": BackendEntry("hipsynth.profiling.backends.sim", "SimBackend", takes_path=False),
    "preview": BackendEntry("hipsynth.profiling.backends.preview", "PreviewBackend", takes_path=False),
    "recorded": BackendEntry("hipsynth.profiling.backends.recorded", "RecordedBackend", takes_path=True),
    "rocprof": BackendEntry("hipsynth.profiling.backends.rocprof", "RocprofBackend", takes_path=True),
}


def open_backend(spec: str, **options: Any) -> Backend:
    """Opens the backend `spec`: a name, or `name:path` for backends that take a folder (recorded, rocprof).

    Raises UsageError, listing the valid names, for an unknown name.
    """
    name, _, path = spec.partition(":")
    if name not in REGISTRY:
        raise UsageError(
            f"no backend called {name!r}", cause=suggest_name(name, REGISTRY), remedy=f"one of: {', '.join(REGISTRY)}"
        )
    entry = REGISTRY[name]
    if path:
        if not entry.takes_path:
            raise UsageError(f"backend {name} takes no path", remedy=f"--backend {name}")
        options["path"] = path
    backend: Backend = getattr(importlib.import_module(entry.module), entry.kind)(**options)
    return backend
