"""``loopyperf train``: train a residual model on archives of measurements, without a device."""

from pathlib import Path

import click

from loopyperf.calibration.residual_model import RECIPES, own_residual_models, residual_document, save_residual_model
from loopyperf.cli import settings
from loopyperf.cli.console import print_json, show_answer
from loopyperf.cli.progress import working
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.kernel_files import measurement_kernels
from loopyperf.predict.train import BASES, train_recordings


@click.command(
    epilog="\b\nExample: loopyperf train archive.jsonl -o learned.json\n\n"
    "\b\nTo correct the sampled model (samples: `loopyperf calibrate --samples`):\n"
    "loopyperf train archive.jsonl\n"
    "loopyperf estimate matmul.py:tiled --set n=64 --model learned --backend opencl",
)
@click.argument("archives", metavar="ARCHIVE...", type=click.Path(path_type=Path), nargs=-1, required=True)
@settings.kernels
@settings.output("Output file; default: where predictions look for it.", makes_folders=True)
@click.option(
    "--base",
    type=click.Choice(BASES),
    metavar="MODEL",
    help="Model to correct: sampled (default if there are samples), overlap, or another.",
)
@click.option("--recipe", type=click.Choice(tuple(RECIPES)), default="svr", help="Regression method.")
@settings.as_json
def train_command(
    archives: tuple[Path, ...],
    kernels: Path | None,
    output: Path | None,
    base: str | None,
    recipe: str,
    as_json: bool,
) -> None:
    """Train a residual model, which corrects another model, on archives of measurements.

    ARCHIVE is a file that `loopyperf calibrate` wrote; give several archives of one device to train on all of them.
    If they contain samples, the residual model corrects the sampled model, and only sampled kernels are used.
    """
    with working("training"):
        files = measurement_kernels(kernels)
        learned = train_recordings([read_archive(each) for each in archives], files, base=base, recipe=recipe)
    save_residual_model(learned, output or own_residual_models(learned.record.slug, learned.record.backend))
    if as_json:
        print_json(residual_document(learned))
        return
    show_answer(learned)
