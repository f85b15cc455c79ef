"""Exact symbolic counts: the number of points of a parametric set as a piecewise quasi-polynomial.

Counting uses Barvinok's algorithm as implemented by the barvinok library (S. Verdoolaege et al., Counting integer
points in parametric polytopes using Barvinok's rational functions, Algorithmica 48, 2007), through islpy-barvinok.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import gcd

import islpy as isl

from loopyperf.errors import ENGINE_REMEDY, EngineError, UnboundedDomainError
from loopyperf.polyhedral import closed_form as cf
from loopyperf.polyhedral.affine import Affine, Atom, Floor
from loopyperf.polyhedral.closed_form import ClosedForm, Conjunction, Constraint, Piece, Total, simplified_pieces
from loopyperf.polyhedral.evaluation import Evaluator, IntegerArray, latex, text
from loopyperf.polyhedral.expressions import Same
from loopyperf.polyhedral.polynomial import Polynomial, Rational
from loopyperf.polyhedral.sets import as_int, without_tiles

PARAM = isl.dim_type.param
DIV = isl.dim_type.div
Dimension = tuple[isl.dim_type, int]
Residues = Mapping[str, tuple[int, int]]
"""parameter -> (modulus, residue), for parameters with a known residue"""


def engine_is_exact() -> bool:
    """Return whether the installed islpy counts symbolically, i.e. was built with barvinok."""
    return hasattr(isl.Set, "card")


@dataclass(frozen=True)
class QuasiPolynomial:
    """A count as an exact function of the kernel's integer parameters.

    It is valid where the kernel's assumptions hold; evaluation elsewhere raises an error.
    """

    polynomial: isl.PwQPolynomial
    """isl's piecewise quasi-polynomial, whose space has all parameters of the kernel"""
    assumptions: isl.BasicSet
    """isl's set of valid sizes, in the same space"""

    # {{{ construction

    @staticmethod
    def of_points(domain: isl.Set, assumptions: isl.BasicSet) -> "QuasiPolynomial":
        """Return the number of integer points of *domain* as a function of its parameters.

        Raises :class:`UnboundedDomainError` if there are infinitely many, and :class:`EngineError` without barvinok.
        """
        # isl keeps the parameter order of the space aligned to, so all counts of a kernel share one space. Assumptions
        # about remainders slow Barvinok's algorithm down by half, so they are used afterwards, to fold floors.
        known = _known(assumptions)
        points = domain.align_params(assumptions.get_space()).intersect_params(known.bounds)
        if not points.is_bounded():
            raise UnboundedDomainError(f"infinitely many points in {domain}")
        if not engine_is_exact():
            return QuasiPolynomial.constant(_number_without_engine(points, assumptions), assumptions)
        return QuasiPolynomial(without_tiles(points).card(), assumptions).simplified()

    @staticmethod
    def constant(value: int, assumptions: isl.BasicSet) -> "QuasiPolynomial":
        """Return the constant count *value*."""
        space = assumptions.get_space()
        polynomial = isl.QPolynomial.val_on_domain(space, isl.Val(str(value)))
        return QuasiPolynomial(isl.PwQPolynomial.from_qpolynomial(polynomial), assumptions)

    @staticmethod
    def of_extent(extent: isl.PwAff, assumptions: isl.BasicSet) -> "QuasiPolynomial":
        """Return the extent of a grid or group axis; negative extents, of empty loops, become zero."""
        aligned = extent.align_params(assumptions.get_space())
        zero = isl.PwAff.zero_on_domain(isl.LocalSpace.from_space(aligned.get_domain_space()))
        return QuasiPolynomial(isl.PwQPolynomial.from_pw_aff(aligned.max(zero)), assumptions).simplified()

    @staticmethod
    def read(transcript: str, assumptions: isl.BasicSet) -> "QuasiPolynomial":
        """Return the count written as *transcript* in isl's notation; raises :class:`islpy.Error` if it is invalid."""
        return QuasiPolynomial(isl.PwQPolynomial(transcript), assumptions)

    # }}}

    # {{{ arithmetic

    def __add__(self, other: "QuasiPolynomial") -> "QuasiPolynomial":
        return QuasiPolynomial(self.polynomial.add(other.polynomial), self.assumptions).simplified()

    def __mul__(self, other: "QuasiPolynomial | int | Fraction") -> "QuasiPolynomial":
        if isinstance(other, (int, Fraction)):
            return QuasiPolynomial(self.polynomial.scale_val(isl.Val(str(other))), self.assumptions)
        return QuasiPolynomial(self.polynomial.mul(other.polynomial), self.assumptions).simplified()

    __rmul__ = __mul__

    def simplified(self) -> "QuasiPolynomial":
        """Return the same function on the kernel's assumptions, with fewer pieces."""
        known = _known(self.assumptions)
        polynomial = self.polynomial.gist_params(known.bounds).coalesce()
        if not all(domain.plain_is_universe() for domain, _ in polynomial.get_pieces()):
            polynomial = polynomial.gist_params(known.context).coalesce()
        return QuasiPolynomial(polynomial, self.assumptions)

    # }}}

    # {{{ properties and evaluation

    @cached_property
    def form(self) -> ClosedForm:
        """Return the closed form, with floors folded by the known residues."""
        return _merged(self._pieces)

    @cached_property
    def formula(self) -> ClosedForm:
        """Return the shortest closed form found, for display; overlapping pieces agree."""
        return _merged(simplified_pieces(self._pieces, _known(self.assumptions).context))

    @cached_property
    def _pieces(self) -> list[tuple[isl.Set, Polynomial[Atom]]]:
        return list(_pieces(self.polynomial, _known(self.assumptions).residues))

    @property
    def parameters(self) -> frozenset[str]:
        """Return the names of the parameters on which the count depends."""
        return cf.parameters([self.form])

    def is_multiple_of(self, other: "QuasiPolynomial") -> bool:
        """Return whether both have one piece, in which this count is *other* times a factor of at least 1."""
        if not len(self._pieces) == len(other._pieces) == 1:
            return False
        ((domain, polynomial),), ((other_domain, other_polynomial),) = self._pieces, other._pieces
        values, others = dict(polynomial.terms), dict(other_polynomial.terms)
        if values.keys() != others.keys() or not domain.is_equal(other_domain):
            return False
        ratios = {Fraction(values[monomial]) / value for monomial, value in others.items()}
        return len(ratios) == 1 and ratios.pop() >= 1

    @cached_property
    def _evaluator(self) -> Evaluator:
        return Evaluator([self.form], [Total(((0, 1),))], SizeAssumptions(self.assumptions))

    def __call__(self, /, **sizes: int) -> int:
        """Return the count at *sizes* as an exact Python integer; other sizes of the kernel may be included.

        A count that contains typical values may be fractional, and is rounded to the nearest integer.

        Raises :class:`ParameterError` for a size that is missing, not an integer, or not the kernel's, and for sizes
        that violate the kernel's assumptions.
        """
        return self._evaluator.at(sizes)[0]

    def evaluate(self, /, **sizes: int | IntegerArray) -> IntegerArray:
        """Return the count at arrays of sizes that broadcast together, as int64 if it fits, else as Python integers."""
        return self._evaluator.at_arrays(sizes)[0]

    def __str__(self) -> str:
        return text(self.formula)

    def latex(self) -> str:
        """Return the formula as LaTeX, without delimiters."""
        return latex(self.formula)

    def _repr_latex_(self) -> str:
        return f"${self.latex()}$"

    # }}}


