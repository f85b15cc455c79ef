"""What is known of a device: how much of everything it has, how long instructions take, where memory is.

Symbols: λ is the issue latency of a warp instruction (the inverse of its throughput on one core), Λ its completion
latency, both in cycles (Lemeire, sections 1 and 4.3). A core is what NVIDIA calls a streaming multiprocessor and AMD a
compute unit, a warp what AMD calls a wavefront, a group a work-group, local memory what NVIDIA calls shared memory.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Never, get_args

from loopyperf.device.parts import (
    DescriptionTable,
    Lanes,
    Per,
    Pipeline,
    Policy,
    PublishedNumber,
    Quantity,
    RegisterAllocation,
    Row,
    Scheduling,
    SharedPipeline,
    count_field,
    number_field,
    throughput_row,
)
from loopyperf.display import ReportText, Shown, Table, details, html_lines, html_of
from loopyperf.errors import MissingNumberError
from loopyperf.units import UNBROKEN, number_of

LatencyField = Literal["issue", "completion"]
LATENCY_FIELDS: tuple[LatencyField, ...] = get_args(LatencyField)

# The names of numbers, by which those are asked for that must be known: test_description.py holds them to the fields.
Limit = Literal[
    "warps",
    "groups",
    "groups_of_one_warp",
    "work_items_per_group",
    "registers",
    "registers_per_group",
    "registers_per_work_item",
    "register_unit",
    "partitions",
    "warp_unit",
    "local_memory",
    "local_memory_per_group",
    "local_memory_unit",
    "local_memory_reserved",
]
LevelCount = Literal["size", "line", "sector", "banks", "bank_width", "partitions"]
LevelNumber = Literal[
    "latency", "bandwidth", "sustained_bandwidth", "bandwidth_per_core", "departure_delay", "lines_per_cycle"
]
DeviceCount = Literal["cores", "warp_size", "schedulers", "load_store_units"]
DeviceNumber = Literal[
    "clock",
    "boost_clock",
    "issue_limit",
    "group_start",
    "group_rate",
    "launch_overhead",
    "peak_f32",
    "peak_f64",
]


@dataclass(frozen=True, kw_only=True)
class CoreLimits(DescriptionTable[Limit, Never]):
    """What may reside on a core at once, and in which portions it is allocated."""

    warps: int | None = count_field("warps", "warps resident on a core")
    groups: int | None = count_field("groups", "groups resident on a core")
    groups_of_one_warp: int | None = count_field(
        "groups", "groups of a single warp resident on a core, where these are more"
    )
    work_items_per_group: int | None = count_field("work-items", "work-items of a group")
    registers: int | None = count_field("registers", "32-bit registers of a core")
    registers_per_group: int | None = count_field("registers", "32-bit registers of a group")
    registers_per_work_item: int | None = count_field("registers", "32-bit registers of a work-item")
    register_unit: int | None = count_field("registers", "32-bit registers that are allocated together")
    partitions: int | None = count_field("partitions", "parts of the register file; a warp's registers lie in one")
    warp_unit: int | None = count_field(
        "warps", "warps that are allocated together, where registers are allocated to groups"
    )
    local_memory: int | None = count_field("B", "local memory of a core")
    local_memory_per_group: int | None = count_field("B", "local memory of a group")
    local_memory_unit: int | None = count_field("B", "local memory that is allocated together")
    local_memory_reserved: int | None = count_field(
        "B", "local memory that the system takes for itself from each group's share", may_be_zero=True
    )


@dataclass(frozen=True, kw_only=True)
class Throughput(DescriptionTable[Never, Row]):
    """How many results a core delivers in a cycle; the rows of the vendors' tables."""

    f32: float | None = number_field("results/cycle", "single-precision additions, multiplications, multiply-adds")
    f64: float | None = number_field("results/cycle", "double-precision additions, multiplications, multiply-adds")
    special: float | None = number_field(
        "results/cycle", "single-precision reciprocals, roots, exponentials, logarithms, sines"
    )
    integer_add: float | None = number_field("results/cycle", "32-bit integer additions and subtractions")
    integer_multiply: float | None = number_field("results/cycle", "32-bit integer multiplications and multiply-adds")
    shift: float | None = number_field("results/cycle", "32-bit integer shifts")
    compare: float | None = number_field("results/cycle", "comparisons, minima, maxima")
    logic: float | None = number_field("results/cycle", "32-bit bitwise and, or, exclusive or")
    convert: float | None = number_field("results/cycle", "conversions between 32-bit types")


@dataclass(frozen=True, kw_only=True)
class InstructionTiming(DescriptionTable[Never, LatencyField]):
    """How long an instruction takes, measured; called by kind and type, e.g. ``"mul f32"``, ``"load global b32"``."""

    issue: float | None = number_field("cycles", "issue latency λ of a warp instruction on one core")
    completion: float | None = number_field("cycles", "completion latency Λ")

    @property
    def name(self) -> str:
        """Return what the instruction is called."""
        return self.place.removeprefix("instructions.")


