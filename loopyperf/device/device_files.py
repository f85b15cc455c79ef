"""Device files: TOML files with the value, unit and source of each number on one line.

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
from loopyperf.errors import DeviceFileError, brief, later_schema
from loopyperf.files import os_reason, read_bytes

SUFFIX = ".toml"
"""extension of device files"""
OF_FILES = (SUFFIX, ".json", ".py")
"""extensions that distinguish a path from a device name"""


@lru_cache(maxsize=1024)
def device_slug(name: str) -> str:
    """Return the device *name* as a folder name, e.g. ``"nvidia-titan-v"`` for ``"NVIDIA TITAN V"``.

    PoCL prefixes the name of a processor with ``pthread-`` (``cpu-`` since version 4), which becomes ``pocl-``.
    """
    plain = re.sub(r"\((r|tm|c)\)", " ", name.strip().lower())
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    return re.sub(r"^(pthread|cpu)-", "pocl-", words)


def is_path(name: str) -> bool:
    """Return whether *name* is a path such as ``./mine.toml`` or ``mine.toml``, rather than a device name."""
    return name.startswith((".", "~", "/")) or name.endswith(OF_FILES)


def is_processor(slug: str) -> bool:
    """Return whether the device *slug* is a CPU, used through PoCL."""
    return slug.startswith("pocl-")


# {{{ reading
#
#     cores = { value = 80, unit = "cores", source = "AnandTech Titan V review, specifications" }
#
# Numbers at the top are the device's own; those of its parts are in tables: ``[limits]``, ``[throughput]``,
# ``[memory.L2]``, ``[instructions."mul f32"]``. ``docs/devices.md`` documents the format.


SCHEMA = 1
"""version of the file format"""

MAX_FILE_BYTES = 256 * 2**10
"""maximum size of a device file in bytes; the largest of the catalog has 8 KiB"""
MAX_DOTS = 100
"""maximum number of dots in a line; the parser's time and memory grow with the square of the parts of a dotted key"""
MIN_NUMBER, MAX_NUMBER = 1e-18, 1e18
"""range of numbers in base units, such as Hz, B/s and cycles; published values are far from both ends"""
MAX_COUNT = 2**24
"""largest whole number of anything but bytes, since models enumerate lanes, warps and registers"""

Table = dict[str, Any]
Described = TypeVar("Described", bound=AnyPart)
AnyStruct = TypeVar("AnyStruct", bound=msgspec.Struct)


class DeviceWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The fields of a device file that are not numbers."""

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
    """The fields of a memory level that are not numbers."""

    per: Per
    holds_local_memory: bool = False


def load_description(path: str | os.PathLike[str]) -> Device:
    """Return the device in the file at *path*; the name of the file is its short name.

    Raises :class:`DeviceFileError`, which names the file and the field, if the file is missing or not TOML, or has an
    unknown field, or a number without unit or source, in a wrong unit, out of range, or fractional where only integers
    are valid.
    """
    source = Path(path)
    try:
        return _parsed(source, read_bytes(source, MAX_FILE_BYTES).decode())
    except OSError as error:
        raise DeviceFileError(f"cannot read the device file {source}: {os_reason(error)}; check the path") from error
    except UnicodeDecodeError as error:
        raise DeviceFileError(f"the device file {source} is not TOML: {brief(error)}; fix the file") from error


@lru_cache
def _parsed(source: Path, text: str) -> Device:
    """Return the device in *text*, the contents of the file *source*; cached, since parsing takes a millisecond."""
    return _Reader(source).device(_document(source, text))


def _document(source: Path, text: str) -> Table:
    try:
        if any(line.count(".") > MAX_DOTS for line in text.splitlines()):
            raise ValueError(f"a line has more than {MAX_DOTS} dots")
        document = tomllib.loads(text)
        repr(document)  # raises an error for hexadecimal integers that messages could not show
    except (ValueError, RecursionError) as error:  # also raised for integers with too many digits, and deep nesting
        raise DeviceFileError(f"the device file {source} is not TOML: {brief(error)}; fix the file") from error
    schema = document.pop("schema", None)
    if type(schema) is int and schema > SCHEMA:
        raise DeviceFileError(later_schema(source, schema, SCHEMA))
    if schema != SCHEMA:
        raise DeviceFileError(
            f"{source} is not a device file: it must begin with schema = {SCHEMA}, got {schema!r:.80}"
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
        """Remove the table *name* from *document* and return it; empty if there is none."""
        found = document.pop(name, {})
        if not isinstance(found, dict):
            raise self.error(name, f"must be a table, got {found!r:.80}")
        return cast("Table", found)

    def tables(self, document: Table, name: str) -> list[tuple[str, Table]]:
        """Remove the table *name* from *document* and return the tables in it, with their names."""
        outer = self.table(document, name)
        return [(inner, self.table({inner: table}, inner)) for inner, table in outer.items()]

    def words(self, kind: type[AnyStruct], place: str, table: Table) -> AnyStruct:
        """Remove the fields that are not numbers from *table* and return them."""
        found = {name: table.pop(name) for name in kind.__struct_fields__ if name in table}
        try:
            return msgspec.convert(found, kind)
        except msgspec.ValidationError as error:
            raise self.error(place, str(error)) from error

    # }}}

    # {{{ numbers

    def part(self, kind: type[Described], place: str, table: Table, **words: Any) -> Described:
        """Return a part with the numbers in *table*, which must contain nothing else."""
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
            raise self.error(field, f"{error}; write {form}") from error
        if base_unit(quantity.unit) != number.unit:
            raise self.error(
                field, f"has unit {quantity.unit!r:.40}; it must be one of {', '.join(multiples(number.unit))}"
            )
        value = self.bounded(field, number, quantity)
        if number.is_whole and value != int(value):
            raise self.error(field, f"must be a whole number of {number.unit}, got {quantity}")
        return quantity

    def bounded(self, field: str, number: Number, quantity: Quantity) -> int | float:
        """Return the number in its base unit, checked for a range in which arithmetic does not overflow."""
        try:
            value = in_base_unit(quantity)
            is_finite = math.isfinite(value)
        except OverflowError:  # an integer beyond the range of floats
            value, is_finite = math.inf, False
        largest = MAX_COUNT if number.is_whole and number.unit != "B" else MAX_NUMBER
        if is_finite and ((value == 0 and number.may_be_zero) or MIN_NUMBER <= value <= largest):
            return value
        least = ">= 0" if number.may_be_zero else "> 0"
        beyond = f", between {MIN_NUMBER:g} and {largest:g} {number.unit}" if 0 < value < math.inf else ""
        raise self.error(field, f"must be a number {least}{beyond}, got {quantity.value!s:.30}")

    def unknown(self, name: str, declared: Iterable[str]) -> str:
        near = difflib.get_close_matches(name, list(declared), n=1, cutoff=0)
        return f"has an unknown field {name!r:.40}; the nearest known field is {near[0]!r}"

    # }}}

    def error(self, field: str, what: str) -> DeviceFileError:
        where = f"{self.source}: {field:.60}" if field else f"{self.source}:"
        return DeviceFileError(f"{where} {brief(what, 160)} (docs/devices.md documents the format)")


# }}}


# {{{ writing


BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def description_text(device: Device) -> str:
    """Return *device* as the text of a device file; the name of the file that it is saved to becomes its short name."""
    paragraphs = [
        [f"schema = {SCHEMA}", *_words(device)],
        _numbers(device),
        *_table("pipelines", (f"{_key(one)} = {_fact(shared)}" for one, shared in device.pipelines)),
        *_table("limits", _numbers(device.limits)),
        *_table("throughput", _numbers(device.throughput)),
        *([f"[{_key('memory', level.name)}]", f"per = {_text(level.per)}",
           *(["holds_local_memory = true"] if level.holds_local_memory else []), *_numbers(level)]
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
    """Return a list with the table as its only paragraph; an empty list if the table is empty."""
    inside = list(lines)
    return [[f"[{name}]", *inside]] if inside else []


def _fact(fact: SharedPipeline | Scheduling) -> str:
    fields = (f"{name} = {_text(getattr(fact, name))}" for name in fact.__struct_fields__)
    return f"{{ {', '.join(fields)} }}"


def _numbers(part: AnyPart) -> list[str]:
    return [
        f"{name} = {{ value = {each.value}, unit = {_text(each.unit)}, source = {_text(each.source)} }}"
        for name, each in part.known()
    ]


def _key(*names: str) -> str:
    return ".".join(name if BARE_KEY.fullmatch(name) else _text(name) for name in names)


def _text(words: str) -> str:
    # JSON strings are valid in TOML, except for one control character that JSON does not escape.
    return json.dumps(words, ensure_ascii=False).replace("\x7f", "\\u007f")


# }}}
