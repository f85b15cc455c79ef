"""Stride classes of counted properties, compared with the addresses of the lanes of a warp."""

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from hypothesis import note, reject

from loopyperf.counts.kernel_counts import KernelCounts, count_kernel
from loopyperf.errors import UncountableError
from loopyperf.memory import AccessPattern
from loopyperf.polyhedral.points import points_listed
from tests.idg.patterns import LaunchAccesses, launches_of
from tests.idg.random_graph_kernels import for_random_kernels, loaded
from tests.random_kernels import RandomKernel

pytestmark = pytest.mark.usefixtures("fresh_kernels")

FAR = 5
"""distance between neighboring lanes, in elements; all larger distances are one class"""


@for_random_kernels
def test_distance_of_lanes_equals_their_stride_class(description: RandomKernel) -> None:
    note(repr(description))
    kernel, sizes = loaded(description), description.class_sizes
    try:
        counts = count_kernel(kernel)
        launches = list(launches_of(kernel, sizes))
    except UncountableError:
        reject()
    for launch in launches:
        for source, name, distance in _uniform_distances(launch) if launch.kinds else ():
            assert min(distance, FAR) in set(_counted_strides(counts, sizes, source, name)), (source, name)


def _uniform_distances(launch: LaunchAccesses) -> Iterator[tuple[str, str, int]]:
    """Yield source, name and lane distance of each global access whose lanes have a uniform distance."""
    for number, instruction in enumerate(launch.graph().instructions):
        ref = instruction.reference
        if launch.kinds[0].is_uniform and ref is not None and ref.space == "global":
            steps = list(_steps(launch.access(number)))
            if len(steps) > 1 and len(set(steps)) == 1:  # with only two lanes, the second index may have wrapped
                yield instruction.source, f"global {ref.direction} {ref.bits}-bit", abs(steps.pop())


def _steps(pattern: AccessPattern) -> Iterator[int]:
    """Yield the distances in elements of neighboring lanes along ``l.0``, in the first iteration of each activity.

    Accesses in loops whose start depends on the lane are excluded. The stride classes of the paper compare lanes at
    equal loop values, but in such loops the lanes never execute equal values together.
    """
    for activity in () if pattern.iterations.lockstep.starts else pattern.iterations.activities:
        (values, *_) = points_listed(activity.iterations.set)
        addresses = pattern.addresses.at(dict(zip(pattern.iterations.loops, values, strict=True))) // pattern.width
        lanes = np.array(activity.lanes)
        together = (np.diff(lanes) == 1) & (pattern.iterations.warp.local_ids[0][lanes[1:]] != 0)
        yield from np.diff(addresses[lanes])[together].tolist()


def _counted_strides(counts: KernelCounts, sizes: Mapping[str, int], source: str, name: str) -> Iterator[int]:
    """Yield the strides of the classes that were counted for accesses *name* in *source*."""
    for named, by_source in counts.shares(dict(sizes)).items():
        before, _, stride = named.partition(" stride ")
        if before == name and source in by_source:
            whole = stride.rpartition("/")[2]
            yield FAR if whole.startswith(">") else int(whole)
