"""HIP kernels profiled, predicted, compared, verified and optimized without a GPU.

    import hipsynth
    hipsynth.profile("kernel.hip", arch="gfx942").to_pandas()

The functions are those of the command line; each is imported when it is first used. What they raise is a HipsynthError;
its kinds are in `hipsynth.core.errors`.

The symbolic links next to this file are the contents of the wheel: `hipsynth.profiling` is the folder `profiling/` of
the checkout, and so on. The common root keeps the general folder names from clashing with other packages: the standard
library of Python 3.15 has a `profiling` module.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hipsynth.core.errors import HipsynthError
    from hipsynth.library.compare import compare
    from hipsynth.library.optimize import optimize
    from hipsynth.library.predict import predict
    from hipsynth.library.profile import profile
    from hipsynth.library.verify import verify

    __version__: str

__all__ = ["HipsynthError", "compare", "optimize", "predict", "profile", "verify"]


def __getattr__(name: str) -> object:
    if name == "__version__":
        value: object = _read_version()
    elif name in __all__:
        module = "core.errors" if name == "HipsynthError" else f"library.{name}"
        value = getattr(importlib.import_module(f"hipsynth.{module}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _read_version() -> str:
    """The installed version; "0+unknown" where the package is used without being installed."""
    metadata = importlib.import_module("importlib.metadata")
    try:
        return str(metadata.version("hipsynth"))
    except metadata.PackageNotFoundError:
        return "0+unknown"


def __dir__() -> list[str]:
    hidden = {"TYPE_CHECKING", "annotations", "importlib", "_read_version"}
    return sorted({*globals(), *__all__, "__version__"} - hidden)
