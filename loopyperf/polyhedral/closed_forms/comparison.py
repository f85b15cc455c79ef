"""What is known of two piecewise polynomials: whether they agree, and whether one is the lesser.

The answers are exact where they are yes; no means that it is not known.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import islpy as isl

from loopyperf.polyhedral.affine import Affine, Atom, Floor
from loopyperf.polyhedral.polynomial import Polynomial, names_in

SET = isl.dim_type.set
PARAM = isl.dim_type.param

FEW = 64
"""sizes that are compared one by one"""

Piece = tuple[isl.Set, Polynomial[Atom]]
"""where it applies, of the parameters; what applies there"""


# {{{ zero


def vanishes(polynomial: Polynomial[Atom], region: isl.Set, few: int = FEW) -> bool:
    """Return whether *polynomial* is known to be zero on *region*: there for a *few* values of parameters at most."""
    return not polynomial.terms or all(
        _vanishes_where(polynomial, basic, few) for basic in region.get_basic_sets() if not basic.is_empty()
    )


def _vanishes_where(polynomial: Polynomial[Atom], basic: isl.BasicSet, few: int) -> bool:
    region = isl.Set.from_basic_set(basic)
    for place, name in enumerate(region.get_var_names_not_none(PARAM)):
        least, most = _extremes(region, place) if name in polynomial.names else (None, None)
        if least is not None and most is not None and most - least < few:
            values = range(least, most + 1)
            at_each = ((_at(polynomial, name, v), region.fix_val(PARAM, place, isl.Val(v))) for v in values)
            return all(vanishes(*there, few // len(values)) for there in at_each)
    return False


def _at(polynomial: Polynomial[Atom], name: str, value: int) -> Polynomial[Atom]:
    """Return *polynomial* where the parameter *name* is *value*."""
    moving = (atom for atom in polynomial.variables if name in names_in(atom))
    return polynomial.replaced({atom: Polynomial.of_affine(_atom_at(atom, name, value)) for atom in moving})


def _atom_at(atom: Atom, name: str, value: int) -> Affine[Atom]:
    if isinstance(atom, str):
        return Affine((), value) if atom == name else Affine.variable(atom)
    numerator: Affine[Atom] = Affine((), atom.numerator.constant)
    for inner, factor in atom.numerator.terms:
        numerator += _atom_at(inner, name, value) * factor
    if not numerator.terms:
        return Affine((), numerator.constant // atom.denominator)
    return Affine.variable(Floor(numerator, atom.denominator))


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


def _is_below(polynomial: Polynomial[Atom], region: isl.Set, pieces: Sequence[Piece]) -> bool:
    for domain, other in pieces:
        if not (_is_multiple(other, polynomial) or _is_nonnegative(other - polynomial, region & domain)):
            return False
        region = region - domain
    return vanishes(polynomial, region)


def _is_multiple(polynomial: Polynomial[Atom], other: Polynomial[Atom]) -> bool:
    """Return whether *polynomial* is one time *other* or more."""
    values, others = dict(polynomial.terms), dict(other.terms)
    if values.keys() != others.keys():
        return False
    ratios = {Fraction(values[monomial]) / value for monomial, value in others.items()}
    return len(ratios) == 1 and ratios.pop() >= 1


def _is_nonnegative(polynomial: Polynomial[Atom], region: isl.Set) -> bool:
    """Return whether *polynomial* is known to be zero or more on *region*.

    It is if, with each parameter written as its least value plus what is over, all coefficients are.
    """
    if region.is_empty():
        return True
    extremes = ((name, _extremes(region, place)[0]) for place, name in enumerate(region.get_var_names_not_none(PARAM)))
    least = {name: value for name, value in extremes if value is not None}
    over = polynomial.replaced({name: Polynomial.of_affine(Affine.variable(name, least[name])) for name in least})
    can_be_negative = any(not _is_nonnegative_atom(atom, least) for atom in over.variables)
    return not can_be_negative and all(value >= 0 for _, value in over.terms)


def _is_nonnegative_atom(atom: Atom, least: Mapping[str, int]) -> bool:
    """Return whether *atom* is: what a parameter is over its least value, or a floor."""
    if isinstance(atom, str):
        return atom in least
    bounds = [
        value * least[inner]
        for inner, value in atom.numerator.terms
        if isinstance(inner, str) and inner in least and value > 0
    ]
    return len(bounds) == len(atom.numerator.terms) and sum(bounds) + atom.numerator.constant >= 0


# }}}
