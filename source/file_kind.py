"""Classifies a source file by its text: whether it has a main(), reads arguments or uses HIP, and which files it
includes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hipsynth.source.includes import included_names
from hipsynth.source.outline import without_comments

_MAIN = re.compile(r"\b(?:int|void|auto|signed)\s+(?:__cdecl\s+)?main\s*\([^;{]*\)\s*(?:->\s*int\s*)?(?:try\s*)?\{")
# Header-only test frameworks that define main() on request of a macro.
_MAIN_MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?:CATCH_CONFIG_MAIN|DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN|BOOST_TEST_MODULE)\b",
    re.MULTILINE,
)
_ARGUMENTS = re.compile(r"\bmain\s*\(\s*int\s+(\w+)\s*,[^{]*\{.*\b\1\b", re.DOTALL)
_ARGUMENT_WORDS = re.compile(
    r"\bmain\s*\([^,)]*,[^)]*?\bchar\b[^)\w]*(?:\bconst\b[^)\w]*)*(\w+)\b[^{]*\{.*\b\1\s*(?:\[|\+)", re.DOTALL
)
_HIP = re.compile(r"\bhip/[a-z_]+\.h|\bhip_runtime(?:_api)?\.h|\bhip(?:Malloc|LaunchKernel|Memcpy|DeviceSynchronize)\b")
# Libraries that exist for both: a source that uses them and nothing of CUDA is a HIP source.
_PORTABLE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"](?:thrust|hipcub|rocprim|rocthrust)/", re.MULTILINE)
_CUDA = re.compile(
    r"\bcuda(?:_runtime(?:_api)?)?\.h\b|\bcuda(?:Malloc|Memcpy|DeviceSynchronize|GetDevice)\b|\bcu\w+\.h\b"
)
_KERNEL = re.compile(r"__global__|<<<|\bhipLaunch")


@dataclass(frozen=True)
class FileFacts:
    """Facts about one file found by pattern. `includes`: (written with quotes, name) in file order."""

    has_main: bool
    reads_arguments: bool
    names_hip: bool
    names_cuda: bool
    names_portable: bool
    has_kernel: bool
    includes: tuple[tuple[bool, str], ...]


def read_facts(source: str) -> FileFacts:
    """Classifies the text of one file, comments left out."""
    text = without_comments(source)
    includes = tuple((quoted, name.strip()) for quoted, name in included_names(text))
    return FileFacts(
        bool(_MAIN.search(text) or _MAIN_MACRO.search(text)),
        bool(_ARGUMENTS.search(text) or _ARGUMENT_WORDS.search(text)),
        bool(_HIP.search(text)),
        bool(_CUDA.search(text)),
        bool(_PORTABLE.search(text)),
        bool(_KERNEL.search(text)),
        includes,
    )
