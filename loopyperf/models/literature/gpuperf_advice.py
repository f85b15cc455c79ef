"""GPUPerf's advisor: what removing each loss would give, and what to try, by the kernel's own instructions.

The four potential benefits are those of Sim, section 3. What to try are the techniques of sections 6.2.1, 6.3.1 and
table 5, which the paper ties to the benefits that they act on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

from loopyperf.display import ReportText, Shown, Table
from loopyperf.idg.program import Opcode
from loopyperf.models.demand import cached_for_launch, is_floating_point
from loopyperf.models.literature.gpuperf import Analysis
from loopyperf.models.literature.gpuperf_rows import SPECIAL, LaunchInputs, MemoryRequest
from loopyperf.models.workload import LAUNCHES, START
from loopyperf.pipeline.timed_program import TimedLaunch
from loopyperf.units import amount, duration, in_percent, number_of

NAMED = 3
"""instructions that are named for each benefit, those that cost most"""
TIE = 1e-3
"""of the time: no difference that the three digits of a time show"""
DIVISIONS = (Opcode.DIV, Opcode.MOD, Opcode.POW, Opcode.POWI, Opcode.SPECIAL, SPECIAL)
"""kinds of machine instructions of which special function units may do the work"""
SMALL = 0.01
"""of the time: benefits below are not worth a word"""
IN_NO_LANE = " in no lane"
"""of an instruction that a warp issues although a condition turns all its lanes off"""
WASTEFUL = 1.25
"""times the sectors that a request needs, from which on it is worth a word; shifted neighbours touch one sector more"""


@dataclass(frozen=True, slots=True)
class Benefit:
    """What removing a loss would give."""

    name: str
    """as in the paper, e.g. ``"B_memlp"``"""
    meaning: str
    """in words"""
    seconds: float
    """at most"""
    evidence: tuple[str, ...]
    """where the loss is: instructions with their numbers, those that cost most first"""
    techniques: tuple[str, ...]
    """what to try"""


@dataclass(frozen=True, slots=True, repr=False)
class Advice(Shown):
    """Where a launch's time goes by GPUPerf, and what may be gained."""

    launch: str
    """name of the device program"""
    clock: float
    """Hz"""
    analysis: Analysis
    """every intermediate result of GPUPerf, by name"""
    benefits: tuple[Benefit, ...]
    """the largest first"""
    scattered: tuple[str, ...] = ()
    """accesses whose requests take more sectors than they need, those that cost most first, in sentences

    They keep pipelines busy that GPUPerf does not model, whatever it says of memory."""

    @property
    def seconds(self) -> float:
        """Return Texec in seconds."""
        return float(self.analysis.t_exec) / self.clock

    @property
    def bound(self) -> str:
        """Return what limits the launch: ``"computation"``, ``"memory"``, or both where neither does more.

        It is the larger of Tcomp and Tmem, what would be left if the other were gone, on whichever side of the diagonal
        point A of Fig. 4 is. What Toverlap hides does not matter: if all computation is hidden, memory takes Texec.
        """
        computation, memory = float(self.analysis.t_comp), float(self.analysis.t_mem)
        if isclose(computation, memory, rel_tol=TIE):
            return "computation and memory alike"
        return "computation" if computation > memory else "memory"

    @property
    def worth(self) -> tuple[Benefit, ...]:
        """Return the benefits that are more than a hundredth of the time."""
        return tuple(each for each in self.benefits if each.seconds >= SMALL * self.seconds)

    def report_text(self) -> ReportText:
        """Return what may be gained, where it is and what to try."""
        found, clock = self.analysis, self.clock
        parts = {"Tcomp": found.t_comp, "Tmem": found.t_mem, "Toverlap": found.t_overlap}
        times = ", ".join(f"{name} {duration(float(cycles) / clock)}" for name, cycles in parts.items())
        return ReportText(
            question=self.launch,
            answer=f"{duration(self.seconds)}, bound by {self.bound} ({times})",
            tables=[Table(("what would help", "", "at most"), self.gains(), text=2)],
            remarks=self.what_to_try(),
        )

    def gains(self) -> list[tuple[str, str, str]]:
        """Return the meaning of each benefit that is worth a word, its name, and the time; a row says if none is."""
        rows = [(each.meaning, each.name, duration(each.seconds)) for each in self.worth]
        return rows or [(f"nothing that GPUPerf knows of saves {in_percent(SMALL)} of the time", "", "")]

    def what_to_try(self) -> list[str]:
        """Return sentences on where these benefits are and what to try, below the name of each."""
        found: list[str] = []
        for each in self.worth:
            found += [each.name, *(f"  {sentence}" for sentence in each.evidence)]
            found += [f"  try {technique}" for technique in each.techniques]
        if self.beside_benefits:
            found += [SCATTERED, *(f"  {sentence}" for sentence in self.beside_benefits)]
            found += [f"  try {technique}" for technique in OF_SCATTERED]
        return found

    @property
    def beside_benefits(self) -> tuple[str, ...]:
        """Return the scattered accesses that no benefit that is worth a word names."""
        named = {sentence for each in self.worth for sentence in each.evidence}
        return tuple(each for each in self.scattered if each not in named)

    def to_dict(self) -> dict[str, Any]:
        """Return the advice as plain values that JSON can hold."""
        names = ("t_exec", "t_comp", "t_mem", "t_overlap", "t_mem_visible", "t_fp", "t_mem_min")
        return {
            "launch": self.launch,
            "seconds": self.seconds,
            "bound": self.bound,
            "parts": {name: float(getattr(self.analysis, name)) / self.clock for name in names},
            "benefits": [
                {
                    "name": each.name,
                    "meaning": each.meaning,
                    "seconds": each.seconds,
                    "evidence": list(each.evidence),
                    "techniques": list(each.techniques),
                }
                for each in self.benefits
            ],
            "scattered": list(self.scattered),
        }


