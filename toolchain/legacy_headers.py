"""Support for programs that rely on headers which older HIP or standard library headers included implicitly."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hipsynth.core.errors import CompileFailed
from hipsynth.core.languages import SourceLanguage
from hipsynth.toolchain.diagnostics import CompilerMessages, choose_clearer, read_messages

T = TypeVar("T")

# Included by HIP up to release 6 but not by release 7 (rocm.docs.amd.com/projects/HIP, docs-6.4.2, hip_runtime.h).
_C_HEADERS = ("stdio.h", "string.h", "assert.h")
_CPP_HEADERS = (*_C_HEADERS, "thread", "algorithm", "cmath", "cstdint", "iostream", "unistd.h")


def older_headers(language: SourceLanguage) -> tuple[str, ...]:
    """Headers to include first."""
    return _C_HEADERS if language == SourceLanguage.C else _CPP_HEADERS


def older_flags(language: SourceLanguage) -> str:
    """The same headers as -include flags."""
    return " ".join(f"-include {name}" for name in older_headers(language))


def retry_with_headers(
    build: Callable[[bool], T], is_reason: Callable[[CompilerMessages], bool] = lambda messages: messages.unknown_name
) -> T:
    """`build(False)`; where its errors are a reason to, `build(True)`, with these headers. Raises the clearer of two
    CompileFailed."""
    try:
        return build(False)
    except CompileFailed as error:
        if not is_reason(read_messages(error.diagnostics)):
            raise
        try:
            return build(True)
        except CompileFailed as again:
            raise choose_clearer(error, again) from None
