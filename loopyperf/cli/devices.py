"""``loopyperf devices``: list the known devices, or show the parameters of one."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from typing import Any

import click

from loopyperf.cli import options
from loopyperf.cli.command_table import Summaries
from loopyperf.cli.console import print_in
from loopyperf.cli.options import Form, names_or_files
from loopyperf.device.device_files import load_description
from loopyperf.device.device_library import (
    KnownFile,
    head_of_fit,
    known_descriptions,
    known_fits,
    listed_as,
    load_device,
)
from loopyperf.display import ReportText, Table
from loopyperf.errors import DeviceFileError, FitFileError
from loopyperf.units import number_of, prefixed


@dataclass(frozen=True, slots=True)
class KnownFit:
    """A fit in the list."""

    model: str
    origin: str
    path: str
    backend: str | None = None
    error: str | None = None
    """reason why the file cannot be read"""

    @property
    def in_short(self) -> str:
        """Return the model, the origin unless it is bundled, and whether the file is unreadable."""
        return _with_remarks(self.model, self.origin, self.error)


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """A device in the list: its main parameters, in base SI units as far as they are known, and its fits."""

    device: str
    name: str = ""
    architecture: str = ""
    target: str = ""
    cores: int | None = None
    clock: float | None = None
    bandwidth: float | None = None
    """published peak of device memory"""
    peak_f32: float | None = None
    origin: str | None = None
    """origin of the device file; None if there is none"""
    path: str | None = None
    error: str | None = None
    """reason why the file cannot be read"""
    fits: list[KnownFit] = field(default_factory=list["KnownFit"])

    @property
    def cells(self) -> tuple[str, ...]:
        """Return a row of the table."""
        numbers = ((self.clock, "Hz"), (self.bandwidth, "B/s"), (self.peak_f32, "flop/s"))
        return (
            _with_remarks(self.device, self.origin, self.error),
            f"{self.architecture} {self.target}".strip(),
            str(self.cores or ""),
            *(prefixed(number, unit) if number else "" for number, unit in numbers),
            ", ".join(fit.in_short for fit in self.fits),
        )


def _with_remarks(words: str, origin: str | None, error: str | None) -> str:
    remarks = [*(["user"] if origin == "user" else []), *(["unreadable"] if error else [])]
    return f"{words} ({', '.join(remarks)})" if remarks else words


HEADINGS = "device", "architecture", "cores", "clock", "bandwidth", "f32 peak", "fits"
NOTE = "`loopyperf devices show NAME` prints all parameters, and which of them the models assume"


@click.group("devices", cls=Summaries, invoke_without_command=True, epilog="\b\nExample: loopyperf devices --json")
@options.form
@click.pass_context
def devices_command(context: click.Context, form: Form) -> None:
    """List the known devices, with their main parameters and fits.

    These are the devices with a device file or a fit. Your own files take precedence over bundled ones.
    """
    if context.invoked_subcommand is not None:
        return
    known = _known()
    print_in(form, lambda: [_report_text(known)], lambda: list(_records(known)), lambda: list(map(asdict, known)))


def _report_text(known: Sequence[KnownDevice]) -> ReportText:
    table = Table(HEADINGS, [each.cells for each in known], text=2, last=1)
    unreadable = [each.error for device in known for each in (device, *device.fits) if each.error]
    return ReportText(number_of(len(known), "device"), tables=[table], remarks=[NOTE], notes=unreadable)


def _records(known: Sequence[KnownDevice]) -> Iterator[dict[str, Any]]:
    """Yield a row for each device and fit, and one for a device without fits."""
    for device in known:
        about = {name: value for name, value in asdict(device).items() if name not in ("fits", "origin", "error")}
        for fit in device.fits or [None]:
            yield {
                **about,
                "fit": fit and fit.path,
                "fitted_model": fit and fit.model,
                "backend": fit and fit.backend,
            }


def _short_names() -> list[str]:
    return [known.slug for known in known_descriptions()]


@devices_command.command("show", epilog="\b\nExample: loopyperf devices show nvidia-titan-v")
@click.argument("name", shell_complete=names_or_files(_short_names))
@options.form
def show_one(name: str, form: Form) -> None:
    """Print all parameters of the device NAME, or of a device file (TOML), with units and sources."""
    # Imported here, because it imports all models, which the list does not need.
    text = import_module("loopyperf.cli.device_text")
    device = load_device(name)
    if form == "text":
        text.show_device(device)
    else:
        print_in(
            form,
            lambda: [text.device_text(device)],
            lambda: list(text.numbers(device)),
            lambda: text.as_plain_values(device),
        )


def _known() -> list[KnownDevice]:
    """Return the known devices in alphabetical order."""
    found = {known.slug: _with_file(known) for known in known_descriptions()}
    for known in known_fits():
        name, fit = _fit(known)
        slug = listed_as(known.slug)
        found.setdefault(slug, KnownDevice(slug, name)).fits.append(fit)
    return [device for _, device in sorted(found.items())]


def _with_file(known: KnownFile) -> KnownDevice:
    """Return the device of a device file; for an unreadable one, its path and the error."""
    try:
        device = load_description(known.path)
    except DeviceFileError as error:
        return KnownDevice(known.slug, origin=known.origin, path=str(known.path), error=str(error))
    return KnownDevice(
        known.slug,
        device.name,
        device.architecture,
        device.target,
        device.cores,
        device.clock,
        next((level.bandwidth for level in device.memory if level.name == "DRAM"), None),
        device.peak_f32,
        known.origin,
        str(known.path),
    )


def _fit(known: KnownFile) -> tuple[str, KnownFit]:
    """Return the full name of a fit's device and the fit; for an unreadable one, its path and the error."""
    fit = KnownFit(known.model, known.origin, str(known.path))
    try:
        found = head_of_fit(known.path)
    except FitFileError as error:
        return "", replace(fit, error=str(error))
    return found.device, replace(fit, backend=found.backend)