@dataclass(frozen=True, kw_only=True)
class MemoryLevel(DescriptionTable[LevelCount, LevelNumber]):
    """A memory: local memory, a cache, or the device's own."""

    per: Per
    """what there is one of it for; :attr:`size` is of one"""
    holds_local_memory: bool = False
    """what groups take as local memory is taken from this cache, and its size includes that"""

    size: int | None = count_field("B", "capacity")
    line: int | None = count_field("B", "what a tag is for")
    sector: int | None = count_field("B", "what is moved at once")
    latency: float | None = number_field(
        "cycles", "from a load to the use of what it loads, one dependent load after the other"
    )
    bandwidth: float | None = number_field("B/s", "of the whole device, published peak")
    sustained_bandwidth: float | None = number_field("B/s", "of the whole device, measured")
    bandwidth_per_core: float | None = number_field("B/cycle", "of one core")
    departure_delay: float | None = number_field("cycles", "between two memory transactions of a core, GPUPerf's Δ")
    lines_per_cycle: float | None = number_field(
        "lines/cycle", "that a core's cache looks up, of one access; 1 if not stated"
    )
    partitions: int | None = count_field("partitions", "parts of a cache, each with a copy of what its cores load")
    banks: int | None = count_field("banks", "banks, each of which serves one word at a time")
    bank_width: int | None = count_field("B", "word of a bank")

    @property
    def name(self) -> str:
        """Return what the level is called, e.g. ``"L2"``."""
        return self.place.removeprefix("memory.")


