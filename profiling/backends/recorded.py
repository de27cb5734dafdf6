"""Replays captured results: a folder of JSON files in the form that `capture_result` writes."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.languages import HIP
from hipsynth.core.program import Program
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling import metrics
from hipsynth.profiling.backends.protocol import Availability, Target, TargetResult
from hipsynth.simulator.limits import RunLimits

SCHEMA = "hipsynth-recorded-2"


def capture_name(program_id: str, target: Target, arguments: Sequence[str] = ()) -> str:
    """The file name of a capture: program id, architecture, device, and a hash of the flags; for a run with arguments
    also a hash of them."""
    parts = [program_id, target.arch, target.device, _short_hash(target.flags)]
    return "-".join([*parts, _short_hash(shlex.join(arguments))] if arguments else parts) + ".json"


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def capture_result(folder: Path, program_id: str, result: TargetResult, arguments: Sequence[str] = ()) -> Path:
    """Stores a result so that RecordedBackend can replay it; returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / capture_name(program_id, Target(result.arch, result.flags, result.device), arguments)
    document = {"schema": SCHEMA, "program_id": program_id, "result": asdict(result)}
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    return path


def read_capture(path: Path) -> tuple[str, TargetResult]:
    """(program id, result) of one capture; raises BadInput naming the file if it is invalid.

    Recomputes the metrics from the counters, so that they always match the current metric table.
    """
    try:
        document = json.loads(path.read_text())
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']!r} instead of {SCHEMA!r}")
        return document["program_id"], _read_result(document["result"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(
            f"{path}: not a recorded result", cause=str(error), remedy="capture it again or remove the file"
        ) from error


def _read_result(row: object) -> TargetResult:
    result = from_json(TargetResult, row)
    return replace(
        result,
        kernels=tuple(_with_metrics(kernel, result.arch) for kernel in result.kernels),
        shapes=tuple(_with_metrics(kernel, result.arch) for kernel in result.shapes),
    )


def _with_metrics(kernel: KernelRecord, arch: str) -> KernelRecord:
    return replace(kernel, metrics=metrics.compute_metrics(kernel.counters, kernel.duration_ns, arch))


class RecordedBackend:
    """Returns results from files. The provenance of each result names the backend that measured it."""

    name = "recorded"

    def __init__(self, path: str | Path = "recorded") -> None:
        self.folder = Path(path)

    def version(self) -> str:
        """A hash of the folder's files, so that different captures are different versions."""
        digest = hashlib.sha256()
        for path in sorted(self.folder.glob("*.json")):
            digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()[:12]

    def available(self) -> Availability:
        count = len(list(self.folder.glob("*.json"))) if self.folder.is_dir() else 0
        remedy = "give the folder of captures: --backend recorded:FOLDER"
        return Availability(count > 0, f"{count} captures in {self.folder}", "" if count else remedy)

    def supports(self, target: Target) -> bool:
        return any(self.folder.glob(capture_name("*", target).replace(".json", "*.json")))

    def environment(self, target: Target, language: str = HIP) -> dict[str, str]:
        """Empty: this backend compiles nothing. The provenance of each result has its original versions."""
        return {}

    def profile(self, program: Program, target: Target, scratch: Path, limits: RunLimits) -> TargetResult:
        """The captured result of this program, target and arguments; without one, a failed result (NOT_RECORDED).
        Raises BadInput for a capture that holds another program or target."""
        path = self.folder / capture_name(program.id, target, program.arguments)
        if not path.exists():
            return TargetResult(
                target.arch,
                target.flags,
                target.device,
                status=RunStatus.FAILED,
                reason=Reason.NOT_RECORDED,
                message=f"no capture of program {program.id} for this target and these arguments",
            )
        program_id, result = read_capture(path)
        if program_id != program.id or Target(result.arch, result.flags, result.device) != target:
            raise BadInput(f"{path}: holds another program or target", remedy="capture it again or remove the file")
        return result
