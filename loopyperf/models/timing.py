"""How long each instruction of a machine graph takes on a device, and on which pipeline (mapper g of Lemeire, 3.1.3).

Global memory: an instruction moves its sectors through all levels down to the one that serves them, and takes the
pipeline of each for its part; it completes after the mean latency of the levels that serve it.
Local memory: a pass through the banks for each wavefront. Arithmetic: as the device's description says.

Numbers that the description lacks are assumed (:mod:`loopyperf.device.substitutes`), and said to be. λ is needed by
every model, Λ by those that know latencies: one that cannot be assumed either is missed when it is asked for.
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
from loopyperf.errors import MissingNumberError
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.kernel.launches import sentences
from loopyperf.memory.sectors import LINE, SECTOR
from loopyperf.models.workload import ASPECTS, START, Aspect, in_files
from loopyperf.pipeline.timed_graph import STEADY, Shared, Timed
from loopyperf.pipeline.timed_program import Served, TimedLaunch, TimedProgram

# {{{ the columns of fitted models that one instruction has its share in


CORE_MEMORIES = tuple(MemorySpace)
"""subsystems of a machine graph whose accesses a pipeline of the core may have in common"""


def pipeline_column(pipeline: str, instruction: Instruction, launch: TimedLaunch) -> str:
    """Return the column of what *instruction* takes of *pipeline*."""
    if instruction.subsystem not in CORE_MEMORIES or is_of_device(pipeline, launch):
        return in_files(pipeline)
    return f"{in_files(pipeline)}: {instruction.subsystem}"


def is_of_device(pipeline: str, launch: TimedLaunch) -> bool:
    """Return whether *pipeline* is a level of memory of which the device has one."""
    try:
        return launch.device.level(pipeline).per == Per.DEVICE
    except MissingNumberError:
        return False


# }}}


# {{{ what was assumed in place of numbers that a device's description lacks
#
# And the notes that say so.


LATENCIES: tuple[Of, ...] = ("latency of computation", "latency of memory")
IN_WORDS: Mapping[Of, str] = {"limit": "limits", "throughput": "throughputs"}
"""of what there is one note; latencies have one for both kinds"""


def notes_of(program: TimedProgram, sees: Collection[Aspect] = ASPECTS) -> tuple[str, ...]:
    """Return what was assumed of all launches, and of the device, in sentences.

    For a model that *sees* so much, what is assumed of other latencies is not in them.
    """
    assumed = sentences([each for launch in program.launches for each in launch.assumed])
    substitutions = [each for launch in program.launches for each in launch.substitutions]
    return (*assumed, *substitution_notes(substitutions, program.device.slug, sees))


def limit_substitutions(device: Device) -> Iterator[Substitution]:
    """Yield what was assumed of the limits of a completed *device*."""
    limits = (("warp_size", device.source("warp_size")), *device.limits.known())
    yield from (Substitution.made("limit", name, each) for name, each in limits if isinstance(each, Substitute))


def needed(substitutions: Iterable[Substitution], sees: Collection[Aspect]) -> Iterator[Substitution]:
    """Yield those of *substitutions* that a model needs which *sees* so much."""
    yield from (each for each in substitutions if each.of not in LATENCIES or each.of in sees)


def substitution_notes(substitutions: Collection[Substitution], slug: str, sees: Collection[Aspect]) -> Iterator[str]:
    """Yield a note on each kind of *substitutions* for the device *slug* that a model needs which *sees* so much."""
    every = tuple(needed(dict.fromkeys(substitutions), sees))
    for kind, words in IN_WORDS.items():
        yield from _one_note(words, slug, [each for each in every if each.of == kind])
    yield from _one_note("latencies", slug, [each for each in every if each.of in LATENCIES])


def substitution_list(substitutions: Iterable[Substitution]) -> str:
    """Return *substitutions* as a list, those with one reason together."""
    sources: dict[str, list[str]] = {}
    for each in substitutions:
        sources.setdefault(each.as_what, []).append(each.number)
    return "; ".join(f"{', '.join(numbers)} ({as_what})" for as_what, numbers in sources.items())


def _one_note(what: str, slug: str, substitutions: Collection[Substitution]) -> Iterator[str]:
    if substitutions:
        yield f"assumed {what} of {slug}: {substitution_list(substitutions)}"


# }}}


# {{{ timing


WAVEFRONT = 128
"""bytes that a pass through the banks moves"""
INTEGER = frozenset({Opcode.INTEGER, Opcode.MOVE, Opcode.BRANCH, Opcode.SELECT, Opcode.LOGIC, Opcode.FCHK})
"""kinds of the graph that are timed as integer additions"""
BY_ADDITIONS = frozenset({(Opcode.COMPARE, "f64"), (Opcode.MIN_MAX, "f64")})
"""done by the lanes that add in double precision"""
COUNTED_AS: Mapping[str, Opcode] = {Opcode.MOD: Opcode.DIV, Opcode.POWI: Opcode.POW}
"""kinds that counts do not tell from others"""
MULTIPLICATIONS = frozenset({Opcode.MUL, Opcode.FMA})
"""kinds of arithmetic of integers that the lanes of floats execute"""
LINES_A_CYCLE = 1
"""that a core's cache looks up where its description states nothing. NVIDIA says of Volta's that it looks up four tags
a cycle at most (Nsight Compute's developers, in the forum, on the tag stage); lines of strided accesses share banks of
it. On a TITAN V, simulations are nearer to measurements with one (docs/accuracy/titan_v.md); on an H200, Nsight Compute
counts up to 3.3 (docs/accuracy/counters.md). No core takes more lines of what lies beyond it."""


@dataclass(frozen=True, slots=True)
class NeededNumbers:
    """What an access asks of a level."""

    sectors: float
    lines: float
    wavefronts: float = 1.0
    """passes through the banks of the cache of a core"""

    def times(self, share: float) -> "NeededNumbers":
        """Return a *share* of it."""
        return NeededNumbers(self.sectors * share, self.lines * share, self.wavefronts * share)


class InstructionTimes:
    """Times instructions on a device."""

    def __init__(self, device: Device) -> None:
        """Take the *device*, of whose shared levels each core has an equal part."""
        self.device = completed(device)
        self.substituted: dict[Substitution, None] = {}
        """what was assumed of the instructions that were timed"""
        # What others are assumed by is asked for first, so that it is what a refusal names.
        if not self.device.resting_on("issue", "add", "f32"):
            self.device.throughput.needed("f32")
        for level in self.device.memory:
            if level.name == DRAM and not bandwidth(level) and not is_timed(self.device):
                level.needed("bandwidth")

    def start(self, warps_per_group: int) -> Timed | None:
        """Return how long a warp takes to begin, None if nothing is known: its part of what its group takes.

        Groups follow each other on their places after ``group_start``, and on all cores together at the ``group_rate``.
        """
        start, rate = self.device.group_start, self.device.group_rate
        if start is None and rate is None:
            return None
        issue = 0.0 if rate is None else self.device.needed("cores") / rate / warps_per_group
        least = 1 / STEADY
        return Timed(START, max(issue, least), 1 if start is None else start, shared=Shared("", issue, least))

    def arithmetic(self, instruction: Instruction) -> Timed:
        """Return how long an instruction takes that accesses no memory, or that no lane takes part in."""
        if instruction.subsystem == Pipeline.BARRIER:
            return self._barrier()
        dtype, pipeline = instruction.dtype, instruction.subsystem
        kind = COUNTED_AS.get(instruction.kind, instruction.kind)
        if instruction.is_idle or kind in INTEGER:
            # What no lane takes part in is issued, and looked at no further.
            kind, dtype = Opcode.ADD, "i32"
        elif kind == Opcode.MUFU:
            kind, dtype = Opcode.SPECIAL, "f32"
        elif kind == Opcode.SPECIAL:
            kind = self._function(instruction)
        elif kind == Opcode.CONVERT:
            dtype, pipeline = "f32", Pipeline.SFU  # whose lanes do both
        elif not dtype.startswith("f"):
            dtype = "i32"
        elif (kind, dtype) in BY_ADDITIONS:
            kind, pipeline = Opcode.ADD, Pipeline.FP64
        pipeline = Pipeline.ALU if instruction.is_idle else pipeline
        if pipeline == Pipeline.ALU and kind not in (ARITHMETIC if dtype.startswith("f") else MULTIPLICATIONS):
            pipeline = Pipeline.INTEGER
        return self._instruction(self.pipeline_of(pipeline), kind, dtype)

    def _instruction(self, pipeline: str, kind: str, dtype: str = "") -> Timed:
        """Return how long an instruction takes that the description may tell of, on that pipeline."""
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
        """Return how long a barrier takes; it is not said that it issues as others do where nobody timed that."""
        number = self.device.resting_on("completion", "barrier")
        is_assumed = self._assumes("latency of computation", "barrier", number)
        latency, refusal = _known(lambda: self.device.completion_latency("barrier"))
        issue = self.device.issue_latency("barrier")
        return Timed("barrier", issue, latency, assumed_latency=is_assumed, refusal=refusal)

    def _assumes(self, of: Of, name: str, number: Quantity | None) -> bool:
        """Return whether the *number* called *name* is assumed, which is said then."""
        if not isinstance(number, Substitute):
            return False
        self.substituted[Substitution.made(of, name, number)] = None
        return True

    def _function(self, instruction: Instruction) -> str:
        """Return the function that *instruction* is, where the description tells of it by itself."""
        function = instruction.text.partition("(")[0]
        described = {each.name for each in self.device.instructions}
        if f"{function} {instruction.dtype}" in described:
            return function
        if self.device.lanes == Lanes.TOGETHER and "(" in instruction.text:  # those that are known are sequences by now
            of = instruction.dtype
            raise MissingNumberError(
                f"how long the function {function!r} of {of} takes on {self.device.slug} is not known; state what one "
                f"call does, e.g. typical={{{function!r}: {{'{of} mul': 10, '{of} add': 10}}}}"
            )
        return instruction.kind

    def _is_split(self, issue: Cycles) -> bool:
        """Return whether a pipeline of that throughput can be one in each partition, no lane shared, none too many.

        So it is from Maxwell on, for what has a lane in each partition or more; a Kepler's lanes are shared.
        """
        lanes, parts = self.device.needed("warp_size"), self.device.limits.partitions or 1
        return parts <= lanes / issue <= parts * lanes

    @cached_property
    def least(self) -> float:
        """Return the cycles that the load/store units of a core take for the addresses of a warp, at least one."""
        units = self.device.load_store_units
        return 1.0 if units is None else max(1.0, self.device.needed("warp_size") / units)

    @cached_property
    def wavefront(self) -> float:
        """Return the cycles that a pass through the banks of local memory takes; as a load was timed without bandwidth.

        Where the description states both, a load without conflicts takes what was timed, and further passes this.
        """
        timed = self.device.resting_on("issue", *LOAD_LOCAL)
        stated = bandwidth(self.device.level("local"))
        self._assumes("throughput", "local memory", timed or stated)
        if timed and not stated:
            return float(self.device.issue_latency(*LOAD_LOCAL))
        return float(level_issue(self.device, "local", WAVEFRONT))

    def local_memory(self, wavefronts: float) -> Timed:
        """Return how long an access of local memory takes with so many passes through the banks.

        Addresses go through the load/store units, then data through the banks: the slower of the two says when the next
        access may follow.
        """
        device, again = self.device, max(0, wavefronts - 1)
        level = device.level("local")
        timed_issue, timed_latency = (device.resting_on(field, *LOAD_LOCAL) for field in LATENCY_FIELDS)
        alone = max(self.least, device.issue_latency(*LOAD_LOCAL)) if timed_issue else self.least
        latency, refusal = _known(
            lambda: device.completion_latency(*LOAD_LOCAL) if timed_latency else level_latency(device, "local")
        )
        return Timed(
            self.pipeline_of("local"),
            max(alone, (1 + again) * self.wavefront),  # Lemeire, section 6.3; see Lambdas.with_conflicts
            None if latency is None else latency + again * self.wavefront,
            is_issue_assumed=self._assumes("throughput", "local memory", timed_issue or bandwidth(level)),
            assumed_latency=self._assumes(
                "latency of computation", "local memory", timed_latency or level.source("latency")
            ),
            refusal=refusal,
        )

    def memory(self, kind: str, served: Served, asked: NeededNumbers) -> tuple[Timed, ...]:
        """Return how long a load or store takes on each level that moves some of it, the nearest first.

        Global and private memory alike: what is stored goes through all caches, which write to device memory what they
        have gathered. It is complete everywhere at once, after the mean latency of the levels that serve it.
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
        return tuple(self._on_levels(served.reaching(kind), asked, waiting))

    def _on_levels(self, reaching: Mapping[str, float], asked: NeededNumbers, waiting: Timed) -> Iterator[Timed]:
        """Yield how long the share of an access takes that reaches each level; all are *waiting* as long."""
        for name, share in reaching.items():
            if share > 0:
                level = self.device.level(name)
                issue, shared = self._issue(level, asked.times(share))
                is_assumed = self._assumes("throughput", name, bandwidth(level))
                pipeline = self.pipeline_of(name)
                yield replace(waiting, pipeline=pipeline, issue=issue, is_issue_assumed=is_assumed, shared=shared)

    def _issue(self, level: MemoryLevel, asked: NeededNumbers) -> tuple[float, Shared | None]:
        """Return for how many cycles that takes what a core has of a level, and what that is where all share it."""
        moved = max(asked.sectors, 1e-3) * SECTOR
        if level.name != DRAM:
            cycles = moved / bytes_per_cycle(self.device, level)
            if level.per == Per.CORE:
                if level.holds_local_memory:
                    cycles = max(cycles, asked.wavefronts * WAVEFRONT / bytes_per_cycle(self.device, level))
                return max(cycles, asked.lines / (level.lines_per_cycle or LINES_A_CYCLE), self.least), None
        else:
            cycles = float(level_issue(self.device, DRAM, moved))
        least = max(min(cycles, moved / (LINE * LINES_A_CYCLE)), 1 / STEADY)
        return max(cycles, least), Shared(level.name, cycles, least)

    def latency(self, name: str) -> float:
        """Return the latency of a level, in cycles."""
        self._assumes("latency of memory", name, latency_rests_on(self.device, name))
        return level_latency(self.device, name)

    def pipeline_of(self, name: str) -> str:
        """Return the pipeline of a subsystem or a level: local memory and the cache that it is part of share one."""
        if name in self._levels and self.device.level(name).holds_local_memory:
            return LOAD_STORE
        if name != "local":
            return self.device.pipeline(name)
        return LOAD_STORE if any(level.holds_local_memory for level in self.device.memory) else LOCAL_MEMORY

    @cached_property
    def _levels(self) -> frozenset[str]:
        """Return the names of the levels of memory."""
        return frozenset(level.name for level in self.device.memory)


def _known(find: Callable[[], Cycles]) -> tuple[Cycles | None, str]:
    """Return the latency that *find* finds, or None and why the device's description does not tell it."""
    try:
        return find(), ""
    except MissingNumberError as missing:
        return None, str(missing)


# }}}
