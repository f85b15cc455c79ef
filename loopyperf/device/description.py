"""Published parameters of a device: its resources, instruction latencies and memory levels.

Symbols: λ is the issue latency of a warp instruction (the inverse of its throughput on one core), Λ its completion
latency, both in cycles (Lemeire, sections 1 and 4.3). A core is a streaming multiprocessor (NVIDIA) or a compute unit
(AMD), a warp is also a wavefront (AMD), a group is a work-group, and local memory is NVIDIA's shared memory.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

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


@dataclass(frozen=True, kw_only=True)
class CoreLimits(DescriptionTable):
    """Maximum numbers of resident warps and groups, and sizes and allocation granularities of a core's resources."""

    warps: int | None = count_field("warps", "warps resident on a core")
    groups: int | None = count_field("groups", "groups resident on a core")
    groups_of_one_warp: int | None = count_field(
        "groups", "groups of a single warp resident on a core, if that limit is higher"
    )
    work_items_per_group: int | None = count_field("work-items", "work-items of a group")
    registers: int | None = count_field("registers", "32-bit registers of a core")
    registers_per_group: int | None = count_field("registers", "32-bit registers of a group")
    registers_per_work_item: int | None = count_field("registers", "32-bit registers of a work-item")
    register_unit: int | None = count_field("registers", "allocation granularity of 32-bit registers")
    partitions: int | None = count_field("partitions", "parts of the register file; a warp's registers are in one part")
    warp_unit: int | None = count_field(
        "warps", "allocation granularity of warps, if registers are allocated to groups"
    )
    local_memory: int | None = count_field("B", "local memory of a core")
    local_memory_per_group: int | None = count_field("B", "local memory of a group")
    local_memory_unit: int | None = count_field("B", "allocation granularity of local memory")
    local_memory_reserved: int | None = count_field(
        "B", "local memory that the system reserves for itself in each group", may_be_zero=True
    )


@dataclass(frozen=True, kw_only=True)
class Throughput(DescriptionTable):
    """Results per cycle of one core; the rows of the vendors' tables."""

    f32: float | None = number_field("results/cycle", "single-precision additions, multiplications, multiply-adds")
    f64: float | None = number_field("results/cycle", "double-precision additions, multiplications, multiply-adds")
    f16: float | None = number_field(
        "results/cycle", "half-precision additions, multiplications, multiply-adds of single numbers, not of pairs"
    )
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
class InstructionTiming(DescriptionTable):
    """Measured latencies of an instruction, named by kind and type, e.g. ``"mul f32"``, ``"load global b32"``.

    The issue latency of ``"atomic f32"`` is the time of one update of an element that all work-items update.
    """

    issue: float | None = number_field("cycles", "issue latency λ of a warp instruction on one core")
    completion: float | None = number_field("cycles", "completion latency Λ")

    @property
    def name(self) -> str:
        """Return the name of the instruction."""
        return self.place.removeprefix("instructions.")


@dataclass(frozen=True, kw_only=True)
class MemoryLevel(DescriptionTable):
    """A memory level: local memory, a cache, or device memory."""

    per: Per
    """whether each core or the whole device has one; :attr:`size` is that of one"""
    holds_local_memory: bool = False
    """whether local memory is allocated in this cache; its size then includes local memory"""

    size: int | None = count_field("B", "capacity")
    line: int | None = count_field("B", "cache line, the unit of tags")
    sector: int | None = count_field("B", "sector, the unit of transfers")
    latency: float | None = number_field("cycles", "load-to-use latency, measured with dependent loads")
    bandwidth: float | None = number_field("B/s", "published peak bandwidth of the whole device")
    sustained_bandwidth: float | None = number_field("B/s", "measured bandwidth of the whole device")
    read_bandwidth: float | None = number_field("B/s", "measured bandwidth of the whole device, if it only reads")
    copy_bandwidth: float | None = number_field("B/s", "the same, if it reads as much as it writes")
    write_bandwidth: float | None = number_field("B/s", "the same, if it only writes")
    bandwidth_per_core: float | None = number_field("B/cycle", "bandwidth of one core")
    departure_delay: float | None = number_field(
        "cycles", "delay between two memory transactions of a core, GPUPerf's Δ"
    )
    lines_per_cycle: float | None = number_field(
        "lines/cycle", "lines of one access that a core's cache looks up; 1 if not given"
    )
    partitions: int | None = count_field(
        "partitions", "parts of a cache, each with copies of the data that its cores load"
    )
    banks: int | None = count_field("banks", "banks, each of which serves one word at a time")
    bank_width: int | None = count_field("B", "width of a bank's word")

    @property
    def name(self) -> str:
        """Return the name of the level, e.g. ``"L2"``."""
        return self.place.removeprefix("memory.")


