"""The parameters of a device as text and as plain values, with the models that apply to it without a fit."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from loopyperf.cli.console import show, show_whole_or_alone
from loopyperf.device.description import Device
from loopyperf.device.lambdas import global_levels
from loopyperf.device.parts import Pipeline, Substitute, Substitution
from loopyperf.device.substitutes import ON_LAUNCH, completed, lacking
from loopyperf.display import ReportText
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.models.catalog import DEVICE_MODELS
from loopyperf.models.timing import InstructionTimes, NeededNumbers, needed, size_substitutions, substitution_list
from loopyperf.models.traffic import Served

ORDINARY = (("add", "f32"), ("mul", "f32"), ("fma", "f32"), ("add", "i32"), ("mul", "i32"), ("compare", "i32"))
"""arithmetic instructions of a typical tiled kernel, besides barriers and accesses of all memories"""


def assumed_parameters(device: Device) -> dict[str, tuple[Substitution, ...]]:
    """Return model -> the parameters that it assumes, for a typical tiled kernel of single precision without a fit.

    It is empty if the device lacks a parameter without which no model applies.
    """
    if lacking(device):
        return {}
    every = tuple(dict.fromkeys(_substitutions(device)))
    return {name: tuple(needed(every, model.sees)) for name, model in DEVICE_MODELS.items()}


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
LABELS = {
    "also_called": "also known as",
    "register_allocation": "registers are allocated to a",
    "lanes": "work-items of a warp execute",
    "scheduling": "warp scheduling",
}
"""JSON key -> label in text, if they differ"""


def as_plain_values(device: Device) -> Row:
    """Return the parameters of *device* and the models for it as values for JSON."""
    models = {name: list(map(str, assumed)) for name, assumed in assumed_parameters(device).items()}
    return {**_words(device), "numbers": list(numbers(device)), "models": models}


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
    if lacks := lacking(device):
        return [f"all models need a fit: the device file lacks {', '.join(lacks)}"]
    with_assumed: dict[tuple[Substitution, ...], list[str]] = {}
    for name, assumed in assumed_parameters(device).items():
        with_assumed.setdefault(assumed, []).append(name)
    how = {each: f"assuming {substitution_list(each)}" if each else "no assumed parameters" for each in with_assumed}
    on_launch = [
        Substitution.made("launch", name, number)
        for name in ON_LAUNCH
        if isinstance(number := completed(device).source(name), Substitute)
    ]
    alike = [f"every model: assuming {substitution_list(on_launch)}"] if on_launch else []
    return [*alike, *(f"{', '.join(names)}: {how[assumed]}" for assumed, names in with_assumed.items())]


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


def numbers(device: Device) -> Iterator[Row]:
    """Yield a row for each number in the device file."""
    yield from (asdict(each) for part in device.parts for each in part.statements)
