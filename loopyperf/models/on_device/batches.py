"""The groups of a launch as models deal them to cores: in batches of groups that do the same, in the order of dispatch.

What a group does is told by its make-up, the programs that its warps execute. Where warps of a class do unequal work,
their lightest and their heaviest one have programs of their own, and a group between them does a share of the
difference more than the lightest one would: what grows with the passes of its loops grows linearly.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from loopyperf.idg.construction.kernel_graphs import LaunchGraphs, WarpKind
from loopyperf.idg.warps.dispatch import Run

MakeUp = Mapping[int, float]
"""program -> how many warps of a group execute it"""


@dataclass(frozen=True, slots=True)
class Batch:
    """Groups that are dispatched one after the other, and do the same."""

    groups: int
    lightest: int
    """make-up"""
    heaviest: int
    """make-up; the same one where its warps do equal work"""
    share: float
    """from the lightest to the heaviest: 0 to 1"""
    longest: float
    """the same of the warp of the group that has most to do"""

    def mean(self, values: Sequence[float]) -> float:
        """Return the value of a group, of *values* of the make-ups that add up over warps."""
        return values[self.lightest] + self.share * (values[self.heaviest] - values[self.lightest])

    def most(self, values: Sequence[float]) -> float:
        """Return the value of the longest warp of a group, of *values* of the make-ups."""
        return values[self.lightest] + self.longest * (values[self.heaviest] - values[self.lightest])


@dataclass(frozen=True)
class Batches:
    """The groups of a launch, or so many that are dispatched first."""

    launch: LaunchGraphs
    first: int | None = None
    """None for all of them"""

    @property
    def groups(self) -> int:
        """Return how many they are, of an execution of the launch."""
        return self.launch.groups if self.first is None else self.first

    @cached_property
    def programs(self) -> tuple[WarpKind, ...]:
        """Return the classes of warps, and after them the lightest and the heaviest warps of those of unequal work."""
        return (*self.launch.kinds, *(each for ends in self.launch.extremes.values() for each in ends))

    @cached_property
    def make_ups(self) -> tuple[MakeUp, ...]:
        """Return what groups are made of."""
        return tuple(each for _, _, ends in self._of_classes for each in ends)

    @cached_property
    def orders(self) -> tuple[tuple[float, tuple[Batch, ...]], ...]:
        """Return the groups in the order of dispatch, and how many executions of the launch dispatch them so."""
        return tuple((times, tuple(self._batches(order))) for times, order in self.launch.dispatch.executions)

    @property
    def every(self) -> Iterator[Batch]:
        """Yield the groups of all orders."""
        yield from (batch for _, order in self.orders for batch in order)

    @property
    def are_alike(self) -> bool:
        """Return whether all groups do the same."""
        return self.launch.dispatch.is_uniform and self.first is None

    def _batches(self, order: Iterable[Run]) -> Iterator[Batch]:
        left = self.groups
        for run in order:
            if left > 0:
                lightest, heaviest, _ = self._of_classes[run.group]
                yield Batch(min(run.number, left), lightest, heaviest, run.share, run.longest)
            left -= run.number

    @cached_property
    def _of_classes(self) -> list[tuple[int, int, tuple[MakeUp, ...]]]:
        """Return for each class of groups its first and its last make-up, and these."""
        first, found = 0, list[tuple[int, int, tuple[MakeUp, ...]]]()
        for composition in self.launch.dispatch.classes:
            ends = tuple(dict.fromkeys(map(tuple, self._ends(composition))))
            found.append((first, first + len(ends) - 1, tuple(dict(each) for each in ends)))
            first += len(ends)
        return found

    def _ends(self, composition: Sequence[tuple[int, int]]) -> Iterator[list[tuple[int, float]]]:
        """Yield what a group is made of at the lightest, and at the heaviest."""
        kinds, places = len(self.launch.kinds), {kind: at for at, kind in enumerate(self.launch.extremes)}
        for end in (0, 1):
            yield [
                (kinds + 2 * places[kind] + end if kind in places else kind, float(number))
                for kind, number in composition
            ]
