"""Takes a main() that was made from signatures out of a text, or copies it to another one."""

from __future__ import annotations

from hipsynth.source.harness import HarnessedProgram
from hipsynth.source.includes import FIRST_LINE, RUNTIME_HEADER, include_runtime
from hipsynth.source.launch_code import HEAD


def remove_harness(text: str, harnessed: HarnessedProgram) -> str:
    """A changed text without what was added to it, the main() and perhaps HIP's header; whole if the main() was
    changed, too. What a change put behind the header stays, with it."""
    added = _find_harness(harnessed.text)
    if not text.endswith(added):
        return text
    body = text.removesuffix(added)
    if not harnessed.text.startswith(RUNTIME_HEADER):
        return body
    return body.removeprefix(RUNTIME_HEADER) if body.startswith(RUNTIME_HEADER) else body.replace(FIRST_LINE, "", 1)


def copy_harness(harnessed: str, text: str) -> str:
    """Another text without main(), with the main() that was added to `harnessed`."""
    return f"{include_runtime(text).rstrip()}\n{_find_harness(harnessed)}"


def _find_harness(text: str) -> str:
    return text[text.rindex(HEAD) :]
