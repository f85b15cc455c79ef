"""Integer expressions as isl quasi-affine functions, simplified to the fewest floors.

``6*((3*i + j)//6) + (3*i + j) % 6`` is ``3*i + j``, and ``(3*i + j)//3`` is ``i`` for 0 <= j < 3. isl finds the former
when it adds floors, the latter when it knows the points. Quasi-affine expressions are sums, multiples, floor divisions
and remainders by constants, minima, maxima, conditional choices between such expressions, and bit operations with a
constant.

Comparisons may also contain quotients by constants that are not rounded down: ``i / 2 == j`` is ``i == 2*j``. Loopy's
code divides in double precision there. So only quotients that rounding does not affect are accepted: quotients by
powers of two, which are exact, and quotients that are an entire side, since rounding preserves the order.
"""

from collections.abc import Callable
from functools import reduce
from numbers import Integral
from typing import Any

import islpy as isl
import pymbolic.primitives as prim
from loopy.symbolic import SubstitutionMapper, aff_to_expr, set_to_cond_expr
from pymbolic.mapper import Mapper

from loopyperf.errors import UncountableError
from loopyperf.polyhedral.sets import as_int

PARAM = isl.dim_type.param
CASES = 4
"""values of a floor up to which it is written as cases, with which sets are smaller"""
BITS = 64
"""shifts by more than this leave no bit of an integer"""


class NotQuasiAffineError(UncountableError):
    """An expression that is not a quasi-affine function of the dimensions of a space."""


def _never(_: Any) -> bool:
    return False


def simplified_expression(expression: Any, points: isl.Set, is_offset: Callable[[Any], bool] = _never) -> Any:
    """Return *expression* on *points*, which are not empty, with as few floors and cases as isl finds.

    A part that is not quasi-affine is kept if *is_offset* accepts it; otherwise :class:`NotQuasiAffineError` names it.
    """
    mapper = _QuasiAffine(points.get_space(), is_offset)
    value = _with_fewer_cases(mapper(expression).intersect_domain(points)).gist(points)
    *others, (_, last) = value.get_pieces()
    found: Any = aff_to_expr(last)
    for where, aff in reversed(others):
        found = prim.If(set_to_cond_expr(where), aff_to_expr(aff), found)
    if mapper.offsets:
        found = SubstitutionMapper(lambda leaf: mapper.offsets.get(getattr(leaf, "name", "")))(found)
    return found


def _with_fewer_cases(value: isl.PwAff) -> isl.PwAff:
    """Return *value* with cases merged where one formula holds in several of them."""
    pieces = value.coalesce().get_pieces()
    for _, aff in pieces if len(pieces) > 1 else ():
        formula = isl.PwAff.from_aff(aff)
        equal = value.eq_set(formula)
        value = formula.intersect_domain(equal).union_add(value.subtract_domain(equal))
    return value.coalesce()


def quasi_affine_map(points: isl.Set, indices: tuple[Any, ...]) -> isl.Map:
    """Return the map from *points* to *indices*, expressions of their dimensions and parameters.

    Raises :class:`NotQuasiAffineError` if an index is not quasi-affine.
    """
    mapper = _QuasiAffine(points.get_space(), _never, points)
    found = isl.Map.from_domain(points)
    for index in indices:
        found = found.flat_range_product(isl.Map.from_pw_aff(mapper(index)))
    return found


def points_where_quasi_affine(space: isl.Space, condition: Any) -> isl.Set:
    """Return the points of *space* at which *condition* is true; raises :class:`NotQuasiAffineError`.

    Operands of comparisons, and integers used as conditions, must be quasi-affine.
    """
    return _QuasiAffine(space, _never).where(condition)


