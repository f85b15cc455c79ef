"""What is known of two piecewise polynomials: whether they agree, and whether one is the lesser.

The answers are exact where they are yes; no means that it is not known.
"""

from collections.abc import Mapping, Sequence

import islpy as isl

from loopyperf.polyhedral.closed_forms import closed_form as cf
from loopyperf.polyhedral.closed_forms.closed_form import Atom, Polynomial

SET = isl.dim_type.set
PARAM = isl.dim_type.param

FEW = 64
"""sizes that are compared one by one"""

Piece = tuple[isl.Set, Polynomial]
"""where it applies, of the parameters; what applies there"""


def difference(left: Polynomial, right: Polynomial) -> Polynomial:
    """Return *left* minus *right*."""
    return cf.added(left, cf.multiplied(right, cf.constant(-1)))


# {{{ zero


def vanishes(polynomial: Polynomial, region: isl.Set, few: int = FEW) -> bool:
    """Return whether *polynomial* is known to be zero on *region*: there for a *few* values of parameters at most."""
    return not polynomial or all(
        _vanishes_where(polynomial, basic, few) for basic in region.get_basic_sets() if not basic.is_empty()
    )


def _vanishes_where(polynomial: Polynomial, basic: isl.BasicSet, few: int) -> bool:
    region = isl.Set.from_basic_set(basic)
    for place, name in enumerate(region.get_var_names_not_none(PARAM)):
        least, most = _extremes(region, place) if name in cf.parameters_of(polynomial) else (None, None)
        if least is not None and most is not None and most - least < few:
            values = range(least, most + 1)
            at_each = ((cf.substituted(polynomial, name, v), region.fix_val(PARAM, place, isl.Val(v))) for v in values)
            return all(vanishes(*there, few // len(values)) for there in at_each)
    return False


def _extremes(region: isl.Set, place: int) -> tuple[int | None, int | None]:
    """Return the least and the greatest value of a parameter on *region*, None where there is none."""
    as_set = region.move_dims(SET, 0, PARAM, place, 1)
    least, most = as_set.dim_min_val(0), as_set.dim_max_val(0)
    return (least.to_python() if least.is_int() else None), (most.to_python() if most.is_int() else None)


# }}}


# {{{ order


def is_at_most(left: Sequence[Piece], right: Sequence[Piece], context: isl.Set) -> bool:
    """Return whether *left* is known to be at most *right* on *context*; both are zero or more, on disjoint pieces."""
    return all(_is_below(polynomial, domain & context, right) for domain, polynomial in left)


def _is_below(polynomial: Polynomial, region: isl.Set, pieces: Sequence[Piece]) -> bool:
    for domain, other in pieces:
        if not (_is_multiple(other, polynomial) or _is_nonnegative(difference(other, polynomial), region & domain)):
            return False
        region = region - domain
    return vanishes(polynomial, region)


def _is_multiple(polynomial: Polynomial, other: Polynomial) -> bool:
    """Return whether *polynomial* is one time *other* or more."""
    ratios = {polynomial.get(monomial, 0) / value for monomial, value in other.items()}
    return polynomial.keys() == other.keys() and len(ratios) == 1 and ratios.pop() >= 1


def _is_nonnegative(polynomial: Polynomial, region: isl.Set) -> bool:
    """Return whether *polynomial* is known to be zero or more on *region*.

    It is if, with each parameter written as its least value plus what is over, all coefficients are.
    """
    if region.is_empty():
        return True
    extremes = ((name, _extremes(region, place)[0]) for place, name in enumerate(region.get_var_names_not_none(PARAM)))
    least = {name: value for name, value in extremes if value is not None}
    over = cf.shifted(polynomial, least)
    can_be_negative = any(not _is_nonnegative_atom(atom, least) for monomial in over for atom, _ in monomial)
    return not can_be_negative and all(value >= 0 for value in over.values())


def _is_nonnegative_atom(atom: Atom, least: Mapping[str, int]) -> bool:
    """Return whether *atom* is: what a parameter is over its least value, or a floor."""
    if isinstance(atom, str):
        return atom in least
    bounds = [
        value * least[inner]
        for inner, value in atom.numerator.coefficients
        if isinstance(inner, str) and inner in least and value > 0
    ]
    return len(bounds) == len(atom.numerator.coefficients) and sum(bounds) + atom.numerator.constant >= 0


# }}}
