"""JUnit and SARIF of a comparison, and large changes as factors."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from profiling_samples import kernel, result, target

from hipsynth.profiling.compare.ci_reports import junit_report, sarif_report
from hipsynth.profiling.compare.differ import compare_profiles, format_change
from hipsynth.profiling.compare.documents import CompareDocument
from hipsynth.profiling.reports.describe import profile_document
from hipsynth.profiling.reports.documents import ProfileDocument


def profiled(path: str, **durations: float) -> ProfileDocument:
    document = profile_document("p", path, [result(target(), *(kernel(name=name) for name in durations))])
    only = document.results[0]
    kernels = tuple(replace(one, duration_ns=durations[one.name]) for one in only.kernels)
    return replace(document, results=(replace(only, kernels=kernels),))


def compared(limit: float | None) -> CompareDocument:
    a, b = profiled("a.hip", steady=1000.0, slow=1000.0), profiled("sub dir/b.hip", steady=1000.0, slow=12600.0)
    return compare_profiles(a, b, ("HEAD:a.hip", "HEAD~1:sub dir/b.hip"), limit)


def test_junit_has_a_case_per_kernel_and_fails_the_slower_ones() -> None:
    suites = ElementTree.fromstring(junit_report(compared(5.0)))
    (suite,) = suites
    cases = {case.attrib["name"]: case for case in suite}
    assert (suites.tag, suite.tag, suite.attrib["tests"], suite.attrib["failures"]) == (
        "testsuites", "testsuite", "3", "2",
    )  # fmt: skip
    assert cases["steady"].find("failure") is None and cases["all kernels"].find("failure") is not None
    failure = cases["slow"].find("failure")
    assert failure is not None and "12.6" in failure.attrib["message"] and failure.text == "allowed: slower by 5 %"
    assert float(cases["slow"].attrib["time"]) == pytest.approx(12.6e-6)


def test_without_a_limit_nothing_fails() -> None:
    assert ElementTree.fromstring(junit_report(compared(None))).attrib["failures"] == "0"
    assert json.loads(sarif_report(compared(None)))["runs"][0]["results"] == []


def test_sarif_has_what_its_schema_requires() -> None:
    log = json.loads(sarif_report(compared(5.0)))
    (run,) = log["runs"]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert log["version"] == "2.1.0" and run["tool"]["driver"]["name"] == "hipsynth"
    assert [row["ruleId"] in rules for row in run["results"]] == [True, True]
    first = run["results"][0]
    assert first["message"]["text"].startswith("slow on ")
    assert first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "sub%20dir/b.hip"


def test_names_that_xml_cannot_hold_are_replaced() -> None:
    document = replace(compared(5.0), b=replace(compared(5.0).b, source="b\x01\x1b.hip"))
    assert ElementTree.fromstring(junit_report(document))[0].attrib["name"] == "b??.hip"


@pytest.mark.parametrize(
    ("percent", "text"),
    [(1160, "12.6 times"), (200, "3 times"), (199, "+199 %"), (-99.5, "-99.5 %"), (1e9, "10,000,001 times")],
)
def test_a_large_change_is_a_factor(percent: float, text: str) -> None:
    assert format_change(percent) == text


def test_a_much_longer_duration_is_said_as_a_factor() -> None:
    assert compared(5.0).targets[0].kernels[1].summary.startswith("slower: 12.6 times as long")
