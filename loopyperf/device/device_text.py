"""A device as the text of its description, which :func:`loopyperf.device.device_files.load_description` reads."""

import json
import re
from collections.abc import Iterable, Iterator

from loopyperf.device.description import AnyPart, Device
from loopyperf.device.device_files import SCHEMA
from loopyperf.device.facts import Lanes, RegisterAllocation, Scheduling, SharedPipeline
from loopyperf.device.quantity import Quantity

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def description_text(device: Device) -> str:
    """Return *device* as TOML; its short name is that of the file that the text is saved to."""
    paragraphs = [
        [f"schema = {SCHEMA}", *_words(device)],
        _numbers(device),
        *_table("pipelines", (f"{_key(one)} = {_fact(shared)}" for one, shared in device.pipelines)),
        *_table("limits", _numbers(device.limits)),
        *_table("throughput", _numbers(device.throughput)),
        *([f"[{_key('memory', level.name)}]", *_level(level.per, level.holds_local_memory), *_numbers(level)]
          for level in device.memory),
        *([f"[{_key('instructions', each.name)}]", *_numbers(each)] for each in device.instructions),
    ]  # fmt: skip
    return "\n".join("\n".join([*paragraph, ""]) for paragraph in paragraphs if paragraph)


def _words(device: Device) -> Iterator[str]:
    for name in ("name", "vendor", "architecture", "target", "note"):
        if words := getattr(device, name):
            yield f"{name} = {_text(words)}"
    if device.also_called:
        yield f"also_called = [{', '.join(map(_text, device.also_called))}]"
    if device.register_allocation != RegisterAllocation.WARP:
        yield f"register_allocation = {_text(device.register_allocation)}"
    if device.lanes != Lanes.TOGETHER:
        yield f"lanes = {_text(device.lanes)}"
    if device.scheduling:
        yield f"scheduling = {_fact(device.scheduling)}"


def _table(name: str, lines: Iterable[str]) -> list[list[str]]:
    """Return a table as a list of one paragraph; an empty list if there is nothing in it."""
    inside = list(lines)
    return [[f"[{name}]", *inside]] if inside else []


def _level(per: str, holds_local_memory: bool) -> list[str]:
    return [f"per = {_text(per)}", *(["holds_local_memory = true"] if holds_local_memory else [])]


def _fact(fact: SharedPipeline | Scheduling) -> str:
    said = (f"{name} = {_text(getattr(fact, name))}" for name in fact.__struct_fields__)
    return f"{{ {', '.join(said)} }}"


def _numbers(part: AnyPart) -> list[str]:
    return [f"{name} = {_quantity(quantity)}" for name, quantity in part.known()]


def _quantity(quantity: Quantity) -> str:
    return f"{{ value = {quantity.value}, unit = {_text(quantity.unit)}, source = {_text(quantity.source)} }}"


def _key(*names: str) -> str:
    return ".".join(name if BARE_KEY.fullmatch(name) else _text(name) for name in names)


def _text(words: str) -> str:
    # JSON's strings are TOML's, but for the one control character that JSON leaves as it is.
    return json.dumps(words, ensure_ascii=False).replace("\x7f", "\\u007f")
