"""``loopyperf validate``: predict the test kernels, measure them, compare."""

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from loopyperf.calibration.accuracy import Prediction, assess
from loopyperf.cli.console import standard_output
from loopyperf.cli.progress import campaign_bar
from loopyperf.oracle.validate import validate as run_validation
from loopyperf.oracle.validate import validated_by
from loopyperf.units import duration


@click.command(
    epilog="\b\nExample: POCL_MAX_PTHREAD_COUNT=1 loopyperf validate",
    context_settings={"show_default": True},
)
@click.option("--backend", default="opencl", help="What to measure through: opencl or cuda.")
@click.option("--device", help="Part of the device's name; by default the first one.")
@click.option("--fit", type=click.Path(path_type=Path), help="Path of a fit file, instead of the one for the device.")
@click.option("--kernels", type=click.Path(path_type=Path), help="Folder of kernel files; by default the test kernels.")
@click.option("--archive", type=click.Path(path_type=Path), help="Where the raw samples go.")
@click.option("--from-archive", type=click.Path(path_type=Path), help="Take measured times from it; measure nothing.")
def validate(
    backend: str,
    device: str | None,
    fit: Path | None,
    kernels: Path | None,
    archive: Path | None,
    from_archive: Path | None,
) -> None:
    """Predict and measure kernels that no fit has seen; print both, and geometric means of the relative errors."""
    if from_archive is not None:
        if archive or device:
            raise click.UsageError("--from-archive measures nothing: it takes no --archive or --device")
        found = validated_by(from_archive, fit=fit, kernels=kernels)
    else:
        with campaign_bar("measuring") as report:
            found = run_validation(backend, device=device, fit=fit, kernels=kernels, archive=archive, progress=report)
    show_predictions(found, standard_output())


def show_predictions(found: Sequence[Prediction], console: Console) -> None:
    """Print predicted and measured times by kernel and size, and the geometric means of the paper's Table 1."""
    accuracy = assess(found)
    table = Table("kernel", "sizes", "predicted", "measured", "error", "80 % interval")
    for column in table.columns[2:]:
        column.justify = "right"
    for kernel, mean in accuracy.per_kernel.items():
        for row in (row for row in found if row.kernel == kernel):
            sizes = ", ".join(f"{name}={value}" for name, value in row.sizes.items())
            table.add_row(
                kernel, sizes, duration(row.predicted), duration(row.measured), f"{row.error:.0%}", _stated(row)
            )
        table.add_row(kernel, "geometric mean", "", "", f"{mean:.0%}", "", end_section=True, style="bold")
    inside = "" if accuracy.coverage is None else f"{accuracy.coverage:.0%} inside"
    table.add_row("all kernels", "geometric mean", "", "", f"{accuracy.cross_kernel:.0%}", inside, style="bold")
    console.print(table)


def _stated(row: Prediction) -> str:
    if row.interval is None:
        return ""
    low, high = map(duration, row.interval)
    return f"{low} to {high}{'' if row.is_inside else ' !'}"
