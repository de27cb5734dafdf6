"""What `--json` prints of an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hipsynth.cli.main import print_error
from hipsynth.core.errors import CompileFailed, HipsynthError, UsageError


@pytest.mark.parametrize(
    ("error", "diagnostics"),
    [
        (CompileFailed("a.hip does not compile", diagnostics="a.hip:1:2: error: no"), "a.hip:1:2: error: no"),
        (UsageError("no such option"), None),
    ],
)
def test_the_messages_of_the_compiler_are_in_the_document(
    error: HipsynthError, diagnostics: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    print_error(error)
    assert json.loads(capsys.readouterr().out).get("diagnostics") == diagnostics
