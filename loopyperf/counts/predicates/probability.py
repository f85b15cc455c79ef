"""How often conditions on data hold together, given how often each of their parts does.

Parts are taken as independent of each other. Conditions that have no part in common are independent too, so that their
shares multiply; those that do are looked at together, in every way in which their parts can be true.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from loopyperf.counts.predicates.conditions import Condition, is_true, plain_text
from loopyperf.errors import UncountableError

ENTANGLED = 12
"""parts: conditions of more that all depend on each other take too long"""

Parts = Mapping[Condition, frozenset[Any]]
"""condition -> the parts that it is made of"""


def probability(conditions: Parts, shares: Mapping[Any, Fraction]) -> Fraction:
    """Return how often all of *conditions* hold, from 0 to 1; *shares* tells it of the parts.

    Raises :class:`UncountableError` where too many parts depend on each other.
    """
    return prod((_of_entangled(cluster, shares) for cluster in _clusters(conditions)), start=Fraction(1))


def _clusters(conditions: Parts) -> Iterator[Parts]:
    """Yield the conditions by clusters that have no part in common."""
    rest = dict(conditions)
    while rest:
        first = next(iter(rest))
        cluster, reached = {first: rest.pop(first)}, conditions[first]
        while near := {each: parts for each, parts in rest.items() if parts & reached}:
            cluster |= near
            reached = reached.union(*near.values())
            rest = {each: parts for each, parts in rest.items() if each not in near}
        yield cluster


def _of_entangled(conditions: Parts, shares: Mapping[Any, Fraction]) -> Fraction:
    parts = sorted(frozenset[Any]().union(*conditions.values()), key=str)
    if len(parts) > ENTANGLED:
        raise UncountableError(
            f"conditions on data of {len(parts)} parts, of which several have some in common, more than {ENTANGLED}: "
            f"{' and '.join(sorted(f'({plain_text(condition.expression)})' for condition in conditions))}"
        )
    ways = (dict(zip(parts, truths, strict=True)) for truths in product((True, False), repeat=len(parts)))
    holding = (way for way in ways if all(is_true(each.expression, way) == each.holds for each in conditions))
    return sum((_share(way, shares) for way in holding), start=Fraction(0))


def _share(way: Mapping[Any, bool], shares: Mapping[Any, Fraction]) -> Fraction:
    """Return how often the parts are as true and false as *way* says."""
    return prod((shares[part] if truth else 1 - shares[part] for part, truth in way.items()), start=Fraction(1))
