"""Runs a built program in the sandbox, in a copy of its folder; the rest of the surveyed tree is readable around it."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth.core.files import leads_somewhere, leads_to_file
from hipsynth.core.folders import copy_folder
from hipsynth.core.reasons import Reason
from hipsynth.profiling.survey.build import BuildResult
from hipsynth.profiling.survey.build_plan import Invocation, SurveyedProgram
from hipsynth.profiling.survey.documents import SurveyStatus
from hipsynth.profiling.survey.scripts import TESTS, write_test_runner
from hipsynth.profiling.survey.self_check import RunVerdict, judge_run
from hipsynth.simulator import api, devices
from hipsynth.simulator.limits import RunLimits
from hipsynth.simulator.run_folder import put_executable, put_script
from hipsynth.toolchain import sandbox

ATTEMPTS = 3
# Failures after which a run with other arguments may succeed.
_RETRY = frozenset({Reason.NEEDS_ARGUMENTS, Reason.NEEDS_DATA, Reason.EXIT_CODE})
USAGE_CHARS = 20_000
_PREPARING = sandbox.SandboxLimits(**sandbox.time_limits(20), memory_bytes=2 << 30, processes=64)
# An option named in a message, such as: use the event-based method with "-m event" argument
_NAMED_OPTION = re.compile(r"[\"`](--?[a-zA-Z][\w-]*(?: [\w.]+)?)[\"`] (?:argument|option|flag)")
# An argument that names a file to read: a path, or a name with the ending of one. Its absence may explain the failures.
_INPUT_FILE = re.compile(
    r"^(?!-).*(/|\.(txt|dat|data|bin|csv|mtx|graph|gr|in|inp|bmp|png|ppm|pgm|jpe?g|raw|json|xml|cfg|conf)$)"
)
_MAY_LACK_DATA = frozenset({Reason.EXIT_CODE, Reason.HOST_CRASH})
_LITERAL = re.compile(r"-{0,2}\d[\w.x,]*|--?[a-zA-Z][\w-]*(=[\w.-]+)?")


@dataclass(frozen=True)
class RunConditions:
    """What a program runs on and within. `root`: the surveyed folder, of which it sees a read-only view."""

    device: devices.DeviceTable
    root: Path
    limits: RunLimits


def try_calls(
    program: SurveyedProgram, built: BuildResult, conditions: RunConditions, scratch: Path
) -> tuple[RunVerdict, api.RunResult, Invocation]:
    """Runs a program with the arguments from its build files, else none, else those from scripts and READMEs.

    Because programs read paths such as `../data`, the run folder is mounted inside a read-only view of the surveyed
    folder, at the program's own relative path. Returns the best verdict with its run and call.
    """
    tries: list[tuple[RunVerdict, api.RunResult, Invocation]] = []
    calls = _program_calls(program, built)
    while len(tries) < min(len(calls), ATTEMPTS):
        call, view = calls[len(tries)], scratch / f"run{len(tries)}"
        verdict, result = try_call(program, built, conditions, view, call)
        tries.append((_advise_on_timeout(verdict, call, conditions.limits), result, call))
        lost = verdict.reason == Reason.HOST_CRASH and program.reads_arguments and not call.arguments
        if verdict.reason not in _RETRY and not lost:
            return tries[-1]
        examples = _own_examples(result, built, view / _folder_inside(built, conditions.root))
        calls += [call for call in examples if call not in calls]
    return (
        tries[-1] if tries[-1][0].reason == Reason.NEEDS_DATA else tries[0]
    )  # a missing file is the more specific reason


def _folder_inside(built: BuildResult, root: Path) -> Path:
    plan_folder = built.plan.folder.resolve()
    return plan_folder.relative_to(root) if plan_folder.is_relative_to(root) else Path()


def try_call(
    program: SurveyedProgram, built: BuildResult, conditions: RunConditions, view: Path, call: Invocation
) -> tuple[RunVerdict, api.RunResult]:
    """Runs a program once, in a copy of its folder below the new folder `view`, and judges it."""
    folder = view / _folder_inside(built, conditions.root)
    result, setup_problem = _run_call(built, conditions, folder, call, {str(view): conditions.root})
    verdict = judge_run(result, unasked=program.reads_arguments and not call.arguments)
    if not result.dispatch_count:
        verdict = explain_by_absent_file(verdict, call, folder)
    return add_setup_problem(verdict, setup_problem), result


def add_setup_problem(verdict: RunVerdict, problem: str) -> RunVerdict:
    """The verdict, with what went wrong before the run in its message; not if the program passed all the same."""
    if not problem or verdict.status == SurveyStatus.PASSED:
        return verdict
    return replace(verdict, message="; ".join(filter(None, [verdict.message, problem])))


def explain_by_absent_file(verdict: RunVerdict, call: Invocation, folder: Path) -> RunVerdict:
    """The verdict on a run in `folder` that launched no kernel: needs_data if its arguments name an absent file."""
    if verdict.reason not in _MAY_LACK_DATA:
        return verdict
    for word in filter(_INPUT_FILE.search, call.arguments):
        if not leads_somewhere(folder / word):
            return replace(verdict, reason=Reason.NEEDS_DATA, message=f"{verdict.message}; {word} is not in its folder")
    return verdict


def _advise_on_timeout(verdict: RunVerdict, call: Invocation, limits: RunLimits) -> RunVerdict:
    """Adds to a time-out how the program could finish: a higher limit or smaller arguments."""
    if verdict.reason not in (Reason.TIMEOUT, Reason.BUDGET):
        return verdict
    advice = f"try more than --timeout {limits.time_s:g}"
    if any(re.search(r"\d", word) for word in call.arguments):
        advice += f", or `synth run` with a smaller problem than `{shlex.join(call.arguments)}`"
    return replace(verdict, message=f"{verdict.message}; {advice}")


def _program_calls(program: SurveyedProgram, built: BuildResult) -> list[Invocation]:
    calls = [*built.plan.calls[:1], Invocation(), *built.plan.calls[1:], *program.calls]
    return list(dict.fromkeys(calls))


def _own_examples(result: api.RunResult, built: BuildResult, folder: Path) -> list[Invocation]:
    """Example command lines of itself in the program's output, if they use only numbers, options and present files."""
    name = re.escape(Path(built.plan.name).name)
    pattern = re.compile(rf"(?:^|[\s`'\"$>])(?:[\w./-]*/)?{name}((?:[ \t]+[^\s`'\"]+)+)[ \t]*[`'\"]?\.?$", re.MULTILINE)
    text = f"{result.stdout}\n{result.stderr}"[:USAGE_CHARS]
    examples = [tuple(match.split()) for match in pattern.findall(text)]
    plain = [
        words for words in examples if all(_LITERAL.fullmatch(word) or leads_to_file(folder / word) for word in words)
    ]
    return [Invocation(words) for words in (*plain, *(tuple(match.split()) for match in _NAMED_OPTION.findall(text)))]


