"""Stride classes that counting tells, against the addresses of the lanes of a warp."""

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from hypothesis import note, reject

from loopyperf.counts.counted_kernel import KernelCounts, count_properties
from loopyperf.errors import UncountableError
from loopyperf.memory import AccessPattern
from loopyperf.polyhedral.points import points_listed
from tests.idg.patterns import LaunchAccesses, launches_of
from tests.idg.random_graph_kernels import for_random_kernels, loaded
from tests.random_kernels import RandomKernel

pytestmark = pytest.mark.usefixtures("fresh_kernels")

FAR = 5
"""elements from one lane to the next: those further apart are of one class"""


@for_random_kernels
def test_lanes_are_as_far_apart_as_their_stride_class_says(description: RandomKernel) -> None:
    note(repr(description))
    kernel, sizes = loaded(description), description.class_sizes
    try:
        counts = count_properties(kernel)
        launches = list(launches_of(kernel, sizes))
    except UncountableError:
        reject()
    for launch in launches:
        for source, name, apart in _apart(launch) if launch.kinds else ():
            assert min(apart, FAR) in set(_told(counts, sizes, source, name)), (source, name)


def _apart(launch: LaunchAccesses) -> Iterator[tuple[str, str, int]]:
    """Yield the source and the name of global accesses whose lanes are equally far apart, and how far."""
    for number, instruction in enumerate(launch.graph().instructions):
        ref = instruction.reference
        if launch.kinds[0].is_uniform and ref is not None and ref.space == "global":
            steps = list(_steps(launch.access(number)))
            if len(steps) > 1 and len(set(steps)) == 1:  # of two lanes, the second may have wrapped
                yield instruction.source, f"global {ref.direction} {ref.bits}-bit", abs(steps.pop())


def _steps(pattern: AccessPattern) -> Iterator[int]:
    """Yield by how many elements neighbours along ``l.0`` are apart, in the first pass of each activity.

    Stride classes are the paper's: they compare lanes at the same values of loops that start from the lane, in which
    they never are together. These are left out.
    """
    for activity in () if pattern.iterations.lockstep.starts else pattern.iterations.activities:
        (values, *_) = points_listed(activity.iterations.set)
        addresses = pattern.addresses.at(dict(zip(pattern.iterations.loops, values, strict=True))) // pattern.width
        lanes = np.array(activity.lanes)
        together = (np.diff(lanes) == 1) & (pattern.iterations.warp.local_ids[0][lanes[1:]] != 0)
        yield from np.diff(addresses[lanes])[together].tolist()


def _told(counts: KernelCounts, sizes: Mapping[str, int], source: str, name: str) -> Iterator[int]:
    """Yield the strides of the classes that *source* has accesses called *name* of."""
    for named, by_source in counts.shares(dict(sizes)).items():
        before, _, stride = named.partition(" stride ")
        if before == name and source in by_source:
            whole = stride.rpartition("/")[2]
            yield FAR if whole.startswith(">") else int(whole)
