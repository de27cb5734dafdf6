"""HIP kernels profiled, predicted, compared, verified and optimized without a GPU.

    import hipsynth
    hipsynth.profile("kernel.hip", arch="gfx942").to_pandas()

The functions are those of the command line; each is imported when it is first used. Errors: `hipsynth.core.errors`.

The symbolic links next to this file are the contents of the wheel: `hipsynth.profiling` is the folder `profiling/` of
the checkout, and so on. The common root keeps the general folder names from clashing with other packages: the standard
library of Python 3.15 has a `profiling` module.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hipsynth.library.compare import compare
    from hipsynth.library.optimize import optimize
    from hipsynth.library.predict import predict
    from hipsynth.library.profile import profile
    from hipsynth.library.verify import verify

__all__ = ["compare", "optimize", "predict", "profile", "verify"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function: object = getattr(importlib.import_module(f"hipsynth.library.{name}"), name)
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
