"""Exact symbolic counts: the number of points of a parametric set, as a piecewise quasi-polynomial.

Counting is Barvinok's algorithm as implemented by the barvinok library
(S. Verdoolaege et al., Counting integer points in parametric polytopes using Barvinok's rational functions,
Algorithmica 48, 2007), reached through islpy-barvinok.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import islpy as isl

from loopyperf.errors import ENGINE_REMEDY, EngineError, UnboundedDomainError
from loopyperf.polyhedral import closed_form as cf
from loopyperf.polyhedral.affine import Affine, Atom, Dimension, Floor
from loopyperf.polyhedral.closed_form import (
    ClosedForm,
    Conjunction,
    Constraint,
    Piece,
    Total,
    is_at_most,
    simplified_pieces,
)
from loopyperf.polyhedral.evaluation import Evaluator, IntegerArray, latex, text
from loopyperf.polyhedral.polynomial import Polynomial, Rational
from loopyperf.polyhedral.sets import Same, without_tiles

PARAM = isl.dim_type.param
DIV = isl.dim_type.div
Residues = Mapping[str, tuple[int, int]]
"""What is known of parameters modulo something: name -> (modulus, residue)."""


def engine_is_exact() -> bool:
    """Return whether the installed islpy counts symbolically, i.e. was built with barvinok."""
    return hasattr(isl.Set, "card")


@dataclass(frozen=True)
class QuasiPolynomial:
    """A count as an exact function of the kernel's integer parameters.

    Valid where the kernel's assumptions hold; elsewhere evaluation is refused.
    """

    polynomial: isl.PwQPolynomial
    """isl's, in pieces; its space has all the parameters of the kernel"""
    assumptions: isl.BasicSet
    """isl's set of the sizes at which it holds, in the same space"""

    # {{{ making

    @staticmethod
    def of_points(domain: isl.Set, assumptions: isl.BasicSet) -> "QuasiPolynomial":
        """Return the number of integer points of *domain* as a function of its parameters.

        Raises :class:`UnboundedDomainError` if there are infinitely many, :class:`EngineError` without barvinok.
        """
        # isl keeps the order of the space that is aligned to, so all counts of a kernel live in the same space. What is
        # assumed of remainders slows Barvinok's algorithm down by half; floors are folded by it afterwards.
        known = _known(assumptions)
        points = domain.align_params(assumptions.get_space()).intersect_params(known.bounds)
        if not points.is_bounded():
            raise UnboundedDomainError(f"infinitely many points in {domain}")
        if not engine_is_exact():
            return QuasiPolynomial.constant(_number_without_engine(points, assumptions), assumptions)
        return QuasiPolynomial(without_tiles(points).card(), assumptions).simplified()

    @staticmethod
    def constant(value: int, assumptions: isl.BasicSet) -> "QuasiPolynomial":
        """Return the count that is *value* whatever the parameters."""
        space = assumptions.get_space()
        polynomial = isl.QPolynomial.val_on_domain(space, isl.Val(str(value)))
        return QuasiPolynomial(isl.PwQPolynomial.from_qpolynomial(polynomial), assumptions)

    @staticmethod
    def of_extent(extent: isl.PwAff, assumptions: isl.BasicSet) -> "QuasiPolynomial":
        """Return the extent of a grid or group axis; negative ones, of empty loops, become zero."""
        aligned = extent.align_params(assumptions.get_space())
        zero = isl.PwAff.zero_on_domain(isl.LocalSpace.from_space(aligned.get_domain_space()))
        return QuasiPolynomial(isl.PwQPolynomial.from_pw_aff(aligned.max(zero)), assumptions).simplified()

    # }}}

    # {{{ writing down

    @property
    def transcript(self) -> str:
        """Return the polynomial in isl's notation."""
        return str(self.polynomial)

    @staticmethod
    def read(transcript: str, assumptions: isl.BasicSet) -> "QuasiPolynomial":
        """Return the count whose :attr:`transcript` this is; raises :class:`islpy.Error` if it is none."""
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

    # {{{ reading

    @cached_property
    def form(self) -> ClosedForm:
        """Return the closed form, with everything folded that the assumptions say of residues."""
        return _merged(self._pieces)

    @cached_property
    def formula(self) -> ClosedForm:
        """Return the shortest closed form found, for people to read; where its pieces overlap, they agree."""
        return _merged(simplified_pieces(self._pieces, _known(self.assumptions).context))

    @cached_property
    def _pieces(self) -> list[tuple[isl.Set, Polynomial[Atom]]]:
        return list(_pieces(self.polynomial, _known(self.assumptions).residues))

    @property
    def parameters(self) -> frozenset[str]:
        """Return the names of the parameters that the count depends on."""
        return cf.parameters([self.form])

    def is_at_most(self, other: "QuasiPolynomial") -> bool:
        """Return whether this count is known to be at most *other* at all sizes that the kernel's assumptions admit."""
        return is_at_most(self._pieces, other._pieces, _known(self.assumptions).context)

    @cached_property
    def _evaluator(self) -> Evaluator:
        return Evaluator([self.form], [Total(((0, 1),))], SizeAssumptions(self.assumptions))

    def __call__(self, /, **sizes: int) -> int:
        """Return the count at *sizes* as an exact Python integer; the kernel's other sizes may be among them.

        A count with typical values in it may be fractional, and is rounded to the nearest integer.

        Raises :class:`ParameterError` for a size that is missing, not an integer or not the kernel's, and for sizes
        that the kernel's assumptions exclude.
        """
        return self._evaluator.at(sizes)[0]

    def evaluate(self, /, **sizes: int | IntegerArray) -> IntegerArray:
        """Return the count at arrays of sizes, which broadcast together; int64 where it fits, else exact integers."""
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
    """Return the number of points where the assumptions leave each parameter one value, which isl alone can count."""
    assumed = isl.Set.from_basic_set(assumptions)
    for index in range(assumed.dim(PARAM)):
        involved = points.involves_dims(PARAM, index, 1)
        if involved and not assumed.plain_get_val_if_fixed(PARAM, index).is_int():
            raise EngineError(f"the installed islpy lacks barvinok, so a count cannot be symbolic; {ENGINE_REMEDY}")
    return points.project_out(PARAM, 0, points.dim(PARAM)).count_val().to_python()


