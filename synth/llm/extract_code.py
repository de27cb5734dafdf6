"""Finds the program in a model's answer."""

from __future__ import annotations

import re

from hipsynth.core.files import SOURCE_BYTES
from hipsynth.source.includes import INCLUDE
from hipsynth.source.outline import has_kernel_mark
from hipsynth.synth.llm.endpoint import ChatReply

_OPENING = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n`]*$", re.M)


def find_code(answer: ChatReply) -> tuple[str, str]:
    """(program, "") or ("", reason): of the code blocks with a kernel, the longest; else all from the first #include.

    Reasons: "no_code"; "cut_off" if the answer ends within its code; "not_text" for NUL bytes; "too_large".
    """
    text = answer.text.replace("\r\n", "\n")
    blocks = [block for block in _list_blocks(text) if has_kernel_mark(block)]
    if blocks:
        return _check_code(max(blocks, key=len))
    if not has_kernel_mark(text):
        return "", "cut_off" if answer.finish == "length" else "no_code"
    start = INCLUDE.search(text)
    if _OPENING.search(text) or answer.finish == "length":  # a block that was opened and not closed
        return "", "cut_off"
    return _check_code(text[start.start() :]) if start else ("", "no_code")


def _list_blocks(text: str) -> list[str]:
    """The contents of the closed code blocks of a Markdown text."""
    blocks: list[str] = []
    fence, body = "", list[str]()
    for line in text.split("\n"):
        mark = line.strip(" \t")
        if fence and mark.startswith(fence) and not mark.strip("`~"):
            blocks.append("".join(body))
            fence = ""
        elif fence:
            body.append(f"{line}\n")
        elif opening := _OPENING.match(line):
            fence, body = opening[1], []
    return blocks


def _check_code(code: str) -> tuple[str, str]:
    if "\0" in code:
        return "", "not_text"
    if len(code.encode()) > SOURCE_BYTES:
        return "", "too_large"
    return code.strip("\n") + "\n", ""
