"""Fixtures of the tests that look for processes and files left behind."""

from __future__ import annotations

import pytest

from hipsynth.source import parse_service


@pytest.fixture(autouse=True)
def parser_of_earlier_tests_ended() -> None:
    """Ends this process's parser, which an earlier test may have started: a test counts what itself left behind."""
    parse_service.close_parser()
