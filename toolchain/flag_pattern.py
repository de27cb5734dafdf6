"""The allowed compiler flags as one regular expression, for schemas that other programs read."""

from __future__ import annotations

import functools

from hipsynth.toolchain.flags import AllowedFlag, allowed_flags

_SPACE = r"[ \t\r\n]"
_VALUE = "[A-Za-z0-9_.+,=:-]"
# A macro as a shell reads it: not empty; quotes hold spaces, a backslash takes the next character with it.
_ESCAPED = r"\\[^\x00]"
_BARE = rf"""[^\x00 \t\r\n'"\\]|{_ESCAPED}"""
_SINGLE, _DOUBLE = r"[^\x00']", rf"""(?:[^\x00"\\]|{_ESCAPED})"""
_MACRO = f"""(?:{_BARE}|'{_SINGLE}+'|"{_DOUBLE}+")(?:{_BARE}|'{_SINGLE}*'|"{_DOUBLE}*")*"""


@functools.cache
def flag_pattern() -> str:
    """An expression, in the syntax that Python, ECMAScript and Rust share, of texts that `check_flags` accepts. Only
    macros may have quotes and backslashes in it; `check_flags` allows them everywhere, as a shell does."""
    flag = "|".join(_flag_pattern(flag) for flag in allowed_flags() if flag.kind not in ("files", "project"))
    return f"^{_SPACE}*(?:{flag})(?:{_SPACE}+(?:{flag}))*{_SPACE}*$"


def _flag_pattern(flag: AllowedFlag) -> str:
    name = flag.name.replace(".", r"\.").replace("+", r"\+")
    if flag.kind == "language" and flag.next:
        return f"{name}{_SPACE}*(?:{_MACRO})"
    if flag.next:
        return f"{name}{_SPACE}+(?:{'|'.join(map(_value_pattern, flag.values))})"
    return f"{name}{_VALUE}+" if flag.value else name


def _value_pattern(pattern: str) -> str:
    return f"{pattern[:-1]}{_VALUE}*" if pattern.endswith("*") else pattern