class _QuasiAffine(Mapper[isl.PwAff, []]):
    """Converts integer expressions to isl functions."""

    def __init__(self, space: isl.Space, is_offset: Callable[[Any], bool], points: isl.Set | None = None) -> None:
        super().__init__()
        self.is_offset, self.points = is_offset, points
        self.offsets: dict[str, Any] = {}
        """parameter -> the expression that it represents"""
        self._space = isl.LocalSpace.from_space(space)
        self._dimensions = space.get_var_dict()

    def rec(self, expr: Any, *args: Any, **kwargs: Any) -> isl.PwAff:
        try:
            return super().rec(expr)
        except (NotQuasiAffineError, NotImplementedError) as error:
            # pymbolic's mappers raise NotImplementedError for nodes that they know only by name.
            if self.is_offset(expr):
                return self._offset(expr)
            if isinstance(error, NotImplementedError):
                return self.handle_unsupported_expression(expr)
            raise

    __call__ = rec

    def _offset(self, expr: Any) -> isl.PwAff:
        name = next((name for name, offset in self.offsets.items() if offset == expr), f"offset {len(self.offsets)}")
        self.offsets[name] = expr
        space = self._space.get_space().add_dims(PARAM, 1)
        place = space.dim(PARAM) - 1
        return isl.PwAff.var_on_domain(isl.LocalSpace.from_space(space.set_dim_name(PARAM, place, name)), PARAM, place)

    def handle_unsupported_expression(self, expr: Any, *args: Any, **kwargs: Any) -> isl.PwAff:
        raise NotQuasiAffineError(f"{expr} ({type(expr).__name__}) is not a quasi-affine function of the loops")

    # {{{ sums and multiples

    def _constant(self, value: int) -> isl.PwAff:
        return isl.PwAff.from_aff(isl.Aff.val_on_domain(self._space, isl.Val(str(value))))

    def map_constant(self, expr: Any) -> isl.PwAff:
        return self._constant(int(expr)) if isinstance(expr, Integral) else self.handle_unsupported_expression(expr)

    def map_variable(self, expr: prim.Variable) -> isl.PwAff:
        if expr.name not in self._dimensions:
            return self.handle_unsupported_expression(expr)
        kind, place = self._dimensions[expr.name]
        return isl.PwAff.var_on_domain(self._space, kind, place)

    def map_sum(self, expr: prim.Sum) -> isl.PwAff:
        return reduce(isl.PwAff.add, map(self.rec, expr.children))

    def map_product(self, expr: prim.Product) -> isl.PwAff:
        return self._product(expr, [self.rec(child) for child in expr.children])

    def _product(self, expr: prim.Product, factors: list[isl.PwAff]) -> isl.PwAff:
        if sum(not factor.is_cst() for factor in factors) > 1:
            return self.handle_unsupported_expression(expr)
        return reduce(isl.PwAff.mul, factors)

    def map_power(self, expr: prim.Power) -> isl.PwAff:
        base, exponent = _number(self.rec(expr.base)), _number(self.rec(expr.exponent))
        if base is None or exponent is None or exponent < 0:
            return self.handle_unsupported_expression(expr)
        return self._constant(base**exponent)

    def map_type_cast(self, expr: Any) -> isl.PwAff:
        return self.rec(expr.child)

    map_type_annotation = map_type_cast

    # }}}

    # {{{ floors

    def map_floor_div(self, expr: prim.FloorDiv) -> isl.PwAff:
        divisor = _number(self.rec(expr.denominator))
        return self._floor(self.rec(expr.numerator), divisor) if divisor else self.handle_unsupported_expression(expr)

    def map_remainder(self, expr: prim.Remainder) -> isl.PwAff:
        divisor, value = _number(self.rec(expr.denominator)), self.rec(expr.numerator)
        if not divisor:
            return self.handle_unsupported_expression(expr)
        return value - _times(self._floor(value, divisor), divisor)

    def _floor(self, value: isl.PwAff, divisor: int) -> isl.PwAff:
        """Return *value* divided by *divisor* and rounded down: in cases without floors if it has few values."""
        found = _floor(value, divisor)
        if self.points is None:
            return found
        at_points = found.intersect_domain(self.points)
        least, most = at_points.min_val(), at_points.max_val()
        if not (least.is_int() and most.is_int()) or as_int(most) - as_int(least) >= CASES:
            return found
        values = map(self._constant, range(as_int(least), as_int(most) + 1))
        cases = (each.intersect_domain(_between(value, each, divisor)) for each in values)
        return reduce(isl.PwAff.union_add, cases)

    def map_left_shift(self, expr: prim.LeftShift) -> isl.PwAff:
        return _times(self.rec(expr.shiftee), 2 ** self._shift(expr))

    def map_right_shift(self, expr: prim.RightShift) -> isl.PwAff:
        return _floor(self.rec(expr.shiftee), 2 ** self._shift(expr))

    def _shift(self, expr: Any) -> int:
        shift = _number(self.rec(expr.shift))
        if shift is None or not 0 <= shift < BITS:
            raise NotQuasiAffineError(f"{expr} is not a shift by a constant from 0 to {BITS - 1}")
        return shift

    # }}}

    # {{{ bits

    def map_bitwise_and(self, expr: prim.BitwiseAnd) -> isl.PwAff:
        return reduce(self._masked, map(self.rec, expr.children))

    def map_bitwise_or(self, expr: prim.BitwiseOr) -> isl.PwAff:
        return reduce(lambda one, other: one + other - self._masked(one, other), map(self.rec, expr.children))

    def map_bitwise_xor(self, expr: prim.BitwiseXor) -> isl.PwAff:
        return reduce(
            lambda one, other: one + other - _times(self._masked(one, other), 2), map(self.rec, expr.children)
        )

    def map_bitwise_not(self, expr: prim.BitwiseNot) -> isl.PwAff:
        return self._constant(-1) - self.rec(expr.child)

    def _masked(self, one: isl.PwAff, other: isl.PwAff) -> isl.PwAff:
        """Return the bitwise and of two values, one of which must be a constant."""
        mask, value = _number(other), one
        if mask is None:
            mask, value = _number(one), other
        if mask is None:
            raise NotQuasiAffineError(f"cannot combine bits of {one} and {other}: both depend on the loops")
        if mask < 0:
            return value - self._masked(value, self._constant(~mask))
        bits = (place for place in range(mask.bit_length()) if mask >> place & 1)
        found = (_down_to(value, 2**bit) - _down_to(value, 2 ** (bit + 1)) for bit in bits)
        return reduce(isl.PwAff.add, found, self._constant(0))

    # }}}

    # {{{ choices

    def map_min(self, expr: prim.Min) -> isl.PwAff:
        return reduce(isl.PwAff.min, map(self.rec, expr.children))

    def map_max(self, expr: prim.Max) -> isl.PwAff:
        return reduce(isl.PwAff.max, map(self.rec, expr.children))

    def map_if(self, expr: prim.If) -> isl.PwAff:
        where = self.where(expr.condition)
        then, otherwise = self.rec(expr.then), self.rec(expr.else_)
        return then.intersect_domain(where).union_add(otherwise.intersect_domain(where.complement()))

    def where(self, condition: Any) -> isl.Set:
        """Return the set where *condition* is true."""
        match condition:
            case prim.Comparison(left=left, operator=operator, right=right):
                return _COMPARISONS[str(operator)](self._side(left), self._side(right))
            case prim.LogicalAnd(children=children):
                return reduce(isl.Set.intersect, map(self.where, children))
            case prim.LogicalOr(children=children):
                return reduce(isl.Set.union, map(self.where, children))
            case prim.LogicalNot(child=child):
                return self.where(child).complement()
            case _:
                return self.rec(condition).ne_set(self._constant(0))

    def _side(self, expr: Any) -> isl.PwAff:
        """Return a side of a comparison, which may be a fraction."""
        if not isinstance(expr, prim.Quotient):
            return self._exact(expr)
        divisor = _number(self.rec(expr.denominator))
        return _divided(self.rec(expr.numerator), divisor) if divisor else self.handle_unsupported_expression(expr)

    def _exact(self, expr: Any) -> isl.PwAff:
        """Return a value that floating point computes without rounding; its quotients are by powers of two."""
        match expr:
            case prim.Sum(children=children):
                return reduce(isl.PwAff.add, map(self._exact, children))
            case prim.Product(children=children):
                return self._product(expr, list(map(self._exact, children)))
            case prim.Quotient(denominator=denominator) if (_number(self.rec(denominator)) or 0).bit_count() == 1:
                return self._side(expr)
            case _:
                return self.rec(expr)

    # }}}


