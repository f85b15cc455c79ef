"""Throughput bounds, symbolic in the sizes of a kernel: the least time that each subsystem is busy.

    T ≥ Ts(n) = Σi countᵢ(n) · λᵢ / (cores · clock)          for each subsystem s, over its instructions i (roofline)

Counts are exact quasi-polynomials of the source, in warp instructions; the issue latencies λ are device parameters.
The bounds ignore what depends on machine code and caches:

- An addition and a multiplication may be one instruction, so each counts as half an instruction.
- Factors of 1 (from ``loopy.make_einsum``) and index arithmetic are free.
- Device memory moves each distinct element once, or twice if it is known to be loaded before it is stored. Caches cost
  nothing.
- Local memory has the accesses of the source; an atomic update by one instruction is one access.
- Conditions on data are assumed true, and loads of unused values are counted.

The model ``roofline`` uses machine code and caches, at one size at a time.

Source: Lemeire, section 2.1.

The number of distinct elements of a global array is that of the union, over all loads and stores, of the elements that
their loops access; these move at least once. Elements that are loaded and then stored move twice. This is known if each
store has a load of the same element in its own instruction, or in one on which that depends. For other arrays that are
both loaded and stored, the order is unknown.
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
from loopy.kernel.instruction import Assignment
from loopy.symbolic import IdentityMapper, get_dependencies
from numpy.typing import NDArray

from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.counts.item import Access, MemorySpace, Operation
from loopyperf.counts.kernel_counts import KernelCounts, Tally, memory_references
from loopyperf.counts.memory_accesses import Reference, atomically_added, is_atomic
from loopyperf.counts.property_vector import Totals
from loopyperf.counts.sizes import Typical, admitted_values, priced
from loopyperf.device.description import Device
from loopyperf.device.device_library import DeviceChoice
from loopyperf.device.lambdas import DRAM, bytes_per_cycle, with_traffic
from loopyperf.device.parts import Pipeline
from loopyperf.device.substitutes import completed
from loopyperf.display import Formula, ReportText, Shown, Table
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.kernel import Kernel, Program
from loopyperf.models.result import Breakdown, BreakdownRow, Estimate, ModelTime
from loopyperf.models.timing import InstructionTimes, substitution_notes
from loopyperf.polyhedral.evaluation import IntegerArray
from loopyperf.polyhedral.quasi_affine import NotQuasiAffineError, quasi_affine_map
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial
from loopyperf.predict.on_device import device_estimate
from loopyperf.predict.predictor import Predictor
from loopyperf.stages.case import Case, merged_sizes, prepared
from loopyperf.stages.counting import CountingOptions, count
from loopyperf.stages.device_choice import chosen_device


@dataclass(frozen=True)
class TouchedCells:
    """The elements of one array that a kernel accesses."""

    cells: QuasiPolynomial
    """number of distinct elements that affine accesses reach"""
    stored_after_loads: QuasiPolynomial
    """number of those that are stored after they are loaded; 0 if the order is unknown"""
    bits: int
    """bits of an element"""
    is_complete: bool
    """whether *cells* has all elements: there are no indirect accesses"""


def touched_cells(kernel: Kernel, typical: Typical) -> dict[str, TouchedCells]:
    """Return array -> accessed elements, for the arrays of *kernel* in global memory.

    Conditions on data are assumed true. Raises :class:`UncountableError` for loops bounded by data without a typical
    value.
    """
    counter = ExecutionCounter(kernel, typical)
    by_array: dict[str, list[tuple[Site, Reference]]] = {}
    for site, ref in memory_references(kernel, typical):
        if ref.space == MemorySpace.GLOBAL:
            by_array.setdefault(ref.array, []).append((site, ref))
    return {array: _touched(counter, refs) for array, refs in by_array.items()}


def _touched(counter: ExecutionCounter, references: list[tuple[Site, Reference]]) -> TouchedCells:
    """Return the elements that *references*, all to one array, access."""
    forms = {(len(ref.index), ref.is_linear) for _, ref in references}
    cells = [_cells_of(counter, site, ref) for site, ref in references]
    is_complete = len(forms) == 1 and all(cell is not None for cell in cells)
    stores = [at for at, (_, ref) in enumerate(references) if ref.direction == "store"]
    is_updated = is_complete and all(_is_loaded_before(counter.kernel, references[at], references) for at in stores)
    return TouchedCells(
        cells=_number(counter, cells if len(forms) == 1 else []),
        stored_after_loads=_number(counter, [cells[at] for at in stores] if is_updated else []),
        bits=references[0][1].bits,
        is_complete=is_complete,
    )


def _number(counter: ExecutionCounter, cells: list[isl.Set | None]) -> QuasiPolynomial:
    """Return the number of distinct elements in the known *cells*."""
    known = [cell for cell in cells if cell is not None]
    if not known:
        return QuasiPolynomial.constant(0, counter.kernel.assumptions)
    return QuasiPolynomial.of_points(reduce(isl.Set.union, known).coalesce(), counter.kernel.assumptions)


def _is_loaded_before(kernel: Kernel, store: tuple[Site, Reference], references: list[tuple[Site, Reference]]) -> bool:
    """Return whether each execution of *store* follows a load of the same element, among *references* to its array."""
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
    """Return the elements that *ref* accesses at *site*; None if the index is not affine in the loop variables.

    For a loop that starts at a loaded value, only the number of iterations is known.
    """
    if not counter.loops(site.inames).starts.keys().isdisjoint(get_dependencies(ref.index)):
        return None
    points = counter.points(site).align_params(counter.kernel.assumptions.get_space())
    try:
        return quasi_affine_map(points, ref.index).range()
    except NotQuasiAffineError:
        return None


PARTS = 10_000
"""units of a cycle; costs are whole numbers of them, so that sums are exact"""
COSTLY = ("add", "mul", "div", "pow", "special")
"""kinds of operations that a note mentions if no bound includes them, for floating-point numbers"""
SAMPLES = 4096
"""largest number of sizes at which bounds are compared before a bisection finds each change"""


@dataclass(frozen=True, slots=True)
class Crossover:
    """A size at which another subsystem becomes the one with the largest bound."""

    size: int
    """the first size with the new largest bound"""
    before: str
    """subsystem with the largest bound below this size"""
    after: str
    """subsystem with the largest bound from this size"""


class ThroughputBounds(Shown, Mapping[str, QuasiPolynomial]):
    """Subsystem -> lower bound of its busy cycles, summed over all cores, as a function of the sizes."""

    def __init__(self, counted: KernelCounts, touched: Mapping[str, TouchedCells], device: Device) -> None:
        """Compute the bounds from counts in warp instructions and from the accessed elements of global arrays.

        Raises :class:`MissingNumberError` if the device parameters lack a throughput or bandwidth.
        """
        self.device = completed(device)
        self.assumptions = counted.kernel.assumptions
        terms, self.left_out = cycles_by_pipeline(counted.tallies, touched, self.device)
        """notes on parts that no bound includes, and on assumptions"""
        self._totals = Totals(self.assumptions, terms, {})

    def __getitem__(self, subsystem: str) -> QuasiPolynomial:
        return reduce(add, (count * Fraction(parts, PARTS) for count, parts in self._totals.sums[subsystem]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._totals.sums)

    def __len__(self) -> int:
        return len(self._totals.sums)

    def report_text(self) -> ReportText:
        """Return the bound of each subsystem as a formula, and the parts that no bound includes."""
        rows = [(name, Formula(str(bound), bound.latex())) for name, bound in self.items()]
        clock = self.device.needed("cores") * self.device.needed("clock")
        return ReportText(
            question=f"busy cycles, summed over the {self.device.cores} cores of {self.device.slug}",
            answer=f"{clock:.4g} cycles per second",
            tables=[Table(("subsystem", "lower bound of busy cycles"), rows, text=2)],
            remarks=list(self.left_out),
        )

    # {{{ at sizes

    def seconds(self, /, **sizes: int | IntegerArray) -> dict[str, float | NDArray[np.float64]]:
        """Return subsystem -> lower bound of its busy time in seconds; arrays of sizes give arrays.

        Raises :class:`ParameterError` for sizes that are missing or outside the kernel's assumptions.
        """
        is_batch = any(isinstance(size, np.ndarray) for size in sizes.values())
        cycles = (
            self._totals.evaluator.at_arrays(sizes)
            if is_batch
            else self._totals.evaluator.at(cast("Mapping[str, int]", sizes))
        )
        per_second = self.device.needed("cores") * self.device.needed("clock") * PARTS
        with priced(sizes):
            return {name: each / per_second for name, each in zip(self, cycles, strict=True)}

    def bound(self, /, **sizes: int) -> str:
        """Return the subsystem with the largest bound at one size."""
        seconds = self.seconds(**sizes)
        return max(seconds, key=lambda name: float(np.max(seconds[name])))

    def at_least(self, /, **sizes: int) -> float:
        """Return a lower bound of the run time at one size, in seconds, for any compiler.

        It excludes the bound of local memory, since the compiler may merge equal loads of unrolled loops. Raises what
        :meth:`seconds` raises.
        """
        merged = InstructionTimes(self.device).pipeline_of("local")
        return max((float(each) for name, each in self.seconds(**sizes).items() if name != merged), default=0.0)

    # }}}

    # {{{ crossovers

    def crossovers(
        self, size: str, at_least: int = 1, at_most: int = 2**20, others: Mapping[str, int] | None = None
    ) -> tuple[Crossover, ...]:
        """Return the values of *size* in [*at_least*, *at_most*] at which the subsystem with the largest bound changes.

        *others* are the kernel's other sizes. If there are more than some thousand values, they are sampled, and a
        change back and forth between two samples is missed. Raises :class:`ParameterError` for a size that the kernel
        does not have, and if the kernel admits none of these values.
        """
        fixed = dict(others or {})
        values = admitted_values(self.assumptions, size, at_least, at_most, fixed)
        names = list(self)

        def longest(indices: Sequence[int]) -> list[str]:
            sampled = np.array([values[index] for index in indices], dtype=np.int64)
            cycles = self._totals.evaluator.at_arrays({**fixed, size: sampled})
            return [names[index] for index in np.argmax(np.broadcast_arrays(*cycles), axis=0)]

        spread = np.geomspace(1, len(values), min(len(values), SAMPLES)).round().astype(np.int64) - 1
        indices = np.unique(spread).tolist()
        found: list[Crossover] = []
        for (low, before), (high, after) in pairwise(zip(indices, longest(indices), strict=True)):
            while before != after:
                index = _first(low, high, lambda at, before=before: longest([at])[0] != before)
                now = longest([index])[0]
                found.append(Crossover(values[index], before, now))
                low, before = index, now
        return tuple(found)

    # }}}


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return, by bisection, an index in (*low*, *high*] at which *holds* becomes true."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def cycles_by_pipeline(
    tallies: Iterable[Tally], touched: Mapping[str, TouchedCells], device: Device
) -> tuple[dict[str, list[tuple[QuasiPolynomial, int]]], dict[str, None]]:
    """Return pipeline -> list of (count, cost of one in 1/PARTS cycles), and notes on omissions and assumptions."""
    timing = InstructionTimes(device)
    found: dict[str, list[tuple[QuasiPolynomial, int]]] = {}
    left_out: dict[str, None] = {}
    for tally in tallies:
        item = tally.item
        instruction = _instruction_of(item, device) if isinstance(item, Operation) else None
        if instruction is not None:
            timed = timing.arithmetic(instruction)
            cycles = timed.issue / 2 if instruction.kind == Opcode.ADD else timed.issue  # halves of multiply-adds
            found.setdefault(timed.pipeline, []).append((tally.executions, _parts(cycles * tally.number)))
        elif isinstance(item, Operation) and item.kind in COSTLY and item.dtype.startswith("f"):
            left_out[f"{item.dtype} {item.kind} is not included in any bound"] = None
        elif isinstance(item, Access) and item.space == MemorySpace.LOCAL:
            cycles = timing.wavefront * max(1, item.bits // 32)
            pipeline = timing.pipeline_of("local")
            found.setdefault(pipeline, []).append((tally.executions, _parts(cycles * tally.number)))
    # The bandwidth depends on the share of stores: a lower bound uses the highest.
    devices = [with_traffic(device, written) for written in (0, 1 / 2, 1)]
    cycles_per_byte = 1 / max(bytes_per_cycle(each, each.level(DRAM)) for each in devices)
    for array, each in touched.items():
        moved = each.cells + each.stored_after_loads
        found.setdefault(DRAM, []).append((moved, _parts(cycles_per_byte * each.bits / 8)))
        if not each.is_complete:
            left_out[f"traffic of {array}: indirect accesses are not included"] = None
    return found, left_out | dict.fromkeys(substitution_notes(timing.substituted, device.slug, ()))


def _instruction_of(operation: Operation, device: Device) -> Instruction | None:
    """Return the fastest instruction that computes *operation*; None if bounds do not include it."""
    match operation:
        case Operation(kind="add" | "mul", dtype="f32"):
            return Instruction(Opcode.ADD, "f32", Pipeline.ALU)
        case Operation(kind="add" | "mul", dtype="f64"):
            return Instruction(Opcode.ADD, "f64", Pipeline.FP64)
        case Operation(kind="div" | "pow" | "special", dtype="f32"):
            return Instruction(Opcode.MUFU, "f32", Pipeline.SFU)
        case Operation(kind="div", dtype="f64") if any(
            each.name == "div f64" and each.issue is not None for each in device.instructions
        ):
            return Instruction(Opcode.DIV, "f64", Pipeline.FP64)
        case _:
            return None


def requested(kernel: Kernel, tallies: Iterable[Tally]) -> Iterator[Tally]:
    """Yield *tallies* with atomic updates by one instruction as one request each.

    The source of an update loads, adds and stores; the instruction sends what it adds to the memory, which adds it.
    """
    updates = {
        each.id
        for launch in kernel.launches
        for each in launch.instructions
        if isinstance(each, Assignment) and is_atomic(each) and atomically_added(kernel, each) is not None
    }
    every = list(tallies)
    stores = {
        each.source: each
        for each in every
        if each.source in updates and isinstance(each.item, Access) and each.item.direction == "store"
    }
    for tally in every:
        store = stores.get(tally.source)
        if store is not None and isinstance(store.item, Access) and tally.executions == store.executions:
            own = (replace(store.item, direction="load"), Operation("add", f"f{store.item.bits}"))
            if tally.item in own:
                tally = replace(tally, number=max(0, tally.number - store.number))
        if tally.number:
            yield tally


def _parts(cycles: float | Fraction) -> int:
    return round(cycles * PARTS)


THROUGHPUT = "throughput"
"""name of the bound that uses only counts"""


@dataclass(frozen=True, eq=False)
class ThroughputPredictor(Predictor):
    """A lower bound of a kernel's run time from its counts, for any compiler."""

    parameters: Device = field(kw_only=True)
    """parameters of the device"""

    def predict(self, case: Case) -> Estimate:
        """Return the lower bound for *case*, in seconds; see :meth:`ThroughputBounds.at_least`."""
        bounds = throughput_bounds(case.kernel, device=self.parameters, typical=case.typical)
        seconds = bounds.at_least(**case.sizes)
        answer = ModelTime(seconds, Breakdown((BreakdownRow(THROUGHPUT, "", 1, seconds, seconds),)), left_out=())
        return device_estimate(self, case, prepared(case.kernel).name, answer)


