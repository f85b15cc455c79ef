"""``loopyperf train``: train a residual model on archives of measurements, without a device."""

from pathlib import Path

import click
from msgspec import structs

from loopyperf.calibration.residual_model import own_residual_models, residual_document, save_residual_model
from loopyperf.cli import settings
from loopyperf.cli.console import print_in
from loopyperf.cli.progress import working
from loopyperf.cli.streams import Form
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
@settings.form
def train_command(
    archives: tuple[Path, ...],
    kernels: Path | None,
    output: Path | None,
    base: str | None,
    form: Form,
) -> None:
    """Train a residual model, which corrects another model, on archives of measurements.

    ARCHIVE is a file that `loopyperf calibrate` wrote; give several archives of one device to train on all of them.
    If they contain samples, the residual model corrects the sampled model, and only sampled kernels are used.
    """
    with working("training"):
        files = measurement_kernels(kernels)
        learned = train_recordings([read_archive(each) for each in archives], files, base=base)
    save_residual_model(learned, output or own_residual_models(learned.record.slug, learned.record.backend))
    scores = [{"method": name, **structs.asdict(score)} for name, score in learned.record.scores.items()]
    print_in(form, lambda: [learned.report_text()], lambda: scores, lambda: residual_document(learned))
