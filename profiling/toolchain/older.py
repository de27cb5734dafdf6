"""Programs written for older headers: those of HIP and of the standard library used to include others."""

from __future__ import annotations

import re

# Included by HIP up to release 6 and not by 7 (rocm.docs.amd.com/projects/HIP, docs-6.4.2, hip_runtime.h).
_C_HEADERS = ("stdio.h", "string.h", "assert.h")
_CPP_HEADERS = (*_C_HEADERS, "thread", "algorithm", "cmath", "cstdint", "iostream", "unistd.h")
_UNKNOWN_NAME = re.compile(
    r"error: (?:use of undeclared identifier|no matching function for call to|no template named|unknown type name"
    r"|no (?:member|type|template) named) '"
)


def may_help(diagnostics: str) -> bool:
    """Whether a compile failed in a way that the older headers can put right."""
    return bool(_UNKNOWN_NAME.search(diagnostics))


def headers(language: str) -> tuple[str, ...]:
    """What to include first; `language`: hip, c++ or c."""
    return _C_HEADERS if language == "c" else _CPP_HEADERS


def flags(language: str) -> str:
    return " ".join(f"-include {name}" for name in headers(language))