_COMPARISONS: dict[str, Callable[[isl.PwAff, isl.PwAff], isl.Set]] = {
    "==": isl.PwAff.eq_set,
    "!=": lambda one, other: one.eq_set(other).complement(),
    "<": lambda one, other: one.ge_set(other).complement(),
    "<=": isl.PwAff.le_set,
    ">": lambda one, other: one.le_set(other).complement(),
    ">=": isl.PwAff.ge_set,
}
"""isl's own ``ne_set``, ``lt_set`` and ``gt_set`` treat numbers that differ by less than one as equal"""


def _number(value: isl.PwAff) -> int | None:
    """Return *value* if it is a constant, else None."""
    if not value.is_cst():
        return None
    least, greatest = value.min_val(), value.max_val()
    return as_int(least) if least.is_int() and least.eq(greatest) else None


def _between(value: isl.PwAff, number: isl.PwAff, divisor: int) -> isl.Set:
    """Return where *value* divided by *divisor* and rounded down is *number*."""
    rest = value - _times(number, divisor)
    rest = rest if divisor > 0 else rest.neg()
    return rest.nonneg_set() & (rest + 1 - abs(divisor)).neg().nonneg_set()


def _times(value: isl.PwAff, factor: int) -> isl.PwAff:
    return value.scale_val(isl.Val(str(factor)))


def _divided(value: isl.PwAff, divisor: int) -> isl.PwAff:
    value = value if divisor > 0 else value.neg()
    return value.scale_down_val(isl.Val(str(abs(divisor))))


def _floor(value: isl.PwAff, divisor: int) -> isl.PwAff:
    return _divided(value, divisor).floor()


def _down_to(value: isl.PwAff, multiple: int) -> isl.PwAff:
    return _times(_floor(value, multiple), multiple)
