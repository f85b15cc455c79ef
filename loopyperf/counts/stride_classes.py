"""The stride class of each global access: how its lanes move, and how densely the kernel fills what lies between them.

Classes describe large problems (Stevens and Klöckner, section 2.1): they are taken at large admissible sizes.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import ceil

from loopyperf.assumptions import NAME, SUBJECTS, Assumption
from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.counts.footprint import Footprint, large_sizes, spacious_sizes
from loopyperf.counts.lanes import EvenLanes, Lanes, LanesByData, UnevenLanes, lanes_of
from loopyperf.counts.memory import Reference
from loopyperf.counts.predicates.conditions import Conditions

EDGE = Fraction(1, 64)
"""of a part: so little more than a half, a third or a quarter is the edge of an array, and tips no class"""

STRIDE_CLASSES = (
    "0",
    "1",
    "1/2",
    "2/2",
    "1/3",
    "2/3",
    "3/3",
    *(f"{used}/{n}" for n in ("4", ">4") for used in (1, 2, 3, 4)),
)
"""amortized stride fractions"""
FAR_APART = "1/>4"
"""the class of lanes whose addresses have nothing to do with each other"""


def stride_class(stride: int, density: Fraction) -> str:
    """Return the amortized stride fraction, e.g. ``"1"``, ``"2/3"``, ``"4/>4"``.

    *density* is the used share of the cells between two lanes; it is rounded up to halves, thirds or quarters, save for
    an EDGE, and is disregarded for strides 0 and 1.
    """
    if stride <= 1:
        return str(stride)
    parts = min(stride, 4)
    used = min(max(ceil(density * parts - EDGE), 1), parts)
    return f"{used}/{stride}" if stride <= 4 else f"{used}/>4"


class StrideClassifier:
    """Classifies the global accesses of one kernel; :attr:`assumed` says what it had to assume."""

    def __init__(self, counter: ExecutionCounter, references: Sequence[tuple[Site, Reference]]) -> None:
        """Take all *references* of the kernel, each with where it happens."""
        self.counter = counter
        self.references = references
        self.assumed: dict[Assumption, None] = {}
        """in the order in which they were made"""
        self._footprints: dict[tuple[str, bool, int, tuple[int, ...]], Footprint] = {}
        self._classes: dict[tuple[frozenset[str], Conditions, Reference], str] = {}

    def stride_class(self, site: Site, ref: Reference) -> str:
        """Return the amortized stride fraction of *ref* at *site*; raises :class:`UncountableError`."""
        key = (site.inames, site.conditions, ref)
        if key not in self._classes:
            self._classes[key] = self._classified(site, ref)
        return self._classes[key]

    def _classified(self, site: Site, ref: Reference) -> str:
        sizes = self._large_sizes
        lanes = self._lanes(site, ref, sizes)
        if lanes is None:  # a loop from m to n, say, where all sizes are equally large
            sizes = spacious_sizes(self.counter.kernel, self.counter.points(site))
            lanes = self._lanes(site, ref, sizes)
        assert lanes is not None, f"what never happens has no tally: {ref}"
        match lanes:
            case LanesByData():
                return self._class_by_data(ref, lanes)
            case UnevenLanes(stride=stride) if stride <= 1:
                self._say_shared(ref, lanes)
                return stride_class(stride, Fraction(1))
            case UnevenLanes():
                reached = self._footprint(ref, sizes).share_reached(lanes.indices)
                return stride_class(lanes.stride, reached or lanes.density)
            case EvenLanes(stride=stride) if stride <= 1:
                return stride_class(stride, Fraction(1))
            case EvenLanes():
                return self._class_by_density(site, ref, lanes)

    def _lanes(self, site: Site, ref: Reference, sizes: Mapping[str, int]) -> Lanes | None:
        loops = self.counter.loops(site.inames)
        return lanes_of(self.counter.kernel, site.inames, loops, ref, sizes)

    def _class_by_data(self, ref: Reference, lanes: LanesByData) -> str:
        stated = self.counter.typical.stride(ref.array, STRIDE_CLASSES)
        if stated is None:
            self._assume(
                ref,
                f"addresses depend on data ({SUBJECTS}); neighbouring lanes are assumed far apart, stride {FAR_APART}, "
                f"typical={{{NAME!r}: '1'}} states another",
            )
        return stated or FAR_APART

    def _say_shared(self, ref: Reference, lanes: UnevenLanes) -> None:
        if lanes.sharing:
            self._assume(
                ref,
                f"neighbouring lanes share elements of {SUBJECTS} "
                f"({lanes.sharing}), for which there is no class: taken as stride {lanes.stride}",
            )

    def _assume(self, ref: Reference, sentence: str) -> None:
        self.assumed[ref.assumption(sentence)] = None

    # {{{ by density

    def _class_by_density(self, site: Site, ref: Reference, lanes: EvenLanes) -> str:
        footprint = self._footprint(ref, self._large_sizes)
        touched = footprint.touched(site, ref)
        if touched is None:
            self._assume(
                ref,
                f"addresses are no affine functions of loops ({SUBJECTS}); what lies between their lanes is assumed "
                "unused",
            )
            return stride_class(lanes.stride, Fraction(1, lanes.stride))
        if density := footprint.density(touched, lanes):
            return stride_class(lanes.stride, density)
        alone = None
        if not touched.is_empty():
            alone = stride_class(lanes.stride, footprint.density_of_lone_lanes(touched, lanes))
        return self._class_of_few_lanes(site, ref, alone)

    def _class_of_few_lanes(self, site: Site, ref: Reference, alone: str | None) -> str:
        """Return the stride class of an access without neighbouring lanes where all sizes are equally large.

        Where no lane has a neighbour anywhere, it is that of the lanes *alone* at these sizes, if there are any.
        """
        sizes = spacious_sizes(self.counter.kernel, self.counter.points(site))
        lanes = self._lanes(site, ref, sizes)
        assert isinstance(lanes, EvenLanes), "an index that is affine at one size is affine at every size"
        if lanes.stride <= 1:
            return str(lanes.stride)
        footprint = self._footprint(ref, sizes)
        touched = footprint.touched(site, ref)
        assert touched is not None, "an index that is affine at one size is affine at every size"
        density = footprint.density(touched, lanes)
        if density is None and alone is not None:
            return alone
        return stride_class(lanes.stride, density or footprint.density_of_lone_lanes(touched, lanes))

    @cached_property
    def _large_sizes(self) -> dict[str, int]:
        return large_sizes(self.counter.kernel)

    def _footprint(self, ref: Reference, sizes: Mapping[str, int]) -> Footprint:
        key = (ref.array, ref.is_linear, ref.bits, tuple(sizes.values()))
        if key not in self._footprints:
            alike = [
                (site, other)
                for site, other in self.references
                if (other.array, other.is_linear, other.bits) == (ref.array, ref.is_linear, ref.bits)
            ]
            self._footprints[key] = Footprint(self.counter, alike, sizes)
        return self._footprints[key]

    # }}}
