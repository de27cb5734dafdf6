"""Which programs the study of moves collects."""

from __future__ import annotations

from studies.move_order import is_held_out, list_jobs


def test_what_is_held_out_is_collected_without_the_training_part() -> None:
    everything, held_out = list(list_jobs(30, False)), list(list_jobs(30, True))
    assert {job.key for job in held_out} == {job.key for job in everything if is_held_out(job)}
    by_hand = [job.program.origin == "handwritten" for job in held_out]
    assert not all(by_hand) and by_hand == sorted(by_hand), "handwritten programs come last"
    assert any(not is_held_out(job) for job in everything)
