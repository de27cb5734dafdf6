"""A folder of programs from a language model: asked for, extracted, tried in the sandbox, kept with their lineage."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.core.files import sole_writer, write_whole
from hipsynth.core.json_lines import write_json_lines
from hipsynth.core.program import INDEX, Program, is_id, write_programs
from hipsynth.profiling.backends.protocol import Target
from hipsynth.simulator.limits import RunLimits
from hipsynth.synth.llm.ask import RequestAnswers, RequestPolicy, answer_journal, ask_all
from hipsynth.synth.llm.endpoint import ChatReply, Client
from hipsynth.synth.llm.extract_code import find_code
from hipsynth.synth.llm.prompts import ModelRequest
from hipsynth.synth.llm.trials import ProgramVerdict, judge_all
from hipsynth.toolchain import sandbox

ANSWERS, VERDICTS, EXCLUDED, REPORT = "answers.jsonl", "verdicts.jsonl", "excluded.jsonl", "report.json"
Step = Callable[[str], None]


@dataclass(frozen=True)
class Prices:
    """Dollars per million tokens, read and written."""

    read: float = 0.0
    written: float = 0.0

    def of(self, read: int, written: int) -> float:
        return (read * self.read + written * self.written) / 1e6


@dataclass
class CollectionReport:
    """What became of all requests: answered = programs + excluded. Tokens and cost are of all answers, those of earlier
    runs included; `unstated` counts answers without token counts."""

    out: str
    model: str
    requests: int
    answered: int
    reused: int  # answers that an earlier run got
    failed: dict[str, int]  # reason -> requests without an answer
    programs: int
    excluded: dict[str, int]  # reason -> answers without a usable program
    examples: dict[str, str]
    by: dict[str, dict[str, list[int]]]  # problem, level, temperature -> value -> [programs, answers]
    tokens: dict[str, int]
    cost_usd: float
    stopped: str = ""


@dataclass
class _JudgedAnswers:
    programs: list[Program] = field(default_factory=list)
    excluded: list[dict[str, str]] = field(default_factory=list)

    def exclude(self, request: ModelRequest, reason: str, message: str = "") -> None:
        self.excluded.append({"key": request.key, "name": request.name, "reason": reason, "message": message})


def collect_programs(
    requests: Sequence[ModelRequest],
    client: Client,
    out: Path,
    target: Target,
    limits: RunLimits,
    *,
    manner: RequestPolicy | None = None,
    prices: Prices | None = None,
    workers: int = 1,
    on_answer: Step = lambda _: None,
    start_judging: Callable[[int], Step] = lambda _: lambda _: None,
) -> CollectionReport:
    """Writes OUT/<id>.hip and OUT/programs.jsonl for `synth profile`, and answers.jsonl, excluded.jsonl, report.json.

    An interrupted run goes on where it was: answers and verdicts are kept as they come. The folder holds the programs
    of the latest `requests`. Raises MissingDependency without sandbox or simulator, EndpointFailed (see `ask_all`),
    BadInput for a folder of other programs.
    """
    sandbox.require_sandbox()
    if (out / INDEX).exists() and not (out / ANSWERS).exists():
        raise BadInput(f"{out} holds programs of another kind", remedy="use an empty --out folder")
    with sole_writer(out):
        result = ask_all(requests, client, answer_journal(out / ANSWERS), manner or RequestPolicy(), on_answer)
        answered = [request for request in requests if request.key in result.answers]
        sorted_ = _extract_programs(answered, result.answers)
        step = start_judging(len(sorted_.programs))
        verdicts = judge_all(sorted_.programs, target, limits, out / VERDICTS, workers, step)
        programs = _keep_programs(sorted_, verdicts, {request.key: request for request in answered})
        report = _build_report(out, requests, result, programs, sorted_.excluded, prices or Prices())
        _write_folder(out, programs, sorted_.excluded, report)
    return report


def _extract_programs(answered: Iterable[ModelRequest], answers: Mapping[str, ChatReply]) -> _JudgedAnswers:
    """The different programs in the answers; the others are excluded."""
    judged = _JudgedAnswers()
    texts: dict[str, str] = {}
    for request in answered:
        answer = answers[request.key]
        code, reason = find_code(answer)
        if reason:
            judged.exclude(request, reason, answer.text[:200])
            continue
        program = _build_program(request, code)
        if program.id in texts:
            judged.exclude(request, "duplicate", f"the same text as {texts[program.id]}")
            continue
        texts[program.id] = request.name
        judged.programs.append(program)
    return judged


def _build_program(request: ModelRequest, code: str) -> Program:
    params = {"model": request.model, "level": request.level.name, "temperature": request.temperature}
    return Program(
        code,
        origin="llm",
        family=request.problem.name,
        name=request.name,
        params={**params, "sample": request.sample, "request": request.key},
        lineage=request.problem.lineage,
    )


def _keep_programs(
    judged: _JudgedAnswers, verdicts: Mapping[str, ProgramVerdict], by_key: Mapping[str, ModelRequest]
) -> list[Program]:
    programs = []
    for program in judged.programs:
        verdict = verdicts[program.id]
        if verdict.reason:
            judged.exclude(by_key[str(program.params["request"])], verdict.reason, verdict.message)
        else:
            programs.append(program)
    return programs


def _build_report(
    out: Path,
    requests: Sequence[ModelRequest],
    request_answers: RequestAnswers,
    programs: Sequence[Program],
    excluded: Sequence[Mapping[str, str]],
    prices: Prices,
) -> CollectionReport:
    answers = request_answers.answers.values()
    read, written = sum(a.read or 0 for a in answers), sum(a.written or 0 for a in answers)
    examples = dict(request_answers.examples)
    for row in excluded:
        examples.setdefault(row["reason"], f"{row['name']}: {row['message']}"[:300])
    return CollectionReport(
        str(out), requests[0].model, len(requests), len(answers), request_answers.reused,
        dict(sorted(request_answers.failed.items())), len(programs),
        dict(sorted(Counter(row["reason"] for row in excluded).items())), examples,
        _count_yields(requests, request_answers, {str(program.params["request"]) for program in programs}),
        {"read": read, "written": written, "unstated": sum(a.read is None or a.written is None for a in answers)},
        round(prices.of(read, written), 6), request_answers.stopped,
    )  # fmt: skip


def _count_yields(
    requests: Sequence[ModelRequest], answers: RequestAnswers, kept_ids: set[str]
) -> dict[str, dict[str, list[int]]]:
    yields: dict[str, dict[str, list[int]]] = {"problem": {}, "level": {}, "temperature": {}}
    for request in requests:
        if request.key not in answers.answers:
            continue
        values = (request.problem.name, request.level.name, f"{request.temperature:g}")
        for name, value in zip(yields, values, strict=True):
            row = yields[name].setdefault(value, [0, 0])
            row[0] += request.key in kept_ids
            row[1] += 1
    return yields


def _write_folder(
    out: Path, programs: Sequence[Program], excluded: Sequence[Mapping[str, str]], report: CollectionReport
) -> None:
    write_json_lines(out / EXCLUDED, excluded, sort_keys=True)
    listed = {f"{program.id}.hip" for program in programs}
    write_programs(out, programs)
    for path in out.glob("*.hip"):  # of requests that an earlier run asked and this one does not
        if is_id(path.stem) and path.name not in listed:
            path.unlink()
    write_whole(out / REPORT, json.dumps(vars(report), indent=2) + "\n")
