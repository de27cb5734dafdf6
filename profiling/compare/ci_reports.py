"""A comparison for continuous integration: JUnit, a test case per kernel, and SARIF, a result per slower kernel."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote
from xml.etree import ElementTree

from hipsynth.core.documents import JsonObject
from hipsynth.profiling.backends.protocol import describe_target
from hipsynth.profiling.compare.documents import CompareDocument

RULE = "slower-kernel"
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True)
class JudgedCase:
    """A kernel on a target, all kernels of one, or a program that failed there (`name`), and whether it is slower than
    allowed, or failed."""

    target: str
    name: str
    seconds: float
    summary: str
    is_slower: bool = False
    has_failed: bool = False


def list_cases(document: CompareDocument) -> Iterator[JudgedCase]:
    """The kernels of B, each target's total, and programs that failed; without a limit, nothing is slower than
    allowed."""
    limit = math.inf if document.slower_limit_percent is None else document.slower_limit_percent
    for target in document.targets:
        where = describe_target(target.b.arch, target.b.device, target.b.flags)
        for side, failure in (("A", target.failure_a), ("B", target.failure_b)):
            if failure:
                yield JudgedCase(where, f"program {side}", 0.0, failure, has_failed=True)
        for kernel in target.kernels:
            pair = kernel.duration
            yield JudgedCase(where, kernel.name_b, pair.b_ns / 1e9, kernel.summary, pair.change_percent > limit)
        if (total := target.total) is not None:
            summary = f"{total.change_percent:+.3g} %"
            yield JudgedCase(where, "all kernels", total.b_ns / 1e9, summary, total.change_percent > limit)


def junit_report(document: CompareDocument) -> str:
    """A JUnit report: a suite with a case per kernel and target, which failed if it is slower than allowed; an
    error for a program that failed."""
    cases = list(list_cases(document))
    failures, errors = str(sum(case.is_slower for case in cases)), str(sum(case.has_failed for case in cases))
    counts = {"tests": str(len(cases)), "failures": failures, "errors": errors}
    suites = ElementTree.Element("testsuites", counts, name="synth compare")
    suite = ElementTree.SubElement(suites, "testsuite", counts, name=_xml_text(document.b.source), skipped="0")
    for case in cases:
        element = ElementTree.SubElement(
            suite, "testcase", classname=_xml_text(case.target), name=_xml_text(case.name), time=f"{case.seconds:.9f}"
        )
        if case.is_slower:
            failure = ElementTree.SubElement(element, "failure", type=RULE, message=_xml_text(case.summary))
            failure.text = f"allowed: slower by {document.slower_limit_percent:g} %"
        if case.has_failed:
            ElementTree.SubElement(element, "error", type="failed-program", message=_xml_text(case.summary))
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _xml_text(text: str) -> str:
    """A text without the characters that XML 1.0 cannot hold."""
    return "".join(c if c in "\t\n\r" or (c >= " " and not "\ud800" <= c <= "\udfff") else "?" for c in text)


def sarif_report(document: CompareDocument) -> str:
    """A SARIF 2.1.0 log: one result for each kernel that is slower than allowed, at B's file."""
    location: JsonObject = {"physicalLocation": {"artifactLocation": {"uri": quote(_file_name(document.b.source))}}}
    rule: JsonObject = {"id": RULE, "shortDescription": {"text": "A kernel is slower than --fail-if-slower allows."}}
    log: JsonObject = {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "hipsynth", "rules": [rule]}},
                "results": [
                    {
                        "ruleId": RULE,
                        "level": "warning",
                        "message": {"text": f"{case.name} on {case.target}: {case.summary}"},
                        "locations": [location],
                    }
                    for case in list_cases(document)
                    if case.is_slower
                ],
            }
        ],
    }
    return json.dumps(log, indent=2) + "\n"


def _file_name(source: str) -> str:
    """The file of FILE or REV:FILE."""
    return source.rpartition(":")[2] or source
