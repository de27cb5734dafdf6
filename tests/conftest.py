"""What every test stands on."""

from __future__ import annotations

import signal

import needs
import pytest

from hipsynth.synth.core.errors import Missing
from hipsynth.synth.frontend.config import frontend_config
from hipsynth.synth.frontend.parse import ParseConfig


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """A suite started in the background inherits an ignored SIGINT, and so would the programs that tests interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def config() -> ParseConfig:
    """How the front end parses on this machine."""
    try:
        return frontend_config()
    except Missing as error:
        needs.missing(str(error))
