"""``loopyperf fit``: make a fit of what an archive holds, without a device."""

from pathlib import Path

import click

from loopyperf.calibration.fit_files import save_fit
from loopyperf.calibration.library import MODELS, own_path
from loopyperf.cli.calibrate import WEIGHTS, show_fit
from loopyperf.cli.console import standard_output
from loopyperf.counts.execution import COUNTINGS, Counting
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files
from loopyperf.oracle.calibrate import fit_recording


@click.command(
    epilog="\b\nExample: loopyperf fit archive.jsonl --model overlap --output overlap.json",
    context_settings={"show_default": True},
)
@click.argument("archive", type=click.Path(path_type=Path))
@click.option("--kernels", type=click.Path(path_type=Path), help="Folder of kernel files; by default the bundled ones.")
@click.option("--output", type=click.Path(path_type=Path), help="Where the fit goes; by default where it is found.")
@click.option("--model", type=click.Choice(MODELS), help="Which model is fitted; by default the one that is better.")
@click.option("--weights", type=click.Choice(tuple(WEIGHTS)), default="auto", help="Which linear fit to keep.")
@click.option("--counting", type=click.Choice(COUNTINGS), default="executed", help="How work is counted.")
def fit(
    archive: Path, kernels: Path | None, output: Path | None, model: str | None, weights: str, counting: Counting
) -> None:
    """Fit a model to the measurements in ARCHIVE, which `loopyperf calibrate` wrote; it may be compressed."""
    files = load_kernel_files(kernels or bundled_folder("measurement_kernels"))
    fits = fit_recording(read_archive(archive), files, counting, model, WEIGHTS[weights])
    for found in fits[:1] if output else fits:
        save_fit(found, output or own_path(found))
    show_fit(fits[0], standard_output())
