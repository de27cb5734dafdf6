"""`synth verify`: checks that a changed program does the same as the original."""

from __future__ import annotations

from pathlib import Path

import click

from hipsynth.cli.options import NamedPath, check_args_option, json_option, one_target_options
from hipsynth.cli.output import StatusLine, print_json
from hipsynth.cli.programs import check_script_options, define_option, include_option, split_run_arguments
from hipsynth.core.errors import PartialFailure

EPILOG = """\b
Examples:
  synth verify gemm.hip faster.hip
  synth verify gemm.hip faster.hip --arch gfx90a -- 2048
  synth verify gemm.hip faster.hip --check-args 96 --check-args 100
  synth verify gemm.hip faster.hip --json
  synth verify softmax.py faster.py --arch gfx942 -- 2048    # Python scripts with Triton kernels

Both programs run in the sandbox, on the simulator. What they compute is compared at small sizes, where every work-group
runs: with their own inputs, inputs drawn again, poisoned memory, other sizes; and at the size that is timed. In scripts
that is what kernels leave in tensors, and PyTorch's operators may not be called more often.

Kernels without main() are launched as the original's signatures suggest, in both. Headers that lie beside the programs
or in a folder of -I are written in.

Exits with 0 if every check that could be made passed, 5 if one failed (the reason is printed), and 3 if nothing can be
compared, because a file cannot be read or the original does not run.
"""


@click.command(epilog=EPILOG)
@click.argument("original", type=NamedPath(path_type=Path), metavar="ORIGINAL")
@click.argument("changed", type=NamedPath(path_type=Path), metavar="CHANGED")
@click.argument("arguments", nargs=-1, metavar="[-- ARGS...]")
@one_target_options
@click.option("--flags", default="-O3", show_default=True, help="Compiler flags.")
@include_option
@define_option
@check_args_option("Arguments of a small run to verify; repeatable.")
@click.option(
    "--allow", "allowed", multiple=True, type=click.Choice(["fast-math"]), help="Changes of results; repeatable."
)
@json_option
def command(
    original: Path,
    changed: Path,
    arguments: tuple[str, ...],
    arch: str,
    device: str,
    flags: str,
    includes: tuple[str, ...],
    defines: tuple[str, ...],
    check_args: tuple[str, ...],
    allowed: tuple[str, ...],
    as_json: bool,
) -> int:
    """Check that the program CHANGED does the same as ORIGINAL, and say how much faster it is.

    ARGS after `--` are the programs' arguments in the runs that are timed.
    """
    from hipsynth.library.verify import verify

    check_script_options(original, "", defines, {})
    with StatusLine(f"verifying {changed.name}") as status:
        document = verify(
            original,
            changed,
            arch=arch,
            device=device,
            flags=flags,
            args=arguments,
            check_args=[split_run_arguments("--check-args", check) for check in check_args],
            allow_fast_math="fast-math" in allowed,
            defines=defines,
            includes=includes,
            on_stage=status.set_stage,
            say=lambda line: status.print_above(f"note: {line}"),
        )
    if as_json:
        print_json(document)
    else:
        click.echo(str(document))
    return 0 if document.verified else PartialFailure.exit_code
