"""Commands that measure devices, and those that fit, train and validate models with measurements."""

import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from msgspec import structs

import loopyperf as lpp
from loopyperf.calibration.accuracy import Prediction, assess
from loopyperf.calibration.archived import fit_recording
from loopyperf.calibration.fit_library import save_fits
from loopyperf.calibration.fits import Fit, fit_document
from loopyperf.calibration.residual_model import own_residual_models, residual_document, save_residual_model
from loopyperf.cli import settings
from loopyperf.cli.console import print_in, show, show_beside
from loopyperf.cli.devices import print_device
from loopyperf.cli.options import Form, Output, check_writable, is_quiet, standard_error
from loopyperf.cli.progress import campaign_bar, working
from loopyperf.counts.execution import Counting
from loopyperf.device.device_files import description_text
from loopyperf.display import ReportText, Table
from loopyperf.errors import LoopyperfError
from loopyperf.files import why_unwritable, write_file
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.kernel_files import measurement_kernels
from loopyperf.measurement.microbenchmarks.measured_description import described_by
from loopyperf.measurement.microbenchmarks.measured_description import microbenchmark as run_microbenchmarks
from loopyperf.measurement.protocol import Protocol
from loopyperf.models.result import LEVEL
from loopyperf.predict.train import BASES, train_recordings
from loopyperf.predict.validate import validated_by
from loopyperf.units import UNBROKEN, duration, in_percent

OUTSIDE = "!"
MEANING = f"{OUTSIDE} measured time is outside the interval"


# {{{ calibrate


@click.command(
    "calibrate",
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
    with campaign_bar() as report:
        fit = lpp.calibrate(
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


# }}}


# {{{ fit


@click.command("fit", epilog="\b\nExample: loopyperf fit archive.jsonl --model overlap -o overlap.json")
@click.argument("archive", type=click.Path(path_type=Path))
@settings.fitting
@click.option(
    "--prior",
    metavar="FIT",
    help="Regularize weights of pipelines toward those of this fit: its path, or the name of another device.",
)
@settings.form
def fit_command(
    archive: Path,
    kernels: Path | None,
    output: Path | None,
    model: str | None,
    counting: Counting,
    prior: str | None,
    form: Form,
) -> None:
    """Fit a model to an archive of measurements.

    ARCHIVE is a file that `loopyperf calibrate` wrote; it may be compressed.
    """
    with working("fitting"):
        files = measurement_kernels(kernels)
        fits = fit_recording(read_archive(archive), files, counting, model, prior)
    save_fits(fits, output)
    fit = fits[0]
    print_in(form, lambda: [fit.report_text()], fit.records, lambda: fit_document(fit))


# }}}


# {{{ train


@click.command(
    "train",
    epilog="\b\nExample: loopyperf train archive.jsonl -o learned.json\n\n"
    "\b\nTo correct the sampled model (samples: `loopyperf calibrate --samples`):\n"
    "loopyperf train archive.jsonl\n"
    "loopyperf estimate matmul.py:tiled --set n=64 --model learned --backend opencl",
)
@click.argument("archives", metavar="ARCHIVE...", type=click.Path(path_type=Path), nargs=-1, required=True)
@settings.kernels
@settings.output("Output file; default: where predictions look for it.", makes_folders=True)
@click.option(
    "--base",
    type=click.Choice(BASES),
    metavar="MODEL",
    help="Model to correct: sampled (default if there are samples), overlap, or another.",
)
@settings.form
def train_command(
    archives: tuple[Path, ...],
    kernels: Path | None,
    output: Path | None,
    base: str | None,
    form: Form,
) -> None:
    """Train a residual model, which corrects another model, on archives of measurements.

    ARCHIVE is a file that `loopyperf calibrate` wrote; give several archives of one device to train on all of them.
    If they contain samples, the residual model corrects the sampled model, and only sampled kernels are used.
    """
    with working("training"):
        files = measurement_kernels(kernels)
        learned = train_recordings([read_archive(archive) for archive in archives], files, base=base)
    save_residual_model(learned, output or own_residual_models(learned.record.slug, learned.record.backend))
    scores = [{"method": name, **structs.asdict(score)} for name, score in learned.record.scores.items()]
    print_in(form, lambda: [learned.report_text()], lambda: scores, lambda: residual_document(learned))


# }}}


# {{{ validate


@click.command("validate", epilog="\b\nExample: POCL_MAX_PTHREAD_COUNT=1 loopyperf validate")
@settings.measuring
@settings.fit_file
@settings.kernels
@settings.archive
@settings.from_archive
@click.option("--plot", type=Output(), help="Also plot predicted against measured times in this file.")
@settings.form
def validate_command(from_archive: Path | None, plot: Path | None, form: Form, **options: Any) -> None:
    """Compare predicted with measured run times on test kernels.

    No fit uses the test kernels. The table ends with geometric means of the relative errors.
    """
    # Report a missing matplotlib before measuring.
    plots = None if plot is None else import_module("loopyperf.explain.plots")
    if from_archive is not None:
        if options["archive"] or options["device"]:
            raise click.UsageError("--from-archive does not measure; drop --archive and --device")
        with working("predicting"):
            found = validated_by(from_archive, fit=options["fit"], kernels=options["kernels"])
    else:
        with campaign_bar() as report:
            found = lpp.validate(progress=report, **options)
    print_in(form, lambda: [report_text_of(found)], found.records, found.to_dict)
    if plots is not None:
        plots.plot_predictions(found.predictions).savefig(plot)


def report_text_of(found: lpp.Validation) -> ReportText:
    """Return measured and predicted times by kernel and size, geometric means of the errors, and remarks on them.

    There is a mean for each kernel and one for all kernels, as in the paper's Table 1.
    """
    accuracy = assess(found)
    rows: list[tuple[str, ...]] = []
    for kernel, mean in accuracy.per_kernel.items():
        rows += [_row(prediction) for prediction in found if prediction.kernel == kernel]
        rows.append((kernel, "geometric mean", "", "", in_percent(mean), ""))
    inside = "" if accuracy.coverage is None else f"{in_percent(accuracy.coverage)} inside"
    rows.append(("all kernels", "geometric mean", "", "", in_percent(accuracy.cross_kernel), inside))
    table = Table(("kernel", "sizes", "measured", "predicted", "error", f"{in_percent(LEVEL)} interval"), rows, text=2)
    report_text = found.report_text()
    is_marked = any(prediction.interval is not None and not prediction.is_inside for prediction in found)
    return replace(report_text, tables=[table], remarks=[*([MEANING] if is_marked else []), *report_text.remarks])


def _row(each: Prediction) -> tuple[str, ...]:
    sizes = ", ".join(f"{name}={value}" for name, value in each.sizes.items())
    interval = ""
    if each.interval is not None:
        low, high = map(duration, each.interval)
        interval = f"{low} to {high}{'' if each.is_inside else f' {OUTSIDE}'}".replace(" ", UNBROKEN)
    return each.kernel, sizes, duration(each.measured), duration(each.predicted), in_percent(each.error), interval


# }}}


# {{{ microbenchmark


@click.command(
    "microbenchmark",
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
    absent = {refusal.name: refusal.reason for refusal in measured.refusals}
    print_device(measured.device, form, path=str(path), absent=absent)
    if form == "text":
        for refusal in measured.refusals:
            show(f"not measured: {refusal}", standard_error())
        show_beside(f"wrote {path} in {time.monotonic() - started:.0f} s; show it with: loopyperf devices show {path}")


# }}}
