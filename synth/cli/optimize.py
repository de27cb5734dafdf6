"""`synth optimize`: a faster program, and the proof that it is the same."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hipsynth.synth.cli.common import print_json
from hipsynth.synth.cli.options import Duration, NamedPath, json_option, one_arch_option, one_device_option

if TYPE_CHECKING:
    from hipsynth.tuning.optimize.optimize import Optimized

EPILOG = """\b
Examples:
  synth optimize gemm.hip --arch gfx942
  synth optimize gemm.hip --arch gfx90a --budget 2m --out faster.hip
  synth optimize gemm.hip --check 96 --check 100 -- 2048
  synth optimize gemm.hip --journal work/gemm
  synth optimize gemm.hip --json

Every candidate is compiled, executed and timed by the simulator. What is kept is compared with the original at small
sizes, where every work-group runs: its own inputs, inputs drawn again, poisoned memory, other sizes. The patched
program is written to --out, by default NAME.optimized.hip in this folder, and nothing else is changed.

The budget is in seconds at fixed prices, so the same command finds the same program on every machine. With --journal,
what was measured is kept in that folder, and an interrupted search goes on where it was.
"""


@click.command(epilog=EPILOG)
@click.argument("file", type=NamedPath(path_type=Path), metavar="FILE")
@click.argument("arguments", nargs=-1, metavar="[-- ARGS...]")
@one_arch_option
@one_device_option
@click.option("--flags", default="-O3", show_default=True, help="Compiler flags.")
@click.option(
    "--budget", type=Duration(1.0, 24 * 3600.0), default=60.0, show_default="60s", metavar="30s|2m",
    help="Work of the search, in seconds at fixed prices.",
)  # fmt: skip
@click.option(
    "--check", "checks", multiple=True, metavar="ARGS", help="Arguments of a small run to verify; repeatable."
)
@click.option(
    "--allow", "allowed", multiple=True, type=click.Choice(["fast-math"]), help="Changes of results; repeatable."
)
@click.option("--journal", type=NamedPath(file_okay=False, path_type=Path), help="Folder that keeps measurements.")
@click.option("--out", type=NamedPath(dir_okay=False, path_type=Path), help="Where to write the patched program.")
@json_option
def command(
    file: Path,
    arguments: tuple[str, ...],
    arch: str,
    device: str,
    flags: str,
    budget: float,
    checks: tuple[str, ...],
    allowed: tuple[str, ...],
    journal: Path | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Search for source changes that make a HIP program's kernels faster, and verify them.

    ARGS after `--` are the program's arguments in the runs that are timed.
    """
    from hipsynth.profiling import sandbox
    from hipsynth.synth.core.errors import BadInput
    from hipsynth.synth.core.files import SOURCE_BYTES, read_regular, write_whole
    from hipsynth.tuning.optimize.optimize import Request, optimize
    from hipsynth.tuning.trial import Target

    sandbox.require()
    try:
        text = read_regular(file, SOURCE_BYTES).decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{file}: is not UTF-8", cause=str(error), remedy="give a HIP source file") from None
    sizes = [tuple(shlex.split(one)) for one in checks]
    request = Request(text, Target(arch, flags, device), budget, arguments, sizes, journal, frozenset(allowed))
    found = optimize(request, (lambda line: None) if as_json else click.echo)
    patched = out or Path(f"{file.stem}.optimized.hip")
    if found.status == "improved":
        write_whole(patched, found.text)
    document = {"path": str(file), "arch": arch, "flags": flags, **found.document()}
    document["patched"] = str(patched) if found.status == "improved" else None
    if as_json:
        print_json(document)
    else:
        click.echo(summary(found, document))
    return BadInput.exit_code if found.status == "refused" else 0


def summary(found: Optimized, document: dict[str, Any]) -> str:
    lines = [f"kernel {name}: only hints and unrolling, because {why}" for name, why in found.refused.items()]
    if found.status != "improved":
        return "\n".join([*lines, f"{found.status}: {found.reason}"])
    lines += [found.diff.rstrip(), ""]
    for check in found.verification.checks:
        passed = {True: "passed", False: "FAILED", None: "not possible"}[check.passed]
        lines.append(f"{check.name.replace('_', ' ')}: {passed}{f' ({check.detail})' if check.detail else ''}")
    lines.append(f"{found.before_ns / 1e3:.1f} us -> {found.after_ns / 1e3:.1f} us: {found.speedup:.2f} times as fast")
    return "\n".join([*lines, f"patched program: {document['patched']}"])
