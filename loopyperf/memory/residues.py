"""How many passes see an address at each place within a line: counted without visiting them, or visited one by one."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, pairwise, product
from math import gcd, prod

import islpy as isl
import numpy as np

from loopyperf.errors import UncountableError
from loopyperf.idg.warps.warp_classes import Integers
from loopyperf.polyhedral.points import Box, Points, points_listed, without_dimensions
from loopyperf.polyhedral.quasipolynomial import number_of_points
from loopyperf.polyhedral.sets import tied_together

# {{{ passes that are visited one by one: all of them or, where they are too many, a sample of them
#
# A sample is spread evenly along each loop, as in a Latin hypercube (McKay, Beckman and Conover, A comparison of three
# methods for selecting values of input variables, 1979). Within its share of a loop, a value is chosen at random,
# always the same: values that are equally far apart would meet the same place of a line each time.


SET = isl.dim_type.set
MOST_LISTED = 4096
"""points that isl lists; boxes of them are listed sooner"""
MOST_VISITED = 2**13
"""passes that are all visited"""
SAMPLE = 2048
"""passes that are visited where they are more"""
SAMPLE_OF_TIED = 512
"""the same where loops depend on each other, and each pass is found by isl"""


@dataclass(frozen=True)
class Visits:
    """Passes that are visited."""

    values: Integers
    """a row for each, with the values of the loops"""
    times: Sequence[int]
    """how many passes each stands for"""
    is_sample: bool


def visited(passes: Points) -> Visits:
    """Return the bounded, non-empty *passes*, or a sample of them."""
    everything = listed_iterations(passes, MOST_VISITED)
    return sampled(passes) if everything is None else Visits(everything, [1] * len(everything), is_sample=False)


def listed_iterations(passes: Points, most: int) -> Integers | None:
    """Return all *passes*, one in each row; None where they are more than *most*, or isl would list too many."""
    if passes.boxes is None:
        return points_listed(passes.set) if passes.number <= min(most, MOST_LISTED) else None
    if sum(prod(map(len, box)) for box in passes.boxes) > most:
        return None
    return np.concatenate([_all_of_box(box) for box in passes.boxes])


def _all_of_box(box: Box) -> Integers:
    values = [np.arange(each.start, each.stop, dtype=np.int64) for each in box]
    return np.stack(np.meshgrid(*values, indexing="ij"), axis=-1).reshape(-1, len(box))


def sampled(passes: Points) -> Visits:
    """Return a sample of the bounded, non-empty *passes*."""
    if passes.boxes is None:
        return _of_tied(passes.set)
    sizes = [prod(map(len, box)) for box in passes.boxes]
    parts = [max(1, SAMPLE * size // sum(sizes)) for size in sizes]
    values = np.concatenate([_of_box(box, part) for box, part in zip(passes.boxes, parts, strict=True)])
    shares = zip(sizes, parts, strict=True)
    return Visits(values, [times for size, part in shares for times in _dealt(size, [1] * part)], is_sample=True)


def _of_box(box: Box, number: int) -> Integers:
    lengths = np.array([len(each) for each in box], dtype=np.int64)
    steps = (_spread(number, len(box)) * lengths).astype(np.int64)
    return np.minimum(steps, lengths - 1) + np.array([each.start for each in box], dtype=np.int64)


def _of_tied(passes: isl.Set) -> Visits:
    """Return passes spread along each loop over what the outer ones leave of it, and weighed by how much that is."""
    rows: list[list[int]] = []
    weights: list[int] = []
    for shares in _spread(SAMPLE_OF_TIED, passes.dim(SET)).tolist():
        left, row, weight = passes, list[int](), 1
        for place, share in enumerate(shares):
            first, last = left.dim_min_val(place).to_python(), left.dim_max_val(place).to_python()
            wanted = isl.Val(str(first + int(share * (last + 1 - first))))
            # Where a loop has holes, the next value below is taken.
            value = left.upper_bound_val(SET, place, wanted).dim_max_val(place)
            left = left.fix_val(SET, place, value)
            row.append(value.to_python())
            weight *= last + 1 - first
        rows.append(row)
        weights.append(weight)
    return Visits(np.array(rows, dtype=np.int64), _dealt(number_of_points(passes), weights), is_sample=True)


def _spread(number: int, dimensions: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return so many points of the unit cube of so many *dimensions*: along each, one in each of equal parts."""
    random = np.random.default_rng(number)
    parts = np.stack([random.permutation(number) for _ in range(dimensions)], axis=1)
    return (parts + random.random((number, dimensions))) / number


