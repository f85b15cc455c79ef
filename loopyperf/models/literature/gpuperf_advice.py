"""GPUPerf's advisor: the potential benefit of removing each loss, the instructions concerned, and techniques to try.

The four potential benefits are those of Sim, section 3. The techniques are those of sections 6.2.1, 6.3.1 and table 5,
which the paper associates with the benefits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

from loopyperf.display import ReportText, Table, Tabular
from loopyperf.idg.program import Opcode
from loopyperf.models.demand import cached_for_launch, is_floating_point
from loopyperf.models.literature.gpuperf import Analysis
from loopyperf.models.literature.gpuperf_rows import SPECIAL, LaunchInputs, MemoryRequest
from loopyperf.pipeline.timed_program import TimedLaunch
from loopyperf.units import amount, duration, in_percent, number_of

NAMED = 3
"""Maximum number of instructions named per benefit, the costliest first."""
TIE = 1e-3
"""Relative tolerance: three digits of a time do not show smaller differences."""
DIVISIONS = (Opcode.DIV, Opcode.MOD, Opcode.POW, Opcode.POWI, Opcode.SPECIAL, SPECIAL)
"""Machine opcodes whose work special function units may do."""
SMALL = 0.01
"""Share of the time below which a benefit is not shown."""
IN_NO_LANE = " without active lanes"
"""Suffix of an instruction that a warp issues although a condition turns off all its lanes."""
WASTEFUL = 1.25
"""Ratio of requested to needed sectors from which an access is reported; a shifted access touches one sector more."""


@dataclass(frozen=True, slots=True)
class Benefit:
    """Benefit of removing a loss."""

    name: str
    """Name in the paper, e.g. ``"B_memlp"``."""
    meaning: str
    """Description of the change."""
    seconds: float
    """Maximum benefit, in seconds."""
    evidence: tuple[str, ...]
    """Location of the loss: instructions with their numbers, costliest first."""
    techniques: tuple[str, ...]
    """Techniques to try."""


PARTS = ("t_exec", "t_comp", "t_mem", "t_overlap", "t_mem_visible", "t_fp", "t_mem_min")
"""times of GPUPerf that an advice exports"""


@dataclass(frozen=True, slots=True, repr=False)
class Advice(Tabular):
    """GPUPerf's analysis of one launch: its time, its bound, and the potential benefits.

    Printing an advice shows the time, the benefits, and techniques to try. :func:`loopyperf.advise` returns one for
    each launch.

    Examples
    --------
    >>> import loopy as lp
    >>> import loopyperf as lpp
    >>> import numpy as np
    >>> scaled = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "b[i] = 2*a[i]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n"), ...],
    ...     name="scaled",
    ...     assumptions="n >= 1",
    ...     lang_version=(2018, 2),
    ... )
    >>> scaled = lp.split_iname(scaled, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> (advice,) = lpp.advise(scaled, n=2**24, device="nvidia-titan-v")
    >>> advice.bound
    'memory'
    >>> sorted(each.name for each in advice.benefits)
    ['B_fp', 'B_itilp', 'B_memlp', 'B_serial']
    """

    _OMITTED = ("clock", "analysis")
    _DERIVED = ("seconds", "bound", "parts")

    launch: str
    """Name of the device program."""
    clock: float
    """Clock of a core, in Hz."""
    analysis: Analysis
    """Every intermediate result of GPUPerf."""
    benefits: tuple[Benefit, ...]
    """Potential benefits, largest first."""
    scattered: tuple[str, ...] = ()
    """Accesses that request more sectors than needed, costliest first.

    They occupy pipelines that GPUPerf does not model, and are listed even if GPUPerf finds no benefit for memory."""

    @property
    def seconds(self) -> float:
        """Return Texec, in seconds."""
        return float(self.analysis.t_exec) / self.clock

    @property
    def bound(self) -> str:
        """Return the bound of the launch: ``"computation"``, ``"memory"``, or ``"computation and memory alike"``.

        It is the larger of Tcomp and Tmem, the time that would remain without the other, on whichever side of the
        diagonal point A of Fig. 4 is. Toverlap does not matter: if all computation is hidden, memory takes Texec.
        """
        computation, memory = float(self.analysis.t_comp), float(self.analysis.t_mem)
        if isclose(computation, memory, rel_tol=TIE):
            return "computation and memory alike"
        return "computation" if computation > memory else "memory"

    @property
    def worth(self) -> tuple[Benefit, ...]:
        """Return the benefits of at least one hundredth of the time."""
        return tuple(each for each in self.benefits if each.seconds >= SMALL * self.seconds)

    def report_text(self) -> ReportText:
        """Return the report: time, benefits, their locations and techniques to try."""
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
        """Return table rows (meaning, name, time) of the benefits in :attr:`worth`, or a row that there are none."""
        rows = [(each.meaning, each.name, duration(each.seconds)) for each in self.worth]
        return rows or [(f"no change known to GPUPerf saves {in_percent(SMALL)} of the time", "", "")]

    def what_to_try(self) -> list[str]:
        """Return lines with the name, the locations and the techniques of each benefit in :attr:`worth`."""
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
        """Return the scattered accesses that no benefit in :attr:`worth` names."""
        named = {sentence for each in self.worth for sentence in each.evidence}
        return tuple(each for each in self.scattered if each not in named)

    @property
    def parts(self) -> dict[str, float]:
        """Return the times of GPUPerf's analysis, in seconds."""
        return {name: float(getattr(self.analysis, name)) / self.clock for name in PARTS}


def advice_on(launch: TimedLaunch) -> Advice:
    """Return GPUPerf's advice on *launch*.

    :raises MissingNumberError: if a device parameter is unknown.
    """
    seen = cached_for_launch(launch, LaunchInputs)
    found = seen.analysis
    clock = launch.device.needed("clock")
    # Saving computation cannot reduce the time below that of memory: hidden computation gives no benefit.
    seen_of_computation = max(0.0, float(found.t_exec) - float(found.t_mem))

    def of_computation(cycles: Any) -> float:
        return _seconds(min(float(cycles), seen_of_computation), clock)

    benefits = [
        Benefit("B_itilp", "more instruction parallelism", of_computation(found.b_itilp),
                tuple(_parallelism(launch, found)), _OF_PARALLELISM),
        Benefit("B_memlp", "more memory parallelism", _seconds(found.b_memlp, clock),
                tuple(_requests(seen)), tuple(_with_fewer_requests(seen))),
        Benefit("B_fp", "fewer non-floating-point instructions", of_computation(found.b_fp),
                tuple(_instructions(seen)), tuple(_with_fewer_instructions(seen))),
        Benefit("B_serial", "less serialization", of_computation(found.b_serial),
                tuple(_serialization(seen, found)), _OF_SERIALIZATION),
    ]  # fmt: skip
    ordered = tuple(sorted(benefits, key=lambda each: -each.seconds))
    return Advice(launch.name, clock, found, ordered, tuple(_requests(seen, WASTEFUL)))


_OF_PARALLELISM = (
    "higher occupancy: fewer registers or less local memory per work-item",
    "unroll and jam: several independent results per work-item",
    "prefetching into registers ahead of use",
    "tiling in local memory, which shortens latencies",
)


SCATTERED = "uncoalesced accesses (more sectors than needed)"
_NEIGHBOURS = "coalescing: adjacent work-items access adjacent elements (another array layout or order of its axes)"
OF_SCATTERED = (_NEIGHBOURS, "tiling in local memory, with tiles that are read and written along cache lines")
_TILES = "tiling in local memory, so that data shared by work-items is fetched once"
_OF_REQUESTS = (
    "vector packing: one wide access instead of several narrow ones",
    "prefetching, so that more requests are in flight",
)
_OF_INSTRUCTIONS = (
    "loop unrolling, which saves tests and index arithmetic",
    "coarsening: more elements per work-item, which share computed values",
    "vector packing: fewer loads and stores",
)
_OF_DIVISIONS = "special function units, if single precision suffices: rsqrt instead of a division and a root"
_OF_SERIALIZATION = (
    "another layout of the tile, e.g. padding by one element, against bank conflicts",
    "fewer barriers: private results that are combined at the end",
    "fewer special functions relative to other instructions",
)


# {{{ locations of the losses


def _seconds(cycles: Any, clock: float) -> float:
    return float(cycles) / clock


def _parallelism(launch: TimedLaunch, found: Analysis) -> Iterator[str]:
    inputs = found.inputs
    yield (
        f"{number_of(float(inputs.n), 'warp')} per core with {inputs.ilp:.2g} independent instructions each: "
        f"{float(found.itilp):.3g} in flight, {float(found.itilp_max):.3g} needed to hide latencies of "
        f"{number_of(float(found.avg_inst_lat), 'cycle')}"
    )
    yield f"occupancy is limited by {' and '.join(launch.bound_by)}"


def _requests(seen: LaunchInputs, least: float = 0.0) -> Iterator[str]:
    """Yield the requests of the costliest accesses, of those with at least *least* times the sectors that they need."""
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
            fewest = f" (minimum {amount(each.fewest_sectors)})" if each.is_spread else ""
            yield (
                f"{source}: {kind} {array}, {number_of(each.sectors, 'sector')} per request{fewest}; share by level: "
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
    """Yield the costliest sources of instructions other than floating-point arithmetic."""
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
        yield f"{source}: {number} per warp{'' if whole else ' on average'}{listed}"
    if as_many := sum(costs[name] == costs[named[-1]] for name in costs if name not in named):
        yield f"and {as_many} more with the same count"


def _serialization(seen: LaunchInputs, found: Analysis) -> Iterator[str]:
    conflicts: dict[str, float] = {}
    for each in seen.others:
        if each.conflicts:
            source = each.instruction.source
            conflicts[source] = max(conflicts.get(source, 0.0), 1 + each.conflicts / each.issue)
    for source in _costliest(conflicts):
        yield f"{source}: {conflicts[source]:.3g} times as many wavefronts as without bank conflicts"
    if float(found.o_sfu) > 0:
        number = sum(each.executions for each in seen.others if each.instruction.kind == SPECIAL)
        yield f"{number:,.4g} special functions and {float(found.inputs.insts):,.4g} other instructions per warp"


def _costliest(costs: dict[str, float]) -> Sequence[str]:
    return sorted((name for name, cost in costs.items() if cost > 0), key=lambda name: -costs[name])[:NAMED]


# }}}
