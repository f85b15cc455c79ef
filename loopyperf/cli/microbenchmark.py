"""``loopyperf microbenchmark``: measure a device, and write down what it is."""

import time
from pathlib import Path

import click

from loopyperf.cli.console import standard_error, standard_output
from loopyperf.cli.devices import show_device
from loopyperf.cli.progress import campaign_bar
from loopyperf.device.device_text import description_text
from loopyperf.errors import DeviceFileError
from loopyperf.measurement.microbenchmarks.description import Described
from loopyperf.oracle.microbenchmark import described_by
from loopyperf.oracle.microbenchmark import microbenchmark as run_microbenchmarks


@click.command(
    epilog="\b\nExample: POCL_MAX_PTHREAD_COUNT=1 loopyperf microbenchmark --quick -o my-device.toml",
    context_settings={"show_default": True},
)
@click.option("--backend", default="opencl", help="What to measure through: opencl or cuda.")
@click.option("--device", help="Part of the device's name; by default the first one.")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="Where the description goes; by default SHORT-NAME.toml."
)
@click.option("--archive", type=click.Path(path_type=Path), help="Where raw samples go; an existing file is resumed.")
@click.option("--from-archive", type=click.Path(path_type=Path), help="Evaluate this archive; measure nothing.")
@click.option("--clock", type=click.FloatRange(min=0, min_open=True), help="Clock in MHz; by default the driver's.")
@click.option("--quick", is_flag=True, help="Fewer runs and smaller arrays: a minute.")
def microbenchmark(
    backend: str,
    device: str | None,
    output: Path | None,
    archive: Path | None,
    from_archive: Path | None,
    clock: float | None,
    quick: bool,
) -> None:
    """Measure the latencies of instructions and the memories of a device, and write its description."""
    started = time.monotonic()
    hertz = None if clock is None else clock * 1e6
    if from_archive is not None:
        if archive or device or quick:
            raise click.UsageError("--from-archive measures nothing: it takes no --archive, --device or --quick")
        described = described_by(from_archive, hertz)
    else:
        with campaign_bar("measuring") as report:
            described = run_microbenchmarks(
                backend, device=device, archive=archive, clock=hertz, quick=quick, progress=report
            )
    path = output or Path(f"{described.device.slug}.toml")
    _save(described, path)
    show_device(described.device, standard_output())
    if described.prediction is not None:
        divisions = len(described.prediction.measured)
        click.echo(
            f"the iterative barrier kernel, simulated with these: {described.prediction.error:.0%} off, the mean over "
            f"{divisions} divisions of warps into groups"
        )
    for refusal in described.refusals:
        standard_error().print(f"absent: {refusal}")
    click.echo(f"wrote {path} in {time.monotonic() - started:.0f} s; see it with: loopyperf devices show {path}")


def _save(described: Described, path: Path) -> None:
    try:
        path.write_text(description_text(described.device), encoding="utf-8")
    except OSError as error:
        raise DeviceFileError(
            f"cannot write the description {path}: {error.strerror}; give another --output"
        ) from error
