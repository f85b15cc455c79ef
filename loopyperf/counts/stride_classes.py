"""Stride classes of global accesses: the distance between lanes, and the used share of the memory between them.

Classes describe large problems (Stevens and Klöckner, section 2.1), so they are computed at large admissible sizes.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import chain
from math import ceil
from typing import Any

from loopyperf.counts.conditions import Conditions
from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.counts.footprint import Footprint, fixed_parameters, large_sizes, spacious_sizes
from loopyperf.counts.item import STRIDE_CLASSES
from loopyperf.counts.lanes import EvenLanes, Lanes, LanesByData, UnevenLanes, lanes_of
from loopyperf.counts.memory_accesses import (
    Reference,
    check_length,
    element_strides,
    in_elements,
    is_one_array,
    position,
    scaled_by_data,
)
from loopyperf.counts.sizes import CONSECUTIVE, CONSTANT
from loopyperf.errors import UncountableError
from loopyperf.kernel.launches import NAME, SUBJECTS, Assumption

EDGE = Fraction(1, 64)
"""excess over a half, a third or a quarter that is attributed to the edge of an array and does not change the class"""

FAR_APART = "1/>4"
"""class of lanes with unrelated addresses"""


def stride_class(stride: int, density: Fraction) -> str:
    """Return the amortized stride fraction, e.g. ``"1"``, ``"2/3"``, ``"4/>4"``.

    *density* is the used share of the cells between two lanes. It is rounded up to halves, thirds or quarters, with a
    tolerance of :data:`EDGE`, and ignored for strides 0 and 1.
    """
    if stride <= 1:
        return str(stride)
    parts = min(stride, 4)
    used = min(max(ceil(density * parts - EDGE), 1), parts)
    return f"{used}/{stride}" if stride <= 4 else f"{used}/>4"


class StrideClassifier:
    """Classifies the global accesses of one kernel and collects its assumptions in :attr:`assumed`."""

    def __init__(self, counter: ExecutionCounter, references: Sequence[tuple[Site, Reference]]) -> None:
        """Use all *references* of the kernel with their sites."""
        self.counter = counter
        self.references = references
        self.assumed: dict[Assumption, None] = {}
        """assumptions in the order in which they were made"""
        self._footprints: dict[tuple[str, bool, int, tuple[int, ...]], Footprint] = {}
        self._classes: dict[tuple[frozenset[str], Conditions, Reference], str] = {}
        self._elements: dict[Any, Reference] = {}
        self._arrays_by_element: dict[Any, bool] = {}

    def stride_class(self, site: Site, ref: Reference) -> str:
        """Return the amortized stride fraction of *ref* at *site*; raises :class:`UncountableError`."""
        key = (site.inames, site.conditions, ref)
        check_length(self.counter.kernel, self.counter.typical, ref)
        if key not in self._classes:
            self._classes[key] = self._classified(site, ref)
        return self._classes[key]

    def _classified(self, site: Site, ref: Reference) -> str:
        sizes = self._large_sizes
        form, lanes = self._lanes(site, ref, sizes)
        if lanes is None:  # e.g. a loop from m to n, which is empty if all sizes are equally large
            sizes = spacious_sizes(self.counter.kernel, self.counter.points(site))
            form, lanes = self._lanes(site, ref, sizes)
        assert lanes is not None, f"an access that never executes has no tally: {ref}"
        match lanes:
            case LanesByData():
                return self._class_by_data(ref, lanes)
            case UnevenLanes(stride=stride) if stride <= 1:
                self._note_shared(ref, lanes)
                return stride_class(stride, Fraction(1))
            case EvenLanes(stride=stride) if stride <= 1:
                return stride_class(stride, Fraction(1))
            case UnevenLanes():
                return self._class_of_uneven(site, ref, form, lanes, sizes)
            case EvenLanes():
                return self._class_of_even(site, ref, form, lanes)

    def _class_by_data(self, ref: Reference, lanes: LanesByData) -> str:
        typical, scaled = self.counter.typical, scaled_by_data(self.counter.kernel, ref.index)
        given = typical.stride(ref.array, STRIDE_CLASSES, chain(*scaled.values()))
        if given is None:
            self._assume(
                ref,
                f"addresses depend on data ({SUBJECTS}); neighboring lanes are assumed far apart (stride {FAR_APART}), "
                f"typical={{{NAME!r}: '1'}} selects another stride",
            )
        if given == CONSECUTIVE:
            strides = element_strides(self.counter.kernel, ref, self._large_sizes)
            pairs = zip(ref.index, strides, strict=True)
            stride = abs(sum(stride for index, stride in pairs if not self.counter.kernel.is_known(index)))
            return stride_class(stride, Fraction(1, max(1, stride)))
        if given == CONSTANT:
            return "0"
        return given if given in STRIDE_CLASSES else FAR_APART

    def _note_shared(self, ref: Reference, lanes: UnevenLanes) -> None:
        if lanes.sharing:
            self._assume(
                ref,
                f"neighboring lanes share elements of {SUBJECTS} "
                f"({lanes.sharing}), which has no stride class; assumed stride {lanes.stride}",
            )

    def _assume(self, ref: Reference, sentence: str) -> None:
        self.assumed[ref.assumption(sentence)] = None

    # {{{ forms

    def _lanes(self, site: Site, ref: Reference, sizes: Mapping[str, int]) -> tuple[Reference, Lanes | None]:
        """Return *ref* in the form in which the cells of its array are analyzed, and how its lanes move."""
        kernel = self.counter.kernel
        form = self._by_element(site, ref, sizes)
        if not form.is_linear and is_one_array(kernel, ref) and self._is_by_element(ref, sizes):
            form = replace(ref, index=(position(kernel, ref, sizes),), is_linear=True)
        return form, lanes_of(kernel, site.inames, self.counter.loops(site.inames), form, sizes)

    def _is_by_element(self, ref: Reference, sizes: Mapping[str, int]) -> bool:
        """Return whether an access to the array of *ref* is analyzed by element number."""
        key = (ref.array, ref.bits, tuple(sizes.values()))
        if key not in self._arrays_by_element:
            same_array = (each for each in self.references if (each[1].array, each[1].bits) == (ref.array, ref.bits))
            self._arrays_by_element[key] = any(self._by_element(*each, sizes).is_linear for each in same_array)
        return self._arrays_by_element[key]

    def _by_element(self, site: Site, ref: Reference, sizes: Mapping[str, int]) -> Reference:
        """Return *ref* with a single element index, if that is simpler than an index for each axis."""
        key = (site.inames, ref, tuple(sizes.values()))
        if key not in self._elements:
            self._elements[key] = ref
            with suppress(UncountableError):  # counting the loops raises the same error
                # Lanes disabled by conditions still count as neighbors.
                points = fixed_parameters(self.counter.loops(site.inames).points, sizes)
                self._elements[key] = in_elements(self.counter.kernel, ref, points, sizes)
        return self._elements[key]

    # }}}

    # {{{ classes by density

    def _note_unused(self, ref: Reference, why: str) -> None:
        self._assume(ref, f"{why} ({SUBJECTS}); memory between their lanes is assumed unused")

    def _class_of_uneven(
        self, site: Site, ref: Reference, form: Reference, lanes: UnevenLanes, sizes: Mapping[str, int]
    ) -> str:
        reached = self._footprint(form, sizes).share_reached(lanes.indices)
        if reached is None or self._footprint(ref, sizes).touched(site, ref) is None:
            self._note_unused(ref, "addresses are not affine in loop variables")
        return stride_class(lanes.stride, reached or lanes.density)

    def _class_of_even(self, site: Site, ref: Reference, form: Reference, lanes: EvenLanes) -> str:
        footprint = self._footprint(form, self._large_sizes)
        touched = footprint.touched(site, form)
        if touched is None:
            self._note_unused(ref, "addresses are not affine in loop variables")
            return stride_class(lanes.stride, lanes.density)
        if density := footprint.density(touched, lanes):
            return stride_class(lanes.stride, density)
        alone = None
        if not touched.is_empty():
            alone = stride_class(lanes.stride, footprint.density_of_lone_lanes(touched, lanes))
        return self._class_of_few_lanes(site, ref, alone)

    def _class_of_few_lanes(self, site: Site, ref: Reference, alone: str | None) -> str:
        """Return the stride class of an access that has no neighboring lanes if all sizes are equally large.

        If no lane has a neighbor at any size, it is the class *alone* of the lanes at these sizes, if there are any.
        """
        sizes = spacious_sizes(self.counter.kernel, self.counter.points(site))
        form, lanes = self._lanes(site, ref, sizes)
        if isinstance(lanes, UnevenLanes):  # equally large sizes exclude some cases
            return alone or self._class_of_uneven(site, ref, form, lanes, sizes)
        assert isinstance(lanes, EvenLanes), "whether data moves lanes does not depend on sizes"
        if lanes.stride <= 1:
            return str(lanes.stride)
        footprint = self._footprint(form, sizes)
        touched = footprint.touched(site, form)
        assert touched is not None, "whether cells are known does not depend on sizes"
        density = footprint.density(touched, lanes)
        if density is None and alone is not None:
            return alone
        return stride_class(lanes.stride, density or footprint.density_of_lone_lanes(touched, lanes))

    @cached_property
    def _large_sizes(self) -> dict[str, int]:
        return large_sizes(self.counter.kernel)

    def _footprint(self, form: Reference, sizes: Mapping[str, int]) -> Footprint:
        key = (form.array, form.is_linear, form.bits, tuple(sizes.values()))
        if key not in self._footprints:
            same_array = [
                (site, self._by_element(site, other, sizes) if form.is_linear else other)
                for site, other in self.references
                if (other.array, other.bits) == (form.array, form.bits) and (form.is_linear or not other.is_linear)
            ]
            self._footprints[key] = Footprint(self.counter, same_array, sizes, form.is_linear)
        return self._footprints[key]

    # }}}
