"""Builds programs: one from a choice sequence, or a stream of distinct ones from a seed, on any number of workers."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass

from hipsynth.core.errors import BadInput
from hipsynth.core.languages import HIP, TRITON
from hipsynth.core.program import Program
from hipsynth.core.workers import end_with_parent, in_order, map_unordered
from hipsynth.synth.generate.build import make_program
from hipsynth.synth.generate.choices import Choices, Stream
from hipsynth.synth.generate.headers import find_template
from hipsynth.synth.generate.policy import Policy, default_policy
from hipsynth.synth.generate.problem_sizes import with_runs
from hipsynth.synth.generate.triton_program import triton_program
from hipsynth.synth.generate.types import IRError

CHUNK = 16  # programs per task of a worker
COLLECT_EVERY = 200_000  # objects of a worker
ATTEMPTS = 100  # draws of one program before an error is raised
WRITERS: dict[str, Callable[[Program], Program]] = {HIP: lambda program: program, TRITON: triton_program}


def draw_program(
    seed: int, index: int, attempt: int = 0, family: str | None = None, policy: Policy | None = None,
    languages: tuple[str, ...] = (HIP,),
) -> Program:  # fmt: skip
    """Program `index` of a seed, to be written in `languages`; each `attempt` gives a different one, to replace
    duplicates and rejected programs."""
    chosen = family or (policy or default_policy()).family(Choices(Stream("family", seed, index, attempt)), languages)
    return make_program(chosen, Choices(Stream("program", seed, chosen, index, attempt)), policy=policy)


def generate_programs(
    count: int, seed: int = 0, family: str | None = None, workers: int = 1, start: int = 0,
    earlier_ids: set[str] | None = None, runs: int = 1, policy: Policy | None = None, engine: str = "local",
    languages: tuple[str, ...] = (HIP,),
) -> Iterator[Program]:  # fmt: skip
    """Programs start .. count-1 of a seed, in order, without duplicates, each with up to `runs` runs at other sizes; in
    several languages, one after the other. With TRITON, programs that it cannot express are drawn again.

    The result depends on `seed`, `family`, `languages` and `policy` only, never on `workers` and `engine`.
    `earlier_ids`: of the programs of an interrupted run.
    Raises UsageError for an unknown family, BadInput when a family runs out of distinct programs.
    """
    if family is not None:
        find_template(family)
    ids = set() if earlier_ids is None else set(earlier_ids)
    order = GenerationOrder(seed, family, runs, policy, languages)
    for index, first in enumerate(_in_order(count, order, workers, start, engine), start):
        programs, attempt = first
        while any(program.id in ids for program in programs):
            if attempt >= ATTEMPTS:
                raise BadInput(
                    f"program {index} of seed {seed}: {attempt} draws gave only duplicates of earlier programs",
                    cause=f"family {programs[0].family} has few distinct programs under this policy",
                    remedy="generate fewer, or widen its parameters in templates/policy/default.toml",
                )
            programs, attempt = _draw_program(seed, index, attempt + 1, order)
        ids.update(program.id for program in programs)
        yield from programs


def _draw_program(seed: int, index: int, attempt: int, order: GenerationOrder) -> tuple[tuple[Program, ...], int]:
    """The first program, from `attempt` on, that the typed language and the wanted ones accept, in each of these; and
    its attempt number.

    Families should never build an invalid program (the tests draw thousands), but one must not end a run of a million.
    """
    for number in range(attempt, attempt + ATTEMPTS):
        try:
            program = draw_program(seed, index, number, order.family, order.policy, order.languages)
            program = with_runs(program, order.runs, order.policy) if order.runs > 1 else program
            return tuple(WRITERS[language](program) for language in order.languages), number
        except IRError as error:
            refused = error
    raise BadInput(
        f"program {index} of seed {seed}: {ATTEMPTS} draws in a row were rejected",
        cause=refused.what,
        remedy="loosen the parameters of this family in templates/policy/default.toml",
    )


@dataclass(frozen=True)
class GenerationOrder:
    """The arguments of `generate_programs` on which every program depends."""

    seed: int
    family: str | None
    runs: int
    policy: Policy | None
    languages: tuple[str, ...] = (HIP,)

    def chunk(self, ends: tuple[int, int]) -> list[tuple[tuple[Program, ...], int]]:
        """The first attempts of the programs from `ends[0]` to before `ends[1]`."""
        return [_draw_program(self.seed, index, 0, self) for index in range(*ends)]


def _in_order(
    count: int, order: GenerationOrder, workers: int, start: int, engine: str
) -> Iterator[tuple[tuple[Program, ...], int]]:
    """First attempts in order; workers compute at most a few chunks ahead.

    Forked workers start at once; those of core.workers are spawned and import numpy anew (0.35 s each, a tenth of the
    time of 400 programs), which pays only where an item may crash or hang its process.
    """
    if engine != "local":
        chunks = ((begin, min(begin + CHUNK, count)) for begin in range(start, count, CHUNK))
        for chunk in in_order(map_unordered(order.chunk, chunks, workers, engine)):
            yield from chunk
        return
    if workers <= 1 or count - start <= CHUNK:
        for index in range(start, count):
            yield from order.chunk((index, index + 1))
        return
    with ProcessPoolExecutor(workers, initializer=_follow_the_parent) as pool:
        pending: list[Future[list[tuple[tuple[Program, ...], int]]]] = []
        begin = start
        while begin < count or pending:
            while begin < count and len(pending) < 3 * workers:
                end = min(begin + CHUNK, count)
                pending.append(pool.submit(order.chunk, (begin, end)))
                begin = end
            yield from pending.pop(0).result()


def _follow_the_parent() -> None:
    """A worker leaves Ctrl-C to its parent and ends with it: forked workers hold both ends of their queue, so that a
    dead parent does not close it. It looks for garbage rarely: a program is thousands of objects without a cycle."""
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