def _run_call(
    built: BuildResult, conditions: RunConditions, folder: Path, call: Invocation, around: Mapping[str, Path]
) -> tuple[api.RunResult, str]:
    """The run of a call, and what went wrong with its set-up commands ("": nothing)."""
    assert built.artefacts is not None
    copy_folder(built.plan.folder, folder)
    artefacts = _put_program(built, folder)
    setup_problem = run_setup_commands(call, folder, around)
    streams = api.ProgramStreams(_standard_input(call, built.plan.folder, folder))
    device, limits = conditions.device, conditions.limits
    result = api.run_program(artefacts, device, folder, limits, call.arguments, mounts=around, streams=streams)
    return result, setup_problem


def _put_program(built: BuildResult, folder: Path) -> api.Artefacts:
    """The program in its run folder: an executable with the code objects that it loads, or a script."""
    assert built.artefacts is not None
    if built.artefacts.interpreter is not None:
        if built.plan.origin == TESTS:
            return replace(built.artefacts, executable=write_test_runner(built.plan, folder))
        return put_script(built.artefacts, folder)
    output_path = _own_output(built)
    if output_path is not None:
        shutil.copytree(output_path, folder, dirs_exist_ok=True)
    return put_executable(built.artefacts, folder, built.plan.name)


def run_setup_commands(call: Invocation, folder: Path, around: Mapping[str, Path]) -> str:
    """Runs, in the run folder, the commands that precede the program in its Makefile or script (unpacking data).
    Returns what went wrong; "" if nothing did."""
    if not call.before:
        return ""
    if not sandbox.is_available():
        return "its set-up commands did not run: there is no sandbox"
    lines = "\n".join(call.before)
    for view, root in around.items():
        lines = lines.replace(str(root), view)
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    result = sandbox.run_sandboxed(["/bin/sh", "-c", lines], folder, _PREPARING, env=environment, mounts=around)
    if result.status == sandbox.JobStatus.OK:
        return ""
    end = f"exit code {result.exit_code}" if result.exit_code is not None else result.reason
    return f"its set-up commands failed: {end}"


def _standard_input(call: Invocation, start_folder: Path, folder: Path) -> Path | None:
    """The file for standard input; commands that ran in the folder may have left a link there, which does not count."""
    for place in (folder, start_folder) if call.stdin else ():
        file = (place / call.stdin).resolve()
        if leads_to_file(file) and file.is_relative_to(place.resolve()):
            return file
    return None


def _own_output(built: BuildResult) -> Path | None:
    """The folder with the code objects that the program loads at run time, if the build made any."""
    assert built.artefacts is not None
    place = built.artefacts.executable.parent / "run"
    return place if place.is_dir() else None
