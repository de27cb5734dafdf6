"""`synth swizzle`: remaps work-groups so that those that share data run on the same L2."""

from __future__ import annotations

from pathlib import Path

import click

from hipsynth.cli.options import Duration, NamedPath, json_option, one_target_options, timeout_option
from hipsynth.cli.output import print_json, print_note, say_if_replaced
from hipsynth.cli.programs import define_option, include_option, split_run_arguments
from hipsynth.library.arguments import with_defines

EPILOG = """\b
Examples:
  synth swizzle transpose.hip
  synth swizzle gemm.hip --arch gfx942 --out faster.hip -- 4096
  synth swizzle gemm.hip --check-args "512" -- 8192
  synth swizzle stencil.hip --kernel step --tries 12
  synth swizzle stencil.hip --mapping "select(id < n/8*8, id%8*(n/8) + id/8, id)"
  synth swizzle stencil.hip --json
  synth swizzle matmul.py -- 2048

The program runs in the simulator; its work-groups are followed to see which lines they share. Mappings of a grammar
are ranked by a model of the chiplets' L2s, the best run, and the winner is kept if it is a bijection, its outputs are
equal bit for bit, and it is faster by more than is uncertain, or hits more in the L2 in the same time. A patched
program (FILE.swizzled.hip or .py, or --out) and a patch beside it are written only then.

Headers that lie beside FILE or in a folder of -I are found; one that is changed is written into the patched program.

In a Python script, the calls of tl.program_id in a Triton kernel are replaced, and what its kernels write to tensors
is compared.

A mapping of your own is an expression for the number of the work-group to compute: id is the number in dispatch order,
n the number of groups, X, Y, Z the grid; operators as in C, and min, max, select(condition, then, else).

A kernel is improved, at its ceiling (nothing gains; the largest possible L2 hit rate is given), or refused with a
reason: its groups depend on their order, wait for each other, or choose their work themselves.
"""
DEFAULT_FLAGS = "-O3"


@click.command(epilog=EPILOG)
@click.argument("file", type=NamedPath(readable=False, path_type=Path), metavar="FILE")
@click.argument("args", nargs=-1, metavar="[-- ARGS...]")
@one_target_options
@click.option("--flags", default=DEFAULT_FLAGS, show_default=True, help="Compiler flags.")
@include_option
@define_option
@click.option("--kernel", "kernels", multiple=True, metavar="NAME", help="Only kernels that match; repeatable.")
@click.option("--mapping", default="", metavar="EXPRESSION", help="Check and try this mapping alone.")
@click.option("--tries", default=4, show_default=True, type=click.IntRange(1, 200), help="Mappings executed at first.")
@click.option(
    "--clock", type=Duration(1.0, 24 * 3600.0), default=60.0, show_default="60s", metavar="30s|2m",
    help="Longest time on the clock: no mapping is executed that would end later.",
)  # fmt: skip
@click.option("--check-args", default=None, metavar="ARGS", help="Arguments of the runs whose outputs are compared.")
@click.option("--out", type=NamedPath(dir_okay=False, path_type=Path), help="Where the patched program goes.")
@timeout_option
@json_option
def command(
    file: Path,
    args: tuple[str, ...],
    arch: str,
    device: str,
    flags: str,
    includes: tuple[str, ...],
    defines: tuple[str, ...],
    kernels: tuple[str, ...],
    mapping: str,
    tries: int,
    clock: float,
    check_args: str | None,
    out: Path | None,
    timeout: float,
    as_json: bool,
) -> int:
    """Remap a kernel's work-groups to a GPU's chiplets, with a proof."""
    from hipsynth.library.programs import check_hip_only, check_keeps_program, has_script_suffix
    from hipsynth.library.swizzle import swizzle_program
    from hipsynth.simulator import devices
    from hipsynth.tuning.swizzle import report
    from hipsynth.tuning.swizzle.search import SwizzleSettings
    from hipsynth.tuning.trial import target_of

    check_hip_only(file, {"--flags": flags != DEFAULT_FLAGS, "-I": bool(includes), "-D": bool(defines)})
    flags = with_defines(flags, defines)
    devices.device_of(arch, device)
    chosen = out or file.with_name(f"{file.stem}.swizzled{'.py' if has_script_suffix(file) else '.hip'}")
    check_keeps_program(chosen, file, includes)
    say_if_replaced(chosen)
    checked = None if check_args is None else split_run_arguments("--check-args", check_args)
    question = SwizzleSettings(target_of(arch, flags, device), args, checked, tries, mapping, kernels, timeout, clock)
    text, result = swizzle_program(file, question, print_note, includes)
    changed = result.text != text
    difference = chosen.with_name(chosen.name + ".patch")
    if changed:
        _write_text(chosen, result.text)
        _write_text(difference, report.unified_diff(text, result.text, file.name))
    if as_json:
        print_json(report.swizzle_document(result, *((chosen, difference) if changed else ())))
        return 0
    click.echo(report.report_text(result))
    if changed:
        click.echo(f"\npatched program: {chosen}\npatch:           {difference}")
    return 0


def _write_text(path: Path, text: str) -> None:
    from hipsynth.core.files import write_whole

    write_whole(path, text)
