"""Autotuned kernels in searches: the configuration that the autotuner chose stands alone while others are tried, and
the one that was found joins the author's list."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.reasons import Reason
from hipsynth.profiling.metrics import bottleneck
from hipsynth.profiling.reports.autotunings import FAILS, find_record
from hipsynth.simulator.autotunings import Autotuning
from hipsynth.source.edits import Edit, apply_edits
from hipsynth.source.triton_source import JitFunction, TritonSource, called_name, read_triton_source
from hipsynth.tuning.optimize.documents import SearchStep, StepOutcome
from hipsynth.tuning.trial.refusal import KernelRefusal

AUTOTUNE, LIST = "autotune", "configs"


@dataclass(frozen=True)
class PinnedScript:
    """A script whose autotuned kernels have one configuration each; `pinned`: their names; `refusals`: why others have
    the author's."""

    text: str
    pinned: frozenset[str]
    refusals: Mapping[str, KernelRefusal]


def pin_choices(source: TritonSource, tunings: Sequence[Autotuning]) -> PinnedScript:
    """The script with the configurations that its autotuners chose in a run."""
    edits, pinned, refusals = list[Edit](), set[str](), dict[str, KernelRefusal]()
    for name in dict.fromkeys(tuning.kernel for tuning in tunings):
        choices = [tuning for tuning in tunings if tuning.kernel == name]
        place = _find_list(source, name)
        why = _why_not_pinned(choices) if place else "its list of configurations is not found in the script"
        if why or place is None:
            refusals[name] = KernelRefusal(Reason.AUTOTUNED, why)
            continue
        decorator, configs = place
        text = f"[{_write_configuration(decorator, choices[0].chosen.meta)}]"
        edits.append(Edit(source.start_of(configs), source.end_of(configs), text))
        pinned.add(name)
    return PinnedScript(apply_edits(source.data, edits).decode(), frozenset(pinned), refusals)


def offer_configurations(original: TritonSource, pinned: PinnedScript, changed: str) -> str:
    """A changed script with the author's lists of configurations, and in each the one that the change has."""
    before, after = read_triton_source(pinned.text), read_triton_source(changed)
    edits = []
    for name in pinned.pinned:
        places = [_find_list(source, name) for source in (original, before, after)]
        theirs, chosen, written = (place[1] if place else None for place in places)
        assert theirs is not None and chosen is not None and written is not None
        new = after.text_of(written)
        is_same = new == before.text_of(chosen)
        text = original.text_of(theirs) if is_same else _insert_configuration(original, theirs, new[1:-1])
        edits.append(Edit(after.start_of(written), after.end_of(written), text))
    return apply_edits(after.data, edits).decode()


def list_choices(tunings: Sequence[Autotuning], kernels: Sequence[KernelRecord]) -> Iterator[SearchStep]:
    """What the autotuner of a run tried, as steps: those that it chose are kept."""
    rows = [(tuning, row) for tuning in tunings for row in tuning.configurations]
    for number, (tuning, row) in enumerate(rows):
        record = find_record(kernels, tuning.kernel, row)
        limits = ", ".join(map(str, bottleneck.rank_bounds(record)[:2])) if record is not None else ""
        outcome = (
            StepOutcome.KEPT if row.chosen else StepOutcome.FAILED if row.time_ns is None else StepOutcome.NOT_FASTER
        )
        plan = {name: value for name, value in row.meta.items() if not isinstance(value, str)}
        yield SearchStep(
            number, -1, AUTOTUNE, tuning.kernel, plan, tuning.chosen.time_ns or 0.0, row.time_ns, row.chosen,
            FAILS if row.time_ns is None else limits, outcome,
        )  # fmt: skip


def _why_not_pinned(tunings: Sequence[Autotuning]) -> str:
    """Why the choice cannot be written as a configuration of its own; "" if it can."""
    if len({tuple(tuning.chosen.meta.items()) for tuning in tunings}) > 1:
        return "its autotuner chooses other configurations for other arguments; launch it with one size"
    if not all(tuning.plain for tuning in tunings):
        return "its configurations have hooks, or parameters that are no numbers, truths or texts"
    return ""


def _find_list(source: TritonSource, name: str) -> tuple[ast.Call, ast.expr] | None:
    """The autotuner of the only kernel with this name, and its list of configurations; None if a configuration could
    not be written there."""
    functions = source.functions_named(name)
    decorators = _autotuners_of(functions[0]) if len(functions) == 1 else []
    if len(decorators) != 1:
        return None
    [decorator] = decorators
    named = [keyword.value for keyword in decorator.keywords if keyword.arg == LIST]
    configs = next(iter([*named, *decorator.args]), None)
    is_spelled = isinstance(decorator.func, ast.Attribute) or any(
        alias.name == "Config" and alias.asname is None
        for node in ast.walk(source.tree) if isinstance(node, ast.ImportFrom) and node.module == "triton"
        for alias in node.names
    )  # fmt: skip
    return (decorator, configs) if configs is not None and is_spelled else None


def _autotuners_of(function: JitFunction) -> list[ast.Call]:
    decorators = function.node.decorator_list
    return [row for row in decorators if isinstance(row, ast.Call) and called_name(row) == AUTOTUNE]


def _write_configuration(decorator: ast.Call, meta: Mapping[str, bool | int | str]) -> str:
    options = {name: value for name, value in meta.items() if name in ("num_warps", "num_stages", "num_ctas")}
    if options.get("num_ctas") == 1:
        del options["num_ctas"]
    blocks = ", ".join(f'"{name}": {value!r}' for name, value in meta.items() if name not in (*options, "num_ctas"))
    config = ast.unparse(decorator.func).removesuffix(AUTOTUNE) + "Config"
    return f"{config}({{{blocks}}}, {', '.join(f'{name}={value!r}' for name, value in options.items())})"


def _insert_configuration(source: TritonSource, configs: ast.expr, added: str) -> str:
    """The text of a list with another element before its first."""
    text = source.text_of(configs)
    if not isinstance(configs, ast.List | ast.Tuple) or not configs.elts:
        return f"[{added}, *({text})]"
    first, begin = configs.elts[0], source.start_of(configs)
    at = source.start_of(first) - begin
    line = text.encode()[:at].decode().rpartition("\n")
    gap = f",\n{line[2]}" if line[1] and not line[2].strip() else ", "
    return f"{text.encode()[:at].decode()}{added}{gap}{text.encode()[at:].decode()}"
