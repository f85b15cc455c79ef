"""Devices as TOML files: each number with its value, unit and source on one line.

cores = { value = 80, unit = "cores", source = "AnandTech Titan V review, specifications" }
"""

import difflib
import json
import math
import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from loopyperf.device.description import AnyPart, CoreLimits, Device, InstructionTiming, MemoryLevel, Throughput
from loopyperf.device.parts import (
    Lanes,
    Number,
    Per,
    Quantity,
    RegisterAllocation,
    Scheduling,
    SharedPipeline,
    Words,
    base_unit,
    in_base_unit,
    multiples,
)
from loopyperf.errors import DeviceFileError, later_schema
from loopyperf.files import os_reason, read_bytes

SUFFIX = ".toml"
"""of the names of descriptions"""
OF_FILES = (SUFFIX, ".json", ".py")
"""what no device's name ends with, but a file's"""


@lru_cache(maxsize=1024)
def device_slug(name: str) -> str:
    """Return the device *name* as a folder name, e.g. ``"nvidia-titan-v"`` for ``"NVIDIA TITAN V"``.

    PoCL prefixes a processor's name with ``pthread-`` (``cpu-`` from version 4 on), which becomes ``pocl-``.
    """
    plain = re.sub(r"\((r|tm|c)\)", " ", name.strip().lower())
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    return re.sub(r"^(pthread|cpu)-", "pocl-", words)


def is_path(name: str) -> bool:
    """Return whether *name* is the path of a file, and not what a device is called: ``./mine.toml``, ``mine.toml``."""
    return name.startswith((".", "~", "/")) or name.endswith(OF_FILES)


def is_processor(slug: str) -> bool:
    """Return whether the device with this short name is a machine's processor, by way of PoCL."""
    return slug.startswith("pocl-")


# {{{ Device descriptions as TOML files: each number with its value, unit and source on one line
#
#     cores = { value = 80, unit = "cores", source = "AnandTech Titan V review, specifications" }
#
# Numbers at the top are the device's own; those of its parts stand in tables: ``[limits]``, ``[throughput]``,
# ``[memory.L2]``, ``[instructions."mul f32"]``. ``docs/devices.md`` says it all.


SCHEMA = 1
"""version of the files' form"""

MOST = 4 * 2**20
"""bytes of a description"""
LEAST, LARGEST = 1e-18, 1e18
"""magnitudes of numbers in base units, such as Hz, B/s and cycles: what is published lies far within"""

Table = dict[str, Any]
Described = TypeVar("Described", bound=AnyPart)
AnyStruct = TypeVar("AnyStruct", bound=msgspec.Struct)


class DeviceWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a description says in words."""

    name: Words
    vendor: Words
    architecture: Words
    target: Words = ""
    also_called: tuple[Words, ...] = ()
    note: Words = ""
    register_allocation: RegisterAllocation = RegisterAllocation.WARP
    lanes: Lanes = Lanes.TOGETHER
    scheduling: Scheduling | None = None
    pipelines: dict[str, SharedPipeline] = {}


class LevelWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the table of a memory says in words."""

    per: Per
    holds_local_memory: bool = False


def load_description(path: str | os.PathLike[str]) -> Device:
    """Return the device that the file at *path* describes; its short name is the file's.

    Raises :class:`DeviceFileError`, which names the file and the field: there is no such file, it is not TOML, it has a
    field that no description has, or a number without unit or source, in a unit of something else, negative, infinite,
    or a fraction where there are only whole ones.
    """
    source = Path(path)
    try:
        return _described(source, read_bytes(source, MOST).decode())
    except OSError as error:
        raise DeviceFileError(f"cannot read the device description {source}: {os_reason(error)}") from error
    except UnicodeDecodeError as error:
        raise DeviceFileError(f"the device description {source} is not TOML: {error!s:.300}; mend it there") from error


@lru_cache
def _described(source: Path, text: str) -> Device:
    """Return the device that *text*, all of the file *source*, describes: parsed once, which takes a millisecond."""
    return _Reader(source).device(_document(source, text))


def _document(source: Path, text: str) -> Table:
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of integers with too many digits, and of nesting, as well
        raise DeviceFileError(f"the device description {source} is not TOML: {error!s:.300}; mend it there") from error
    schema = document.pop("schema", None)
    if type(schema) is int and schema > SCHEMA:
        raise DeviceFileError(later_schema(source, schema, SCHEMA))
    if schema != SCHEMA:
        raise DeviceFileError(
            f"{source} is not a device description: it must begin with schema = {SCHEMA}, has {schema!r}"
        )
    return document


