"""Renders chats with tool calls as text for small models, with the results of tools shortened.

The same functions render chats for training and for use, so a model sees the forms that it has learned. TEMPLATE is a
chat template of transformers in the widespread form (<tool_call>{"name", "arguments"}</tool_call>); it marks what the
assistant says, so that only this counts in the loss, and of it no message of weight 0.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from hipsynth.core.documents import from_json
from hipsynth.source.model_view import view_source
from hipsynth.synth.llm.endpoint import ToolCall
from hipsynth.tuning.agent.prompts import CalledFunction, ChatTurn, RequestedCall
from hipsynth.tuning.agent.sft_chats import largest_changes
from hipsynth.tuning.optimize.evaluate import original_name
from hipsynth.tuning.optimize.move_values import PREVIEWED
from hipsynth.tuning.optimize.transformation_plan import PlanValue
from hipsynth.tuning.tools.documents import (
    ChangedProgram,
    ComparedPrograms,
    ProposedMoves,
    TimedProgram,
    VerifiedProgram,
)

MOST_RESULT = 1600  # characters of a tool's result
MOST_CHANGED = 1  # metrics and counters of a kernel
A = TypeVar("A")
METRICS = ("HBM_Arithmetic_Intensity", "L1_Cache_Hit_Rate", "L2_Cache_Hit_Rate", "HBM_GFLOPS")
_SAID = (
    "{{ message['content'] or '' }}"
    "{% for call in message['tool_calls'] or [] %}"
    "{{ '\n<tool_call>' + call['function'] | tojson + '</tool_call>' }}"
    "{% endfor %}{{ '<|im_end|>' }}"
)
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' and message['weight'] == 0 %}" + _SAID + "{{ '\n' }}"
    "{% elif message['role'] == 'assistant' %}{% generation %}" + _SAID + "{% endgeneration %}{{ '\n' }}"
    "{% else %}{{ message['content'] }}"
    "{% if loop.first and tools %}{{ '\nTools: ' }}{% for tool in tools %}"
    "{{ tool['function']['name'] + '(' + tool['function']['parameters']['properties'] | join(', ') + ') ' }}"
    "{% endfor %}{% endif %}"
    "{{ '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|$)", re.DOTALL)
_SOURCE = re.compile(r"```cpp\n(.*?)\n```", re.DOTALL)


def brief_messages(messages: Sequence[ChatTurn]) -> list[ChatTurn]:
    """The messages as a small model reads them: of the first source its kernels and launches, of results the part that
    decides what to do next, and calls without numbers of their own."""
    brief_list = []
    for message in messages:
        brief: ChatTurn = {"role": message["role"], "content": message.get("content") or ""}
        if message["role"] == "user":
            brief["content"] = _SOURCE.sub(_kernels_block, brief["content"], count=1)
        elif message["role"] == "tool":
            brief["content"] = _brief_result(str(message.get("name", "")), brief["content"])
        elif message.get("tool_calls"):
            brief["tool_calls"] = [_brief_call(call["function"]) for call in message["tool_calls"]]
        if "weight" in message:
            brief["weight"] = message["weight"]
        brief_list.append(brief)
    return brief_list


def _kernels_block(match: re.Match[str]) -> str:
    return f"```cpp\n{view_source(match[1], 'kernels')[0].rstrip()}\n```"


def _brief_call(function: CalledFunction) -> RequestedCall:
    arguments = function["arguments"]
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            arguments = {"unreadable": arguments[:80]}
    return {"function": {"name": function["name"], "arguments": arguments}}


def _brief_result(name: str, text: str) -> str:
    try:
        document = json.loads(_mend_moves(text))
        document.pop("note", None)  # AGAIN, which is said beside the answer
        short = (_compact_json if "error" in document else SHOWN.get(name, _compact_json))(document)
    except (ValueError, TypeError, AttributeError):
        short = text
    return short if len(short) <= MOST_RESULT else short[:MOST_RESULT] + " [cut]"


def _mend_moves(text: str) -> str:
    """A list of moves that was cut for its length, without the last move."""
    cut = text.rfind(', {"move": ') if text.endswith(" [cut]") and text.startswith('{"moves": ') else -1
    return text if cut < 0 else text[:cut] + "]}"


def _compact_json(document: object) -> str:
    return json.dumps(document, separators=(",", ":"))


def _brief_profile(answer: TimedProgram) -> str:
    lines = [f"{answer.duration_us} us"]
    for row in answer.kernels[:3]:
        known_metrics = [f"{name} {row.metrics[name]:g}" for name in METRICS if name in row.metrics]
        shape = f"grid {list(row.grid)} block {list(row.block)}"
        lines.append(
            f"{original_name(row.name)}: {row.duration_us} us, {row.limited_by}, {shape}, {', '.join(known_metrics)}"
        )
    return "\n".join(lines)


def _brief_moves(answer: ProposedMoves) -> str:
    """A line for each move, up to PREVIEWED: what most plans of its kernel have in common is left out. Where moves are
    previewed, only they are shown."""
    rows = [row for row in answer.moves if row.gain is not None][:PREVIEWED] or answer.moves[:PREVIEWED]
    plans = [set(_plan_words(row.plan)) for row in rows]
    of = [(row.kernel, word) for row, plan in zip(rows, plans, strict=True) for word in plan]
    each = Counter(row.kernel for row in rows)
    common = {(kernel, word) for (kernel, word), n in Counter(of).items() if 2 * n >= each[kernel] > 2}
    lines = []
    for row in rows:
        words = [word for word in _plan_words(row.plan) if (row.kernel, word) not in common]
        gain = [] if row.gain is None else [f"gain={row.gain:g}"]
        lines.append(" ".join([str(row.move), row.transformation, *[row.kernel] * (len(each) > 1), *words, *gain]))
    return "\n".join(lines) or "no moves"


def _plan_words(plan: Mapping[str, PlanValue]) -> list[str]:
    """The decisions of a plan, as words such as coarsen=2 and shape=64x1x1."""
    return [name if value is True else f"{name}={_plan_value(value)}" for name, value in plan.items() if value]


def _plan_value(value: PlanValue) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _brief_apply(answer: ChangedProgram) -> str:
    return f"program {answer.program}"


def _brief_comparison(answer: ComparedPrograms) -> str:
    rows = [
        f"{original_name(name)}: {', '.join(largest_changes(row, MOST_CHANGED))}"
        for name, row in answer.changed.items()
        if row
    ]
    return "\n".join([f"speedup {answer.speedup}", *rows])


def _brief_verification(answer: VerifiedProgram) -> str:
    failed = [row.check for row in answer.checks if row.passed is False]
    passed = [row.check.replace("_", " ") for row in answer.checks if row.passed]
    return f"passed: {', '.join(passed)}" if answer.passed else f"failed: {', '.join(failed)}"


def read_as(kind: type[A], text: Callable[[A], str]) -> Callable[[object], str]:
    """A function from an answer's JSON to its short text; it raises TypeError or ValueError for anything else."""
    return lambda document: text(from_json(kind, document))


SHOWN: Mapping[str, Callable[[object], str]] = {
    "profile": read_as(TimedProgram, _brief_profile),
    "propose": read_as(ProposedMoves, _brief_moves),
    "apply": read_as(ChangedProgram, _brief_apply),
    "compare": read_as(ComparedPrograms, _brief_comparison),
    "run_and_verify": read_as(VerifiedProgram, _brief_verification),
}


def calls_in(text: str, number: int) -> tuple[str, tuple[ToolCall, ...]]:
    """What an answer says besides its calls, and the calls. One that is no JSON has no name, so that no tool takes
    it. `number`: of calls so far."""
    calls: list[ToolCall] = []
    for match in _CALL.finditer(text):
        try:
            document = json.loads(match[1])
            name, arguments = str(document["name"]), json.dumps(document.get("arguments", {}))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            name, arguments = "", match[1][:500]
        calls.append(ToolCall(f"call_{number + len(calls)}", name, arguments))
    return _CALL.sub("", text).strip(), tuple(calls)
