"""``loopyperf coverage``: which kernels of a calibration exercise which property, and how well it is told apart."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import structs

from loopyperf.calibration.calibrate import kernel_coverage
from loopyperf.calibration.choice import chosen_fit, fitted_devices
from loopyperf.calibration.problem import Coverage
from loopyperf.cli import settings
from loopyperf.cli.completion import names
from loopyperf.cli.console import print_json, show, show_report_text
from loopyperf.cli.progress import working
from loopyperf.display import ReportText, Table
from loopyperf.errors import FitFileError
from loopyperf.measurement.environment import DeviceLimits

LOCAL_MEMORY, GLOBAL_MEMORY = 48 * 2**10, 2**32
"""bytes that are taken for a device that is not there"""


@click.command(epilog="\b\nExample: loopyperf coverage --group-size 1024 --local-memory 49152")
@click.option(
    "--device",
    shell_complete=names(fitted_devices),
    help="Device whose fit is examined; by default the local OpenCL device.",
)
@settings.fit_file
@click.option(
    "--group-size",
    type=click.IntRange(min=1),
    help="Examine no fit, but the kernels for a device with groups of this many work-items.",
)
@click.option(
    "--local-memory",
    type=click.IntRange(min=0),
    help=f"Bytes of local memory for each group on that device; by default {LOCAL_MEMORY}.",
)
@click.option(
    "--global-memory",
    type=click.IntRange(min=1),
    help=f"Bytes of memory for all arrays of a kernel on that device; by default {GLOBAL_MEMORY}.",
)
@settings.kernels
@settings.as_json
def coverage_command(
    device: str | None,
    fit: Path | None,
    group_size: int | None,
    local_memory: int | None,
    global_memory: int | None,
    kernels: Path | None,
    as_json: bool,
) -> None:
    """Print which kernels exercise each property, in which amounts, and how well it can be told from the others.

    This is about the kernels of a fit or, with --group-size, about the measurement kernels on a device that need not
    be there; it is then based on counts alone, without the variance inflation, which needs run times.
    """
    _check_one_of_both(
        group_size is not None,
        {"--device": device, "--fit": fit},
        {"--local-memory": local_memory, "--global-memory": global_memory, "--kernels": kernels},
    )
    if group_size is not None:
        limits = DeviceLimits(
            group_size,
            LOCAL_MEMORY if local_memory is None else local_memory,
            GLOBAL_MEMORY if global_memory is None else global_memory,
        )
        with working("counting"):
            rows = kernel_coverage(limits, kernels)
    else:
        chosen = chosen_fit(None, device, fit)
        rows = chosen.coverage
        if not rows:
            raise FitFileError(
                f"the fit for {chosen.slug} says nothing of coverage: it was made by hand or by an earlier loopyperf; "
                "calibrate again, or give --group-size for the coverage of the kernels themselves"
            )
    if as_json:
        print_json([{**structs.asdict(row), "gap": row.gap} for row in rows])
        return
    if any(row.configurations for row in rows):
        show_coverage(rows)
    show_gaps(rows, at_most=len(rows))


def _check_one_of_both(is_of_kernels: bool, of_fit: Mapping[str, Any], of_kernels: Mapping[str, Any]) -> None:
    """Raise :class:`click.UsageError` for options of a fit where kernels are examined, and the other way round."""
    given = [name for name, value in (of_fit if is_of_kernels else of_kernels).items() if value is not None]
    if given:
        verb, why = ("is", "are")[len(given) > 1], "no fit is" if is_of_kernels else "only a fit is"
        with_or_without = "with" if is_of_kernels else "without"
        raise click.UsageError(f"{' and '.join(given)} {verb} given, but {with_or_without} --group-size {why} examined")


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
    show_report_text(ReportText("what exercises each property", tables=[table]))


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
