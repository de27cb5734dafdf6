"""Words of a kernel's text by which a work-item does more than to compute its own elements."""

from __future__ import annotations

import re

# Functions of C and HIP that change memory, print, or end the program, by how they begin.
CALLS_WITH_EFFECTS = ("printf", "memcpy", "memset", "assert", "abort", "__trap")
_BUILTINS = ("__builtin", "__atomic", "__hip_atomic")
_COOPERATION = re.compile(
    r"__shared__|__sync\w*|__shfl\w*|__ballot\w*|__any\w*|__all\w*|__activemask|__match\w*|__reduce\w*|__lane_id|"
    r"__builtin_amdgcn_\w+|cooperative_groups|this_thread_block|this_grid|warpSize|asm|__asm__|HIP_DYNAMIC_SHARED|"
    r"__threadfence\w*|wall_clock64|clock64|clock|volatile|coalesced_threads"
)


def has_effect(word: str) -> bool:
    """Whether a function of this name may do something that calling it another number of times, or later, changes."""
    return "tomic" in word or word.startswith((*CALLS_WITH_EFFECTS, *_BUILTINS))


def is_cooperation(word: str) -> bool:
    """Whether a word says that work-items exchange values, wait for each other, or ask where or when they run."""
    return _COOPERATION.fullmatch(word) is not None
