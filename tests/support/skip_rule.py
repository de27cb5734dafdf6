"""No silent skips: a test may be skipped only when tests/skips.toml lists it, with the reason; any other skip fails.

tests/conftest.py imports the two hooks. HIPSYNTH_PARTIAL=1 turns the rule off (see needs.py).
"""

from __future__ import annotations

import fnmatch
import functools
import tomllib
from collections.abc import Generator
from pathlib import Path

import pytest
from needs import partial

LIST = Path("tests/skips.toml")  # below the root of the test run


@functools.cache
def listed(path: Path) -> tuple[str, ...]:
    """The patterns of test ids that may be skipped."""
    return tuple(row["test"] for row in tomllib.loads(path.read_text())["skip"]) if path.exists() else ()


def allowed(nodeid: str, config: pytest.Config) -> bool:
    return partial() or any(fnmatch.fnmatchcase(nodeid, pattern) for pattern in listed(config.rootpath / LIST))


def enforce(report: pytest.TestReport | pytest.CollectReport, config: pytest.Config) -> None:
    """Turns a skip that is not listed into a failure; an expected failure (xfail) is none."""
    if report.skipped and not hasattr(report, "wasxfail") and not allowed(report.nodeid, config):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"{reason}\n{report.nodeid} may not be skipped: {LIST} does not list it"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    enforce(report, item.config)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    enforce(report, collector.config)
    return report
