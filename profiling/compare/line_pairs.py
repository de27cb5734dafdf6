"""Pairs the source lines of two kernels: what each line costs in A, and its counterpart in B."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import PurePath

from hipsynth.profiling.compare.documents import LinePair
from hipsynth.profiling.compare.pairing import pair_equal
from hipsynth.profiling.reports.documents import LineCost, ProfiledKernel

ReadLines = Callable[[str], Sequence[str]]  # the lines of a file; none if it cannot be read


def read_no_lines(file: str) -> Sequence[str]:
    """No lines: for a profile that was read, which may be a stranger's and can name any file of this machine."""
    return ()


def pair_lines(
    a: ProfiledKernel, b: ProfiledKernel, read_a: ReadLines = read_no_lines, read_b: ReadLines = read_no_lines
) -> tuple[LinePair, ...] | None:
    """The lines of A and B that cost time, in the order of the files; those of equal text are counterparts, as a diff
    finds them. None if one of the two was not profiled with its lines.

    Files are paired by path, by name, then by order. Of a file that is not read, lines are paired by number.
    """
    if a.lines is None or b.lines is None:
        return None
    pairs: list[LinePair] = []
    for file_a, file_b in _pair_files(_files_of(a.lines), _files_of(b.lines)):
        costs_a = {line.line: line.share * a.duration_ns for line in a.lines if line.file == file_a and line.line > 0}
        costs_b = {line.line: line.share * b.duration_ns for line in b.lines if line.file == file_b and line.line > 0}
        text_a, text_b = read_a(file_a) if file_a else (), read_b(file_b) if file_b else ()
        if file_a and file_b:
            numbers = _pair_numbers(text_a, text_b, {*costs_a, *costs_b})
        else:
            numbers = iter([*((number, 0) for number in costs_a), *((0, number) for number in costs_b)])
        for number_a, number_b in numbers:
            if number_a in costs_a or number_b in costs_b:
                text = _line_text(text_b, number_b) if number_b else _line_text(text_a, number_a)
                ns = costs_a.get(number_a, 0.0), costs_b.get(number_b, 0.0)
                pairs.append(LinePair(file_a, file_b, number_a or None, number_b or None, text, *ns))
    return tuple(pairs)


def _files_of(lines: Sequence[LineCost]) -> list[str]:
    return list(dict.fromkeys(line.file for line in lines if line.line > 0))


def _pair_files(files_a: Sequence[str], files_b: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(file of A, its counterpart in B); "" where there is none."""
    equal, left_a, left_b = pair_equal(files_a, files_b, lambda file: file)
    named, left_a, left_b = pair_equal(left_a, left_b, lambda file: PurePath(file).name)
    yield from sorted([*equal, *named], key=lambda pair: files_a.index(pair[0]))
    yield from zip_longest(left_a, left_b, fillvalue="")


def _pair_numbers(text_a: Sequence[str], text_b: Sequence[str], costly: Collection[int]) -> Iterator[tuple[int, int]]:
    """(line of A, line of B) in the order of the files, counted from 1; 0 for a line that the other does not have.
    Without the text of one, only the lines that cost time."""
    if not text_a or not text_b:
        yield from ((number, number) for number in sorted(costly))
        return
    stripped_a, stripped_b = [line.strip() for line in text_a], [line.strip() for line in text_b]
    for kind, a, a_end, b, b_end in SequenceMatcher(None, stripped_a, stripped_b, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from zip(range(a + 1, a_end + 1), range(b + 1, b_end + 1), strict=True)
        else:
            yield from ((number, 0) for number in range(a + 1, a_end + 1))
            yield from ((0, number) for number in range(b + 1, b_end + 1))


def _line_text(text: Sequence[str], number: int) -> str:
    return text[number - 1].expandtabs(4).rstrip() if number <= len(text) else ""
