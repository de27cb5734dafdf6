"""Does the table of a corpus' cost follow its formula?"""

from __future__ import annotations

import pytest

from benchmarks.corpus_cost import CorpusCosts, compute_costs, render_table


def test_a_build_is_paid_once_and_a_run_for_each_label() -> None:
    # 10 builds and 40 labels in 100 s, 20 % of them compiling: 2 s a build, 2 s a run; the other device: 4 s and 1 s.
    devices = {
        "a": {"labels": 40, "labels_per_s": 0.4, "share": {"compiling": 0.2}},
        "b": {"labels": 40, "labels_per_s": 0.5, "share": {"compiling": 0.5}},
    }
    found = compute_costs(devices, programs=10)
    assert (found.build_s, found.run_s) == (pytest.approx(3), pytest.approx(1.5))
    assert CorpusCosts(2, 1).compute_core_hours(3600, 7200) == 4
    text = render_table(CorpusCosts(3.6, 0), [10], 0.5)
    assert "| 955,000 builds, one label each | 955 | 4.0 | $478 |" in text
