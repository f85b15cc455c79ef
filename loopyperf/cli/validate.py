"""``loopyperf validate``: predict the test kernels, measure them, compare."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from loopyperf.calibration.accuracy import Prediction, assess
from loopyperf.cli import settings
from loopyperf.cli.console import print_json, show, standard_output, table_of
from loopyperf.cli.output import Output
from loopyperf.cli.progress import campaign_bar
from loopyperf.errors import LoopyperfError
from loopyperf.measurement.protocol import Protocol
from loopyperf.oracle.validate import Validation, validated_by
from loopyperf.oracle.validate import validate as run_validation
from loopyperf.units import duration


@click.command(epilog="\b\nExample: POCL_MAX_PTHREAD_COUNT=1 loopyperf validate")
@settings.measuring
@settings.fit_file
@settings.kernels
@settings.archive
@settings.from_archive
@click.option(
    "--plots", type=Output(is_folder=True, makes_folders=True), help="Folder for charts of the errors, as SVG."
)
@settings.as_json
def validate(
    backend: str,
    device: str | None,
    fit: Path | None,
    kernels: Path | None,
    archive: Path | None,
    from_archive: Path | None,
    plots: Path | None,
    as_json: bool,
) -> None:
    """Predict and measure kernels that no fit has seen; print both, and geometric means of the relative errors."""
    # Where matplotlib is missing, nobody should have to hear of it after measuring.
    drawing = None if plots is None else import_module("loopyperf.plots")
    if from_archive is not None:
        if archive or device:
            raise click.UsageError("--from-archive measures nothing: it takes no --archive or --device")
        found = validated_by(from_archive, fit=fit, kernels=kernels)
    else:
        with campaign_bar("measuring") as report:
            found = run_validation(backend, device=device, fit=fit, kernels=kernels, archive=archive, progress=report)
    charts = () if plots is None else _draw(found, drawing, plots)
    if as_json:
        print_json({**found.to_dict(), "charts": list(map(str, charts))})
        return
    show_predictions(found, standard_output())
    show_noise(found, standard_output())
    if charts:
        show(f"charts: {', '.join(map(str, charts))}")


def show_predictions(found: Sequence[Prediction], console: Console) -> None:
    """Print measured and predicted times by kernel and size, and the geometric means, as the paper's Table 1 does."""
    accuracy = assess(found)
    table = table_of("kernel", "sizes", "measured", "predicted", "error", "80 % interval", left=2)
    for kernel, mean in accuracy.per_kernel.items():
        for row in (row for row in found if row.kernel == kernel):
            sizes = ", ".join(f"{name}={value}" for name, value in row.sizes.items())
            table.add_row(
                kernel, sizes, duration(row.measured), duration(row.predicted), f"{row.error:.0%}", _stated(row)
            )
        table.add_row(kernel, "geometric mean", "", "", f"{mean:.0%}", "", end_section=True, style="bold")
    inside = "" if accuracy.coverage is None else f"{accuracy.coverage:.0%} inside"
    table.add_row("all kernels", "geometric mean", "", "", f"{accuracy.cross_kernel:.0%}", inside, style="bold")
    console.print(table)


def show_noise(found: Validation, console: Console) -> None:
    """Print what the errors have to be seen beside: how well times repeat, and how fast the device is just now."""
    here, then = (
        "not known" if floor is None else f"{floor:.1%}" for floor in (found.noise_floor, found.fit.noise_floor)
    )
    show(f"noise floor: {here}, when the fit was made {then}; no model predicts times better than they repeat", console)
    if found.slowdown is not None and abs(found.slowdown - 1) > Protocol().slow:
        show(
            f"the same work takes {found.slowdown:.2f} times as long as when the fit was made: the device is "
            f"{'slower' if found.slowdown > 1 else 'faster'} now, by its clock or by who else uses it, and so are all "
            "measured times; measure again, or calibrate again if it stays so",
            console,
        )
    validated = found.fit.cross_validation
    if validated is not None:
        worst = max(validated.classes, key=lambda row: row.errors.get(found.fit.candidate, 0.0))
        show(
            f"on {len(validated.compared)} kernel classes that it was not fitted to, the fit is off by "
            f"{validated.errors[found.fit.candidate]:.0%} (geometric mean), most on {worst.kernel_class!r}, "
            f"{worst.errors[found.fit.candidate]:.0%}",
            console,
        )


def _stated(row: Prediction) -> str:
    if row.interval is None:
        return ""
    low, high = map(duration, row.interval)
    return f"{low} to {high}{'' if row.is_inside else ' !'}"


def _draw(found: Validation, plots: Any, folder: Path) -> tuple[Path, ...]:
    """Return the files in *folder* with the charts of *found*; *plots* is :mod:`loopyperf.plots`."""
    figures = {
        "predicted": plots.plot_predictions(found.predictions),
        "residuals": plots.plot_residual_panels(found.observations, found.fit),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, figure in figures.items():
            figure.savefig(folder / f"{name}.svg")
    except OSError as error:
        raise LoopyperfError(f"the charts cannot be written to {folder}: {error}; give another --plots") from error
    return tuple(folder / f"{name}.svg" for name in figures)
