"""Bounds of throughput, symbolic in a kernel's sizes: how long each subsystem is busy at least.

    T ≥ Ts(n) = Σi countᵢ(n) · λᵢ / (cores · clock)          for each subsystem s, of what runs on it (roofline)

Counts are exact quasi-polynomials of the source, in warp instructions; λ comes from the device's description. They are
bounds, and leave out what only machine code and caches tell: an addition and a multiplication may be one instruction,
so that each counts as half of one; factors of 1, as of ``loopy.make_einsum``, and index arithmetic are free; device
memory moves each distinct element once, or twice where it is known to be loaded before it is stored, and caches cost
nothing. Accesses of local memory are those of the source; conditions on data are taken to hold, and loads whose values
are unused to be made. The model ``roofline`` uses machine code and caches, at one size at a time.

Lemeire, section 2.1.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from operator import add
from typing import cast

import numpy as np
from numpy.typing import NDArray

from loopyperf.counts.item import Access, Item, MemorySpace, Operation
from loopyperf.counts.kernel_counts import KernelTallies
from loopyperf.counts.sizes import admitted_values, priced
from loopyperf.counts.touched_cells import TouchedCells
from loopyperf.device.description import Device
from loopyperf.device.lambdas import DRAM, bytes_per_cycle
from loopyperf.device.parts import Substitute, Substitution
from loopyperf.device.substitutes import completed
from loopyperf.hypertext import Formula
from loopyperf.models.on_device.timing import Timing
from loopyperf.polyhedral.closed_forms.evaluation import IntegerArray
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial
from loopyperf.properties.vector import Totals
from loopyperf.sheet import Sheet, Shown, Table

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

    def sheet(self) -> Sheet:
        """Return the bound of each subsystem as a formula, and what is in none."""
        rows = [(name, Formula(str(bound), bound.latex())) for name, bound in self.items()]
        clock = self.device.needed("cores") * self.device.needed("clock")
        return Sheet(
            asked=f"cycles of all {self.device.cores} cores of {self.device.slug} together",
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
        merged = Timing(self.device).pipeline_of("local")
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
                timing = Timing(self.device)
                cycles = timing.local_pass * max(1, item.bits // 32)
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
