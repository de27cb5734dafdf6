"""The words of errors: what happened, why, what to do, and what a compiler said."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from hipsynth.cli.main import InternalError, unusable_file_error
from hipsynth.core.errors import BadInput, CompileFailed, HipsynthError, locate_defect
from hipsynth.core.reasons import Reason

MESSAGES = "a.hip:1:2: error: no\n  int\n  ^\n"


def test_an_error_says_what_happened_and_why_and_what_to_do() -> None:
    error = BadInput("no labels", cause="an empty file", remedy="profile something")
    assert str(error) == error.describe() == "no labels\n  cause: an empty file\n  try:   profile something"


def test_messages_of_a_compiler_stand_for_a_cause_that_is_one_of_them() -> None:
    error = CompileFailed(
        "a.hip does not compile", diagnostics=MESSAGES, cause="a.hip:1:2: error: no", remedy="mend it"
    )
    assert str(error) == "a.hip does not compile\n  cause: a.hip:1:2: error: no\n  try:   mend it"
    assert error.describe() == f"a.hip does not compile\n{MESSAGES}  try:   mend it"
    stopped = CompileFailed("a.hip: the compiler was stopped", diagnostics=MESSAGES, cause="it took over 10 s")
    assert stopped.describe() == f"a.hip: the compiler was stopped\n  cause: it took over 10 s\n{MESSAGES.rstrip()}"


def test_a_text_in_a_scratch_folder_has_the_name_that_its_reader_knows() -> None:
    path = "/tmp/hipsynth-process-1/scratch-2/0123456789abcdef.hip"
    error = CompileFailed(f"{path} does not link", diagnostics=f"{path}:1:2: error", cause=f"{path}:1:2")
    error.reason = Reason.LINK_FAILED
    named = error.name_source("main.hip")
    assert (named.what, named.diagnostics, named.cause) == (
        "main.hip does not link",
        "main.hip:1:2: error",
        "main.hip:1:2",
    )
    assert named.reason == Reason.LINK_FAILED


def test_a_defect_ends_with_its_own_exit_code_wherever_it_is_noticed() -> None:
    assert HipsynthError("the result cannot be sent", reason=Reason.INTERNAL_ERROR).exit_code == 1
    assert HipsynthError("interrupted", reason=Reason.INTERRUPTED).exit_code == 3


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_space_is_the_same_error_for_every_file(number: int) -> None:
    assert unusable_file_error(OSError(number, "full", "/tmp/x")).reason == Reason.DISK_FULL


def test_the_place_of_a_defect_is_where_it_was_raised() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018
    file, line = locate_defect(caught.value)
    assert file == Path(__file__) and line > 0
    assert f"seen at {file}:{line}" in str(InternalError(caught.value))
    assert "seen at ?" in str(InternalError(ValueError("never raised")))
