"""Piecewise polynomials with fewer pieces and conditions, of the same value wherever a kernel's assumptions hold.

A piece is widened to where its polynomial has the right value anyhow. Of ``n^2/2 + n/2 if n >= 1``, zero elsewhere,
the condition goes where n >= 0 is assumed: at n = 0 the polynomial is zero too. Agreement is decided exactly, value by
value, where a parameter has but a few values (:mod:`loopyperf.polyhedral.closed_forms.comparison`); elsewhere a
piece stays as it is.
"""

from collections.abc import Iterable, Sequence
from functools import reduce

import islpy as isl

from loopyperf.polyhedral.affine import Atom
from loopyperf.polyhedral.closed_forms.comparison import Piece, vanishes
from loopyperf.polyhedral.polynomial import Polynomial

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
