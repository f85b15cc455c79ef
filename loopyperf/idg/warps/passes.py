"""The passes that one warp makes through the loops around an access, and which of its lanes are active in each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import index

import islpy as isl
import numpy as np

from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.counts.loops import LoopPoints
from loopyperf.errors import ParameterError, UnboundedDomainError, UncountableError
from loopyperf.idg.warps.lockstep import Lockstep, lockstep_of
from loopyperf.idg.warps.warp import Integers, Warp, iname_values
from loopyperf.kernel import Kernel
from loopyperf.polyhedral.points import at_sizes, fixed, without

SET = isl.dim_type.set
MOST_KINDS = 1024
"""of passes, told apart by the lanes that are active"""


@dataclass(frozen=True, slots=True)
class Activity:
    """Passes in which the same lanes are active."""

    lanes: tuple[int, ...]
    """by number"""
    passes: isl.Set
    """over the sequential loops"""


@dataclass(frozen=True)
class WarpPasses:
    """What one warp executes of a site: its passes, by the lanes that are active."""

    kernel: Kernel
    sizes: Mapping[str, int]
    warp: Warp
    loops: tuple[str, ...]
    """the sequential ones, in the order of the dimensions of each set of passes"""
    lane_values: Mapping[str, Integers]
    """the hardware's inames in each lane"""
    activities: tuple[Activity, ...]
    """they share no pass, and each has an active lane"""
    lockstep: Lockstep
    counted: LoopPoints
    """what is counted of all loops around"""
    points: isl.Set
    """over all inames, at the sizes: where the site is executed, by whichever warp"""

    @property
    def data_starts(self) -> Mapping[str, frozenset[str]]:
        """Return loop -> the data that it starts from."""
        return self.counted.starts

    def active(self, passes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the lanes that are active where the loops have the values *passes*; those of other loops may be there.

        Loops that do not start alike in all lanes are numbered from zero. Raises :class:`ParameterError` where the
        value of a loop is missing.
        """
        missing = set(self.loops) - passes.keys()
        if missing:
            raise ParameterError(f"the access is in loops over {', '.join(self.loops)}: add {', '.join(missing)}")
        values = {place: passes[name] for place, name in enumerate(self.loops)}
        found = (kind.lanes for kind in self.activities if not fixed(kind.passes, values).is_empty())
        return next(found, ())


def passes_of(
    counter: ExecutionCounter, site: Site, warp: Warp, sizes: Mapping[str, int], host: Mapping[str, int] | None = None
) -> WarpPasses:
    """Return what *warp* executes of *site* at *sizes*, where conditions on data are taken to hold.

    *host* are values of loops around the launch; those that are not given are among the sequential ones. Raises
    :class:`UncountableError` where bounds are data of which nothing is stated, :class:`ParameterError` for a size that
    is missing.
    """
    loops = counter.loops(site.inames)
    points = at_sizes(counter.points(site), sizes)
    lockstep = lockstep_of(
        counter.kernel, site.launch, site.inames, lambda inames: at_sizes(counter.loops(inames).points, sizes)
    )
    if not points.is_bounded():
        raise UnboundedDomainError(f"{site.source}: its loops ({', '.join(sorted(site.inames))}) have no bounds")
    names: Sequence[str] = points.get_var_names_not_none(SET)
    fixed = {name: np.full(warp.lanes, value) for name, value in (host or {}).items() if name in names}
    values = iname_values(counter.kernel, warp, names, sizes) | fixed
    return WarpPasses(
        kernel=counter.kernel,
        sizes={name: index(size) for name, size in sizes.items()},
        warp=warp,
        loops=tuple(name for name in names if name not in values),
        lane_values=values,
        activities=tuple(_activities(lockstep.numbered(points), [values.get(name) for name in names], warp.lanes)),
        lockstep=lockstep,
        counted=loops,
        points=points,
    )


# {{{ which lanes are active


def _activities(points: isl.Set, values: Sequence[Integers | None], lanes: int) -> Iterator[Activity]:
    """Yield the passes of *points* by active lanes; *values* are those of each dimension that the hardware numbers."""
    hardware = [place for place, value in enumerate(values) if value is not None]
    told_apart = np.array([value for value in values if value is not None]).reshape(len(hardware), lanes)
    for place, value in zip(hardware, told_apart, strict=True):
        points = points.lower_bound_val(SET, place, isl.Val(int(value.min())))
        points = points.upper_bound_val(SET, place, isl.Val(int(value.max())))
    if points.is_empty():
        return
    passes = without(points, hardware)
    if _is_product(points, passes, hardware, told_apart):
        yield Activity(tuple(range(lanes)), passes)
        return
    for active, part in _parts(passes, _by_passes(points, hardware, told_apart)):
        yield Activity(tuple(sorted(active)), part)


def _is_product(points: isl.Set, passes: isl.Set, hardware: Sequence[int], values: Integers) -> bool:
    """Return whether all lanes are active in all *passes*, as far as a few operations tell."""
    everywhere = passes
    for place, value in zip(hardware, values, strict=True):
        everywhere = everywhere.insert_dims(SET, place, 1)
        everywhere = everywhere.lower_bound_val(SET, place, isl.Val(int(value.min())))
        everywhere = everywhere.upper_bound_val(SET, place, isl.Val(int(value.max())))
    return everywhere.is_subset(points)


def _by_passes(points: isl.Set, hardware: Sequence[int], values: Integers) -> list[tuple[frozenset[int], isl.Set]]:
    """Return the distinct sets of passes in which a lane is active, with the lanes whose set that is."""
    found: list[tuple[frozenset[int], isl.Set]] = []
    for lanes, coordinates in _alike(values):
        own = without(fixed(points, dict(zip(hardware, coordinates, strict=True))), hardware)
        same = next((place for place, (_, other) in enumerate(found) if other.is_equal(own)), None)
        if same is None:
            found.append((lanes, own))
        else:
            found[same] = (found[same][0] | lanes, own)
    return found


def _alike(values: Integers) -> Iterator[tuple[frozenset[int], tuple[int, ...]]]:
    """Yield the lanes that have the same *values* of the hardware's inames, with these."""
    columns = [tuple(map(int, column)) for column in values.T]
    for coordinates in dict.fromkeys(columns):
        yield frozenset(lane for lane, column in enumerate(columns) if column == coordinates), coordinates


def _parts(
    passes: isl.Set, by_passes: Sequence[tuple[frozenset[int], isl.Set]]
) -> list[tuple[frozenset[int], isl.Set]]:
    """Return *passes* cut where another lane is active; raises :class:`UncountableError` for too many parts."""
    parts = [(frozenset[int](), passes)]
    for lanes, own in by_passes:
        cut = [(active | lanes, part & own) for active, part in parts]
        cut += [(active, part - own) for active, part in parts]
        parts = [(active, part.coalesce()) for active, part in cut if not part.is_empty()]
        if len(parts) > MOST_KINDS:
            raise UncountableError(
                f"lanes are active in more than {MOST_KINDS} ways, too many to tell apart: write the condition on "
                "them with fewer cases"
            )
    return [(active, part) for active, part in parts if active]


# }}}