def number_of_points(domain: isl.Set) -> int:
    """Return the number of integer points of the bounded *domain*, which has no parameters."""
    if not engine_is_exact():
        return domain.count_val().to_python()
    count = domain.card()
    return count.eval(isl.Point.zero(count.get_domain_space())).to_python()


# {{{ what assumptions say


@dataclass(frozen=True)
class SizeAssumptions:
    """A kernel's assumptions; their space has all its parameters."""

    basic_set: isl.BasicSet

    @property
    def parameters(self) -> frozenset[str]:
        """Return the names of all sizes that the kernel takes."""
        return frozenset(self.basic_set.get_var_names_not_none(PARAM))

    def on(self, parameters: Collection[str]) -> ClosedForm:
        """Return a closed form that is 1 where the assumptions admit *parameters*, whatever the others, else 0."""
        relevant = self.context.project_out_except(sorted(parameters), [PARAM])
        return (Piece(tuple(_conjunctions(relevant)), Polynomial.number(1)),)

    @cached_property
    def context(self) -> isl.Set:
        """Return all sizes that are admitted."""
        return isl.Set.from_basic_set(self.basic_set)

    @cached_property
    def bounds(self) -> isl.Set:
        """Return what inequalities and equations alone admit, whatever is assumed of remainders."""
        return isl.Set.from_basic_set(self.basic_set.remove_divs())

    @cached_property
    def residues(self) -> Residues:
        """Return for each parameter that is known modulo some number: (modulus, residue)."""
        residues: dict[str, tuple[int, int]] = {}
        for index, name in enumerate(self.context.get_var_names_not_none(PARAM)):
            stride_info = self.context.move_dims(isl.dim_type.set, 0, PARAM, index, 1).get_stride_info(0)
            stride, offset = stride_info.get_stride().to_python(), stride_info.get_offset()
            if stride > 1 and offset.is_cst():
                residues[name] = (stride, offset.get_constant_val().to_python() % stride)
        return residues


def _known(assumptions: isl.BasicSet) -> SizeAssumptions:
    """Return *assumptions* with what has been found out about them: all counts of a kernel share them.

    To isl, ``[m] -> { : }`` equals ``[n] -> { : }``.
    """
    return _remembered(Same(assumptions))


@lru_cache
def _remembered(assumptions: Same[isl.BasicSet]) -> SizeAssumptions:
    return SizeAssumptions(assumptions.value)


# }}}


# {{{ from isl to closed forms


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
            Constraint(Affine.of_isl(each.get_aff(), names)[0], each.is_equality()) for each in basic.get_constraints()
        )
        # A floor is defined by two inequalities in isl; as a value it needs none.
        yield tuple(each for each in constraints if not _is_tautology(each))


def _parameters(function: isl.QPolynomial | isl.Set) -> list[tuple[Dimension, str]]:
    space = function.get_space()
    return [((PARAM, place), str(space.get_dim_name(PARAM, place))) for place in range(space.dim(PARAM))]


def _is_tautology(constraint: Constraint) -> bool:
    """Return whether 0 <= numerator - denominator*floor <= denominator - 1 is all that the constraint says."""
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
            product *= _folded(Floor(*Affine.of_isl(term.get_div(place), names)), residues) ** exponent
    return product


def _rational(value: isl.Val) -> Rational:
    if value.is_int():
        return value.to_python()
    denominator = value.get_den_val()
    return Fraction((value * denominator).to_python(), denominator.to_python())


def _folded(floor: Floor, residues: Residues) -> Polynomial[Atom]:
    """Return *floor* as a polynomial, without the floor where what is known of residues makes it affine."""
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
