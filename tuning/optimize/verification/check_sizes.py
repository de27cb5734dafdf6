"""The sizes at which a program is verified: its own check arguments, and its default sizes scaled down."""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Iterator, Sequence

from hipsynth.core.errors import BadInput
from hipsynth.source.arguments import default_arguments, default_decimal
from hipsynth.source.outline import without_comments
from hipsynth.source.program_inputs import option_inputs
from hipsynth.tuning.trial.source_constants import ConstantSetting, list_constants, sets_constants

_CHECK = re.compile(r"^// check:[ \t]*(.*)$", re.M)
SCALES = (16, 64)
LARGE = 256
LEAST_DIVIDED = 64  # what is left of a size that is divided
LEAST_DRAWN = 16  # smaller numbers may be modes, or numbers of repetitions
MOST_EDGES = 3
_DECIMAL = re.compile(r"\d+\.\d*|\.\d+")
Arguments = tuple[str, ...]


def default_words(text: str) -> Arguments:
    """The arguments that set a program's sizes to what they are without arguments: by position, else by options, else
    constants of its source."""
    if values := default_arguments(text):
        return tuple(map(str, values))
    options = {option.place: option.value for option in option_inputs(without_comments(text)) if option.value}
    if options:
        return tuple(word for place, value in options.items() for word in (place, str(value)))
    return list_constants(text)


def size_of(word: str) -> int:
    """The size that a word of a run's arguments sets; 0 if it sets none."""
    if isinstance(word, ConstantSetting):
        return word.value
    return int(word) if word.isdecimal() else 0


def with_size(word: str, size: int) -> str:
    """The word that sets another size."""
    return ConstantSetting(word.name, word.usual, size) if isinstance(word, ConstantSetting) else str(size)


def _scaled_down(values: Sequence[int], scale: int) -> list[int]:
    """Sizes above 256 are divided by `scale`; where there are none, those above 16 by less: they may be edges of a
    cube, or of a long loop."""
    if max(values) > LARGE:
        return [max(1, value // scale) if value > LARGE else value for value in values]
    return [max(16, value * 8 // scale) if value > 16 else value for value in values]


def _scaled_each(values: Sequence[int], scale: int) -> list[int]:
    """Sizes above 16 are all scaled down: buffers may have room for the product of those that are not large, too."""
    return [_scaled_down([value], scale)[0] for value in values]


def draw_sizes(arguments: Arguments, seed: int) -> list[Arguments]:
    """Sizes of half to one and a half times those of `arguments`; then rounded, for programs that need it, and last of
    a quarter to three quarters, for programs that leave too much."""
    if not any(size_of(word) > LEAST_DRAWN for word in arguments):
        return []
    draws = random.Random(seed)
    factors = [draws.uniform(0.5, 1.5) for _ in arguments]
    return [
        tuple(_draw_size(word, scale * factor, step) for word, factor in zip(arguments, factors, strict=True))
        for scale, step in ((1.0, 1), (1.0, 16), (1.0, 64), (0.5, 16))
    ]


def draw_edges(text: str, arguments: Arguments, seed: int) -> list[Arguments]:
    """`arguments` with one of the first changed: a size to less than eight, a smaller number, which may be a radius or
    a number of repetitions, by one, a decimal number by half; and with the decimal number behind them that `text` has a
    default for.
    Constants of the source stay."""
    decimal = default_decimal(text, len(arguments) + 1)
    words = (*arguments, decimal) if decimal else arguments
    draws = random.Random(seed)
    edges = ((*words[:place], _draw_edge(word, draws), *words[place + 1 :]) for place, word in enumerate(words))
    return [edge for edge in edges if edge != words][:MOST_EDGES]


def _draw_edge(word: str, draws: random.Random) -> str:
    if isinstance(word, ConstantSetting):
        return word
    if _DECIMAL.fullmatch(word):
        return f"{1.5 * float(word):g}"
    size = size_of(word)
    if size > LEAST_DRAWN:
        return str(draws.randint(1, 7))
    return str(size + draws.choice((-1, 1))) if size > 1 else word


def multiply_sizes(words: Arguments, factor: int) -> Iterator[Arguments]:
    """The arguments with one of the first large sizes multiplied, each once."""
    large = [place for place, word in enumerate(words) if size_of(word) >= LEAST_DIVIDED]
    for place in large[:MOST_EDGES]:
        yield (*words[:place], with_size(words[place], factor * size_of(words[place])), *words[place + 1 :])


def divide_sizes(words: Arguments, factor: int, only: int | None = None) -> Arguments:
    """The arguments of a program with all large sizes divided, or the one at a place alone."""
    return tuple(
        with_size(word, size_of(word) // factor)
        if size_of(word) >= LEAST_DIVIDED * factor and only in (None, place)
        else word
        for place, word in enumerate(words)
    )


def _draw_size(word: str, factor: float, step: int) -> str:
    if size_of(word) <= LEAST_DRAWN:
        return word
    return with_size(word, max(step, round(size_of(word) * factor / step) * step))


def _split_check(line: str) -> Arguments:
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise BadInput(f"// check: {line}", cause=str(error), remedy="close the quotes in this comment") from None


def candidate_arguments(text: str, timed: Arguments = ()) -> list[Arguments]:
    """Argument lists to try, most useful first; () runs the program as it is. `timed`: those of the runs that are
    timed, for programs that say nothing of their sizes or need arguments, perhaps beside sizes that are constants.
    Raises BadInput for a `// check:` with an open quote."""
    stated = [_split_check(line) for line in _CHECK.findall(text)]
    words = default_words(text)
    small = list(_list_small(words if any(map(size_of, words)) else timed))
    needed = [timed, *_list_small(timed)] if sets_constants(words) else []
    both = [(*arguments, *constants) for arguments in needed if arguments for constants in small]
    return list(dict.fromkeys([*stated, *small, *both, (), timed]))


def _list_small(words: Arguments) -> Iterator[Arguments]:
    """A program's arguments with smaller sizes, each also a little beside; none without sizes."""
    values = [size_of(word) for word in words]
    if not any(values):
        return
    for small in (*(_scaled_down(values, scale) for scale in SCALES), _scaled_each(values, SCALES[0])):
        yield _with_sizes(words, small)
        yield _with_sizes(words, [value + 3 if value > 16 else value for value in small])


def _with_sizes(words: Arguments, sizes: Sequence[int]) -> Arguments:
    return tuple(with_size(word, size) if size_of(word) else word for word, size in zip(words, sizes, strict=True))