def _number_without_engine(points: isl.Set, assumptions: isl.BasicSet) -> int:
    """Return the number of points if the assumptions fix all parameters, in which case isl alone can count them."""
    assumed = isl.Set.from_basic_set(assumptions)
    for index in range(assumed.dim(PARAM)):
        involved = points.involves_dims(PARAM, index, 1)
        if involved and not assumed.plain_get_val_if_fixed(PARAM, index).is_int():
            raise EngineError(f"the installed islpy lacks barvinok, so it cannot count symbolically; {ENGINE_REMEDY}")
    return as_int(points.project_out(PARAM, 0, points.dim(PARAM)).count_val())


def number_of_points(domain: isl.Set) -> int:
    """Return the number of integer points of the bounded set *domain*, which has no parameters."""
    if not engine_is_exact():
        return as_int(domain.count_val())
    count = domain.card()
    return as_int(count.eval(isl.Point.zero(count.get_domain_space())))


# {{{ assumptions about sizes


@dataclass(frozen=True)
class SizeAssumptions:
    """A kernel's assumptions about its sizes; their space has all its parameters."""

    basic_set: isl.BasicSet

    @property
    def parameters(self) -> frozenset[str]:
        """Return the names of all sizes of the kernel."""
        return frozenset(self.basic_set.get_var_names_not_none(PARAM))

    def on(self, parameters: Collection[str]) -> ClosedForm:
        """Return a closed form: 1 where the assumptions hold for *parameters* and some values of others, else 0."""
        relevant = self.context.project_out_except(sorted(parameters), [PARAM])
        return (Piece(tuple(_conjunctions(relevant)), Polynomial.number(1)),)

    @cached_property
    def context(self) -> isl.Set:
        """Return the set of all valid sizes."""
        return isl.Set.from_basic_set(self.basic_set)

    @cached_property
    def bounds(self) -> isl.Set:
        """Return the sizes that satisfy the equations and inequalities, without assumptions about remainders."""
        return isl.Set.from_basic_set(self.basic_set.remove_divs())

    @cached_property
    def residues(self) -> Residues:
        """Return parameter -> (modulus, residue), for parameters with a known residue."""
        residues: dict[str, tuple[int, int]] = {}
        for index, name in enumerate(self.context.get_var_names_not_none(PARAM)):
            stride_info = self.context.move_dims(isl.dim_type.set, 0, PARAM, index, 1).get_stride_info(0)
            stride, offset = as_int(stride_info.get_stride()), stride_info.get_offset()
            if stride > 1 and offset.is_cst():
                residues[name] = (stride, as_int(offset.get_constant_val()) % stride)
        return residues


