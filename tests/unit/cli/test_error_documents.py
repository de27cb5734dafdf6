"""What `--json` prints of an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hipsynth.cli.main import main, print_error
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


@pytest.mark.parametrize(
    ("line", "message", "cause", "remedy"),
    [
        ("prfile k.hip", "no such verb: prfile", "did you mean profile?", "synth --help"),
        ("frob", "no such verb: frob", "", "synth --help"),
        ("profile k.hip --jsn", "no such option: --jsn", "did you mean --json?", "synth profile --help"),
        ("profile", "missing argument 'PATH... [-- ARGS...]'", "", "synth profile --help"),
        (
            "profile k.hip --timeout 0",
            "invalid value for '--timeout'",
            "0.0 is not in the range",
            "synth profile --help",
        ),
        ("profile k.hip --grid x", "invalid value for '--grid'", "'x' is not a shape", "synth profile --help"),
        ("release make --work w", "missing option '--out'", "", "synth release make --help"),
        ("release frob", "no such command 'frob'", "", "synth release --help"),
    ],
)
def test_usage_errors_say_the_same_as_text_and_json(
    line: str, message: str, cause: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*line.split(), "--json"])
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert (ended.value.code, document["error"], document["message"]) == (2, "usage", message)
    assert document["cause"].startswith(cause) and document["remedy"] == remedy
    parts = [
        f"error: {message}",
        *([f"  cause: {document['cause']}"] if document["cause"] else []),
        f"  try:   {remedy}",
    ]
    assert printed.err == "\n".join(parts) + "\n"