def throughput_bounds(
    program: Program, /, *, device: DeviceChoice | None = None, typical: Mapping[str, Any] | None = None
) -> ThroughputBounds:
    """Return lower bounds of the busy cycles of each subsystem, as exact functions of the kernel's sizes.

    Source: Lemeire, section 2.1.

    Parameters
    ----------
    program : loopy.TranslationUnit or loopy.LoopKernel
        The kernel.
    device : str, os.PathLike or Device, optional
        Device name, path of a device file, or loaded device. Default: the device that ``LOOPYPERF_DEVICE`` names, else
        this machine's OpenCL device.
    typical : Mapping, optional
        Values that depend on data, e.g. trip counts, by name (see :func:`loopyperf.count`).

    Returns
    -------
    ThroughputBounds
        Subsystem -> quasi-polynomial in the sizes, in cycles summed over all cores. Its method ``seconds`` gives
        seconds at one size or at arrays of sizes.

    Raises
    ------
    KernelError, UncountableError, ParameterError
        As in :func:`loopyperf.count`.
    UnknownDeviceError
        *device* is unknown or has no parameters.
    MissingNumberError
        The device parameters lack a throughput or bandwidth.

    Examples
    --------
    >>> import loopy as lp
    >>> import numpy as np
    >>> import loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "b[i] = 2*a[i]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...     assumptions="n >= 1",
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> bounds = lpp.throughput_bounds(knl, device="nvidia-titan-v")
    >>> list(bounds)
    ['alu', 'DRAM']
    >>> print(bounds["alu"])
    floor((n + 31)/32)/4
    >>> f"{bounds.seconds(n=2**24)['DRAM']:.1e}"
    '2.4e-04'
    """
    chosen = completed(chosen_device(device))
    kernel = prepared(program)
    changed = _without_ones(kernel)
    if changed is kernel:
        counted = count(program, typical=typical, sub_group_size=chosen.needed("warp_size"))
    else:
        counted = CountingOptions(typical=typical, sub_group_size=chosen.needed("warp_size")).count(changed)
    counted = replace(counted, tallies=tuple(requested(kernel, counted.tallies)))
    touched = touched_cells(kernel, Typical(typical or {}))
    return ThroughputBounds(counted, touched, chosen)


