"""``loopyperf coverage``: which kernels of a calibration exercise which property, and how well it is told apart."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from loopyperf.calibration.exercised import Coverage
from loopyperf.cli import settings
from loopyperf.cli.console import print_json, show, show_sheet
from loopyperf.cli.progress import working
from loopyperf.errors import FitFileError
from loopyperf.measurement.configuration import Limits
from loopyperf.oracle.choice import chosen_fit
from loopyperf.oracle.coverage import kernel_coverage
from loopyperf.sheet import Sheet, Table


@click.command(epilog="\b\nExample: loopyperf coverage --group-size 1024 --local-memory 49152")
@click.option("--device", help="Device whose fit is examined; by default the local OpenCL device.")
@settings.fit_file
@click.option(
    "--group-size", type=int, help="Examine no fit, but the kernels for a device with groups of this many work-items."
)
@click.option("--local-memory", type=int, default=49152, help="Bytes of local memory for each group on that device.")
@click.option(
    "--global-memory", type=int, default=2**32, help="Bytes of memory for all arrays of a kernel on that device."
)
@settings.kernels
@settings.as_json
def coverage(
    device: str | None,
    fit: Path | None,
    group_size: int | None,
    local_memory: int,
    global_memory: int,
    kernels: Path | None,
    as_json: bool,
) -> None:
    """Print which kernels exercise each property, in which amounts, and how well it can be told from the others.

    This is about the kernels of a fit or, with --group-size, about the measurement kernels on a device that need not
    be there; it is then based on counts alone, without the variance inflation, which needs run times.
    """
    if group_size is not None:
        with working("counting"):
            rows = kernel_coverage(Limits(group_size, local_memory, global_memory), kernels)
    else:
        chosen = chosen_fit(None, device, fit)
        rows = chosen.coverage
        if not rows:
            raise FitFileError(
                f"the fit for {chosen.slug} says nothing of coverage: it was made by hand or by an earlier loopyperf; "
                "calibrate again, or give --group-size for the coverage of the kernels themselves"
            )
    if as_json:
        print_json([{**msgspec.to_builtins(row), "gap": row.gap} for row in rows])
        return
    if any(row.configurations for row in rows):
        show_coverage(rows)
    show_gaps(rows, at_most=len(rows))


def show_coverage(rows: Sequence[Coverage]) -> None:
    """Print a table with a line for each property that any kernel has."""
    found = [
        (
            row.name,
            str(row.configurations),
            f"{row.least:.2g} to {row.most:.2g}",
            "" if row.inflation is None else f"{row.inflation:.3g}",
            ", ".join(row.classes),
        )
        for row in rows
        if row.configurations
    ]
    table = Table(("property", "kernels", "counted", "inflation", "classes"), found, last=1)
    show_sheet(Sheet("what exercises each property", tables=[table]))


def show_gaps(rows: Sequence[Coverage], at_most: int = 12) -> None:
    """Print what is wrong with the coverage, a line for each gap; properties that no kernel has share one line.

    Of these, *at_most* so many are named.
    """
    missing = [row.name for row in rows if not row.configurations]
    if missing:
        left = len(missing) - at_most
        more = f" and {left} more, which `loopyperf coverage` lists" if left > 0 else ""
        show(f"in no kernel: {', '.join(missing[:at_most])}{more}")
    for row in rows:
        if row.configurations and row.gap:
            show(f"{row.name}: {row.gap}")
