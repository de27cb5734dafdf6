"""Programs that only seem to do the same: is each refused with its reason, and are honest changes let pass?"""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import pytest
from cheats import CHEATS, HONEST, PROGRAMS, TEXTS, Change
from one_target import first_of_each

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, measurement_of_trial
from hipsynth.tuning.optimize.verification.verify import Verifier
from hipsynth.tuning.optimize.verification.verify_change import prepare_verifier
from hipsynth.tuning.tools import ToolSession
from hipsynth.tuning.trial import run_trial, target_of

TARGET = target_of("gfx942")
HANDWRITTEN = Path(__file__).parents[3] / "corpus" / "handwritten"
NAIVE = ["gemm_naive", "softmax_row_per_thread", "histogram_global_atomics", "kmeans_global_atomics"]


@functools.cache
def verifier_of(program: str) -> Verifier:
    return prepare_verifier(read_program(PROGRAMS[program], "gfx942"), TARGET, [("200",), ("333",)])


@functools.cache
def measure(text: str) -> CandidateMeasurement:
    trial = run_trial(text, TARGET)
    assert trial.ok, trial.message
    return measurement_of_trial(trial)


# A cheat that no check is named for is of its own kind.
@pytest.mark.parametrize("name", first_of_each((name, cheat.check or name) for name, cheat in CHEATS.items()))
def test_a_cheat_is_refused_with_its_reason(name: str) -> None:
    cheat = CHEATS[name]
    timed = (measure(PROGRAMS[cheat.program]), measure(cheat.text)) if cheat.timed else None
    if timed and cheat.long:  # as if outputs could not be compared there
        timed = replace(timed[0], exact_s=1e3), timed[1]
    found = verifier_of(cheat.program).full(cheat.text, timed)
    assert not found.passed, found
    [failed] = [check for check in found.checks if check.passed is False]
    assert failed.name == (cheat.check or failed.name) and cheat.reason in failed.detail, found


@pytest.mark.parametrize("name", first_of_each((name, check) for name, (_, _, check, _) in TEXTS.items()))
def test_work_of_the_host_is_refused(name: str) -> None:
    text, program, check, reason = TEXTS[name]
    found = verifier_of(program).full(text)
    assert [(c.name, reason in c.detail) for c in found.checks if c.passed is False] == [(check, True)], found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_change_passes(name: str) -> None:
    change: Change = HONEST[name]
    found = verifier_of(change.program).full(change.text, (measure(PROGRAMS[change.program]), measure(change.text)))
    assert found.passed, found


CHANGED_HONESTLY = {change.program for change in HONEST.values()}  # where a change passes, the program does


@pytest.mark.parametrize(
    "program", [pytest.param(p, marks=pytest.mark.full if p in CHANGED_HONESTLY else ()) for p in PROGRAMS]
)
def test_a_program_does_the_same_as_itself(program: str) -> None:
    found = verifier_of(program).full(PROGRAMS[program] + "\n")
    assert found.passed and not [check for check in found.checks if check.passed is False], found


def test_there_are_many_kinds() -> None:
    assert len(CHEATS) + len(TEXTS) >= 25


@pytest.mark.full
@pytest.mark.parametrize("name", NAIVE)
def test_no_move_of_the_search_is_taken_for_a_cheat(name: str) -> None:
    """The first plan of each transformation on handwritten programs."""
    [path] = HANDWRITTEN.glob(f"*/{name}.hip")
    session = ToolSession(TARGET)
    version = session.add(path.read_text())
    texts = {move.transformation: text for move, text in reversed(session.list_moves(version))}
    verifier = session.prepare_verifier(version.name)
    assert len(texts) > 4
    for transformation, text in texts.items():
        found = verifier.full(text)
        assert found.passed, (transformation, found)
