"""What the warps of a launch execute at given sizes, as sets of where each warp is and of the values of its loops.

A warp executes what at least one of its lanes does.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import cached_property
from math import prod

import islpy as isl
from loopy.kernel.data import GroupInameTag, LocalInameTag

from loopyperf.counts.conditions import ALWAYS, Conditions
from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.errors import UncountableError
from loopyperf.idg.warps.kinds import Placement
from loopyperf.idg.warps.lockstep import Lockstep, lockstep_of
from loopyperf.idg.warps.nest import Statement
from loopyperf.idg.warps.warp import first_value, grid_extent, group_shape, warps_of_group
from loopyperf.kernel.launches import Launch
from loopyperf.polyhedral.affine import Affine, Atom, Floor
from loopyperf.polyhedral.points import at_sizes, boxed, image

SET = isl.dim_type.set
Axis = str | GroupInameTag | LocalInameTag
"""a loop on the host, an axis of the grid, an axis of a group"""


class LaunchExecutions:
    """What the warps of a launch execute at given sizes, by where each warp is."""

    def __init__(
        self, counter: ExecutionCounter, launch: Launch, sizes: Mapping[str, int], warp_size: int = 32
    ) -> None:
        """Look at *launch* at *sizes*, in warps of *warp_size* lanes."""
        self.counter, self.launch, self.sizes, self.kernel = counter, launch, sizes, counter.kernel
        shape = dict(sorted(group_shape(launch, sizes).items())) or {0: 1}
        self.placement = Placement(
            tuple(sorted(launch.host_inames)), tuple(sorted(launch.group_axes)), shape, warp_size
        )
        self._of_sites: dict[tuple[frozenset[str], Conditions, tuple[str, ...]], isl.Set] = {}
        self._weights: dict[tuple[frozenset[str], Conditions, str], Fraction] = {}
        self._firsts: dict[str, int] = {}
        self._lockstep: dict[frozenset[str], Lockstep] = {}

    @cached_property
    def warps(self) -> isl.Set:
        """Return the places of all warps of the launch."""
        site = Site(self.launch, self.launch.host_inames, ALWAYS, f"launch of {self.launch.name}")
        host = at_sizes(self.counter.points(site), self.sizes)
        names: Sequence[str] = host.get_var_names_not_none(SET)
        host = image(host, names, [Affine.variable(name) for name in self.placement.host])
        extents = [grid_extent(self.launch, axis, self.sizes) for axis in self.placement.groups]
        extents.append(warps_of_group(self.placement.shape, self.placement.size))
        return host.flat_product(boxed(tuple(map(range, extents))))

    def by_place(self, statement: Statement, conditions: Conditions) -> isl.Set:
        """Return the places of the warps that execute *statement* under *conditions*, with the values of its loops."""
        loops = tuple(nest.iname for nest in statement.loops)
        key = (statement.inames, conditions, loops)
        if key not in self._of_sites:
            with naming(statement):
                points = self.counter.points(self._site(statement, conditions))
            self._of_sites[key] = self._placed(points, loops).intersect(self._anywhere(len(loops))).coalesce()
        return self._of_sites[key]

    def weight(self, statement: Statement, conditions: Conditions) -> Fraction:
        """Return how often what *statement* runs on under *conditions* runs there: less than 1 by what is stated."""
        key = (statement.inames, conditions, statement.name)
        if key not in self._weights:
            with naming(statement):
                self._weights[key] = self.counter.weight(self._site(statement, conditions))
        return self._weights[key]

    def ask_weights(self, sites: Iterable[tuple[Statement, Conditions]]) -> None:
        """Look up all weights of *sites*; raises :class:`UncountableError` for the first that has to be stated."""
        for statement, conditions in sites:
            self.weight(statement, conditions)

    def _site(self, statement: Statement, conditions: Conditions) -> Site:
        return Site(self.launch, statement.inames, conditions, statement.name)

    def _anywhere(self, loops: int) -> isl.Set:
        return self.warps.insert_dims(SET, self.placement.axes, loops)

    def _placed(self, points: isl.Set, loops: Sequence[str]) -> isl.Set:
        """Return the places of warps of which some lane is among *points*, with the values of *loops*."""
        names = list(points.get_var_names_not_none(SET))
        points = self.lockstep(frozenset(names)).numbered(at_sizes(points, self.sizes))
        used = self._used_axes(names)
        # Along an axis that a statement does not use, all groups and work-items execute it.
        for axis in [*self.placement.host, *map(GroupInameTag, self.placement.groups)]:
            if axis not in used:
                used[axis], points = Affine(((str(axis), 1),)), points.add_dims(SET, 1)
                names.append(str(axis))
        for axis, extent in self.placement.shape.items():
            if LocalInameTag(axis) not in used:
                used[LocalInameTag(axis)] = Affine(((f"l.{axis}", 1),))
                points = points.flat_product(boxed((range(extent),)))
                names.append(f"l.{axis}")
        lengths = list(self.placement.shape.values())
        weights = {axis: prod(lengths[:place]) for place, axis in enumerate(self.placement.shape)}
        nothing: Affine[Atom] = Affine()
        number = sum((used[LocalInameTag(axis)] * weight for axis, weight in weights.items()), nothing)
        places = [used[axis] for axis in [*self.placement.host, *map(GroupInameTag, self.placement.groups)]]
        values = map(Affine.variable, loops)
        return image(points, names, [*places, Affine.variable(Floor(number, self.placement.size)), *values])

    def _used_axes(self, names: Sequence[str]) -> dict[Axis, Affine[Atom]]:
        """Return the axes of the placement that *names* number, each with what the number is."""
        used: dict[Axis, Affine[Atom]] = {}
        for name in names:
            tag = self.kernel.hardware_axes.get(name)
            if tag is not None:
                used[tag] = Affine(((name, 1),), -self._first(name))
            elif name in self.placement.host:
                used[name] = Affine(((name, 1),))
        return used

    def lockstep(self, inames: frozenset[str]) -> Lockstep:
        """Return where those loops start of what runs over *inames* that do not start alike in all lanes."""
        if inames not in self._lockstep:
            self._lockstep[inames] = lockstep_of(self.kernel, self.launch, inames, self._visited)
        return self._lockstep[inames]

    def _visited(self, inames: frozenset[str]) -> isl.Set:
        return at_sizes(self.counter.loops(inames).points, self.sizes)

    def _first(self, name: str) -> int:
        if name not in self._firsts:
            self._firsts[name] = first_value(self.kernel, name, self.sizes)
        return self._firsts[name]


@contextmanager
def naming(statement: Statement) -> Generator[None]:
    """Begin what is refused of *statement* with its name."""
    try:
        yield
    except UncountableError as error:
        error.args = (f"instruction {statement.name!r}: {error}",)
        raise
