"""Do recorded choices reproduce every draw?"""

from __future__ import annotations

import pytest

from hipsynth.synth.generate.choices import Choices, ReplayError, Stream


def draws(choices: Choices) -> list[object]:
    return [choices.integer(-5, 5), choices.weighted([1, 0, 3]), choices.pick("abc"), choices.flag(50)]


def test_replay_gives_the_same_values() -> None:
    original = Choices(Stream("key", 1))
    values = draws(original)
    again = Choices(replay=original.recorded)
    assert draws(again) == values
    again.finish()
    assert again.recorded == original.recorded


def test_stream_is_the_same_on_every_machine() -> None:
    stream = Stream("hipsynth", 7, 3, 0)
    assert [stream.below(1000) for _ in range(8)] == [326, 64, 176, 189, 61, 164, 222, 33]


def test_streams_of_different_programs_differ() -> None:
    assert Stream("s", 1, 2).next() != Stream("s", 2, 1).next()


@pytest.mark.parametrize("recorded", [(99,), (0, 1), (0, 0, 3), (0, 0)])
def test_replay_rejects_unfitting_choices(recorded: tuple[int, ...]) -> None:
    with pytest.raises(ReplayError):
        draws(Choices(replay=recorded))


def test_replay_rejects_leftover_choices() -> None:
    choices = Choices(replay=(1, 2, 3))
    choices.integer(0, 9)
    with pytest.raises(ReplayError, match="longer"):
        choices.finish()


def test_draws_match_the_weights() -> None:
    choices = Choices(Stream("weights"))
    counts = [0, 0, 0]
    for _ in range(3000):
        counts[choices.weighted([1, 0, 2])] += 1
    assert counts[1] == 0
    assert 850 < counts[0] < 1150


@pytest.mark.parametrize("weights", [[], [0, 0], [1, -1]])
def test_unusable_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError):
        Choices(Stream("w")).weighted(weights)
