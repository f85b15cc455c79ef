"""Issue and completion latencies of each instruction of a machine graph on a device (mapper g of Lemeire, 3.1.3).

Global memory: an instruction moves its sectors through all levels down to the one that serves them. It occupies the
pipeline of each level for the share that reaches it, and completes after the mean latency of the levels that serve it.
Local memory: one access of the banks for each wavefront. Arithmetic: as in the device parameters.

Missing device parameters are assumed (:mod:`loopyperf.device.substitutes`) and noted. Every model needs λ; only models
that use latencies need Λ. A Λ that cannot be assumed either raises an error when a model reads it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from loopyperf.counts.item import MemorySpace
from loopyperf.device.description import LATENCY_FIELDS, Device, MemoryLevel
from loopyperf.device.lambdas import (
    DRAM,
    LOAD_LOCAL,
    Cycles,
    bandwidth,
    bytes_per_cycle,
    is_timed,
    latency_rests_on,
    level_issue,
    level_latency,
)
from loopyperf.device.parts import ARITHMETIC, Lanes, Of, Per, Pipeline, Quantity, Substitute, Substitution
from loopyperf.device.substitutes import completed
from loopyperf.device.vocabulary import LOAD_STORE, LOCAL_MEMORY
from loopyperf.display import Note, NoteKind
from loopyperf.errors import MissingNumberError
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.kernel.launches import sentences
from loopyperf.memory.sectors import LINE, SECTOR
from loopyperf.models.workload import ASPECTS, START, Aspect, in_files
from loopyperf.pipeline.timed_graph import STEADY, Shared, Timed
from loopyperf.pipeline.timed_program import Request, Served, TimedLaunch, TimedProgram

PACKED_CONVERSIONS = 8, 6
"""compute capability from which the integer lanes convert 32-bit integers to f32"""


# {{{ columns of fitted models


CORE_MEMORIES = tuple(MemorySpace)
"""Subsystems of a machine graph whose accesses may share a pipeline of the core."""


def pipeline_column(pipeline: str, instruction: Instruction, launch: TimedLaunch) -> str:
    """Return the column for the time of *instruction* on *pipeline*."""
    if instruction.subsystem not in CORE_MEMORIES or is_of_device(pipeline, launch):
        return in_files(pipeline)
    return f"{in_files(pipeline)}: {instruction.subsystem}"


def is_of_device(pipeline: str, launch: TimedLaunch) -> bool:
    """Return whether *pipeline* is a memory level that all cores of the device share, or part of one."""
    try:
        return pipeline == Pipeline.ATOMICS or launch.device.level(pipeline).per == Per.DEVICE
    except MissingNumberError:
        return False


# }}}


# {{{ assumed device parameters, and the notes on them


LATENCIES: tuple[Of, ...] = ("latency of computation", "latency of memory")
IN_WORDS: Mapping[Of, str] = {"limit": "limits", "size": "caches", "throughput": "throughputs"}
"""Kinds of parameters with one note each; both kinds of latencies share one note."""


def notes_of(program: TimedProgram, sees: Collection[Aspect] = ASPECTS) -> tuple[str, ...]:
    """Return notes on what was assumed about all launches and about the device.

    Assumed latencies are omitted unless the model *sees* them.
    """
    assumed = sentences([each for launch in program.launches for each in launch.assumed])
    substitutions = [substitution for launch in program.launches for substitution in launch.substitutions]
    return (*assumed, *substitution_notes(substitutions, program.device.slug, sees))


def size_substitutions(device: Device) -> Iterator[Substitution]:
    """Yield the assumed limits and cache sizes of a *device* that was completed."""
    limits = (("warp_size", device.source("warp_size")), *device.limits.known())
    yield from (Substitution.made("limit", name, each) for name, each in limits if isinstance(each, Substitute))
    sizes = ((level.name, level.source("size")) for level in device.memory)
    yield from (Substitution.made("size", name, each) for name, each in sizes if isinstance(each, Substitute))


def needed(substitutions: Iterable[Substitution], sees: Collection[Aspect]) -> Iterator[Substitution]:
    """Yield the *substitutions* that a model needs; *sees* lists the effects that it models."""
    yield from (each for each in substitutions if each.of not in LATENCIES or each.of in sees)


def substitution_notes(substitutions: Collection[Substitution], slug: str, sees: Collection[Aspect]) -> Iterator[str]:
    """Yield a note for each kind of assumed parameter of the device *slug* that the model needs."""
    every = tuple(needed(dict.fromkeys(substitutions), sees))
    for kind, words in IN_WORDS.items():
        yield from _one_note(words, slug, [each for each in every if each.of == kind])
    yield from _one_note("latencies", slug, [each for each in every if each.of in LATENCIES])


def substitution_list(substitutions: Iterable[Substitution]) -> str:
    """Return *substitutions* as text, grouped by reason."""
    sources: dict[str, list[str]] = {}
    for substitution in substitutions:
        sources.setdefault(substitution.as_what, []).append(substitution.number)
    return "; ".join(f"{', '.join(numbers)} ({as_what})" for as_what, numbers in sources.items())


def _one_note(what: str, slug: str, substitutions: Collection[Substitution]) -> Iterator[str]:
    if substitutions:
        yield Note(NoteKind.PARAMETERS, f"assumed {what} of {slug}: {substitution_list(substitutions)}")


# }}}


# {{{ timing


WAVEFRONT = 128
"""Bytes of one access of the banks."""
INTEGER = frozenset({Opcode.INTEGER, Opcode.MOVE, Opcode.BRANCH, Opcode.SELECT, Opcode.LOGIC, Opcode.FCHK})
"""Opcodes that are timed as integer additions."""
BY_ADDITIONS = frozenset({(Opcode.COMPARE, "f64"), (Opcode.MIN_MAX, "f64")})
"""Instructions that the double-precision adders execute."""
COUNTED_AS: Mapping[str, Opcode] = {Opcode.MOD: Opcode.DIV, Opcode.POWI: Opcode.POW}
"""Opcodes that the counts do not distinguish from others."""
MULTIPLICATIONS = frozenset({Opcode.MUL, Opcode.FMA})
"""Integer opcodes that the floating-point lanes execute."""
LINES_A_CYCLE = 1
"""Cache lines that a core's cache looks up per cycle if the device parameters give no number. NVIDIA states that
Volta's cache looks up at most four tags per cycle (Nsight Compute's developers, in the forum, on the tag stage); lines
of strided accesses conflict in its banks. On a TITAN V, simulations are closer to measurements with one
(docs/accuracy/titan_v.md); on an H200, Nsight Compute counts up to 3.3 (docs/accuracy/counters.md). A core requests at
most as many lines from the levels beyond its cache."""
STORED_A_CYCLE = 1
"""Sectors that a core whose cache holds local memory stores per cycle to the levels beyond, measured on an H200
(docs/accuracy/h200.md)."""
PARTIAL_SECTOR_TIME = 4
"""Time in which a cache that all cores share takes a sector of which a store writes a part, relative to a whole sector.
Measured on an H200: 66 to 71 partial sectors per nanosecond in transpositions, up to 99 in contractions, 302 sectors of
loads (docs/accuracy/h200.md). Published times of transpositions without a tile agree on an RTX 3070, an RTX 4090, a
Tesla K20m, an H100 and an Instinct MI100 (tests/models/on_device/test_partial_sectors.py)."""


@dataclass(frozen=True, slots=True)
class NeededNumbers:
    """Amounts that an access requests from a memory level."""

    sectors: float
    lines: float
    wavefronts: float = 1.0
    """Accesses of the banks of a core's cache."""

    def times(self, share: float) -> "NeededNumbers":
        """Return the amounts times *share*."""
        return NeededNumbers(self.sectors * share, self.lines * share, self.wavefronts * share)


