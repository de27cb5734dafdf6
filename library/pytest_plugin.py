"""The virtual GPU in pytest: tests launch Triton kernels and assert on what they do, with no GPU (pytest11)."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from hipsynth.core.errors import HipsynthError

if TYPE_CHECKING:
    from _pytest.config.argparsing import Parser

OPTION, SETTING = "--virtual-gpu", "virtual_gpu"


def pytest_addoption(parser: Parser) -> None:
    """Adds the option --virtual-gpu, and the setting `virtual_gpu`."""
    text = "run all tests with a virtual AMD GPU as cuda:0, such as mi300x or mi250"
    parser.getgroup("hipsynth").addoption(OPTION, metavar="DEVICE", help=text)
    parser.addini(SETTING, f"as {OPTION}", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Activates the chosen device before test modules are imported, which may ask torch.cuda.is_available()."""
    device: str = config.getoption(OPTION) or config.getini(SETTING)
    if device and not _starts_workers(config):
        _activate_or_stop(device)


def _starts_workers(config: pytest.Config) -> bool:
    """Whether this process only hands the tests to others (pytest-xdist)."""
    return bool(getattr(config.option, "numprocesses", None)) and not hasattr(config, "workerinput")


def _activate_or_stop(device: str) -> None:
    from hipsynth.library import virtual_device

    try:
        virtual_device.activate(device)
    except HipsynthError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture
def virtual_gpu() -> ModuleType:
    """`hipsynth.triton` with a device that is active: an MI300X, if none was chosen."""
    library = importlib.import_module("hipsynth.triton")
    if not library.is_active():
        library.activate()
    return library
