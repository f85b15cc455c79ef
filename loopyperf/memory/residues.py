"""Number of iterations by address offset within a line, counted without visiting them or visited one by one."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, pairwise, product
from math import gcd, prod

import islpy as isl
import numpy as np

from loopyperf.errors import UncountableError
from loopyperf.idg.warp_classes import Integers
from loopyperf.polyhedral.points import Box, Points, points_listed, without_dimensions
from loopyperf.polyhedral.quasipolynomial import number_of_points
from loopyperf.polyhedral.sets import as_int, groups, tied_together

# {{{ iterations that are visited one by one: all of them or, if there are too many, a sample
#
# A sample is spread evenly along each loop, as in a Latin hypercube (McKay, Beckman and Conover, A comparison of three
# methods for selecting values of input variables, 1979). Within its part of a loop, a value is chosen at random, with a
# fixed seed: equally spaced values would have the same offset in a line each time.


SET = isl.dim_type.set
MOST_LISTED = 4096
"""most points that isl lists; boxes are listed faster, without isl"""
MOST_VISITED = 2**13
"""most iterations that are all visited"""
SAMPLE = 2048
"""iterations that are visited if there are more"""
SAMPLE_OF_TIED = 512
"""sample size for loops that depend on each other, where isl finds each iteration"""


@dataclass(frozen=True)
class Visits:
    """Iterations to visit."""

    values: Integers
    """loop values, a row for each iteration"""
    times: Sequence[int]
    """iterations that each row represents"""
    is_sample: bool


def visited(iterations: Points) -> Visits:
    """Return the bounded, non-empty *iterations*, or a sample of them."""
    everything = listed_iterations(iterations, MOST_VISITED)
    return sampled(iterations) if everything is None else Visits(everything, [1] * len(everything), is_sample=False)


def listed_iterations(iterations: Points, most: int) -> Integers | None:
    """Return all *iterations*, one per row; None if there are more than *most*, or too many for isl to list."""
    if iterations.boxes is None:
        return points_listed(iterations.set) if iterations.number <= min(most, MOST_LISTED) else None
    if sum(prod(map(len, box)) for box in iterations.boxes) > most:
        return None
    values = ([np.arange(each.start, each.stop, dtype=np.int64) for each in box] for box in iterations.boxes)
    grids = (np.stack(np.meshgrid(*value, indexing="ij"), axis=-1) for value in values)
    return np.concatenate([grid.reshape(-1, grid.shape[-1]) for grid in grids])


def sampled(iterations: Points) -> Visits:
    """Return a sample of the bounded, non-empty *iterations*."""
    if iterations.boxes is None:
        return _of_tied(iterations.set)
    sizes = [prod(map(len, box)) for box in iterations.boxes]
    parts = [max(1, SAMPLE * size // sum(sizes)) for size in sizes]
    values = np.concatenate([_of_box(box, part) for box, part in zip(iterations.boxes, parts, strict=True)])
    shares = zip(sizes, parts, strict=True)
    return Visits(values, [times for size, part in shares for times in _apportioned(size, [1] * part)], is_sample=True)


def _of_box(box: Box, number: int) -> Integers:
    lengths = np.array([len(each) for each in box], dtype=np.int64)
    steps = (_spread(number, len(box)) * lengths).astype(np.int64)
    return np.minimum(steps, lengths - 1) + np.array([each.start for each in box], dtype=np.int64)


def _of_tied(iterations: isl.Set) -> Visits:
    """Return iterations spread along each loop in the range left by outer loops, weighted by the size of that range."""
    rows: list[list[int]] = []
    weights: list[int] = []
    for shares in _spread(SAMPLE_OF_TIED, iterations.dim(SET)).tolist():
        left, row, weight = iterations, list[int](), 1
        for place, share in enumerate(shares):
            first, last = as_int(left.dim_min_val(place)), as_int(left.dim_max_val(place))
            wanted = isl.Val(str(first + int(share * (last + 1 - first))))
            # If a loop has holes, the next lower value is used.
            value = left.upper_bound_val(SET, place, wanted).dim_max_val(place)
            left = left.fix_val(SET, place, value)
            row.append(as_int(value))
            weight *= last + 1 - first
        rows.append(row)
        weights.append(weight)
    return Visits(np.array(rows, dtype=np.int64), _apportioned(number_of_points(iterations), weights), is_sample=True)


def _spread(number: int, dimensions: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return *number* points of the unit cube; along each dimension, one in each of *number* equal parts."""
    random = np.random.default_rng(number)
    parts = np.stack([random.permutation(number) for _ in range(dimensions)], axis=1)
    return (parts + random.random((number, dimensions))) / number


