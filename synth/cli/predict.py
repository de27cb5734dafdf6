"""`synth predict`: the twelve metrics of a HIP file, by a trained model."""

from __future__ import annotations

from pathlib import Path

import click

from hipsynth.synth.cli.common import json_option, print_json

EPILOG = """\b
Examples:
  synth predict kernel.hip --arch gfx942 --flags "-O3 -ffast-math"
  synth predict kernel.hip --arch gfx90a --arch gfx942 --model out/model --json
"""


@click.command(epilog=EPILOG)
@click.argument("file", type=click.Path(readable=False, path_type=Path))
@click.option("--arch", multiple=True, required=True, help="gfx90a or gfx942; may be given several times.")
@click.option("--flags", multiple=True, default=("-O3",), show_default=True, help="Compiler flags, quoted.")
@click.option("--model", type=click.Path(path_type=Path), help="Model folder (default: $HIPSYNTH_MODEL or the newest).")
@click.option("--device", help="Device table for the roofline, e.g. mi210.")
@json_option
def command(
    file: Path, arch: tuple[str, ...], flags: tuple[str, ...], model: Path | None, device: str | None, as_json: bool
) -> None:
    """Predict the metrics of the kernel in FILE without running or compiling it."""
    from hipsynth.profiling.devices import device_of
    from hipsynth.profiling.matrix.targets import check_flags
    from hipsynth.synth.core.program import load_program
    from hipsynth.training.models.predict import Predictor, find_model, prediction_table

    program = load_program(file)
    for one in arch:
        device_of(one, device)
    for words in flags:
        check_flags(words)
    predictor = Predictor.load(find_model(model))
    found = [predictor.predict(program.text, a, f, device) for a in arch for f in flags]
    if as_json:
        document = {"program": {"id": program.id, "path": str(file)}, "model": str(predictor.path)}
        print_json({**document, "results": [prediction.document() for prediction in found]})
        return
    click.echo("\n\n".join(prediction_table(prediction) for prediction in found))
