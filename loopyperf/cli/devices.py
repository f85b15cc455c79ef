"""``loopyperf devices``: list the known devices, or show the parameters of one."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import click

from loopyperf.cli import options
from loopyperf.cli.console import print_in, show
from loopyperf.cli.options import Form, names_or_files
from loopyperf.device.description import Device
from loopyperf.device.device_files import load_description
from loopyperf.device.device_library import (
    KnownFile,
    head_of_fit,
    known_descriptions,
    known_fits,
    listed_as,
    load_device,
)
from loopyperf.device.substitutes import lacking
from loopyperf.display import ReportText, Table
from loopyperf.errors import DeviceFileError, FitFileError
from loopyperf.units import number_of, prefixed

Row = dict[str, Any]
"""JSON key -> value of a device, or of one of its fits"""
PARAMETERS = ("name", "architecture", "target", "cores", "clock", "bandwidth", "peak_f32", "origin", "path", "error")
"""keys of a device, besides ``device`` and ``fits``; the bandwidth is the published peak of device memory"""


def _cells(row: Row) -> tuple[str, ...]:
    """Return a row of the table."""
    numbers = ((row["clock"], "Hz"), (row["bandwidth"], "B/s"), (row["peak_f32"], "flop/s"))
    return (
        _with_remarks(row["device"], row),
        f"{row['architecture'] or ''} {row['target'] or ''}".strip(),
        str(row["cores"] or ""),
        *(prefixed(number, unit) if number else "" for number, unit in numbers),
        ", ".join(_with_remarks(fit["model"], fit) for fit in row["fits"]),
    )


def _with_remarks(words: str, row: Row) -> str:
    """Return *words*, the origin of the file unless it is bundled, and whether the file is unreadable."""
    remarks = [*(["user"] if row["origin"] == "user" else []), *(["unreadable"] if row["error"] else [])]
    return f"{words} ({', '.join(remarks)})" if remarks else words


HEADINGS = "device", "architecture", "cores", "clock", "bandwidth", "f32 peak", "fits"
NOTE = "`loopyperf devices show NAME` prints all parameters"
LABELS = {
    "also_called": "also known as",
    "register_allocation": "registers are allocated to a",
    "lanes": "work-items of a warp execute",
    "scheduling": "warp scheduling",
}
"""JSON key -> label in text, if they differ"""


@click.group("devices", invoke_without_command=True, epilog="\b\nExample: loopyperf devices --json")
@options.form
@click.pass_context
def devices_command(context: click.Context, form: Form) -> None:
    """List the known devices, with their main parameters and fits.

    These are the devices with a device file or a fit. Your own files take precedence over bundled ones.
    """
    if context.invoked_subcommand is not None:
        return
    known = _known()
    table = Table(HEADINGS, list(map(_cells, known)), text=2, last=1)
    errors = [file["error"] for device in known for file in (device, *device["fits"]) if file["error"]]
    text = ReportText(number_of(len(known), "device"), tables=[table], remarks=[NOTE], notes=errors)
    print_in(form, lambda: [text], lambda: list(_records(known)), lambda: known)


def _records(known: Sequence[Row]) -> Iterator[Row]:
    """Yield a row for each device and fit, and one for a device without fits."""
    for device in known:
        about = {name: value for name, value in device.items() if name not in ("fits", "origin", "error")}
        for fit in device["fits"] or [dict.fromkeys(("path", "model", "backend"))]:
            yield {**about, "fit": fit["path"], "fitted_model": fit["model"], "backend": fit["backend"]}


@devices_command.command(
    "show", short_help="Print all parameters of a device.", epilog="\b\nExample: loopyperf devices show nvidia-titan-v"
)
@click.argument("name", shell_complete=names_or_files(lambda: [file.slug for file in known_descriptions()]))
@options.form
def show_one(name: str, form: Form) -> None:
    """Print all parameters of the device NAME, or of a device file (TOML), with units and sources."""
    print_device(load_device(name), form)


def print_device(device: Device, form: Form, **more: Any) -> None:
    """Print the parameters of *device* in the format *form*; JSON also has *more*."""
    words = _words(device)
    if form == "text":
        for key, value in words.items():
            if value:
                show(f"{LABELS.get(key, key)}: {', '.join(value) if isinstance(value, list) else value}")
    lacks = lacking(device)
    remark = f"all models need a fit: the device file lacks {', '.join(lacks)}"
    text = ReportText("", tables=[device.table], remarks=[remark] if lacks else [])
    numbers = [asdict(statement) for part in device.parts for statement in part.statements]
    print_in(form, lambda: [text], lambda: numbers, lambda: {**words, "numbers": numbers, **more})


def _words(device: Device) -> dict[str, str | list[str]]:
    scheduling = device.scheduling
    return {
        "device": device.slug,
        "name": device.name,
        "vendor": device.vendor,
        "architecture": device.architecture,
        "target": device.target,
        "also_called": list(device.also_called),
        "register_allocation": device.register_allocation,
        "lanes": device.lanes,
        "pipelines": [f"{one} instructions on {shared.pipeline} ({shared.source})" for one, shared in device.pipelines],
        "scheduling": f"{scheduling.policy} ({scheduling.source})" if scheduling else "",
        "note": device.note,
    }


def _known() -> list[Row]:
    """Return the known devices in alphabetical order."""
    found = {file.slug: _with_file(file) for file in known_descriptions()}
    for file in known_fits():
        name, fit = _fit(file)
        slug = listed_as(file.slug)
        unknown: Row = {"device": slug, **dict.fromkeys(PARAMETERS), "name": name, "fits": []}
        found.setdefault(slug, unknown)["fits"].append(fit)
    return [device for _, device in sorted(found.items())]


def _with_file(known: KnownFile) -> Row:
    """Return the device of a device file; for an unreadable one, its path and the error."""
    row: Row = {"device": known.slug, **dict.fromkeys(PARAMETERS), "fits": []}
    row |= {"origin": known.origin, "path": str(known.path)}
    try:
        device = load_description(known.path)
    except DeviceFileError as error:
        return row | {"name": "", "error": str(error)}
    given = ("name", "architecture", "target", "cores", "clock", "peak_f32")
    bandwidth = next((level.bandwidth for level in device.memory if level.name == "DRAM"), None)
    return row | {name: getattr(device, name) for name in given} | {"bandwidth": bandwidth}


def _fit(known: KnownFile) -> tuple[str, Row]:
    """Return the full name of a fit's device and the fit; for an unreadable one, its path and the error."""
    row = {"model": known.model, "origin": known.origin, "path": str(known.path), "backend": None, "error": None}
    try:
        found = head_of_fit(known.path)
    except FitFileError as error:
        return "", row | {"error": str(error)}
    return found.device, row | {"backend": found.backend}
