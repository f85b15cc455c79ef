"""Piecewise polynomials compared, and with fewer pieces and conditions, wherever a kernel's assumptions hold.

A piece is widened to where its polynomial has the right value anyhow. Of ``n^2/2 + n/2 if n >= 1``, zero elsewhere,
the condition goes where n >= 0 is assumed: at n = 0 the polynomial is zero too. Agreement is decided exactly, value by
value, where a parameter has but a few values; elsewhere a piece stays as it is. An answer that is yes is exact; no
means that it is not known.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import reduce

import islpy as isl

from loopyperf.polyhedral.affine import Affine, Atom, Floor, names_in
from loopyperf.polyhedral.polynomial import Polynomial

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


# {{{ fewer pieces and conditions, of the same value


DIV = isl.dim_type.div

READABLE = 12
"""pieces; formulas of more are left as they are, as nobody reads them"""


def simplified(pieces: Sequence[Piece], context: isl.Set) -> list[Piece]:
    """Return the function of the disjoint *pieces*, zero elsewhere, on *context*; pieces that overlap agree there."""
    if len(pieces) > READABLE:
        return list(pieces)
    assumed = ((domain & context, polynomial) for domain, polynomial in pieces)
    fewer = _without_absorbed([(domain, value) for domain, value in assumed if not vanishes(value, domain)])
    widened = [(_widened(piece, fewer, context), piece[1]) for piece in fewer]
    return [(domain.gist(context).coalesce(), polynomial) for domain, polynomial in _needed(widened)]


# {{{ fewer pieces


def _without_absorbed(pieces: Sequence[Piece]) -> list[Piece]:
    """Return *pieces*, those of which another has the value everywhere made part of it."""
    rest = list(pieces)
    for piece in pieces:
        absorbed = [other for other in rest if other is not piece and _agree(piece, other)] if piece in rest else []
        if absorbed:
            domain = reduce(isl.Set.union, (other[0] for other in absorbed), piece[0]).coalesce()
            rest = [other for other in rest if other not in absorbed]
            rest[rest.index(piece)] = (domain, piece[1])
    return rest


def _agree(piece: Piece, other: Piece) -> bool:
    return vanishes(piece[1] - other[1], other[0])


def _needed(pieces: Sequence[Piece]) -> list[Piece]:
    """Return *pieces* without those that apply only where others do."""
    kept = list(pieces)
    for piece in pieces:
        others = [domain for domain, polynomial in kept if polynomial != piece[1]]
        if others and piece[0].is_subset(reduce(isl.Set.union, others)):
            kept.remove(piece)
    return kept


# }}}


# {{{ wider pieces


def _widened(piece: Piece, pieces: Sequence[Piece], context: isl.Set) -> isl.Set:
    """Return where *piece* applies, without the conditions that make no difference on *context*."""
    widened, polynomial = piece
    for basic in widened.gist(context).get_basic_sets():
        kept = list(basic.get_constraints())
        for constraint in basic.get_constraints():
            fewer = [other for other in kept if other != constraint]
            domain = _where(fewer, basic.get_space()) & context
            if not _involves_floors(constraint) and _is_value_on(domain - widened, polynomial, pieces):
                kept, widened = fewer, (widened | domain).coalesce()
    return widened


def _where(constraints: Iterable[isl.Constraint], space: isl.Space) -> isl.Set:
    universe = isl.BasicSet.universe(space)
    return isl.Set.from_basic_set(reduce(isl.BasicSet.add_constraint, constraints, universe))


def _involves_floors(constraint: isl.Constraint) -> bool:
    return constraint.involves_dims(DIV, 0, constraint.dim(DIV))


def _is_value_on(region: isl.Set, polynomial: Polynomial[Atom], pieces: Sequence[Piece]) -> bool:
    """Return whether *polynomial* is known to be what *pieces* are on *region*."""
    for domain, other in pieces:
        if not vanishes(polynomial - other, region & domain):
            return False
        region = region - domain
    return vanishes(polynomial, region)


# }}}


# }}}
