"""``loopyperf devices``: list the known devices, or show the parameters of one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from loopyperf.calibration.fit_library import KnownFit, known_fits
from loopyperf.calibration.fits import load_fit
from loopyperf.cli import settings
from loopyperf.cli.command_table import Summaries
from loopyperf.cli.completion import names_or_files
from loopyperf.cli.console import print_in, show, show_whole_or_alone
from loopyperf.cli.streams import Form
from loopyperf.device.description import Device
from loopyperf.device.device_files import load_description
from loopyperf.device.device_library import KnownDescription, known_descriptions, listed_as, load_device
from loopyperf.device.lambdas import global_levels
from loopyperf.device.parts import Pipeline, Substitute, Substitution
from loopyperf.device.substitutes import ON_LAUNCH, completed, lacking
from loopyperf.display import ReportText, Table
from loopyperf.errors import DeviceFileError, FitFileError
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.models.catalog import DEVICE_MODELS
from loopyperf.models.timing import InstructionTimes, NeededNumbers, needed, size_substitutions, substitution_list
from loopyperf.models.traffic import Served
from loopyperf.units import number_of

ORDINARY = (("add", "f32"), ("mul", "f32"), ("fma", "f32"), ("add", "i32"), ("mul", "i32"), ("compare", "i32"))
"""arithmetic instructions of a typical tiled kernel, besides barriers and accesses of all memories"""


@dataclass(frozen=True, slots=True)
class Answering:
    """The models that apply to a device without a fit, for a typical tiled kernel of single precision."""

    lacks: tuple[str, ...]
    """parameters without which no model applies; if there are any, *assumed* is empty"""
    assumed: Mapping[str, tuple[Substitution, ...]]
    """model -> the parameters that it assumes; empty if the device file specifies all of them"""

    @classmethod
    def of(cls, device: Device) -> "Answering":
        """Return the models for *device*, with the parameters that they assume."""
        lacks = lacking(device)
        if lacks:
            return cls(lacks, {})
        every = tuple(dict.fromkeys(_substitutions(device)))
        models = DEVICE_MODELS.items()
        return cls((), {name: tuple(needed(every, model.sees)) for name, model in models})

    @property
    def published(self) -> tuple[str, ...]:
        """Return the models that assume no parameters."""
        return tuple(name for name, assumed in self.assumed.items() if not assumed)

    @property
    def in_short(self) -> str:
        """Return the number of models, e.g. ``"12, 7 assume 1 parameter"``, or the missing parameters."""
        if self.lacks:
            return f"none: lacks {', '.join(self.lacks)}"
        models, most = len(self.assumed), max(map(len, self.assumed.values()))
        up_to = f"{'up to ' if most > 1 else ''}{number_of(most, 'parameter')}"
        return f"{models}, {models - len(self.published)} assume {up_to}" if most else str(models)


def _substitutions(device: Device) -> Iterator[Substitution]:
    """Yield the parameters assumed for the instructions of a typical kernel that accesses every memory."""
    whole, timing = completed(device), InstructionTimes(device)
    yield from size_substitutions(whole)
    for kind, dtype in ORDINARY:
        timing.arithmetic(Instruction(kind, dtype, "alu"))
    timing.arithmetic(Instruction(Opcode.BARRIER, subsystem=Pipeline.BARRIER))
    timing.local_memory(1)
    names = [level.name for level in global_levels(whole)]
    shares = {name: 2.0**-place for place, name in enumerate(names)}
    timing.memory("load", Served(shares, shares), NeededNumbers(8, 2))
    yield from timing.substituted


Row = dict[str, Any]
MODELS_NOTES = (
    "models: number of models that need no fit, and how many of them assume missing device parameters",
    "`loopyperf devices show NAME` prints all parameters and lists the assumed ones",
)
LABELS = {
    "also called": "also known as",
    "shared pipelines": "pipelines",
    "warps are scheduled": "warp scheduling",
}
"""JSON key -> label in text"""


@click.group(cls=Summaries, invoke_without_command=True, epilog="\b\nExample: loopyperf devices --json")
@settings.form
@click.pass_context
def devices_command(context: click.Context, form: Form) -> None:
    """List the known devices, with their models and fits.

    These are the devices with a device file or a fit. Your own files take precedence over bundled ones.
    """
    if context.invoked_subcommand is not None:
        return
    rows = _known()
    print_in(form, lambda: [_report_text(rows)], lambda: list(_records(rows)), lambda: rows)


def _report_text(rows: Sequence[Row]) -> ReportText:
    unreadable = [
        each["error"] for row in rows for each in (row["description"], *row["fits"]) if each and each["error"]
    ]
    return ReportText(number_of(len(rows), "device"), tables=[_listed(rows)], remarks=MODELS_NOTES, notes=unreadable)


def _records(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield a row for each device and fit, and one for a device without fits."""
    for row in rows:
        about = {name: row[name] for name in ("device", "name", "architecture")}
        description: Row = row["description"] or {}
        about |= {"description": description.get("path"), "models": ", ".join(row["models"])}
        fits: list[Row] = row["fits"] or [{}]
        for fit in fits:
            yield {**about, "fit": fit.get("path"), "fitted_model": fit.get("model"), "backend": fit.get("backend")}


