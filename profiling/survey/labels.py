"""Labels of a surveyed program for a corpus: its record, its source if that is to be kept, and its item."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from hipsynth import toolchain
from hipsynth.core.errors import BadInput
from hipsynth.core.files import SOURCE_BYTES, leads_to_file, read_regular
from hipsynth.core.kernel_record import Dim, KernelRecord
from hipsynth.core.program import ProgramRecord, text_id
from hipsynth.core.run_status import RunStatus
from hipsynth.core.store import CorpusItem
from hipsynth.profiling.backends.sim import SimBackend, measured_kernels
from hipsynth.profiling.matrix.collect import describe_settings, with_sure_labels
from hipsynth.profiling.survey.build import code_flags
from hipsynth.profiling.survey.build_plan import BuildPlan, Invocation, SourceUnit, SurveyedProgram
from hipsynth.simulator import devices
from hipsynth.simulator.api import RunResult
from hipsynth.simulator.limits import RunLimits
from hipsynth.source.includes import PRAGMA_ONCE_LINE, ends_line, replace_includes

ORIGIN = "surveyed"
LICENCE_FILES = ("LICENSE", "LICENSE.md", "LICENSE.txt", "LICENCE", "COPYING")
LICENCES = (  # words of a licence's text -> SPDX identifier
    ("Apache License", "Apache-2.0"),
    ("GNU LESSER GENERAL PUBLIC", "LGPL"),
    ("GNU GENERAL PUBLIC", "GPL"),
    ("Neither the name", "BSD-3-Clause"),
    ("Redistributions of source code", "BSD-2-Clause"),
    ("Permission is hereby granted, free of charge", "MIT"),
)
_SPDX = re.compile(r"SPDX-License-Identifier:\s*([\w.+-]+)")
NOT_KNOWN = "not known"


def licence_of(text: str, folder: Path, root: Path) -> str:
    """The SPDX identifier that a source names, or of the nearest licence file up to `root`; else "not known"."""
    named = _SPDX.search(text)
    if named:
        return named.group(1)
    for place in (folder, *folder.parents):
        for name in LICENCE_FILES:
            licence = _recognise_licence(_read_text(place / name)) or _recognise_licence(
                _read_text(place / name.lower())
            )
            if licence:
                return licence
        if place == root:
            break
    return _recognise_licence(text) or NOT_KNOWN


def _recognise_licence(text: str) -> str:
    flat = " ".join(text.split())
    return next((spdx for words, spdx in LICENCES if words in flat), "")


def _read_text(path: Path) -> str:
    try:
        return read_regular(path, SOURCE_BYTES).decode(errors="replace")
    except BadInput:
        return ""


def source_text(plan: BuildPlan, root: Path) -> str:
    """The program's own files, the one with its main() first as the plan lists it, each after a line with its name.

    Headers below `root` stand where they are included first, and the plan's macros at the top, so that the text
    compiles alone.
    """
    parts, visited = [], set[Path]()
    for unit in plan.units:
        name = unit.path.relative_to(plan.folder) if unit.path.is_relative_to(plan.folder) else Path(unit.path.name)
        text = _with_headers(_read_text(unit.path), unit.path.parent, unit, root.resolve(), visited)
        parts.append(f"// file: {name}\n{text}" if len(plan.units) > 1 else text)
    macros = dict.fromkeys(text for unit in plan.units for text in unit.defines)
    defines = "".join(f"#define {name} {value if equals else 1}\n" for name, equals, value in map(_macro_parts, macros))
    return defines + "\n".join(parts)


def _macro_parts(macro: str) -> tuple[str, str, str]:
    return macro.partition("=")


def _with_headers(text: str, folder: Path, unit: SourceUnit, root: Path, visited: set[Path]) -> str:
    """A text with the headers of its own collection written in, each once."""

    def inline_header(match: re.Match[str]) -> str:
        for place in (folder, *unit.includes) if match["mark"] == '"' else unit.includes:
            path = (place / match["name"]).resolve()
            if path.is_relative_to(root) and leads_to_file(path):
                if path in visited:
                    return ""
                visited.add(path)
                header = PRAGMA_ONCE_LINE.sub("", _read_text(path))
                inlined = _with_headers(header, path.parent, unit, root, visited)
                return f"// file: {path.name}\n{inlined}" + ("" if ends_line(match) else "\n")
        return match[0]

    return replace_includes(text, inline_header)


def program_record(
    program: SurveyedProgram,
    plan: BuildPlan,
    root: Path,
    arguments: tuple[str, ...],
    *,
    base: str = "",
    change: str = "",
) -> ProgramRecord:
    """The record of a surveyed program as in programs.jsonl, with `text`; its family is the surveyed folder.

    `base`: the id of the program as it is in the folder, if `change` says which of its constants have other values.
    """
    text = source_text(plan, root)
    facts: dict[str, object] = {"collection": root.name, "path": program.id, "build": plan.origin}
    facts["licence"] = licence_of(text, program.main.parent.resolve(), root.resolve())
    return {
        "id": text_id(text), "origin": ORIGIN, "family": root.name, "name": program.id, "params": facts, "choices": [],
        "lineage": base or text_id(text), "derivation": [f"constants:{change}"] if change else [], "expected": None,
        "runs": [{"arguments": list(arguments), "params": {}}], "text": text,
    }  # fmt: skip


def by_shape(result: RunResult) -> Iterator[KernelRecord]:
    """The kernels of a run; of one that was launched in several shapes, the first launch of each among those kept."""
    for kernel in result.kernels:
        if kernel.same_shape:
            yield kernel
            continue
        shapes: dict[tuple[Dim, Dim], KernelRecord] = {}
        for launch in result.dispatches:
            if launch.symbol == kernel.symbol:
                shapes.setdefault((launch.grid, launch.block), launch)
        yield from shapes.values() or (kernel,)


def label_identity(kernel: KernelRecord, device: str) -> str:
    """Equal for equal labels: of the same kernel on the same device, with the same shape and counters."""
    facts = [kernel.symbol, kernel.grid, kernel.block, kernel.dispatches, sorted(kernel.counters.items()), device]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]


def item_of(
    record: ProgramRecord,
    plan: BuildPlan,
    call: Invocation,
    result: RunResult,
    device: devices.DeviceTable,
    limits: RunLimits,
) -> CorpusItem:
    """The item of a run: the kernels that have counters, with their metrics; one for each shape of a kernel."""
    backend = SimBackend()
    env = toolchain.find_toolchain().provenance()
    arch = device.arch
    kernels = [with_sure_labels(kernel, arch) for kernel in measured_kernels(by_shape(result), arch)]
    return CorpusItem(
        program_id=record["id"],
        arguments=shlex.join(call.arguments),
        lineage=record["lineage"],
        origin=ORIGIN,
        family=record["family"],
        arch=arch,
        flags=code_flags(plan.units[0]),
        device=device.name,
        backend=backend.name,
        backend_version=backend.version() + describe_settings(limits),
        compiler=env.get("compiler", ""),
        headers=env.get("headers", ""),
        status=RunStatus.OK,
        exit_code=result.exit_code,
        provenance={
            **env, "host_code": "foreign", "isolated": str(result.isolated).lower(),
            "sampled": str(result.sampled).lower(), "collection": str(record["params"]["collection"]),
            "path": str(record["params"]["path"]), "licence": str(record["params"]["licence"]),
        },
        kernels=tuple(kernels),
    )  # fmt: skip