def _known(assumptions: isl.BasicSet) -> SizeAssumptions:
    """Return *assumptions* with cached properties, shared by all counts of a kernel.

    The cache compares by identity, because isl regards ``[m] -> { : }`` and ``[n] -> { : }`` as equal.
    """
    return _cached(Same(assumptions))


@lru_cache
def _cached(assumptions: Same[isl.BasicSet]) -> SizeAssumptions:
    return SizeAssumptions(assumptions.value)


# }}}


# {{{ conversion of isl objects to closed forms


def _pieces(polynomial: isl.PwQPolynomial, residues: Residues) -> Iterator[tuple[isl.Set, Polynomial[Atom]]]:
    for domain, quasi in polynomial.get_pieces():
        names = _parameters(quasi)
        nothing: Polynomial[Atom] = Polynomial()
        total = sum((_term(term, names, residues) for term in quasi.get_terms()), nothing)
        if total.terms:
            yield domain, total


def _merged(pieces: Iterable[tuple[isl.Set, Polynomial[Atom]]]) -> ClosedForm:
    domains: dict[Polynomial[Atom], isl.Set] = {}
    for domain, polynomial in pieces:
        domains[polynomial] = domains[polynomial].union(domain) if polynomial in domains else domain
    return tuple(Piece(tuple(_conjunctions(domain.coalesce())), known) for known, domain in domains.items())


def _conjunctions(domain: isl.Set) -> Iterator[Conjunction]:
    names = _parameters(domain)
    for basic in domain.compute_divs().remove_redundancies().get_basic_sets():
        constraints = (
            Constraint(affine_of(each.get_aff(), names)[0], each.is_equality()) for each in basic.get_constraints()
        )
        # isl defines a floor by two inequalities, which our floors do not need.
        yield tuple(constraint for constraint in constraints if not _is_tautology(constraint))


def _parameters(function: isl.QPolynomial | isl.Set) -> list[tuple[Dimension, str]]:
    space = function.get_space()
    return [((PARAM, place), str(space.get_dim_name(PARAM, place))) for place in range(space.dim(PARAM))]


def _is_tautology(constraint: Constraint) -> bool:
    """Return whether the constraint is one side of 0 <= numerator - denominator*floor <= denominator - 1."""
    floors = [atom for atom in constraint.expression.variables if isinstance(atom, Floor)]
    if constraint.is_equality or len(floors) != 1:
        return False
    (floor,) = floors
    whole: Affine[Atom] = Affine(((floor, floor.denominator),))
    most: Affine[Atom] = Affine((), floor.denominator - 1)
    return constraint.expression in (floor.numerator - whole, most - floor.numerator + whole)


def _term(term: isl.Term, names: Sequence[tuple[Dimension, str]], residues: Residues) -> Polynomial[Atom]:
    product = Polynomial.number(_rational(term.get_coefficient_val()))
    for dimension, name in names:
        if exponent := term.get_exp(*dimension):
            product *= Polynomial.variable(name) ** exponent
    for place in range(term.dim(DIV)):
        if exponent := term.get_exp(DIV, place):
            product *= _folded(Floor(*affine_of(term.get_div(place), names)), residues) ** exponent
    return product


def affine_of(function: isl.Aff, names: Sequence[tuple[Dimension, str]]) -> tuple[Affine[Atom], int]:
    """Return *function* times the least number that makes all factors integers, and that number.

    *names* are the dimensions that it may depend on, with their names; each isl division becomes a variable.
    """
    times = function.get_denominator_val()
    factors: dict[Atom, int] = {}
    for dimension, name in names:
        factors[name] = as_int(function.get_coefficient_val(*dimension).mul(times))
    for place in range(function.dim(DIV)):
        if factor := as_int(function.get_coefficient_val(DIV, place).mul(times)):
            floor = Floor(*affine_of(function.get_div(place), names))
            factors[floor] = factors.get(floor, 0) + factor
    constant = as_int(function.get_constant_val().mul(times))
    divisor = gcd(as_int(times), constant, *factors.values())
    return Affine.total(factors, constant).divided(divisor), as_int(times) // divisor


def _rational(value: isl.Val) -> Rational:
    if value.is_int():
        return as_int(value)
    denominator = value.get_den_val()
    return Fraction(as_int(value * denominator), as_int(denominator))


def _folded(floor: Floor, residues: Residues) -> Polynomial[Atom]:
    """Return *floor* as a polynomial, without the floor if the known residues make it affine."""
    numerator, denominator = floor.numerator, floor.denominator
    rest = numerator.constant
    for atom, value in numerator.terms:
        modulus, residue = residues.get(atom, (1, 0)) if isinstance(atom, str) else (1, 0)
        if (value * modulus) % denominator:
            return Polynomial.variable(floor)
        rest += value * residue
    exact = Affine(numerator.terms, numerator.constant - rest % denominator)
    return Polynomial.of_affine(exact) * Fraction(1, denominator)


# }}}
