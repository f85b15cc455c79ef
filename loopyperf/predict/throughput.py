"""At which size does another subsystem decide? Bounds of throughput, symbolic in the sizes of a kernel.

Bounds of throughput, symbolic in a kernel's sizes: how long each subsystem is busy at least.

    T ≥ Ts(n) = Σi countᵢ(n) · λᵢ / (cores · clock)          for each subsystem s, of what runs on it (roofline)

Counts are exact quasi-polynomials of the source, in warp instructions; λ comes from the device's description. They are
bounds, and leave out what only machine code and caches tell: an addition and a multiplication may be one instruction,
so that each counts as half of one; factors of 1, as of ``loopy.make_einsum``, and index arithmetic are free; device
memory moves each distinct element once, or twice where it is known to be loaded before it is stored, and caches cost
nothing. Accesses of local memory are those of the source; conditions on data are taken to hold, and loads whose values
are unused to be made. The model ``roofline`` uses machine code and caches, at one size at a time.

Lemeire, section 2.1.

How many distinct elements of each global array a kernel touches, as functions of its sizes.

The union, over all loads and stores, of the elements that their loops reach: what has to be moved at least once. What
is stored after it was loaded has to be moved twice: that is told where each store has a load of the same element, in
its own instruction or in one that this depends on. Of other arrays that are loaded and stored, it is not known what
comes first.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, cast

import islpy as isl
import numpy as np
import pymbolic.primitives as prim
from loopy.symbolic import IdentityMapper, get_dependencies
from numpy.typing import NDArray

from loopyperf.calibration.choice import chosen_device
from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.counts.item import Access, Item, MemorySpace, Operation
from loopyperf.counts.kernel_counts import KernelTallies, memory_references
from loopyperf.counts.memory_accesses import Reference
from loopyperf.counts.property_vector import Totals, item_named
from loopyperf.counts.sizes import Typical, admitted_values, priced
from loopyperf.device.description import Device
from loopyperf.device.device_library import DeviceChoice
from loopyperf.device.lambdas import DRAM, bytes_per_cycle
from loopyperf.device.parts import Substitute, Substitution
from loopyperf.device.substitutes import completed
from loopyperf.display import Formula, ReportText, Shown, Table
from loopyperf.kernel import Kernel, Program
from loopyperf.models.result import Breakdown, BreakdownRow, Estimate, ModelTime
from loopyperf.models.timing import InstructionTimes
from loopyperf.polyhedral.evaluation import IntegerArray
from loopyperf.polyhedral.quasi_affine import NotQuasiAffineError, quasi_affine_map
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial
from loopyperf.predict.on_device import device_estimate
from loopyperf.predict.predictor import Predictor
from loopyperf.stages.case import Case, CountingOptions, count, merged_sizes, prepared


@dataclass(frozen=True)
class TouchedCells:
    """What a kernel touches of one array."""

    cells: QuasiPolynomial
    """distinct elements that affine accesses reach"""
    stored_after_loads: QuasiPolynomial
    """those of them that are stored, where each is loaded before; none where it is not known that they are"""
    bits: int
    """of an element"""
    is_complete: bool
    """whether these are all: the addresses of none are data"""


def touched_cells(kernel: Kernel, typical: Typical) -> dict[str, TouchedCells]:
    """Return array -> what *kernel* touches of it, of the arrays in global memory.

    Conditions on data are taken to hold. Raises :class:`UncountableError` for loops bounded by data of which nothing is
    stated.
    """
    counter = ExecutionCounter(kernel, typical)
    by_array: dict[str, list[tuple[Site, Reference]]] = {}
    for site, ref in memory_references(kernel, typical):
        if ref.space == MemorySpace.GLOBAL:
            by_array.setdefault(ref.array, []).append((site, ref))
    return {array: _touched(counter, refs) for array, refs in by_array.items()}


def _touched(counter: ExecutionCounter, references: list[tuple[Site, Reference]]) -> TouchedCells:
    """Return what *references*, which are of one array, touch."""
    forms = {(len(ref.index), ref.is_linear) for _, ref in references}
    cells = [_cells_of(counter, site, ref) for site, ref in references]
    is_complete = len(forms) == 1 and all(each is not None for each in cells)
    stores = [at for at, (_, ref) in enumerate(references) if ref.direction == "store"]
    is_updated = is_complete and all(_is_loaded_before(counter.kernel, references[at], references) for at in stores)
    return TouchedCells(
        cells=_number(counter, cells if len(forms) == 1 else []),
        stored_after_loads=_number(counter, [cells[at] for at in stores] if is_updated else []),
        bits=references[0][1].bits,
        is_complete=is_complete,
    )


def _number(counter: ExecutionCounter, cells: list[isl.Set | None]) -> QuasiPolynomial:
    """Return how many distinct elements *cells* have, of those that are known."""
    known = [each for each in cells if each is not None]
    if not known:
        return QuasiPolynomial.constant(0, counter.kernel.assumptions)
    return QuasiPolynomial.of_points(reduce(isl.Set.union, known).coalesce(), counter.kernel.assumptions)


def _is_loaded_before(kernel: Kernel, store: tuple[Site, Reference], references: list[tuple[Site, Reference]]) -> bool:
    """Return whether each pass of *store* comes after one that loads what it stores, of *references* to its array."""
    site, stored = store
    needed = cast("Mapping[str, frozenset[str]]", kernel.loopy_kernel.recursive_insn_dep_map())
    before = needed[site.source] | {site.source}
    return any(
        ref.direction == "load"
        and ref.index == stored.index
        and other.source in before
        and (other.inames, other.conditions) == (site.inames, site.conditions)
        for other, ref in references
    )


def _cells_of(counter: ExecutionCounter, site: Site, ref: Reference) -> isl.Set | None:
    """Return the elements that *ref* reaches at *site*; None where they are no affine function of its loops.

    Of a loop that starts from data, only the number of passes is known, and not where they are.
    """
    if not counter.loops(site.inames).starts.keys().isdisjoint(get_dependencies(ref.index)):
        return None
    points = counter.points(site).align_params(counter.kernel.assumptions.get_space())
    try:
        return quasi_affine_map(points, ref.index).range()
    except NotQuasiAffineError:
        return None


PARTS = 10_000
"""of a cycle, whole numbers of which every count takes: so sums are exact"""
SAMPLES = 4096
"""sizes at which bounds are compared, at most, before the place of a change is searched for"""


@dataclass(frozen=True, slots=True)
class Crossover:
    """Where another subsystem becomes the one that is busy longest."""

    size: int
    """the first one at which it is"""
    before: str
    """subsystem"""
    after: str
    """subsystem"""


class ThroughputBounds(Shown, Mapping[str, QuasiPolynomial]):
    """Subsystem -> the cycles that it is busy at least, those of all cores added up, as a function of the sizes."""

    def __init__(self, counted: KernelTallies, touched: Mapping[str, TouchedCells], device: Device) -> None:
        """Take what a kernel does, counted in warps of the device, and what it touches of global arrays.

        Raises :class:`MissingNumberError` for a throughput or bandwidth that the device's description does not state.
        """
        self.device = completed(device)
        self.left_out: dict[str, None] = {}
        """sentences on what is in no bound, and on what was assumed"""
        self.assumptions = counted.kernel.assumptions
        terms = _Terms(self.device, self.left_out).by_subsystem(counted, touched)
        self._totals = Totals(counted.kernel, terms, {})

    def __getitem__(self, subsystem: str) -> QuasiPolynomial:
        return reduce(add, (count * Fraction(parts, PARTS) for count, parts in self._totals.sums[subsystem]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._totals.sums)

    def __len__(self) -> int:
        return len(self._totals.sums)

    def report_text(self) -> ReportText:
        """Return the bound of each subsystem as a formula, and what is in none."""
        rows = [(name, Formula(str(bound), bound.latex())) for name, bound in self.items()]
        clock = self.device.needed("cores") * self.device.needed("clock")
        return ReportText(
            question=f"cycles of all {self.device.cores} cores of {self.device.slug} together",
            answer=f"{clock:.4g} in a second",
            tables=[Table(("subsystem", "busy at least"), rows, text=2)],
            remarks=list(self.left_out),
        )

    # {{{ at sizes

    def seconds(self, /, **sizes: int | IntegerArray) -> dict[str, float | NDArray[np.float64]]:
        """Return subsystem -> the time in seconds that it is busy at least; arrays of sizes give arrays.

        Raises :class:`ParameterError` for sizes that are missing or outside the kernel's assumptions.
        """
        is_batch = any(isinstance(size, np.ndarray) for size in sizes.values())
        cycles = self._totals.at_arrays(sizes) if is_batch else self._totals.at(cast("Mapping[str, int]", sizes))
        per_second = self.device.needed("cores") * self.device.needed("clock") * PARTS
        with priced(sizes):
            return {name: each / per_second for name, each in zip(self, cycles, strict=True)}

    def bound(self, /, **sizes: int) -> str:
        """Return the subsystem that is busy longest at one size."""
        seconds = self.seconds(**sizes)
        return max(seconds, key=lambda name: float(np.max(seconds[name])))

    def at_least(self, /, **sizes: int) -> float:
        """Return the seconds that the kernel takes at least at one size, whatever the compiler makes of it.

        That is the bound without local memory: of accesses of the source, machine code may have fewer, since loads of
        unrolled loops that are alike are one. Raises what :meth:`seconds` raises.
        """
        merged = InstructionTimes(self.device).pipeline_of("local")
        return max((float(each) for name, each in self.seconds(**sizes).items() if name != merged), default=0.0)

    # }}}

    # {{{ where the bound changes

    def crossovers(
        self, size: str, at_least: int = 1, at_most: int = 2**20, others: Mapping[str, int] | None = None
    ) -> tuple[Crossover, ...]:
        """Return at which values of *size*, from *at_least* to *at_most*, another subsystem is busy longest.

        The kernel's other sizes are *others*. Where there are too many values to look at each, a change back and forth
        between two of some thousands that are looked at is not seen. Raises :class:`ParameterError` for a size that the
        kernel does not have, and where none of these values is admitted.
        """
        fixed = dict(others or {})
        values = admitted_values(self.assumptions, size, at_least, at_most, fixed)
        names = list(self)

        def longest(places: Sequence[int]) -> list[str]:
            asked = np.array([values[place] for place in places], dtype=np.int64)
            cycles = self._totals.at_arrays({**fixed, size: asked})
            return [names[place] for place in np.argmax(np.broadcast_arrays(*cycles), axis=0)]

        spread = np.geomspace(1, len(values), min(len(values), SAMPLES)).round().astype(np.int64) - 1
        places = np.unique(spread).tolist()
        found: list[Crossover] = []
        for (low, before), (high, after) in pairwise(zip(places, longest(places), strict=True)):
            while before != after:
                place = _first(low, high, lambda at, before=before: longest([at])[0] != before)
                now = longest([place])[0]
                found.append(Crossover(values[place], before, now))
                low, before = place, now
        return tuple(found)

    # }}}


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return a place after *low*, up to *high*, at which *holds* is true and before which it is not."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class _Terms:
    """The cycles of each subsystem, in terms of counts."""

    device: Device
    left_out: dict[str, None]

    def by_subsystem(
        self, counted: KernelTallies, touched: Mapping[str, TouchedCells]
    ) -> dict[str, list[tuple[QuasiPolynomial, int]]]:
        """Return subsystem -> counts, each with the parts of cycles that one of it takes."""
        found: dict[str, list[tuple[QuasiPolynomial, int]]] = {}
        for tally in counted.tallies:
            for subsystem, cycles in self._of_item(tally.item):
                found.setdefault(subsystem, []).append((tally.executions, _parts(cycles * tally.number)))
        cycles_per_byte = 1 / bytes_per_cycle(self.device, self.device.level(DRAM))
        for array, each in touched.items():
            moved = each.cells + each.stored_after_loads
            found.setdefault(DRAM, []).append((moved, _parts(cycles_per_byte * each.bits / 8)))
            if not each.is_complete:
                self.left_out[f"elements of {array} whose addresses are data are not among those moved"] = None
        return found

    def _of_item(self, item: Item) -> Iterator[tuple[str, float]]:
        """Yield the subsystems that one of *item* takes in a warp, and for how many cycles."""
        match item:
            case Operation(kind="add" | "mul", dtype="f32" | "f64"):
                subsystem = "alu" if item.dtype == "f32" else "fp64"
                yield self.device.pipeline(subsystem), self._issue("add", item.dtype) / 2
            case Operation(kind="div" | "pow" | "special", dtype="f32"):
                yield self.device.pipeline("sfu"), self._issue("special", "f32")
            case Operation(kind="div", dtype="f64") if self._is_measured("div f64"):
                yield self.device.pipeline("fp64"), self.device.issue_latency("div", "f64")
            case Operation(kind="add" | "mul" | "div" | "pow" | "special", dtype=dtype) if dtype.startswith("f"):
                self.left_out[f"{dtype} {item.kind} is in no bound"] = None
            case Access(space=MemorySpace.LOCAL):
                timing = InstructionTimes(self.device)
                cycles = timing.wavefront * max(1, item.bits // 32)
                self._assume(timing.substituted)
                yield timing.pipeline_of("local"), cycles
            case _:
                return

    def _issue(self, kind: str, dtype: str) -> float:
        """Return λ of an instruction, which is said to be assumed where it is."""
        number = self.device.resting_on("issue", kind, dtype)
        if isinstance(number, Substitute):
            self._assume([Substitution.made("throughput", f"{kind} {dtype}", number)])
        return self.device.issue_latency(kind, dtype)

    def _assume(self, substitutions: Iterable[Substitution]) -> None:
        self.left_out.update({f"assumed, which the description lacks: {each}": None for each in substitutions})

    def _is_measured(self, instruction: str) -> bool:
        return any(each.name == instruction and each.issue is not None for each in self.device.instructions)


def _parts(cycles: float | Fraction) -> int:
    return round(cycles * PARTS)


THROUGHPUT = "throughput"
"""the bound that only counts"""


@dataclass(frozen=True, eq=False)
class ThroughputPredictor(Predictor):
    """The time that a kernel takes at least by its counts alone, whatever the compiler makes of it."""

    parameters: Device = field(kw_only=True)
    """of the device"""

    def predict(self, case: Case) -> Estimate:
        """Return the least time of *case*, in seconds; see :meth:`ThroughputBounds.at_least`."""
        bounds = throughput_bounds(case.kernel, device=self.parameters, typical=case.typical)
        seconds = bounds.at_least(**case.sizes)
        answer = ModelTime(seconds, Breakdown((BreakdownRow(THROUGHPUT, "", 1, seconds, seconds),)), left_out=())
        return device_estimate(self, case, prepared(case.kernel).name, answer)


def throughput_bounds(
    program: Program, /, *, device: DeviceChoice | None = None, typical: Mapping[str, Any] | None = None
) -> ThroughputBounds:
    """Return subsystem -> the cycles that *program* keeps it busy at least, all cores together, by the kernel's sizes.

    They are exact functions of the sizes; :meth:`ThroughputBounds.seconds` turns them into seconds at one size or at
    arrays of sizes. *device* is a name, the path of a description, or a loaded one; by default what
    ``LOOPYPERF_DEVICE`` names, else this machine's OpenCL device. *typical* states what the source does not tell (see
    :func:`loopyperf.count`).

    Raises what :func:`loopyperf.count` raises, :class:`UnknownDeviceError` for a device that is not described, and
    :class:`MissingNumberError` for a throughput that its description does not state. Source: Lemeire, section 2.1.
    """
    described = completed(chosen_device(device))
    kernel = prepared(program)
    changed = _without_ones(kernel)
    if changed is kernel:
        counted: KernelTallies = count(program, typical=typical, sub_group_size=described.needed("warp_size"))
    else:
        counted = CountingOptions(typical=typical, sub_group_size=described.needed("warp_size")).count(changed)
    touched = touched_cells(kernel, Typical(typical or {}, item_named))
    return ThroughputBounds(counted, touched, described)


class _WithoutOnes(IdentityMapper[[]]):
    """Drops factors of 1, as of ``1*x``, which ``loopy.make_einsum`` writes and no compiler multiplies by."""

    def map_product(self, expr: prim.Product) -> Any:
        factors: list[Any] = [self.rec(each) for each in expr.children if not (isinstance(each, int) and each == 1)]
        return prim.Product(tuple(factors)) if len(factors) > 1 else factors[0] if factors else 1


def _without_ones(kernel: Kernel) -> Kernel:
    """Return *kernel* without factors of 1; itself, if it has none."""
    drop = _WithoutOnes()
    launches = tuple(
        replace(launch, instructions=tuple(each.with_transformed_expressions(drop) for each in launch.instructions))
        for launch in kernel.launches
    )
    return kernel if launches == kernel.launches else replace(kernel, launches=launches)


def crossover(
    program: Program,
    size: str,
    /,
    *,
    device: DeviceChoice | None = None,
    at_least: int = 1,
    at_most: int = 2**20,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, int] | None = None,
    **others: int,
) -> tuple[Crossover, ...]:
    """Return the values of *size*, in ascending order, from which another subsystem of *device* is busy longest.

    There is a :class:`Crossover` for each such value, with the name of the subsystem ``before`` and ``after`` it. The
    tuple is empty where one subsystem is busy longest at all values from *at_least* to *at_most*. The other sizes of
    the kernel are *others*; one that is called like an option goes through *parameters*.

    Raises what :func:`throughput_bounds` raises, and :class:`ParameterError` for a size that the kernel does not have,
    and where it admits no value from *at_least* to *at_most*.
    """
    bounds = throughput_bounds(program, device=device, typical=typical)
    return bounds.crossovers(size, at_least, at_most, merged_sizes(parameters, others))
