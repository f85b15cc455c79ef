"""``loopyperf microbenchmark``: measure a device, and write down what it is."""

import time
from pathlib import Path
from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_json, show, show_beside
from loopyperf.cli.devices_command import as_plain_values, show_device
from loopyperf.cli.progress import campaign_bar, working
from loopyperf.cli.streams import check_writable, standard_error
from loopyperf.device.device_files import description_text
from loopyperf.errors import LoopyperfError
from loopyperf.files import why_unwritable, write_file
from loopyperf.measurement.microbenchmarks.measured_description import MeasuredDescription, described_by
from loopyperf.measurement.microbenchmarks.measured_description import microbenchmark as run_microbenchmarks
from loopyperf.units import in_percent


@click.command(
    epilog="\b\nExample: POCL_MAX_PTHREAD_COUNT=1 loopyperf microbenchmark --quick",
)
@settings.measuring
@settings.output("Where the description goes; by default SHORT-NAME.toml, or SHORT-NAME-2.toml if it is there.")
@settings.archive
@settings.from_archive
@click.option("--clock", type=click.FloatRange(min=0, min_open=True), help="Clock in MHz; by default the driver's.")
@click.option("--quick", is_flag=True, help="Fewer runs and smaller arrays; takes a minute.")
@settings.as_json
def microbenchmark_command(
    backend: str,
    device: str | None,
    output: Path | None,
    archive: Path | None,
    from_archive: Path | None,
    clock: float | None,
    quick: bool,
    as_json: bool,
) -> None:
    """Measure the latencies of instructions and the memories of a device, and write its description."""
    started = time.monotonic()
    if output is None and (reason := why_unwritable(Path(), is_folder=True)):
        raise LoopyperfError(f"the description cannot be written here: {reason}; give a path with --output")
    hertz = None if clock is None else clock * 1e6
    if from_archive is not None:
        if archive or device or quick:
            raise click.UsageError("--from-archive measures nothing: it takes no --archive, --device or --quick")
        with working("evaluating"):
            described = described_by(from_archive, hertz)
    else:
        with campaign_bar() as report:
            described = run_microbenchmarks(
                backend, device=device, archive=archive, clock=hertz, quick=quick, progress=report
            )
    path = output or check_writable(Path(f"{described.device.slug}.toml"))
    write_file("the description", path, description_text(described.device))
    if as_json:
        print_json({"path": str(path), **_plain(described)})
        return
    _show(described)
    show_beside(f"wrote {path} in {time.monotonic() - started:.0f} s; see it with: loopyperf devices show {path}")


def _plain(described: MeasuredDescription) -> dict[str, Any]:
    """Return what was found, as JSON can hold it."""
    absent = {refusal.name: refusal.reason for refusal in described.refusals}
    error = None if described.prediction is None else described.prediction.error
    return {**as_plain_values(described.device), "absent": absent, "error on the iterative barrier kernel": error}


def _show(described: MeasuredDescription) -> None:
    show_device(described.device)
    if described.prediction is not None:
        divisions, error = len(described.prediction.measured), in_percent(described.prediction.error)
        show(
            f"the iterative barrier kernel, simulated with these: {error} off, the mean over "
            f"{divisions} divisions of warps into groups"
        )
    for refusal in described.refusals:
        show(f"absent: {refusal}", standard_error())
