"""The exit codes of `synth`, once: `synth --help` and docs/reference/cli.md show this table."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from hipsynth.core.errors import INTERNAL_ERROR_EXIT, BadInput, MissingDependency, PartialFailure, UsageError

SLOWER_EXIT = 6
EXIT_CODES = {
    0: "ok",
    INTERNAL_ERROR_EXIT: "a bug in hipsynth; HIPSYNTH_TRACEBACK=1 shows where",
    UsageError.exit_code: "invalid command line: an unknown verb, option, architecture, flag or device",
    BadInput.exit_code: "a file, program or corpus cannot be used; `run`: the simulator stopped the program; "
    "`predict`: no kernel has figures",
    MissingDependency.exit_code: "a compiler, backend, sandbox or package is not installed",
    PartialFailure.exit_code: "some items failed (all are listed), the others are finished and stored; `verify`: a "
    "check failed; `predict`: a kernel has no figures (those that are marked `not reliable` are some)",
    SLOWER_EXIT: "`compare`: slower than --fail-if-slower allows",
    128 + signal.SIGINT: "interrupted by Ctrl-C (143: by SIGTERM); finished items of corpora are kept",
}
OTHERWISE = "Otherwise, `synth run` exits with the exit code of the program."


def exit_code_rows() -> Iterator[tuple[str, str]]:
    """(code, meaning) of each, in order."""
    yield from ((str(int(code)), meaning) for code, meaning in sorted(EXIT_CODES.items()))
