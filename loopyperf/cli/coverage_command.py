"""``loopyperf coverage``: which measurement kernels exercise each property, and how well its weight is determined."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import structs

from loopyperf.calibration.calibrate import kernel_coverage
from loopyperf.calibration.choice import chosen_fit, fitted_devices
from loopyperf.calibration.problem import Coverage
from loopyperf.cli import settings
from loopyperf.cli.completion import names_or_files
from loopyperf.cli.console import print_in, show
from loopyperf.cli.progress import working
from loopyperf.cli.streams import Form, is_quiet
from loopyperf.display import ReportText, Table
from loopyperf.errors import FitFileError
from loopyperf.measurement.environment import DeviceLimits

LOCAL_MEMORY, GLOBAL_MEMORY = 48 * 2**10, 2**32
"""memory sizes, in bytes, assumed for a device that is not present"""


@click.command(epilog="\b\nExample: loopyperf coverage --group-size 1024 --local-memory 49152")
@click.option(
    "--device",
    shell_complete=names_or_files(fitted_devices),
    help="Device whose fit to examine; default: the local OpenCL device.",
)
@settings.fit_file
@click.option(
    "--group-size",
    type=click.IntRange(min=1),
    help="Examine the kernels instead of a fit, for a device with up to this many work-items per group.",
)
@click.option(
    "--local-memory",
    type=click.IntRange(min=0),
    help=f"With --group-size: local memory per group, in bytes; default: {LOCAL_MEMORY}.",
)
@click.option(
    "--global-memory",
    type=click.IntRange(min=1),
    help=f"With --group-size: memory for all arrays of a kernel, in bytes; default: {GLOBAL_MEMORY}.",
)
@settings.kernels
@settings.form
def coverage_command(
    device: str | None,
    fit: Path | None,
    group_size: int | None,
    local_memory: int | None,
    global_memory: int | None,
    kernels: Path | None,
    form: Form,
) -> None:
    """List the measurement kernels that exercise each property.

    The table gives the amounts of each property, and how well its weight can be separated from the others (variance
    inflation). It covers the kernels of a fit or, with --group-size, the measurement kernels on a device that need not
    be present. Variance inflation requires run times, so --group-size omits it.
    """
    _check_options_match(
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
                f"the fit for {chosen.slug} has no coverage data (handwritten, or from an earlier loopyperf); "
                "calibrate again, or give --group-size to examine the kernels"
            )
    found = [{**structs.asdict(row), "gap": row.gap} for row in rows]
    if form != "text" or any(row.configurations for row in rows):
        print_in(form, lambda: [coverage_text(rows)], lambda: found, lambda: found)
    if form == "text" and not is_quiet():
        show_gaps(rows, at_most=len(rows))


def _check_options_match(is_of_kernels: bool, of_fit: Mapping[str, Any], of_kernels: Mapping[str, Any]) -> None:
    """Raise :class:`click.UsageError` for options of a fit if kernels are examined, and vice versa."""
    given = [name for name, value in (of_fit if is_of_kernels else of_kernels).items() if value is not None]
    if given and is_of_kernels:
        raise click.UsageError(f"--group-size examines kernels, not a fit; drop {' and '.join(given)}")
    if given:
        raise click.UsageError(f"{' and '.join(given)} {'require' if len(given) > 1 else 'requires'} --group-size")


def coverage_text(rows: Sequence[Coverage]) -> ReportText:
    """Return a table with a row for each property that any kernel has."""
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
    table = Table(("property", "kernels", "counts", "inflation", "classes"), found, last=1)
    return ReportText("kernels that exercise each property" if found else "", tables=[table] if found else [])


def show_gaps(rows: Sequence[Coverage], at_most: int = 12) -> None:
    """Print a line for each gap in the coverage; one line lists *at_most* so many properties that no kernel has."""
    missing = [row.name for row in rows if not row.configurations]
    if missing:
        left = len(missing) - at_most
        more = f" and {left} more (see `loopyperf coverage`)" if left > 0 else ""
        show(f"in no kernel: {', '.join(missing[:at_most])}{more}")
    for row in rows:
        if row.configurations and row.gap:
            show(f"{row.name}: {row.gap}")
