"""`synth predict`: predict the twelve metrics of a HIP file with a trained model."""

from __future__ import annotations

from pathlib import Path

import click

from hipsynth.synth.cli.common import print_json
from hipsynth.synth.cli.options import NamedPath, arch_option, device_option, json_option

EPILOG = """\b
Examples:
  synth predict kernel.hip --arch gfx942 --flags "-O3 -ffast-math"
  synth predict kernel.hip --arch gfx90a --arch gfx942 --model out/model --json
"""


@click.command(epilog=EPILOG)
@click.argument("file", type=NamedPath(readable=False, path_type=Path))
@arch_option()
@device_option
@click.option(
    "--flags", multiple=True, default=("-O3",), show_default="-O3", help="Compiler flags, quoted; repeatable."
)
@click.option(
    "--model", type=NamedPath(path_type=Path), help="Model folder.  [default: $HIPSYNTH_MODEL, else the newest]"
)
@json_option
def command(
    file: Path,
    archs: tuple[str, ...],
    devices: tuple[str, ...],
    flags: tuple[str, ...],
    model: Path | None,
    as_json: bool,
) -> None:
    """Predict the metrics of the kernel in FILE without running or compiling it."""
    from hipsynth.profiling.matrix.targets import resolve_devices
    from hipsynth.profiling.toolchain import check_flags
    from hipsynth.synth.core.program import load_program
    from hipsynth.training.models.predict import Predictor, find_model, prediction_table

    program = load_program(file)
    targets = resolve_devices(archs, devices)
    for given in flags:
        check_flags(given)
    predictor = Predictor.load(find_model(model))
    found = [predictor.predict(program.text, arch, given, device) for arch, device in targets for given in flags]
    if as_json:
        document = {"program": {"id": program.id, "path": str(file)}, "model": str(predictor.path)}
        print_json({**document, "results": [prediction.document() for prediction in found]})
        return
    click.echo("\n\n".join(prediction_table(prediction) for prediction in found))