class _WithoutOnes(IdentityMapper[[]]):
    """Removes factors of 1, as in ``1*x``, which ``loopy.make_einsum`` writes and every compiler removes."""

    def map_product(self, expr: prim.Product) -> Any:
        factors: list[Any] = [self.rec(each) for each in expr.children if not (isinstance(each, int) and each == 1)]
        return prim.Product(tuple(factors)) if len(factors) > 1 else factors[0] if factors else 1


def _without_ones(kernel: Kernel) -> Kernel:
    """Return *kernel* without factors of 1; the same object if it has none."""
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
    """Return the values of *size* at which another subsystem of *device* has the largest throughput bound.

    Parameters
    ----------
    program : loopy.TranslationUnit or loopy.LoopKernel
        The kernel.
    size : str
        Name of the size that varies.
    device, typical
        As in :func:`loopyperf.throughput_bounds`.
    at_least, at_most : int
        Range of *size*, inclusive.
    parameters : Mapping, optional
        Other sizes by name, for sizes that have the name of an option.
    **others : int
        The kernel's other sizes.

    Returns
    -------
    tuple of Crossover
        Crossovers in ascending order; each has the first ``size`` after the change, and the subsystems ``before`` and
        ``after`` it. Empty if one subsystem has the largest bound in the whole range.

    Raises
    ------
    ParameterError
        The kernel has no such size, or admits no value in the range.
    KernelError, UncountableError, UnknownDeviceError, MissingNumberError
        As in :func:`loopyperf.throughput_bounds`.

    Examples
    --------
    A product of n × n matrices is bound by memory for small n, and by arithmetic for large n:

    >>> import loopy as lp
    >>> import numpy as np
    >>> import loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i, j, k]: 0 <= i, j, k < n}",
    ...     "c[i, j] = sum(k, a[i, k]*b[k, j])",
    ...     [lp.GlobalArg("a, b, c", np.float32, shape="n, n"), lp.ValueArg("n", np.int32)],
    ...     assumptions="n >= 1 and n mod 16 = 0",
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    >>> knl = lp.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    >>> lpp.crossover(knl, "n", device="nvidia-titan-v", at_most=4096)
    (Crossover(size=160, before='DRAM', after='alu'),)
    """
    bounds = throughput_bounds(program, device=device, typical=typical)
    return bounds.crossovers(size, at_least, at_most, merged_sizes(parameters, others))
