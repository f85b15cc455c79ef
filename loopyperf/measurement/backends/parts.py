"""Running a part of a kernel: some of the groups of one of its device programs, by the same machine code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import MeasurementError
from loopyperf.measurement.backends.interface import BenchmarkCase, Timing
from loopyperf.measurement.configuration import Array, Limits
from loopyperf.measurement.environment import Environment

Bytes = NDArray[np.uint8]
Grid = tuple[int, ...]
"""groups along each axis"""
Contents = Mapping[str, int]
"""array -> how many of its first bytes are on the device; of others all are"""


@dataclass(frozen=True, slots=True)
class DeviceProgram:
    """A device program of a kernel, as a run of the kernel launches it."""

    name: str
    grids: tuple[Grid, ...]
    """of each launch in a run, in their order"""
    saturation: int
    """Psat: the groups that the device runs at once, by what its runtime says of this program"""

    @property
    def groups(self) -> int:
        """Return the groups of all launches of a run."""
        return sum(map(prod, self.grids))

    @property
    def extents(self) -> Grid:
        """Return the most groups along each axis that a launch has."""
        return tuple(map(max, zip(*self.grids, strict=True)))

    def cut(self, part: Grid) -> tuple[Grid, ...]:
        """Return the grids of the launches, each no longer than *part* along any axis."""
        return tuple(tuple(map(min, zip(grid, part, strict=True))) for grid in self.grids)


class BoundParts(Protocol):
    """A kernel with its arguments on the device, of which parts can be run."""

    @property
    def programs(self) -> tuple[DeviceProgram, ...]:
        """Return the device programs that have groups in a run, in the order of their first launches."""
        ...

    def time(self, program: str, grids: Sequence[Grid], runs: int, evicted: int = 0) -> Timing:
        """Return the seconds of each of *runs* runs of all launches of *program*, with *grids* in place of theirs.

        Before each run, as many bytes of other memory as *evicted* says are touched, which is not timed.
        Raises :class:`MeasurementError` where it cannot be launched, and :class:`BackendError` if the device is lost.
        """
        ...


@runtime_checkable
class RunsParts(Protocol):
    """A backend that can also run a part of a kernel."""

    @property
    def environment(self) -> Environment:
        """Return where the kernels run."""
        ...

    @property
    def limits(self) -> Limits:
        """Return what the device allows a kernel to use."""
        ...

    def bound(self, case: BenchmarkCase, contents: Contents) -> BoundParts:
        """Return *case* with its arguments on the device, of some arrays only the beginning.

        Global temporaries are zeros. Nothing is launched, so no result is compared with the reference. Raises
        :class:`MeasurementError` if it does not compile, or if its arguments are not what it takes.
        """
        ...


def device_programs(launches: Sequence[tuple[str, Grid, int]]) -> tuple[DeviceProgram, ...]:
    """Return the programs of *launches*: of each the program's name, its grid, and Psat."""
    names = dict.fromkeys(name for name, _, _ in launches)
    return tuple(
        DeviceProgram(
            name,
            tuple(grid for each, grid, _ in launches if each == name),
            max(saturation for each, _, saturation in launches if each == name),
        )
        for name in names
    )


def beginning(array: Array, nbytes: int | None) -> Bytes:
    """Return the first *nbytes* bytes of *array* in the order in which they lie, all of them for None."""
    contents = array.ravel(order="K").view(np.uint8)
    return contents if nbytes is None else contents[: max(1, nbytes)]


def check_parts(program: str, launches: int, grids: Sequence[Grid]) -> None:
    """Raise :class:`MeasurementError` unless there is a grid for each of so many *launches*, with groups in it."""
    if not launches:
        raise MeasurementError(f"no launch of {program} has groups: there is no such device program at this size")
    if len(grids) != launches or not all(map(prod, grids)):
        raise MeasurementError(f"{program} is launched {launches} times; give as many grids with groups, not {grids}")
