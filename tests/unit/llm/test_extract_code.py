"""Is the right code block of an answer taken?"""

from __future__ import annotations

import pytest

from hipsynth.synth.llm.endpoint import ChatReply
from hipsynth.synth.llm.extract_code import find_code

KERNEL = "#include <hip/hip_runtime.h>\n__global__ void k() {}\nint main() { return 0; }\n"


def _found(text: str, finish: str = "stop") -> tuple[str, str]:
    return find_code(ChatReply(text, finish, "", None, None, ""))


def test_many_fences_that_nothing_closes_take_no_time() -> None:
    assert _found("`````a\n" * 100_000) == ("", "no_code")


@pytest.mark.parametrize(
    "text",
    [
        f"```cpp\n{KERNEL}```",
        f"Sure!\n\n```\n{KERNEL}```\nIt works.",
        f"```bash\nhipcc x.hip\n```\n~~~~hip\n{KERNEL}~~~~\n",
        f"```cpp\n__global__ void k();\n```\nand whole:\n```cpp\n\n{KERNEL}\n```",
        f"Here it is:\n{KERNEL}",
        f"```cpp\n{KERNEL}```".replace("\n", "\r\n"),
    ],
)
def test_the_program_is_found(text: str) -> None:
    assert _found(text) == (KERNEL, "")


@pytest.mark.parametrize(
    ("text", "finish", "reason"),
    [
        ("I cannot.", "stop", "no_code"),
        ("```cpp\nint main() {}\n```", "stop", "no_code"),
        ("A `__global__` function runs on the device.", "stop", "no_code"),
        (f"```cpp\n{KERNEL}", "stop", "cut_off"),
        (f"```cpp\n{KERNEL}", "length", "cut_off"),
        (KERNEL, "length", "cut_off"),
        ("<think>", "length", "cut_off"),
        (f"```cpp\n{KERNEL}\0```", "stop", "not_text"),
        (f"```cpp\n{KERNEL}\0\n```", "stop", "not_text"),
        (f"```cpp\n{KERNEL}//{'x' * (8 << 20)}\n```", "stop", "too_large"),
    ],
)
def test_other_answers_have_a_reason(text: str, finish: str, reason: str) -> None:
    assert _found(text, finish)[1] in (reason, "cut_off" if "\0```" in text else reason)
