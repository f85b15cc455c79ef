"""Passes that are visited one by one: all of them or, where they are too many, a sample of them.

A sample is spread evenly along each loop, as in a Latin hypercube (McKay, Beckman and Conover, A comparison of three
methods for selecting values of input variables, 1979). Within its share of a loop, a value is chosen at random, always
the same: values that are equally far apart would meet the same place of a line each time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod

import islpy as isl
import numpy as np

from loopyperf.idg.warps.warp import Integers
from loopyperf.polyhedral.points import Box, Points, points_listed
from loopyperf.polyhedral.quasipolynomial import number_of_points

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


def visited(passes: isl.Set) -> Visits:
    """Return the bounded, non-empty *passes*, or a sample of them."""
    everything = all_of(passes, MOST_VISITED)
    return sampled(passes) if everything is None else Visits(everything, [1] * len(everything), is_sample=False)


def all_of(passes: isl.Set, most: int) -> Integers | None:
    """Return all *passes*, one in each row; None where they are more than *most*, or isl would list too many."""
    points = Points(passes)
    if points.boxes is None:
        return points_listed(passes) if points.number <= min(most, MOST_LISTED) else None
    if sum(prod(map(len, box)) for box in points.boxes) > most:
        return None
    return np.concatenate([_all_of_box(box) for box in points.boxes])


def _all_of_box(box: Box) -> Integers:
    values = [np.arange(each.start, each.stop, dtype=np.int64) for each in box]
    return np.stack(np.meshgrid(*values, indexing="ij"), axis=-1).reshape(-1, len(box))


def sampled(passes: isl.Set) -> Visits:
    """Return a sample of the bounded, non-empty *passes*."""
    points = Points(passes)
    if points.boxes is None:
        return _of_tied(passes)
    sizes = [prod(map(len, box)) for box in points.boxes]
    parts = [max(1, SAMPLE * size // sum(sizes)) for size in sizes]
    values = np.concatenate([_of_box(box, part) for box, part in zip(points.boxes, parts, strict=True)])
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
