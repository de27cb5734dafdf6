"""A skip that tests/skips.toml does not list fails the run, wherever it comes from."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import skip_rule

ROOT = Path(__file__).resolve().parents[3]

pytest_plugins = ["pytester"]

CONFTEST = "from skip_rule import pytest_make_collect_report, pytest_runtest_makereport\n"
SKIPS = """
import pytest
def test_inside(): pytest.skip("no such part")
@pytest.mark.skipif(True, reason="by mark")
def test_mark(): pass
@pytest.fixture
def part(): pytest.skip("by fixture")
def test_fixture(part): pass
@pytest.mark.xfail(strict=True)
def test_expected(): assert False
def test_good(): pass
"""
MODULE = 'import pytest\npytest.importorskip("no_such_module")\n'


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("HIPSYNTH_PARTIAL", raising=False)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_skips=SKIPS)
    return pytester


def allow(suite: pytest.Pytester, *patterns: str) -> None:
    rows = "".join(f'[[skip]]\ntest = "{pattern}"\nreason = "because"\n' for pattern in patterns)
    suite.mkdir("tests")
    (suite.path / "tests/skips.toml").write_text(rows)


def test_unlisted_skips_fail(suite: pytest.Pytester) -> None:
    result = suite.runpytest()
    result.assert_outcomes(passed=1, xfailed=1, failed=1, errors=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*test_inside may not be skipped*"])


def test_listed_skips_are_skips(suite: pytest.Pytester) -> None:
    allow(suite, "test_skips.py::test_[im]*", "test_skips.py::test_fixture")
    result = suite.runpytest()
    result.assert_outcomes(passed=1, xfailed=1, skipped=3)
    assert result.ret == pytest.ExitCode.OK


def test_a_module_that_is_skipped_as_a_whole_fails(suite: pytest.Pytester) -> None:
    allow(suite, "test_skips.py::*")
    suite.makepyfile(test_module=MODULE)
    result = suite.runpytest("--continue-on-collection-errors")
    result.assert_outcomes(passed=1, xfailed=1, skipped=3, errors=1)
    assert result.ret != pytest.ExitCode.OK


def test_a_partial_machine_may_skip(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPSYNTH_PARTIAL", "1")
    suite.makepyfile(test_module=MODULE)
    result = suite.runpytest()
    result.assert_outcomes(passed=1, xfailed=1, skipped=4)
    assert result.ret == pytest.ExitCode.OK


@pytest.mark.parametrize("name", ["pytest_runtest_makereport", "pytest_make_collect_report"])
def test_the_rule_holds_for_these_tests(name: str, pytestconfig: pytest.Config) -> None:
    hooks = [hook.function for hook in getattr(pytestconfig.hook, name).get_hookimpls()]
    assert getattr(skip_rule, name) in hooks


def test_every_listed_test_exists_and_has_its_reason() -> None:
    for row in tomllib.loads((ROOT / "tests/skips.toml").read_text())["skip"]:
        file, _, name = row["test"].partition("::")
        files = list(ROOT.glob(file))
        assert files and row["reason"].strip(), row
        if name.strip("*"):
            assert f"def {name.rstrip('*')}" in files[0].read_text(), row
