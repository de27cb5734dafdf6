"""Schemathesis asks every route what its OpenAPI description allows and forbids, and finds no answer against it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import needs
import pytest
from test_serve import ServeProcess

SUPPORT = Path(__file__).resolve().parents[1] / "support"
EXAMPLES = "15"
# A text without a kernel is a source by the schema, and refused (schemathesis_checks.py has what may not be refused); a
# deleted job has stopped, and its state can be asked.
NOT_MEANT = "positive_data_acceptance,use_after_free"


@pytest.mark.full
@pytest.mark.parametrize("seed", ["1", "777"])
def test_every_answer_is_as_described(tmp_path: Path, seed: str) -> None:
    needs.simulator()
    needs.sandbox()
    server = ServeProcess(tmp_path)
    command = "from schemathesis.cli import schemathesis; schemathesis()"
    header = f"Authorization: Bearer {server.token}"
    options = ["--max-examples", EXAMPLES, "--seed", seed, "--request-timeout", "120", "--no-color"]
    options += ["--exclude-checks", NOT_MEANT]
    try:
        done = subprocess.run(
            [sys.executable, "-c", command, "run", f"{server.url}/openapi.json", "-H", header, *options],
            cwd=tmp_path,
            env={**os.environ, "SCHEMATHESIS_HOOKS": "schemathesis_checks", "PYTHONPATH": str(SUPPORT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    finally:
        assert server.stop() == 0