class _Reader:
    """Reads the tables of one file."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.slug = device_slug(source.stem)

    def device(self, document: Table) -> Device:
        limits = self.part(CoreLimits, "limits", self.table(document, "limits"))
        throughput = self.part(Throughput, "throughput", self.table(document, "throughput"))
        memory = tuple(self.level(name, table) for name, table in self.tables(document, "memory"))
        instructions = tuple(
            self.part(InstructionTiming, f"instructions.{name}", table)
            for name, table in self.tables(document, "instructions")
        )
        words = self.words(DeviceWords, "", document)
        return self.part(
            Device,
            "",
            document,
            limits=limits,
            throughput=throughput,
            memory=memory,
            instructions=instructions,
            **{name: getattr(words, name) for name in words.__struct_fields__ if name != "pipelines"},
            pipelines=tuple(words.pipelines.items()),
        )

    def level(self, name: str, table: Table) -> MemoryLevel:
        place = f"memory.{name}"
        words = self.words(LevelWords, place, table)
        return self.part(MemoryLevel, place, table, per=words.per, holds_local_memory=words.holds_local_memory)

    # {{{ tables

    def table(self, document: Table, name: str) -> Table:
        """Take the table called *name* out of *document*; empty if there is none."""
        found = document.pop(name, {})
        if not isinstance(found, dict):
            raise self.error(name, f"must be a table, is {found!r}")
        return cast("Table", found)

    def tables(self, document: Table, name: str) -> list[tuple[str, Table]]:
        """Take the tables inside the table called *name* out of *document*."""
        outer = self.table(document, name)
        return [(inner, self.table({inner: table}, inner)) for inner, table in outer.items()]

    def words(self, kind: type[AnyStruct], place: str, table: Table) -> AnyStruct:
        """Take what *table* says in words out of it."""
        said = {name: table.pop(name) for name in kind.__struct_fields__ if name in table}
        try:
            return msgspec.convert(said, kind)
        except msgspec.ValidationError as error:
            raise self.error(place, str(error)) from error

    # }}}

    # {{{ numbers

    def part(self, kind: type[Described], place: str, table: Table, **words: Any) -> Described:
        """Return the part of which *table* states numbers, and nothing else."""
        declared = kind.declared()
        for name in table:
            if name not in declared:
                raise self.error(place, self.unknown(name, declared))
        numbers = {name: self.quantity(place, name, declared[name], stated) for name, stated in table.items()}
        return kind(slug=self.slug, place=place, **words).stating(**numbers)

    def quantity(self, place: str, name: str, number: Number, stated: object) -> Quantity:
        field = ".".join(filter(None, (place, name)))
        try:
            quantity = msgspec.convert(stated, Quantity)
        except msgspec.ValidationError as error:
            form = f'{name} = {{ value = ..., unit = "{number.unit}", source = "..." }}'
            raise self.error(field, f"{error}; it is written {form}") from error
        if base_unit(quantity.unit) != number.unit:
            raise self.error(
                field, f"is in {quantity.unit!r}; it must be in one of {', '.join(multiples(number.unit))}"
            )
        value = self.bounded(field, number, quantity)
        if number.is_whole and value != int(value):
            raise self.error(field, f"must be a whole number of {number.unit}, is {quantity}")
        return quantity

    def bounded(self, field: str, number: Number, quantity: Quantity) -> int | float:
        """Return the number in its base unit, of a size that arithmetic on it does not overflow."""
        try:
            value = in_base_unit(quantity)
            is_finite = math.isfinite(value)
        except OverflowError:  # of an integer beyond floats
            value, is_finite = math.inf, False
        if is_finite and ((value == 0 and number.may_be_zero) or LEAST <= value <= LARGEST):
            return value
        least = "0 or more" if number.may_be_zero else "above 0"
        beyond = f", and between {LEAST:g} and {LARGEST:g} {number.unit}" if 0 < value < math.inf else ""
        raise self.error(field, f"must be a number, {least}{beyond}, is {quantity.value!s:.30}")

    def unknown(self, name: str, declared: Iterable[str]) -> str:
        near = difflib.get_close_matches(name, list(declared), n=1, cutoff=0)
        return f"has a field {name!r} that no description has; the nearest known field is {near[0]!r}"

    # }}}

    def error(self, field: str, what: str) -> DeviceFileError:
        where = f"{self.source}: {field:.200}" if field else f"{self.source}:"
        return DeviceFileError(f"{where} {what:.400}. docs/devices.md says what a description holds")


# }}}


# {{{ a device as the text of its description


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


# }}}
