"""The backends by name, imported only when asked for."""

from __future__ import annotations

import importlib
from typing import Any

from hipsynth.profiling.backends.protocol import Backend
from hipsynth.synth.core.errors import UsageError

# name -> (module, class, what it is)
REGISTRY = {
    "sim": ("hipsynth.profiling.backends.sim", "SimBackend", "executes the compiled machine code on the CPU"),
    "recorded": ("hipsynth.profiling.backends.recorded", "RecordedBackend", "replays captured results"),
    "rocprof": ("hipsynth.profiling.backends.rocprof", "RocprofBackend", "ROCm's profiler on an AMD GPU"),
}


def names() -> tuple[str, ...]:
    return tuple(REGISTRY)


def get(spec: str, **options: Any) -> Backend:
    """The backend called `spec`: a name, or `name:path` where the backend takes a folder (recorded, rocprof).

    Raises UsageError with the list of names for an unknown one.
    """
    name, _, path = spec.partition(":")
    if name not in REGISTRY:
        raise UsageError(f"no backend called {name!r}", remedy=f"one of: {', '.join(REGISTRY)}")
    module, kind, _ = REGISTRY[name]
    if path:
        if name == "sim":
            raise UsageError(f"backend {name} takes no path", remedy="--backend sim")
        options["path"] = path
    backend: Backend = getattr(importlib.import_module(module), kind)(**options)
    return backend
