"""``loopyperf calibrate``: measure kernels on a device and fit a model."""

import time
from pathlib import Path
from typing import Any

import click

from loopyperf.calibration.calibrate import calibrate as run_calibration
from loopyperf.calibration.fits import Fit, fit_document
from loopyperf.cli import settings
from loopyperf.cli.console import print_in, show
from loopyperf.cli.progress import campaign_bar
from loopyperf.cli.streams import Form, is_quiet
from loopyperf.measurement.protocol import Protocol
from loopyperf.units import in_percent


@click.command(
    epilog="\b\nExample: POCL_MAX_PTHREAD_COUNT=1 loopyperf calibrate\n\n"
    "\b\nTo also train a residual model for the sampled model:\n"
    "loopyperf calibrate --samples --archive gpu.jsonl\nloopyperf train gpu.jsonl",
)
@settings.measuring
@settings.archive
@settings.fitting
@click.option("--samples", is_flag=True, help="Also run the first work-groups of each kernel, for `loopyperf train`.")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0),
    help="Stop measuring after this time; default: when all is measured. Another calibration measures the rest.",
)
@settings.form
def calibrate_command(
    output: Path | None,
    minutes: float | None,
    form: Form,
    **options: Any,
) -> None:
    """Time the measurement kernels on a device and fit a model to the times.

    The command keeps the candidate model that best predicts held-out kernel classes.
    """
    started = time.monotonic()
    with campaign_bar(None if minutes is None else 60 * minutes) as report:
        fit = run_calibration(
            save=output,
            minutes=minutes,
            progress=report,
            **options,
        )
    if form == "text" and not is_quiet():
        show(f"timed by the wall clock, {Protocol()}; {noise(fit)}")
        show(f"calibrated {fit.slug} in {time.monotonic() - started:.0f} s")
    print_in(form, lambda: [fit.report_text()], fit.records, lambda: fit_document(fit))


def noise(fit: Fit) -> str:
    """Return a sentence about the noise floor of the measurements of *fit*."""
    if fit.noise_floor is None:
        return "noise floor unknown: the reference kernel could not be timed"
    floor = in_percent(fit.noise_floor, 1)
    return f"noise floor {floor}: variation of repeated measurements of the same kernel"