def advice_on(launch: TimedLaunch) -> Advice:
    """Return where the time of *launch* goes and what may be gained.

    Raises :class:`MissingNumberError` for what the device's description does not state.
    """
    seen = cached_for_launch(launch, LaunchInputs)
    found = seen.analysis
    clock = launch.device.needed("clock")
    # Whatever computation is saved, memory takes its time: what it hides of computation already is not gained.
    seen_of_computation = max(0.0, float(found.t_exec) - float(found.t_mem))

    def of_computation(cycles: Any) -> float:
        return _seconds(min(float(cycles), seen_of_computation), clock)

    benefits = [
        Benefit("B_itilp", "more parallelism of instructions", of_computation(found.b_itilp),
                tuple(_parallelism(launch, found)), _OF_PARALLELISM),
        Benefit("B_memlp", "more parallelism of requests", _seconds(found.b_memlp, clock),
                tuple(_requests(seen)), tuple(_with_fewer_requests(seen))),
        Benefit("B_fp", "fewer instructions beside floating-point ones", of_computation(found.b_fp),
                tuple(_instructions(seen)), tuple(_with_fewer_instructions(seen))),
        Benefit("B_serial", "less serialization", of_computation(found.b_serial),
                tuple(_serialization(seen, found)), _OF_SERIALIZATION),
    ]  # fmt: skip
    ordered = tuple(sorted(benefits, key=lambda each: -each.seconds))
    return Advice(launch.name, clock, found, ordered, tuple(_requests(seen, WASTEFUL)))


_OF_PARALLELISM = (
    "more work-items on a core, by fewer registers or less local memory of each",
    "unroll and jam: several independent results in each work-item",
    "prefetch into registers before the use",
    "tiles in local memory, which shorten what is waited for",
)
UNMODELLED = {
    START: "fewer groups that do more each: larger ones, or several elements for each work-item",
    LAUNCHES: "fewer launches that do more each: larger sizes, or kernels that are fused",
}
"""what most of a time may be for that GPUPerf does not model -> what helps"""
SCATTERED = "requests of more sectors than they need"
_NEIGHBOURS = "neighbouring elements to neighbouring work-items (the layout of the array, or the order of its axes)"
OF_SCATTERED = (_NEIGHBOURS, "tiles in local memory, which are read and written along the lines of memory")
_TILES = "tiles in local memory, so that what several work-items read is fetched once"
_OF_REQUESTS = (
    "vector packing: one wide access in place of several narrow ones",
    "prefetch, so that more requests are under way at once",
)
_OF_INSTRUCTIONS = (
    "loop unrolling, which saves tests and index arithmetic",
    "coarsening: more elements in each work-item, which share what is computed for them",
    "vector packing: fewer loads and stores",
)
_OF_DIVISIONS = "special function units, where single precision allows: rsqrt in place of a division and a root"
_OF_SERIALIZATION = (
    "another layout of the tile, e.g. padded by an element, against bank conflicts",
    "fewer barriers: private results, which are put together at the end",
    "fewer special functions beside other instructions",
)


# {{{ where it is


