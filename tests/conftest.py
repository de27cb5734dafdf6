"""Fixtures shared by all tests."""

from __future__ import annotations

import signal

import needs
import pytest

from hipsynth.synth.core.errors import Missing
from hipsynth.synth.frontend.config import frontend_config
from hipsynth.synth.frontend.parse import ParseConfig


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
    except Missing as error:
        needs.missing(str(error))
