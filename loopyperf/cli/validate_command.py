"""``loopyperf validate``: compare predicted with measured run times on the test kernels."""

from dataclasses import replace
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import click

from loopyperf.calibration.accuracy import Prediction, assess
from loopyperf.cli import settings
from loopyperf.cli.console import print_in, show_beside
from loopyperf.cli.progress import campaign_bar, working
from loopyperf.cli.streams import Form, Output
from loopyperf.display import ReportText, Table
from loopyperf.errors import LoopyperfError
from loopyperf.files import write_whole
from loopyperf.models.result import LEVEL
from loopyperf.predict.validate import Validation, validated_by
from loopyperf.predict.validate import validate as run_validation
from loopyperf.units import UNBROKEN, duration, in_percent

OUTSIDE = "!"
RESIDUALS = 6
"""maximum number of charts of errors, for the properties with the largest shares of the predicted times"""
MEANING = f"{OUTSIDE} measured time is outside the interval"


@click.command(epilog="\b\nExample: POCL_MAX_PTHREAD_COUNT=1 loopyperf validate")
@settings.measuring
@settings.fit_file
@settings.kernels
@settings.archive
@settings.from_archive
@click.option(
    "--plots", type=Output(is_folder=True, makes_folders=True), help="Output folder for SVG charts of the errors."
)
@settings.form
def validate_command(from_archive: Path | None, plots: Path | None, form: Form, **options: Any) -> None:
    """Compare predicted with measured run times on test kernels.

    No fit uses the test kernels. The table ends with geometric means of the relative errors.
    """
    # Report a missing matplotlib before measuring.
    drawing = None if plots is None else import_module("loopyperf.explain.plots")
    if from_archive is not None:
        if options["archive"] or options["device"]:
            raise click.UsageError("--from-archive does not measure; drop --archive and --device")
        with working("predicting"):
            found = validated_by(from_archive, fit=options["fit"], kernels=options["kernels"])
    else:
        with campaign_bar() as report:
            found = run_validation(progress=report, **options)
    charts = () if plots is None else _draw(found, drawing, plots)
    written = {"charts": list(map(str, charts))}
    print_in(form, lambda: [report_text_of(found)], found.records, lambda: {**found.to_dict(), **written})
    if charts and form == "text":
        show_beside(f"charts: {', '.join(written['charts'])}")


def report_text_of(found: Validation) -> ReportText:
    """Return measured and predicted times by kernel and size, geometric means of the errors, and remarks on them.

    There is a mean for each kernel and one for all kernels, as in the paper's Table 1.
    """
    accuracy = assess(found)
    rows: list[tuple[str, ...]] = []
    for kernel, mean in accuracy.per_kernel.items():
        rows += [_row(each) for each in found if each.kernel == kernel]
        rows.append((kernel, "geometric mean", "", "", in_percent(mean), ""))
    inside = "" if accuracy.coverage is None else f"{in_percent(accuracy.coverage)} inside"
    rows.append(("all kernels", "geometric mean", "", "", in_percent(accuracy.cross_kernel), inside))
    table = Table(("kernel", "sizes", "measured", "predicted", "error", f"{in_percent(LEVEL)} interval"), rows, text=2)
    report_text = found.report_text()
    is_marked = any(each.interval is not None and not each.is_inside for each in found)
    return replace(report_text, tables=[table], remarks=[*([MEANING] if is_marked else []), *report_text.remarks])


def _row(each: Prediction) -> tuple[str, ...]:
    sizes = ", ".join(f"{name}={value}" for name, value in each.sizes.items())
    interval = ""
    if each.interval is not None:
        low, high = map(duration, each.interval)
        interval = f"{low} to {high}{'' if each.is_inside else f' {OUTSIDE}'}".replace(" ", UNBROKEN)
    return each.kernel, sizes, duration(each.measured), duration(each.predicted), in_percent(each.error), interval


def _draw(found: Validation, plots: Any, folder: Path) -> tuple[Path, ...]:
    """Draw the charts of *found* into *folder* and return their files; *plots* is :mod:`loopyperf.explain.plots`."""
    columns = plots.plot_accuracy.columns_by_share(found.observations, found.fit)[:RESIDUALS]
    figures = {"predicted": plots.plot_predictions(found.predictions)} | {
        f"residuals-{number}": plots.plot_residuals(found.observations, found.fit, column)
        for number, column in enumerate(columns, start=1)
    }
    try:
        for name, figure in figures.items():
            drawn = BytesIO()
            figure.savefig(drawn, format="svg")
            write_whole(folder / f"{name}.svg", drawn.getvalue(), makes_folders=True)
    except OSError as error:
        raise LoopyperfError(f"cannot write the charts to {folder}: {error}; give another folder") from error
    return tuple(folder / f"{name}.svg" for name in figures)