def _listed(rows: Sequence[Row]) -> Table:
    found: list[tuple[str, ...]] = []
    for row in rows:
        file = _origin(row["description"]) if row["description"] else ""
        fits = ", ".join(map(_in_short, row["fits"]))
        found.append((row["device"], row["name"], row["architecture"], file, row["answers"], fits))
    return Table(("device", "name", "architecture", "device file", "models", "fits"), found, text=6)


def _in_short(fit: Row) -> str:
    return f"{Path(fit['path']).stem} ({_origin(fit)})"


def _origin(file: Row) -> str:
    """Return the origin of *file*, ``"user"`` or ``"bundled"``, and whether it is unreadable."""
    return f"{file['origin']}{', unreadable' if file['error'] else ''}"


def _short_names() -> list[str]:
    return [known.slug for known in known_descriptions()]


@devices_command.command("show", epilog="\b\nExample: loopyperf devices show nvidia-titan-v")
@click.argument("name", shell_complete=names_or_files(_short_names))
@settings.form
@click.pass_context
def show_one(context: click.Context, name: str, form: Form) -> None:
    """Print all parameters of the device NAME, or of a device file (TOML), with units and sources."""
    device = load_device(name)
    if form == "text" and context.parent is not None:
        form = context.parent.params["form"]
    if form == "text":
        show_device(device)
    else:
        print_in(
            form,
            lambda: [device_text(device)],
            lambda: list(_numbers(device)),
            lambda: as_plain_values(device),
        )


def as_plain_values(device: Device) -> Row:
    """Return the parameters of *device* and the models for it as values for JSON."""
    return {**_words(device), "numbers": list(_numbers(device)), "models": _answering(device)["models"]}


def show_device(device: Device) -> None:
    """Print the parameters of *device* and the models for it."""
    for key, words in _words(device).items():
        if words:
            show(f"{LABELS.get(key, key)}: {', '.join(words) if isinstance(words, list) else words}")
    show_whole_or_alone([device_text(device)])


def device_text(device: Device) -> ReportText:
    return ReportText("", tables=[device.table], remarks=_note(device))


def _note(device: Device) -> list[str]:
    """Return a sentence on assumed numbers of a launch, and one for each set of models that assume the same others."""
    found = Answering.of(device)
    if found.lacks:
        return [f"all models need a fit: the device file lacks {', '.join(found.lacks)}"]
    with_assumed: dict[tuple[Substitution, ...], list[str]] = {}
    for name, assumed in found.assumed.items():
        with_assumed.setdefault(assumed, []).append(name)
    how = {each: f"assuming {substitution_list(each)}" if each else "no assumed parameters" for each in with_assumed}
    on_launch = [
        Substitution.made("launch", name, number)
        for name in ON_LAUNCH
        if isinstance(number := completed(device).source(name), Substitute)
    ]
    alike = [f"every model: assuming {substitution_list(on_launch)}"] if on_launch else []
    return [*alike, *(f"{', '.join(names)}: {how[assumed]}" for assumed, names in with_assumed.items())]


def _known() -> list[Row]:
    """Return a row for each known device, in alphabetical order."""
    rows: dict[str, Row] = {}
    for known in known_descriptions():
        rows[known.slug] = _described(known)
    for entry in known_fits():
        name, found = _known_fit(entry)
        slug = listed_as(entry.slug)
        rows.setdefault(slug, _row(slug, name, "", None))["fits"].append(found)
    return [row for _, row in sorted(rows.items())]


def _described(known: KnownDescription) -> Row:
    """Return a row for a device file; for an unreadable one, its path and the error."""
    where = {"origin": known.origin, "path": str(known.path), "error": None}
    try:
        device = load_description(known.path)
    except DeviceFileError as error:
        return _row(known.slug, "", "", {**where, "error": str(error)})
    return {**_row(known.slug, device.name, device.architecture, where), **_answering(device)}


def _answering(device: Device) -> Row:
    """Return the models for a device: a summary, and the parameters that each assumes."""
    found = Answering.of(device)
    return {
        "answers": found.in_short,
        "models": {name: list(map(str, assumed)) for name, assumed in found.assumed.items()},
    }


def _known_fit(entry: KnownFit) -> tuple[str, Row]:
    """Return the full name of a fit's device and a row for the fit; for an unreadable one, its path and the error."""
    row = {"model": entry.model, "backend": None, "origin": entry.origin, "path": str(entry.path), "error": None}
    try:
        fit = load_fit(entry.path)
    except FitFileError as error:
        return "", {**row, "error": str(error)}
    return fit.device, {**row, "backend": fit.backend}


def _row(slug: str, name: str, architecture: str, description: Row | None) -> Row:
    return {
        "device": slug,
        "name": name,
        "architecture": architecture,
        "description": description,
        "answers": "",
        "models": {},
        "fits": [],
    }


def _words(device: Device) -> dict[str, str | list[str]]:
    scheduling = device.scheduling
    return {
        "device": device.slug,
        "name": device.name,
        "vendor": device.vendor,
        "architecture": device.architecture,
        "target": device.target,
        "also called": list(device.also_called),
        "registers are allocated to": f"a {device.register_allocation}",
        "work-items of a warp execute": device.lanes,
        "shared pipelines": [
            f"{one} instructions on {shared.pipeline} ({shared.source})" for one, shared in device.pipelines
        ],
        "warps are scheduled": f"{scheduling.policy} ({scheduling.source})" if scheduling else "",
        "note": device.note,
    }


def _numbers(device: Device) -> Iterator[Row]:
    """Yield a row for each number in the device file."""
    yield from (asdict(each) for part in device.parts for each in part.statements)