class InstructionTimes:
    """Times of instructions on a device."""

    def __init__(self, device: Device) -> None:
        """Complete the parameters of *device*; each core gets an equal part of the shared levels."""
        self.device = completed(device)
        self.substituted: dict[Substitution, None] = {}
        """Parameters that were assumed for the instructions timed so far."""
        # Read the parameters that others are derived from first, so that an error names them.
        if not self.device.resting_on("issue", "add", "f32"):
            self.device.throughput.needed("f32")
        for level in self.device.memory:
            if level.name == DRAM and not bandwidth(level) and not is_timed(self.device):
                level.needed("bandwidth")

    def start(self, warps_per_group: int) -> Timed | None:
        """Return the time to start a warp, its part of the group's start; None if both parameters are unknown.

        A new group in a slot starts after ``group_start``; all cores together start groups at ``group_rate``.
        """
        start, rate = self.device.group_start, self.device.group_rate
        if start is None and rate is None:
            return None
        issue = 0.0 if rate is None else self.device.needed("cores") / rate / warps_per_group
        least = 1 / STEADY
        return Timed(START, max(issue, least), 1 if start is None else start, shared=Shared("", issue, least))

    def arithmetic(self, instruction: Instruction) -> Timed:
        """Return the time of an instruction that accesses no memory or that no lane executes."""
        if instruction.subsystem == Pipeline.BARRIER:
            return self._barrier()
        dtype, pipeline = instruction.dtype, instruction.subsystem
        kind = COUNTED_AS.get(instruction.kind, instruction.kind)
        if instruction.is_idle or kind in INTEGER:
            # An instruction without active lanes is issued and goes no further.
            kind, dtype = Opcode.ADD, "i32"
        elif kind == Opcode.MUFU:
            kind, dtype = Opcode.SPECIAL, "f32"
        elif kind == Opcode.SPECIAL:
            kind = self._function(instruction)
        elif kind == Opcode.CONVERT:
            return self._conversion(pipeline)
        elif not dtype.startswith("f"):
            dtype = "i32"
        elif (kind, dtype) in BY_ADDITIONS:
            kind, pipeline = Opcode.ADD, Pipeline.FP64
        pipeline = Pipeline.ALU if instruction.is_idle else pipeline
        if pipeline == Pipeline.ALU and kind not in (ARITHMETIC if dtype.startswith("f") else MULTIPLICATIONS):
            pipeline = Pipeline.INTEGER
        return self._instruction(self.pipeline_of(pipeline), kind, dtype)

    def _conversion(self, subsystem: str) -> Timed:
        """Return the time of a conversion, whose *subsystem* depends on both types (:mod:`loopyperf.compiler.folding`).

        The SFU lanes convert; 64-bit types no faster than the FP64 lanes compute, as in all columns of the CUDA C++
        Programming Guide's table. From capability 8.6 on, the integer lanes convert 32-bit integers to f32: NVRTC emits
        I2FP there, and on an H200 such a conversion takes 0 to 0.7 cycles of a chain of rsqrt, where I2F would take 2.
        """
        capability = self.device.capability
        if subsystem == Pipeline.INTEGER and capability is not None and capability >= PACKED_CONVERSIONS:
            return self._instruction(self.pipeline_of(Pipeline.INTEGER), Opcode.ADD, "i32")
        usual = self._instruction(self.pipeline_of(Pipeline.SFU), Opcode.CONVERT, "f32")
        if subsystem != Pipeline.FP64:
            return usual
        wide = self._instruction(self.pipeline_of(Pipeline.FP64), Opcode.ADD, "f64")
        return max(usual, wide, key=lambda each: each.issue)

    def _instruction(self, pipeline: str, kind: str, dtype: str = "") -> Timed:
        """Return the time of an instruction on *pipeline*; its latency may be unknown."""
        device, name = self.device, f"{kind} {dtype}".strip()
        issue = device.issue_latency(kind, dtype)
        latency, refusal = _known(lambda: device.completion_latency(kind, dtype))
        return Timed(
            pipeline,
            issue,
            latency,
            self._is_split(issue),
            self._assumes("throughput", name, device.resting_on("issue", kind, dtype)),
            self._assumes("latency of computation", name, device.resting_on("completion", kind, dtype)),
            refusal,
        )

    def _barrier(self) -> Timed:
        """Return the time of a barrier; an assumed issue latency of barriers is not noted."""
        number = self.device.resting_on("completion", "barrier")
        is_assumed = self._assumes("latency of computation", "barrier", number)
        latency, refusal = _known(lambda: self.device.completion_latency("barrier"))
        issue = self.device.issue_latency("barrier")
        return Timed("barrier", issue, latency, assumed_latency=is_assumed, refusal=refusal)

    def _assumes(self, of: Of, name: str, number: Quantity | None) -> bool:
        """Return whether the *number* called *name* is assumed; record it if it is."""
        if not isinstance(number, Substitute):
            return False
        self.substituted[Substitution.made(of, name, number)] = None
        return True

    def _function(self, instruction: Instruction) -> str:
        """Return the name of the called function if the device has parameters for it, else the opcode."""
        function = instruction.function
        described = {each.name for each in self.device.instructions}
        if f"{function} {instruction.dtype}" in described:
            return function
        if self.device.lanes == Lanes.TOGETHER and function:  # known functions are already sequences
            of = instruction.dtype
            raise MissingNumberError(
                f"the time of function {function!r} of {of} on {self.device.slug} is unknown; give the operations of "
                f"one call in typical[{function!r}], e.g. {{'{of} mul': 10, '{of} add': 10}}"
            )
        return instruction.kind

    def _is_split(self, issue: Cycles) -> bool:
        """Return whether a pipeline with this issue latency can be split evenly between the partitions of a core.

        This holds from Maxwell on for pipelines with at least one lane per partition; a Kepler's partitions share
        lanes.
        """
        lanes, parts = self.device.needed("warp_size"), self.device.limits.partitions or 1
        return parts <= lanes / issue <= parts * lanes

    @cached_property
    def least(self) -> float:
        """Return the cycles, at least 1, in which a core's load/store units process the addresses of a warp."""
        units = self.device.load_store_units
        return 1.0 if units is None else max(1.0, self.device.needed("warp_size") / units)

    @cached_property
    def wavefront(self) -> float:
        """Return the cycles of one access of the local memory banks; without a bandwidth, those of a timed load.

        If the device has both parameters, a load without conflicts takes the timed cycles; each further access takes
        this.
        """
        timed = self.device.resting_on("issue", *LOAD_LOCAL)
        stated = bandwidth(self.device.level("local"))
        self._assumes("throughput", "local memory", timed or stated)
        if timed and not stated:
            return float(self.device.issue_latency(*LOAD_LOCAL))
        return float(level_issue(self.device, "local", WAVEFRONT))

    def local_memory(self, wavefronts: float, updates: float = 0.0) -> Timed:
        """Return the time of a local memory access with *wavefronts* accesses of the banks.

        Addresses go through the load/store units, then data through the banks: the slower of the two determines when
        the next access may issue. In a loop around a compare-exchange, each of its *updates* follows a load and an
        exchange.
        """
        device, again = self.device, max(0, wavefronts - 1)
        level = device.level("local")
        timed_issue, timed_latency = (device.resting_on(field, *LOAD_LOCAL) for field in LATENCY_FIELDS)
        alone = max(self.least, device.issue_latency(*LOAD_LOCAL)) if timed_issue else self.least
        latency, refusal = _known(
            lambda: device.completion_latency(*LOAD_LOCAL) if timed_latency else level_latency(device, "local")
        )
        in_loop = 2 * updates * float(latency or 0)
        return Timed(
            self.pipeline_of("local"),
            max(alone, (1 + again) * self.wavefront, in_loop),  # Lemeire, section 6.3; see Lambdas.with_conflicts
            None if latency is None else latency + again * self.wavefront,
            is_issue_assumed=self._assumes("throughput", "local memory", timed_issue or bandwidth(level)),
            assumed_latency=self._assumes(
                "latency of computation", "local memory", timed_latency or level.source("latency")
            ),
            refusal=refusal,
        )

    def memory(self, kind: str, served: Served, asked: NeededNumbers) -> tuple[Timed, ...]:
        """Return the times of a load or store on each level that moves a part of it, nearest level first.

        This holds for global and private memory: stores go through all caches, which combine them and write them to
        device memory. The access completes on all levels at once, after the mean latency of the levels that serve it.
        """
        waited = list(served.waited.values())
        here = [this - farther for this, farther in zip(waited, [*waited[1:], 0.0], strict=True)]
        serving = {name: share for name, share in zip(served.waited, here, strict=True) if share > 0}
        latency, refusal = _known(lambda: sum(share * self.latency(name) for name, share in serving.items()))
        assumed = sum(
            share * level_latency(self.device, name)
            for name, share in serving.items()
            if isinstance(latency_rests_on(self.device, name), Substitute)
        )
        part = 0.0 if latency is None or not assumed else assumed / float(latency)
        completion = None if latency is None else max(latency, 1.0)
        waiting = Timed("", 0, completion, assumed_latency=part, refusal=refusal)
        return tuple(self._on_levels(kind, served, asked, waiting))

    @property
    def has_time_of_updates(self) -> bool:
        """Return whether the time of colliding atomic updates is modeled: not if each lane is a loop iteration."""
        return self.device.lanes == Lanes.TOGETHER

    def updates(self, request: Request) -> Iterator[Timed]:
        """Yield the time of the atomic updates of a *request* that follow one another, in memory that all cores share.

        A compare-exchange succeeds once per round trip.
        """
        if not request.updates or not self.has_time_of_updates:
            return
        is_assumed = False
        if request.added:
            dtype = request.added if request.added.startswith("f") else f"i{request.added[1:]}"
            each = self.device.issue_latency("atomic", dtype)
            number = self.device.resting_on("issue", "atomic", dtype)
            is_assumed = self._assumes("throughput", f"atomic {dtype}", number)
        else:
            each = self.latency(next(level.name for level in self.device.memory if level.per == Per.DEVICE))
        least = max(request.updates * float(each), 1 / STEADY)
        issue = least * self.device.needed("cores")
        yield Timed(Pipeline.ATOMICS, issue, 1, is_issue_assumed=is_assumed, shared=Shared("", issue, least))

    def _on_levels(self, kind: str, served: Served, asked: NeededNumbers, waiting: Timed) -> Iterator[Timed]:
        """Yield the time of the part of an access that reaches each level; *waiting* has the latency common to all."""
        holds_local_memory = any(level.holds_local_memory for level in self.device.memory)
        stored = asked.sectors if kind == Opcode.STORE and holds_local_memory else 0.0
        for name, share in served.asked.items():
            if share > 0:
                level = self.device.level(name)
                issue, shared = self._issue(level, asked.times(share), stored, asked.sectors * served.partial)
                is_assumed = self._assumes("throughput", name, bandwidth(level))
                pipeline = self.pipeline_of(name)
                yield replace(waiting, pipeline=pipeline, issue=issue, is_issue_assumed=is_assumed, shared=shared)

    def _issue(
        self, level: MemoryLevel, asked: NeededNumbers, stored: float, partial: float
    ) -> tuple[float, Shared | None]:
        """Return the cycles of an access on a core's part of a level, and the sharing if all cores share the level.

        The core stores *stored* sectors, of which it combines some. It stores parts of *partial* sectors.
        """
        moved = max(asked.sectors, 1e-3) * SECTOR
        if level.name != DRAM:
            cycles = moved / bytes_per_cycle(self.device, level)
            if level.per == Per.CORE:
                if level.holds_local_memory:
                    cycles = max(cycles, asked.wavefronts * WAVEFRONT / bytes_per_cycle(self.device, level))
                return max(cycles, asked.lines / (level.lines_per_cycle or LINES_A_CYCLE), self.least), None
            cycles *= 1 + (PARTIAL_SECTOR_TIME - 1) * partial / max(asked.sectors, 1e-3)
            least = stored / STORED_A_CYCLE
        else:
            cycles, least = float(level_issue(self.device, DRAM, moved)), 0.0
        least = max(min(cycles, moved / (LINE * LINES_A_CYCLE)), least, 1 / STEADY)
        return max(cycles, least), Shared(level.name, cycles, least)

    def latency(self, name: str) -> float:
        """Return the latency of a level, in cycles; record it if it is assumed."""
        self._assumes("latency of memory", name, latency_rests_on(self.device, name))
        return level_latency(self.device, name)

    def pipeline_of(self, name: str) -> str:
        """Return the pipeline of a subsystem or level; local memory and the cache that contains it share one."""
        if name in self._levels and self.device.level(name).holds_local_memory:
            return LOAD_STORE
        if name != "local":
            return self.device.pipeline(name)
        return LOAD_STORE if any(level.holds_local_memory for level in self.device.memory) else LOCAL_MEMORY

    @cached_property
    def _levels(self) -> frozenset[str]:
        """Return the names of the memory levels."""
        return frozenset(level.name for level in self.device.memory)


def _known(find: Callable[[], Cycles]) -> tuple[Cycles | None, str]:
    """Return the result of *find* and "", or None and the error message if a device parameter is missing."""
    try:
        return find(), ""
    except MissingNumberError as missing:
        return None, str(missing)


# }}}
