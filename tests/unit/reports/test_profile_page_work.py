"""How much is computed for the page of a profile with many launches."""

from __future__ import annotations

import pytest
from profiling_samples import kernel, result, target

from hipsynth.profiling.reports import profile_page


def test_a_result_is_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    describe, described = profile_page.result_document, []
    monkeypatch.setattr(profile_page, "result_document", lambda row: described.append(row) or describe(row))
    measured = result(target(), *(kernel(name=f"copy{number}") for number in range(5)))
    page = profile_page.profile_page("copy.hip", [measured])
    assert len(described) == 1 and all(f"copy{number}" in page for number in range(5))