def _apportioned(number: int, weights: Sequence[int]) -> list[int]:
    """Split *number* into integers in proportion to *weights*."""
    ends = [number * each // sum(weights) for each in accumulate(weights, initial=0)]
    return [after - before for before, after in pairwise(ends)]


# }}}


# {{{ offsets of addresses


MOST_PLACES = 4096
"""most offsets that are analyzed"""
MOST_VALUES = 2**20
"""most iterations, of loops that move all lanes equally, that are visited one by one"""
LISTED_ITERATIONS = 512
"""iterations up to which listing is faster than counting with isl, offset by offset"""


@dataclass(frozen=True, slots=True)
class AddressStride:
    """Movement of an address along a loop: every *period* iterations, it advances by *step* bytes."""

    period: int
    step: int

    def place(self, value: int, line: int) -> tuple[int, int]:
        """Return the phase of the loop's *value*, and the bytes modulo *line* added by its whole periods."""
        periods, phase = divmod(value, self.period)
        return phase, periods * self.step % line


@dataclass(frozen=True, slots=True)
class Offset:
    """A class of iterations with the same addresses up to whole lines."""

    phases: tuple[int, ...]
    """value of each loop modulo its period"""
    offset: int
    """bytes, modulo a line, that whole periods add to the address"""


Places = Mapping[Offset, int]
"""number of iterations at each offset"""
Loops = Sequence[int]
"""numbers of loops"""


class TooManyOffsetsError(UncountableError):
    """Addresses without a period, or with too many offsets in lines."""


def iterations_by_offset(
    iterations: Points,
    progress: Callable[[Loops], Sequence[AddressStride]],
    line: int,
    added: Callable[[Loops, Integers], Integers | None] = lambda loops, values: None,
) -> Places:
    """Return the number of the bounded, non-empty *iterations* at each offset.

    *progress* returns how the address moves along given loops. If it raises :class:`TooManyOffsetsError`, or if there
    are too many offsets, *added* returns the bytes that loops add to the addresses of all lanes at *values* (a row for
    each point), or None if they depend on the lane or on other loops. In that case :class:`TooManyOffsetsError` is
    raised.
    """
    found = Counter[Offset]()
    for part in (iterations,) if iterations.boxes is None else map(Points, iterations.boxes):
        found.update(_of_part(part, progress, line, added))
    _check_number(len(found))
    return found


def _of_part(
    iterations: Points,
    progress: Callable[[Loops], Sequence[AddressStride]],
    line: int,
    added: Callable[[Loops, Integers], Integers | None],
) -> Places:
    found: Places = {Offset((0,) * iterations.dimensions, 0): 1}
    for loops, own in _independent(iterations):
        try:
            places = _of_loops(own, progress(loops), line)
        except TooManyOffsetsError:
            places = _of_periodic(own, lambda values, loops=loops: added(loops, values), line)
            if places is None:
                raise
        found = _combined(found, loops, places, line)
    return found


def _combined(found: Places, loops: Loops, places: Places, line: int) -> Places:
    """Return the offsets of all pairs of iterations of *found* and *places*; *places* are those of further *loops*."""
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
            f"addresses have {places} offsets in a line, more than {MOST_PLACES}; look at single iterations, at(...)"
        )


# {{{ independent loops


def _independent(iterations: Points) -> Iterator[tuple[Sequence[int], Points]]:
    """Yield groups of loops with their values; *iterations* is the product of the groups."""
    if iterations.box is not None:
        yield from (([loop], Points((values,))) for loop, values in enumerate(iterations.box))
        return
    every = range(iterations.set.dim(SET))
    ties = (group for part in iterations.set.get_basic_sets() for group in groups(part))
    tied = tied_together(len(every), [group.intersection(every) for group in ties])
    parts = [
        Points(without_dimensions(iterations.set, [loop for loop in every if loop not in group])) for group in tied
    ]
    if len(tied) > 1 and prod(part.number for part in parts) != iterations.number:
        tied, parts = [list(every)], [iterations]
    yield from zip(tied, parts, strict=True)


# }}}


# {{{ loops that depend on each other


def _of_loops(iterations: Points, along: Sequence[AddressStride], line: int) -> Places:
    """Return the offsets of *iterations* of loops that may depend on each other."""
    if len(along) == 1 and (values := _interval(iterations)) is not None:
        return _of_interval(values, along[0], line)
    candidates = _candidates(along, line)
    if len(candidates) == 1:
        return {candidates[0]: iterations.number}
    if iterations.number <= LISTED_ITERATIONS:
        return Counter(_place(point, along, line) for point in points_listed(iterations.set).tolist())
    counts = ((place, number_of_points(iterations.set & _at_place(along, place, line))) for place in candidates)
    return {place: number for place, number in counts if number}


def _interval(iterations: Points) -> range | None:
    """Return the *iterations* of a single loop as a range; None if it has holes."""
    if iterations.box is not None:
        return iterations.box[0]
    first, last = as_int(iterations.set.dim_min_val(0)), as_int(iterations.set.dim_max_val(0))
    return range(first, last + 1) if iterations.number == last + 1 - first else None


def _of_interval(values: range, progress: AddressStride, line: int) -> Places:
    """Return the offsets of all *values* of a loop; phase and offset repeat after some periods."""
    cycle = progress.period * (line // gcd(progress.step, line))
    _check_number(min(cycle, len(values)))
    found = Counter[Offset]()
    for value in values[:cycle]:
        found[_place([value], [progress], line)] += len(range(value, values.stop, cycle))
    return found


def _of_periodic(iterations: Points, added: Callable[[Integers], Integers | None], line: int) -> Places | None:
    """Return the offsets of *iterations* that move all lanes equally, by the bytes *added*; None if unknown."""
    values = listed_iterations(iterations, MOST_VALUES) if iterations.number <= MOST_VALUES else None
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
    """Return all loop values at the offset *place*."""
    names = [f"x{loop}" for loop in range(len(along))]
    phases = [
        f"({name} - {phase}) mod {progress.period} = 0"
        for name, progress, phase in zip(names, along, place.phases, strict=True)
    ]
    steps = [f"{each.step % line}*floor({name}/{each.period})" for name, each in zip(names, along, strict=True)]
    offset = f"({' + '.join([*steps, str(-place.offset)])}) mod {line} = 0"
    return isl.Set(f"{{ [{', '.join(names)}] : {' and '.join([*phases, offset])} }}")


# }}}


# }}}
