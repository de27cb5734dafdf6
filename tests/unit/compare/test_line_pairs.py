"""Source lines of two kernels compared: counterparts by a diff, and each line's time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from profiling_samples import kernel, result, target

from hipsynth.core.documents import to_json
from hipsynth.library.compare import compare
from hipsynth.profiling.compare.differ import compare_profiles
from hipsynth.profiling.compare.line_pairs import pair_lines
from hipsynth.profiling.compare.page import comparison_page
from hipsynth.profiling.compare.text import comparison_lines
from hipsynth.profiling.lines.line_records import Amounts
from hipsynth.profiling.reports.describe import profile_document
from hipsynth.profiling.reports.documents import LineCost, ProfiledKernel, ProfileDocument

A = ["__global__ void k() {", "  slow();", "  same();", "}"]
B = ["// A comment above.", "__global__ void k() {", "  quick();", "    same();", "}"]
TEXTS = {"a.hip": A, "b.hip": B, "lib.h": ["x", "y"]}


def profiled(ns: float, *places: tuple[str, int, float]) -> ProfiledKernel:
    """A kernel whose lines (file, number, share of the time) cost this."""
    plain = profile_document("p", "p.hip", [result(target(), kernel(name="k"))]).results[0].kernels[0]
    lines = tuple(LineCost(file, line, **vars(Amounts.of([], share))) for file, line, share in places)
    return replace(plain, duration_ns=ns, lines=lines)


def document(one: ProfiledKernel) -> ProfileDocument:
    whole = profile_document("p", "p.hip", [result(target())])
    return replace(whole, results=(replace(whole.results[0], kernels=(one,)),))


def read_text(file: str) -> list[str]:
    return TEXTS.get(file.rpartition("/")[2], [])


def rows(a: ProfiledKernel, b: ProfiledKernel) -> list[tuple[int | None, int | None, float, float]]:
    pairs = pair_lines(a, b, read_text, read_text)
    assert pairs is not None
    return [(pair.line_a, pair.line_b, pair.a_ns, pair.b_ns) for pair in pairs]


def test_lines_of_equal_text_are_counterparts_and_a_changed_line_is_one_of_each() -> None:
    a = profiled(1000, ("a.hip", 2, 0.75), ("a.hip", 3, 0.25))
    b = profiled(500, ("b.hip", 3, 0.5), ("b.hip", 4, 0.5))
    assert rows(a, b) == [(2, None, 750, 0), (None, 3, 0, 250), (3, 4, 250, 250)]


def test_files_of_equal_names_are_counterparts_whatever_their_order() -> None:
    a = profiled(100, ("a.hip", 2, 0.5), ("old/lib.h", 1, 0.5))
    b = profiled(100, ("new/lib.h", 1, 0.5), ("b.hip", 3, 0.5))
    pairs = pair_lines(a, b, read_text, read_text)
    assert pairs is not None
    assert {(pair.file_a, pair.file_b) for pair in pairs} == {("old/lib.h", "new/lib.h"), ("a.hip", "b.hip")}


def test_two_files_of_one_name_have_a_counterpart_each() -> None:
    a = profiled(100, ("x/k.hip", 1, 0.5), ("y/k.hip", 1, 0.5))
    for name, wanted in (("y/k.hip", "y/k.hip"), ("z/k.hip", "z/k.hip")):
        b = profiled(100, ("x/k.hip", 1, 0.5), (name, 1, 0.5))
        pairs = pair_lines(a, b)
        assert pairs is not None
        assert [(pair.file_a, pair.file_b) for pair in pairs] == [("x/k.hip", "x/k.hip"), ("y/k.hip", wanted)]
    b = profiled(100, ("y/k.hip", 1, 0.5), ("x/k.hip", 1, 0.5))
    pairs = pair_lines(a, b)
    assert pairs is not None and all(pair.file_a == pair.file_b for pair in pairs)


def test_a_file_of_one_side_only_and_one_that_cannot_be_read() -> None:
    a = profiled(100, ("gone.hip", 7, 1.0))
    b = profiled(100, ("gone.hip", 7, 0.5), ("lib.h", 2, 0.25))
    assert rows(a, b) == [(7, 7, 100, 50), (None, 2, 0, 25)]


def test_no_file_is_read_that_a_profile_document_names(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("password\n")
    for written in (secret, tmp_path / "other.txt"):
        a, b = profiled(100, (str(secret), 1, 0.5), (str(secret), 10**15, 0.5)), profiled(100, (str(written), 1, 0.5))
        (kernel_pair,) = compare_profiles(document(a), document(b)).targets[0].kernels
        assert [(pair.line_a, pair.text) for pair in kernel_pair.lines or ()] == [(1, ""), (10**15, "")]
    saved, sides = tmp_path / "a.json", []
    saved.write_text(json.dumps(to_json(document(profiled(100, (str(secret), 1, 0.5))))))
    for side in (str(saved), document(profiled(100, (str(secret), 1, 0.5)))):
        sides.append(compare(side, str(saved)))
    assert "password" not in json.dumps([to_json(compared) for compared in sides])


def test_lines_before_the_first_are_left_out() -> None:
    a, b = profiled(100, ("a.hip", -7, 0.5), ("a.hip", 2, 0.5)), profiled(100, ("b.hip", -1, 1.0))
    assert rows(a, b) == [(2, None, 50, 0)]


def test_without_lines_there_is_nothing_to_compare() -> None:
    assert pair_lines(profiled(100), replace(profiled(100), lines=None)) is None


@pytest.mark.parametrize("shown", ["- -> 3", "2 -> -"])
def test_text_and_page_show_the_most_changed_lines(shown: str) -> None:
    a = profiled(1000, ("a.hip", 2, 0.75), ("a.hip", 3, 0.25))
    b = profiled(500, ("b.hip", 3, 0.5), ("b.hip", 4, 0.5))
    compared = compare_profiles(document(a), document(b), readers=(read_text, read_text))
    listing = comparison_lines(compared)
    at = listing.index("  by source line, the most changed first")
    assert [line.split()[-1] for line in listing[at + 2 : at + 4]] == ["slow();", "quick();"]
    assert shown in "\n".join(listing) and "3 -> 4" not in "\n".join(listing), "it takes the same time"
    assert shown.replace("->", "→") in comparison_page(compared) and "slow();" in comparison_page(compared)