@dataclass(frozen=True, kw_only=True, repr=False)
class Device(Shown, DescriptionTable[DeviceCount, DeviceNumber]):
    """A device. Its numbers are in base units (Hz, B, s); one that nobody has published is None.

    :meth:`needed` is for those that must be known.
    """

    name: str
    """its full name, e.g. ``"NVIDIA Tesla V100 PCIe"``"""
    vendor: str
    """e.g. ``"NVIDIA"``"""
    architecture: str
    """e.g. ``"Volta"``"""
    target: str = ""
    """compute capability, or the compiler's name of the architecture"""
    also_called: tuple[str, ...] = ()
    """names that drivers and people use"""
    note: str = ""
    """what a reader of the numbers should know"""
    register_allocation: RegisterAllocation = RegisterAllocation.WARP
    """what registers are allocated to"""
    lanes: Lanes = Lanes.TOGETHER
    """how the work-items of a warp execute"""
    pipelines: tuple[tuple[str, SharedPipeline], ...] = ()
    """subsystem, and the one whose pipeline executes its instructions too"""
    scheduling: Scheduling | None = None
    """which warp issues where several could; None where nobody has published it"""
    limits: CoreLimits
    """what may reside on a core"""
    throughput: Throughput
    """how much a core does in a cycle, by kind of instruction"""
    instructions: tuple[InstructionTiming, ...] = ()
    """latencies that were measured, in cycles"""
    memory: tuple[MemoryLevel, ...] = ()
    """the nearest to the core first"""

    cores: int | None = count_field("cores", "cores of the device")
    clock: float | None = number_field("Hz", "clock of the cores under load; all cycles are its")
    boost_clock: float | None = number_field("Hz", "clock of the published peaks, where that is another one")
    warp_size: int | None = count_field("work-items", "work-items of a warp")
    schedulers: int | None = count_field("schedulers", "warp schedulers of a core")
    issue_limit: float | None = number_field("warp instructions/cycle", "warp instructions that a core issues, IL")
    load_store_units: int | None = count_field(
        "units", "addresses that a core takes in a cycle, one for each work-item"
    )
    group_start: float | None = number_field(
        "cycles", "from the end of a group until the one that takes its place executes"
    )
    group_rate: float | None = number_field("groups/cycle", "groups that the device begins in a cycle of its cores")
    launch_overhead: float | None = number_field("s", "from one launch to the next of kernels that do nothing")
    peak_f32: float | None = number_field("flop/s", "published peak of single-precision arithmetic")
    peak_f64: float | None = number_field("flop/s", "published peak of double-precision arithmetic")

    @property
    def parts(self) -> "tuple[AnyPart, ...]":
        """Return everything that has numbers, the device itself first."""
        return (self, self.limits, self.throughput, *self.memory, *self.instructions)

    @property
    def table(self) -> Table:
        """Return every number that is known, with its unit, what it is of, and who states it."""
        rows = [(each.number, _in_words(each), each.meaning, each.source) for each in self._stated()]
        return Table(("number", "value", "meaning", "source"), rows, last=2)

    def report_text(self) -> ReportText:
        """Return what it is, its own numbers, and where those of its parts are."""
        some = (str(quantity) for quantity in map(self.source, ("cores", "clock")) if quantity)
        own = [(each.number, _in_words(each), each.meaning) for each in self.statements]
        numbers = number_of(len(self._stated()), "number")
        return ReportText(
            question=self.slug,
            answer=", ".join([self.name, self.architecture, *some]),
            tables=[Table(("number", "value", "meaning"), own, last=1)] if own else [],
            remarks=[f"all in all {numbers}: .table has them with their sources, `loopyperf devices show` prints that"],
            notes=[self.note] if self.note else [],
        )

    def _repr_html_(self) -> str:
        return html_of(details(self.report_text().head, self.table.html()), html_lines(filter(None, [self.note])))

    def _stated(self) -> list[PublishedNumber]:
        return [each for part in self.parts for each in part.statements]

    def level(self, name: str) -> MemoryLevel:
        """Return the memory called *name*, e.g. ``"L2"``; raises :class:`MissingNumberError` if none is described."""
        for level in self.memory:
            if level.name == name:
                return level
        raise MissingNumberError(
            f"the description of {self.slug!r} has no memory {name!r}, only {_listed(x.name for x in self.memory)}; "
            f"to add it, give the path of a description of your own with a table [memory.{name}]"
        )

    def pipeline(self, subsystem: str) -> str:
        """Return the pipeline that executes the instructions of *subsystem*: its own, unless another is stated.

        That of :attr:`Pipeline.INTEGER` is :attr:`Pipeline.ALU` then.
        """
        stated = dict(self.pipelines).get(subsystem)
        if stated:
            return stated.pipeline
        return Pipeline.ALU if subsystem == Pipeline.INTEGER else subsystem

    @property
    def scheduler(self) -> Policy:
        """Return the policy of the warp schedulers: each warp in turn where nobody has published another."""
        return self.scheduling.policy if self.scheduling else Policy.ROUND_ROBIN

    # {{{ latencies of instructions

    def issue_latency(self, kind: str, dtype: str = "") -> float:
        """Return λ of a warp instruction on one core, in cycles.

        It is what was measured for it, or for another instruction of the same row of the vendor's throughput table (a
        multiplication tells of additions); else the warp size over the results that a core delivers in a cycle. Raises
        :class:`MissingNumberError` where neither is known.
        """
        measured = self._measured(kind, dtype, "issue")
        if measured is not None:
            return measured.needed("issue")
        row = throughput_row(kind, dtype)
        if row is None:
            raise self._no_latency(kind, dtype, "issue")
        return self.needed("warp_size") / self.throughput.needed(row)

    def completion_latency(self, kind: str, dtype: str = "") -> float:
        """Return Λ of a warp instruction, in cycles: measured for it, or for another of the same row of the table.

        Raises :class:`MissingNumberError` where it is not known.
        """
        measured = self._measured(kind, dtype, "completion")
        if measured is None:
            raise self._no_latency(kind, dtype, "completion")
        return measured.needed("completion")

    def resting_on(self, field: LatencyField, kind: str, dtype: str = "") -> Quantity | None:
        """Return the number that :meth:`issue_latency` or :meth:`completion_latency` rests on; None where none does."""
        measured = self._measured(kind, dtype, field)
        if measured is not None:
            return measured.source(field)
        row = throughput_row(kind, dtype)
        return self.throughput.source(row) if row and field == "issue" else None

    def _measured(self, kind: str, dtype: str, field: LatencyField) -> InstructionTiming | None:
        name, row, alike = f"{kind} {dtype}".strip(), throughput_row(kind, dtype), None
        for each in self.instructions:
            if getattr(each, field) is not None:
                if each.name == name:
                    return each
                if alike is None and row is not None and _row_of_named(each.name) == row:
                    alike = each
        return alike

    def _no_latency(self, kind: str, dtype: str, field: LatencyField) -> MissingNumberError:
        name = f"{kind} {dtype}".strip()
        return MissingNumberError(
            f"the description of {self.slug!r} does not state how long {name!r} takes ({field}, in cycles), nor any "
            f"instruction like it; there are {_listed(each.name for each in self.instructions)}. To add it, give the "
            f'path of a description of your own with a table [instructions."{name}"] that has in it: '
            f'{field} = {{ value = ..., unit = "cycles", source = "..." }}'
        )

    # }}}

    def peak_flops(self, dtype: Literal["f32", "f64"]) -> float:
        """Return the flop/s of all cores at multiply-adds of *dtype*, 2 flop each, at the boost clock if stated."""
        clock = self.needed("clock") if self.boost_clock is None else self.boost_clock
        return 2 * self.needed("cores") * clock * self.throughput.needed(dtype)


AnyPart = Device | CoreLimits | Throughput | InstructionTiming | MemoryLevel
"""what has numbers"""


def _in_words(stated: PublishedNumber) -> str:
    return f"{stated.value:,} {stated.unit}".replace(" ", UNBROKEN)


@lru_cache(maxsize=256)
def _row_of_named(name: str) -> Row | None:
    """Return the row of the throughput table that an instruction is in, e.g. one called ``"add f32"``."""
    kind, _, dtype = name.rpartition(" ")
    return throughput_row(kind, dtype) if kind else throughput_row(name, "")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
