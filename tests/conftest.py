"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from pathlib import Path

import needs
import pytest
from one_target import mark_other_cases, mark_other_targets
from skip_rule import pytest_make_collect_report, pytest_runtest_makereport  # noqa: F401 (hooks)

from hipsynth.core.errors import MissingDependency
from hipsynth.source.config import frontend_config
from hipsynth.source.parse import ParseConfig
from hipsynth.toolchain import sandbox

# One thread for each test process: they fill the cores already. Read when torch is imported, which modules of tests do.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def pytest_report_header() -> str:
    """Where no sandbox can be made, our own programs run without one; tests of the sandbox itself fail."""
    if sandbox.is_available():
        return "programs run in the sandbox"
    os.environ.setdefault("HIPSYNTH_SANDBOX", "off")
    return "WARNING: no sandbox can be made here: programs run without isolation"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported while tests are collected stays, so that no garbage is looked for in it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """Lets the end of the process collect what stayed."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is marked
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In `make test`, each case runs on one architecture or device, and of some tests only a part of the cases."""
    mark_other_targets(items)
    mark_other_cases(items)


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """Restores SIGINT: a background process inherits it ignored, and so would the programs that tests interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def config() -> ParseConfig:
    """The front end's parser settings on this machine."""
    try:
        return frontend_config()
    except MissingDependency as error:
        needs.missing(str(error))


@pytest.fixture
def sandboxed() -> None:
    """Fails the test where no sandbox can be made."""
    needs.sandbox()


@pytest.fixture
def with_make() -> None:
    """Fails the test where make cannot run in the sandbox."""
    needs.make()


@pytest.fixture
def system_python() -> None:
    """Fails the test where no Python lies under /usr, which every sandboxed program sees."""
    if not Path("/usr/bin/python3").exists():
        needs.missing("no /usr/bin/python3", "apt install python3")