@dataclass(frozen=True, kw_only=True, repr=False)
class Device(Shown, DescriptionTable):
    """Published parameters of a device, in base units (Hz, B, s); a number without a published value is None.

    :meth:`needed` returns a number, or raises an error that says how to add it. :func:`loopyperf.load_device` returns a
    device by its name.

    Examples
    --------
    >>> import loopyperf as lpp
    >>> device = lpp.load_device("nvidia-titan-v")
    >>> device.cores, device.limits.warps, device.level("L2").size
    (80, 64, 4718592)
    >>> print(device.source("clock"))
    1,348 MHz
    >>> device.issue_latency("fma", "f64"), device.completion_latency("fma", "f64")
    (1.0, 8)
    """

    name: str
    """full name, e.g. ``"NVIDIA Tesla V100 PCIe"``"""
    vendor: str
    """e.g. ``"NVIDIA"``"""
    architecture: str
    """e.g. ``"Volta"``"""
    target: str = ""
    """compute capability, or the compiler's name of the architecture"""
    also_called: tuple[str, ...] = ()
    """other names, as used by drivers and people"""
    note: str = ""
    """remark on the numbers"""
    register_allocation: RegisterAllocation = RegisterAllocation.WARP
    """unit to which registers are allocated"""
    lanes: Lanes = Lanes.TOGETHER
    """how the work-items of a warp execute"""
    pipelines: tuple[tuple[str, SharedPipeline], ...] = ()
    """pairs of a subsystem and the pipeline that executes its instructions"""
    scheduling: Scheduling | None = None
    """policy that selects among the warps that can issue; None if unpublished"""
    limits: CoreLimits
    """resources of a core"""
    throughput: Throughput
    """results per cycle of a core, by kind of instruction"""
    instructions: tuple[InstructionTiming, ...] = ()
    """measured latencies, in cycles"""
    memory: tuple[MemoryLevel, ...] = ()
    """memory levels, nearest to the core first"""

    cores: int | None = count_field("cores", "cores of the device")
    clock: float | None = number_field("Hz", "clock of the cores under load, to which all cycles refer")
    boost_clock: float | None = number_field("Hz", "clock of the published peaks, if different")
    warp_size: int | None = count_field("work-items", "work-items of a warp")
    schedulers: int | None = count_field("schedulers", "warp schedulers of a core")
    issue_limit: float | None = number_field("warp instructions/cycle", "warp instructions that a core issues, IL")
    load_store_units: int | None = count_field(
        "units", "addresses that a core processes in a cycle, one for each work-item"
    )
    group_start: float | None = number_field("cycles", "time from the end of a group until its successor executes")
    group_rate: float | None = number_field("groups/cycle", "groups that the device starts in a cycle of its cores")
    launch_overhead: float | None = number_field("s", "time from the end of a kernel to the start of the next")
    host_wait: float | None = number_field(
        "s", "time on the host to launch a kernel and wait for its end, besides the time on the device"
    )
    peak_f32: float | None = number_field("flop/s", "published peak of single-precision arithmetic")
    peak_f64: float | None = number_field("flop/s", "published peak of double-precision arithmetic")

    @property
    def capability(self) -> tuple[int, int] | None:
        """Return the compute capability, e.g. ``(8, 6)``; None for devices of other vendors."""
        major, dot, minor = self.target.partition(".")
        return (int(major), int(minor)) if dot and major.isdigit() and minor.isdigit() else None

    @property
    def parts(self) -> "tuple[AnyPart, ...]":
        """Return the device itself and its parts, i.e. everything that has numbers."""
        return (self, self.limits, self.throughput, *self.memory, *self.instructions)

    @property
    def table(self) -> Table:
        """Return a table of all known numbers, with unit, meaning and source."""
        rows = [(each.number, _in_words(each), each.meaning, each.source) for each in self._stated()]
        return Table(("number", "value", "meaning", "source"), rows, last=2)

    def report_text(self) -> ReportText:
        """Return a summary: name, architecture and the device's own numbers."""
        some = (str(quantity) for quantity in map(self.source, ("cores", "clock")) if quantity)
        own = [(statement.number, _in_words(statement), statement.meaning) for statement in self.statements]
        numbers = number_of(len(self._stated()), "number")
        return ReportText(
            question=self.slug,
            answer=", ".join([self.name, self.architecture, *some]),
            tables=[Table(("number", "value", "meaning"), own, last=1)] if own else [],
            remarks=[f"{numbers} in total: see .table or `loopyperf devices show` for all, with sources"],
            notes=[self.note] if self.note else [],
        )

    def _repr_html_(self) -> str:
        return html_of(details(self.report_text().head, self.table.html()), html_lines(filter(None, [self.note])))

    def _stated(self) -> list[PublishedNumber]:
        return [statement for part in self.parts for statement in part.statements]

    def level(self, name: str) -> MemoryLevel:
        """Return the memory level *name*, e.g. ``"L2"``; raises :class:`MissingNumberError` if the device has none."""
        for level in self.memory:
            if level.name == name:
                return level
        known = ", ".join(level.name for level in self.memory) or "none"
        raise MissingNumberError(
            f"device {self.slug!r} has no memory level {name!r}, only {known}; "
            f"add a table [memory.{name}] to your own copy of {self.slug}.toml, and use device=PATH"
        )

    def pipeline(self, subsystem: str) -> str:
        """Return the pipeline that executes the instructions of *subsystem*: its own, unless another is specified.

        The default for :attr:`Pipeline.INTEGER` is :attr:`Pipeline.ALU`.
        """
        stated = dict(self.pipelines).get(subsystem)
        if stated:
            return stated.pipeline
        return Pipeline.ALU if subsystem == Pipeline.INTEGER else subsystem

    @property
    def scheduler(self) -> Policy:
        """Return the policy of the warp schedulers; round-robin if unpublished."""
        return self.scheduling.policy if self.scheduling else Policy.ROUND_ROBIN

    # {{{ latencies of instructions

    def issue_latency(self, kind: str, dtype: str = "") -> float:
        """Return λ of a warp instruction on one core, in cycles.

        λ is the measured value for this instruction, or for another instruction in the same row of the vendor's
        throughput table (such as a multiplication for an addition); otherwise the warp size divided by the throughput
        of a core. Raises :class:`MissingNumberError` if neither is known.
        """
        measured = self._measured(kind, dtype, "issue")
        if measured is not None:
            return measured.needed("issue")
        row = throughput_row(kind, dtype)
        if row is None:
            raise self._no_latency(kind, dtype, "issue")
        return self.needed("warp_size") / self.throughput.needed(row)

    def completion_latency(self, kind: str, dtype: str = "") -> float:
        """Return Λ of a warp instruction, in cycles, measured for it or for another one in the same row of the table.

        Raises :class:`MissingNumberError` if it is not known.
        """
        measured = self._measured(kind, dtype, "completion")
        if measured is None:
            raise self._no_latency(kind, dtype, "completion")
        return measured.needed("completion")

    def resting_on(self, field: LatencyField, kind: str, dtype: str = "") -> Quantity | None:
        """Return the number behind :meth:`issue_latency` or :meth:`completion_latency`; None if there is none."""
        measured = self._measured(kind, dtype, field)
        if measured is not None:
            return measured.source(field)
        row = throughput_row(kind, dtype)
        return self.throughput.source(row) if row and field == "issue" else None

    def _measured(self, kind: str, dtype: str, field: LatencyField) -> InstructionTiming | None:
        name, row, similar = f"{kind} {dtype}".strip(), throughput_row(kind, dtype), None
        for instruction in self.instructions:
            if getattr(instruction, field) is not None:
                if instruction.name == name:
                    return instruction
                if similar is None and row is not None and _row_of_named(instruction.name) == row:
                    similar = instruction
        return similar

    def _no_latency(self, kind: str, dtype: str, field: LatencyField) -> MissingNumberError:
        name = f"{kind} {dtype}".strip()
        return MissingNumberError(
            f"device {self.slug!r} lacks the {field} latency of {name!r} (in cycles), and of similar instructions; "
            f'add [instructions."{name}"] to your own copy of {self.slug}.toml, and use device=PATH: '
            f'{field} = {{ value = ..., unit = "cycles", source = "..." }}'
        )

    # }}}

    def peak_flops(self, dtype: Literal["f32", "f64"]) -> float:
        """Return the peak flop/s of *dtype* multiply-adds (2 flop each), at the boost clock if known."""
        clock = self.needed("clock") if self.boost_clock is None else self.boost_clock
        return 2 * self.needed("cores") * clock * self.throughput.needed(dtype)


AnyPart = Device | CoreLimits | Throughput | InstructionTiming | MemoryLevel
"""a part with numbers"""


def _in_words(stated: PublishedNumber) -> str:
    return f"{stated.value:,} {stated.unit}".replace(" ", UNBROKEN)


@lru_cache(maxsize=256)
def _row_of_named(name: str) -> Row | None:
    """Return the row of the throughput table for an instruction name such as ``"add f32"``."""
    kind, _, dtype = name.rpartition(" ")
    return throughput_row(kind, dtype) if kind else throughput_row(name, "")
