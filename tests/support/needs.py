"""What tests need from the machine. A part that set-up installs and that is missing fails the test, with the remedy.

On a machine that can only have some of the parts, HIPSYNTH_PARTIAL=1 turns these failures into skips.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
from typing import Any, NoReturn

import pytest

from hipsynth.core.errors import MissingDependency

PARTIAL = "HIPSYNTH_PARTIAL"


def partial() -> bool:
    """Whether this machine may lack parts."""
    return bool(os.environ.get(PARTIAL))


def missing(what: str, remedy: str = "run `make setup`") -> NoReturn:
    """Fails the test (at import: its module), or skips it on a partial machine."""
    if partial():
        pytest.skip(what, allow_module_level=True)
    pytest.fail(f"{what}: {remedy}, or set {PARTIAL}=1 to run only what this machine can", pytrace=False)


def package(name: str) -> Any:
    """The module `name`."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing(f"{name} cannot be imported ({error})")


def installed(*names: str) -> None:
    """Needs packages without importing them, for modules of tests: every test process imports all of these."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            missing(f"{name} is not installed")


def core() -> Any:
    """The simulator's native module."""
    return package("hipsynth.simulator._core")


def compiler() -> Any:
    """The AMDGPU toolchain."""
    from hipsynth import toolchain

    try:
        return toolchain.find_toolchain()
    except MissingDependency as error:
        missing(f"no compiler: {error}")


def simulator() -> Any:
    """The `sim` backend, ready to run."""
    from hipsynth.profiling import backends

    core()
    backend = backends.open_backend("sim")
    found = backend.available()
    if not found.ok:
        missing(found.detail)
    return backend


def sandbox() -> None:
    """Bubblewrap, with the right to make namespaces."""
    from hipsynth.toolchain.sandbox import is_available

    if not is_available():
        missing("bubblewrap cannot make a sandbox on this machine")


def make() -> None:
    """make, and the sandbox that it runs in."""
    sandbox()
    if shutil.which("make") is None:
        missing("make is not installed", "apt install make")
