"""``loopyperf microbenchmark``: measure the parameters of a device and write its device file."""

import time
from pathlib import Path
from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_in, show, show_beside
from loopyperf.cli.device_text import as_plain_values, device_text, show_device
from loopyperf.cli.progress import campaign_bar, working
from loopyperf.cli.streams import Form, Records, check_writable, standard_error
from loopyperf.device.device_files import description_text
from loopyperf.errors import LoopyperfError
from loopyperf.files import why_unwritable, write_file
from loopyperf.measurement.microbenchmarks.measured_description import MeasuredDescription, described_by
from loopyperf.measurement.microbenchmarks.measured_description import microbenchmark as run_microbenchmarks


@click.command(
    epilog="\b\nExample: POCL_MAX_PTHREAD_COUNT=1 loopyperf microbenchmark --quick",
)
@settings.measuring
@settings.output("Output file; default: DEVICE.toml, or DEVICE-2.toml and so on if that exists.")
@settings.archive
@settings.from_archive
@click.option(
    "--clock",
    type=click.FloatRange(min=0, min_open=True),
    help="Clock frequency in MHz; default: as the driver reports.",
)
@click.option("--quick", is_flag=True, help="Use fewer runs and smaller arrays; takes about a minute.")
@settings.form
def microbenchmark_command(
    output: Path | None, from_archive: Path | None, clock: float | None, form: Form, **options: Any
) -> None:
    """Measure the latencies and memories of a device and write its device file.

    The TOML file has the latencies and throughputs of instructions, and the parameters of each memory.
    """
    started = time.monotonic()
    if output is None and (reason := why_unwritable(Path(), is_folder=True)):
        raise LoopyperfError(f"cannot write the device file here: {reason}; give a path with --output")
    hertz = None if clock is None else clock * 1e6
    if from_archive is not None:
        if options["archive"] or options["device"] or options["quick"]:
            raise click.UsageError("--from-archive does not measure; drop --archive, --device and --quick")
        with working("evaluating"):
            measured = described_by(from_archive, hertz)
    else:
        with campaign_bar() as report:
            measured = run_microbenchmarks(clock=hertz, progress=report, **options)
    path = output or check_writable(Path(f"{measured.device.slug}.toml"))
    write_file("the device file", path, description_text(measured.device))
    if form != "text":
        found = _plain(measured)
        records: Records = found["numbers"]
        print_in(form, lambda: [device_text(measured.device)], lambda: records, lambda: {"path": str(path), **found})
        return
    _show(measured)
    show_beside(f"wrote {path} in {time.monotonic() - started:.0f} s; show it with: loopyperf devices show {path}")


def _plain(measured: MeasuredDescription) -> dict[str, Any]:
    """Return the measured parameters as values for JSON."""
    absent = {refusal.name: refusal.reason for refusal in measured.refusals}
    return {**as_plain_values(measured.device), "absent": absent}


def _show(measured: MeasuredDescription) -> None:
    show_device(measured.device)
    for refusal in measured.refusals:
        show(f"not measured: {refusal}", standard_error())