def _seconds(cycles: Any, clock: float) -> float:
    return float(cycles) / clock


def _parallelism(launch: TimedLaunch, found: Analysis) -> Iterator[str]:
    inputs = found.inputs
    yield (
        f"{number_of(float(inputs.n), 'warp')} on a core with {inputs.ilp:.2g} independent instructions each: "
        f"{float(found.itilp):.3g} under way, {float(found.itilp_max):.3g} would hide latencies of "
        f"{number_of(float(found.avg_inst_lat), 'cycle')}"
    )
    yield f"no more groups fit for {' and '.join(launch.bound_by)}"


def _requests(seen: LaunchInputs, least: float = 0.0) -> Iterator[str]:
    """Yield what the costliest accesses ask for, of those of *least* times the sectors that they need."""
    costs: dict[str, list[MemoryRequest]] = {}
    for each in (each for each in seen.requests if each.sectors >= least * each.fewest_sectors):
        costs.setdefault(each.instruction.label, []).append(each)
    for source in _costliest({name: sum(map(seen.cost, found)) for name, found in costs.items()}):
        of_array: dict[tuple[str, str], MemoryRequest] = {}
        for each in costs[source]:
            key = each.instruction.kind, each.array
            if key not in of_array or seen.cost(each) > seen.cost(of_array[key]):
                of_array[key] = each
        for (kind, array), each in of_array.items():
            reached = [f"{name} {in_percent(share)}" for name, share in each.served.asked.items() if share > 0]
            fewest = f" where {amount(each.fewest_sectors)} would do" if each.is_spread else ""
            yield (
                f"{source}: {kind} {array}, {number_of(each.sectors, 'sector')} per request{fewest}; of these go to "
                f"{', '.join(reached)}"
            )


def _with_fewer_requests(seen: LaunchInputs) -> Iterator[str]:
    yield _TILES
    if any(each.is_spread for each in seen.requests):
        yield _NEIGHBOURS
    yield from _OF_REQUESTS


def _with_fewer_instructions(seen: LaunchInputs) -> Iterator[str]:
    yield from _OF_INSTRUCTIONS
    if any(each.kind in DIVISIONS for _, each in seen.every):
        yield _OF_DIVISIONS


def _instructions(seen: LaunchInputs) -> Iterator[str]:
    """Yield which instructions are no floating-point arithmetic."""
    others: dict[str, dict[str, float]] = {}
    floating: dict[str, float] = {}
    for executions, each in seen.every:
        source = each.label
        if is_floating_point(each):
            floating[source] = floating.get(source, 0.0) + executions
        else:
            kinds = others.setdefault(source, {})
            kind = f"{each.kind} {each.subsystem}" if each.kind in (Opcode.LOAD, Opcode.STORE) else each.kind
            kind += IN_NO_LANE if each.is_idle else ""
            kinds[kind] = kinds.get(kind, 0.0) + executions
    costs = {name: sum(kinds.values()) for name, kinds in others.items()}
    named = _costliest(costs)
    for source in named:
        kinds = others[source]
        few, useful = sum(kinds.values()), floating.get(source, 0.0)
        of_all = number_of(few + useful, "instruction")
        number = f"{amount(few)} of {of_all}" if useful else of_all
        listed = "".join(f", {amount(kinds[kind])} {kind}" for kind in _costliest(kinds) if kind != source)
        whole = not few % 1 and not useful % 1
        yield f"{source}: {number} of a warp{'' if whole else ' on average'}{listed}"
    if as_many := sum(costs[name] == costs[named[-1]] for name in costs if name not in named):
        yield f"and {as_many} more, of as many each"


def _serialization(seen: LaunchInputs, found: Analysis) -> Iterator[str]:
    conflicts: dict[str, float] = {}
    for each in seen.others:
        if each.conflicts:
            source = each.instruction.source
            conflicts[source] = max(conflicts.get(source, 0.0), 1 + each.conflicts / each.issue)
    for source in _costliest(conflicts):
        yield f"{source}: {conflicts[source]:.3g} times the passes through the banks that it takes without conflicts"
    if float(found.o_sfu) > 0:
        number = sum(each.executions for each in seen.others if each.instruction.kind == SPECIAL)
        yield f"{number:,.4g} special functions of a warp to {float(found.inputs.insts):,.4g} other instructions"


def _costliest(costs: dict[str, float]) -> Sequence[str]:
    return sorted((name for name, cost in costs.items() if cost > 0), key=lambda name: -costs[name])[:NAMED]


# }}}
