"""``loopyperf fit``: fit a model to an archive of measurements, without a device."""

from pathlib import Path

import click

from loopyperf.calibration.archived import fit_recording
from loopyperf.calibration.fit_library import save_fits
from loopyperf.calibration.fits import fit_document
from loopyperf.cli import settings
from loopyperf.cli.console import print_in
from loopyperf.cli.progress import working
from loopyperf.cli.streams import Form
from loopyperf.counts.execution import Counting
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.kernel_files import measurement_kernels


@click.command(epilog="\b\nExample: loopyperf fit archive.jsonl --model overlap -o overlap.json")
@click.argument("archive", type=click.Path(path_type=Path))
@settings.fitting
@click.option(
    "--prior",
    metavar="FIT",
    help="Regularize weights of pipelines toward those of this fit: its path, or the name of another device.",
)
@settings.form
def fit_command(
    archive: Path,
    kernels: Path | None,
    output: Path | None,
    model: str | None,
    counting: Counting,
    prior: str | None,
    form: Form,
) -> None:
    """Fit a model to an archive of measurements.

    ARCHIVE is a file that `loopyperf calibrate` wrote; it may be compressed.
    """
    with working("fitting"):
        files = measurement_kernels(kernels)
        fits = fit_recording(read_archive(archive), files, counting, model, prior)
    save_fits(fits, output)
    fit = fits[0]
    print_in(form, lambda: [fit.report_text()], fit.records, lambda: fit_document(fit))