def _dealt(number: int, weights: Sequence[int]) -> list[int]:
    """Return *number* in whole parts by *weights*."""
    ends = [number * each // sum(weights) for each in accumulate(weights, initial=0)]
    return [after - before for before, after in pairwise(ends)]


# }}}


# {{{ residues


MOST_PLACES = 4096
"""that are looked at"""
MOST_VALUES = 2**20
"""of loops that move all lanes alike, which are looked at one by one"""
FEW = 512
"""passes: these are listed sooner than counted by isl place by place"""


@dataclass(frozen=True, slots=True)
class AddressStride:
    """How an address moves along a loop: after every *period* passes, it is *step* bytes further."""

    period: int
    step: int

    def place(self, value: int, line: int) -> tuple[int, int]:
        """Return the phase of the loop's *value*, and the bytes modulo *line* that whole periods have added."""
        periods, phase = divmod(value, self.period)
        return phase, periods * self.step % line


@dataclass(frozen=True, slots=True)
class Offset:
    """What tells passes apart that are not alike."""

    phases: tuple[int, ...]
    """of each loop, its value modulo its period"""
    offset: int
    """bytes, modulo a line, that whole periods add to the address"""


Places = Mapping[Offset, int]
"""how many passes are at each place"""
Loops = Sequence[int]
"""by number"""


class TooManyOffsetsError(UncountableError):
    """Addresses that have no period, or lie in too many ways to lines."""


def iterations_by_offset(
    passes: Points,
    progress: Callable[[Loops], Sequence[AddressStride]],
    line: int,
    added: Callable[[Loops, Integers], Integers | None] = lambda loops, values: None,
) -> Places:
    """Return how many of the bounded, non-empty *passes* are at each place.

    *progress* tells how the address moves along each of some loops. Where that raises :class:`TooManyOffsetsError`,
    or there are too many places, *added* tells the bytes that the loops add to the addresses of all lanes at
    *values*, a row for each point; None where lanes, or other loops, make a difference. Then
    :class:`TooManyOffsetsError` is raised.
    """
    found = Counter[Offset]()
    for part in (passes,) if passes.boxes is None else map(Points, passes.boxes):
        found.update(_of_part(part, progress, line, added))
    _check_number(len(found))
    return found


def _of_part(
    passes: Points,
    progress: Callable[[Loops], Sequence[AddressStride]],
    line: int,
    added: Callable[[Loops, Integers], Integers | None],
) -> Places:
    found: Places = {Offset((0,) * passes.dimensions, 0): 1}
    for loops, own in _independent(passes):
        try:
            places = _of_loops(own, progress(loops), line)
        except TooManyOffsetsError:
            places = _of_periodic(own, lambda values, loops=loops: added(loops, values), line)
            if places is None:
                raise
        found = _combined(found, loops, places, line)
    return found


def _combined(found: Places, loops: Loops, places: Places, line: int) -> Places:
    """Return the places of all pairs of passes, *places* being those of further *loops*."""
    _check_number(len(found) * len(places) // line)
    combined = Counter[Offset]()
    for (place, number), (own, times) in product(found.items(), places.items()):
        phases = list(place.phases)
        for loop, phase in zip(loops, own.phases, strict=True):
            phases[loop] = phase
        combined[Offset(tuple(phases), (place.offset + own.offset) % line)] += number * times
    _check_number(len(combined))
    return combined


def _check_number(places: int) -> None:
    if places > MOST_PLACES:
        raise TooManyOffsetsError(
            f"addresses lie in {places} ways to lines, more than {MOST_PLACES}: look at passes one by one, at(...)"
        )


# {{{ loops that do not depend on each other


def _independent(passes: Points) -> Iterator[tuple[Sequence[int], Points]]:
    """Yield groups of loops, and their values; *passes* are all combinations of the groups'."""
    if passes.box is not None:
        yield from (([loop], Points((values,))) for loop, values in enumerate(passes.box))
        return
    every = range(passes.set.dim(SET))
    groups = _tied(passes.set)
    parts = [Points(without_dimensions(passes.set, [loop for loop in every if loop not in group])) for group in groups]
    if len(groups) > 1 and prod(part.number for part in parts) != passes.number:
        groups, parts = [list(every)], [passes]
    yield from zip(groups, parts, strict=True)


def _tied(passes: isl.Set) -> list[list[int]]:
    """Return the loops of *passes* in groups, those in one constraint together."""
    number = passes.dim(SET)
    constraints = (each for basic in passes.get_basic_sets() for each in basic.get_constraints())
    ties = [[loop for loop in range(number) if each.involves_dims(SET, loop, 1)] for each in constraints]
    return tied_together(number, ties)


# }}}


# {{{ loops that do


def _of_loops(passes: Points, along: Sequence[AddressStride], line: int) -> Places:
    """Return the places of *passes* of loops that may depend on each other."""
    if len(along) == 1 and (values := _interval(passes)) is not None:
        return _of_interval(values, along[0], line)
    candidates = _candidates(along, line)
    if len(candidates) == 1:
        return {candidates[0]: passes.number}
    if passes.number <= FEW:
        return Counter(_place(point, along, line) for point in points_listed(passes.set).tolist())
    counts = ((place, number_of_points(passes.set & _at_place(along, place, line))) for place in candidates)
    return {place: number for place, number in counts if number}


def _interval(passes: Points) -> range | None:
    """Return the *passes* of one loop; None where it has holes."""
    if passes.box is not None:
        return passes.box[0]
    first, last = passes.set.dim_min_val(0).to_python(), passes.set.dim_max_val(0).to_python()
    return range(first, last + 1) if passes.number == last + 1 - first else None


def _of_interval(values: range, progress: AddressStride, line: int) -> Places:
    """Return the places of all *values* of a loop: both phase and offset come back after some periods."""
    cycle = progress.period * (line // gcd(progress.step, line))
    _check_number(min(cycle, len(values)))
    found = Counter[Offset]()
    for value in values[:cycle]:
        found[_place([value], [progress], line)] += len(range(value, values.stop, cycle))
    return found


def _of_periodic(passes: Points, added: Callable[[Integers], Integers | None], line: int) -> Places | None:
    """Return the places of *passes* that move all lanes alike, by what is *added*."""
    values = listed_iterations(passes, MOST_VALUES) if passes.number <= MOST_VALUES else None
    bytes_added = None if values is None else added(values)
    if values is None or bytes_added is None:
        return None
    first = tuple(values[0].tolist())
    offsets = zip(*np.unique((bytes_added - bytes_added[0]) % line, return_counts=True), strict=True)
    return {Offset(first, int(offset)): int(times) for offset, times in offsets}


def _place(values: Sequence[int], along: Sequence[AddressStride], line: int) -> Offset:
    places = [progress.place(value, line) for value, progress in zip(values, along, strict=True)]
    return Offset(tuple(phase for phase, _ in places), sum(offset for _, offset in places) % line)


def _candidates(along: Sequence[AddressStride], line: int) -> list[Offset]:
    grain = reduce(gcd, (progress.step for progress in along), line)
    phases = [progress.period for progress in along]
    _check_number(prod(phases) * (line // grain))
    return [Offset(each, offset) for each in product(*map(range, phases)) for offset in range(0, line, grain)]


def _at_place(along: Sequence[AddressStride], place: Offset, line: int) -> isl.Set:
    """Return all values of the loops at *place*."""
    names = ", ".join(f"x{loop}" for loop in range(len(along)))
    return isl.Set(f"{{ [{names}] : {' and '.join(_conditions(along, place, line))} }}")


def _conditions(along: Sequence[AddressStride], place: Offset, line: int) -> Iterator[str]:
    for loop, (progress, phase) in enumerate(zip(along, place.phases, strict=True)):
        yield f"(x{loop} - {phase}) mod {progress.period} = 0"
    steps = (f"{progress.step % line}*floor(x{loop}/{progress.period})" for loop, progress in enumerate(along))
    yield f"({' + '.join([*steps, str(-place.offset)])}) mod {line} = 0"


# }}}


# }}}
