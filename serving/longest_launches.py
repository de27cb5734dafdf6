"""Which launch stands for a kernel that a document lists several times, as its launches have several shapes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from hipsynth.serving.lsp.kernel_results import KernelFacts
    from hipsynth.training.models.documents import KernelPrediction

TimedEntry = TypeVar("TimedEntry", "KernelFacts", "KernelPrediction")


def longest_launches(kernels: Iterable[TimedEntry]) -> dict[str, TimedEntry]:
    """The longest launch by the name of its kernel, the first of equal ones; a launch without a duration only where its
    kernel has no other."""
    longest: dict[str, TimedEntry] = {}
    for kernel in kernels:
        longest_so_far = longest.setdefault(kernel.name, kernel)
        if (kernel.duration_ns or 0) > (longest_so_far.duration_ns or 0):
            longest[kernel.name] = kernel
    return longest
