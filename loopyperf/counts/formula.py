"""Closed forms as text and as LaTeX."""

from fractions import Fraction

from loopyperf.counts.closed_form import Affine, Atom, ClosedForm, Conjunction, Floor, Monomial, Piece


def text(form: ClosedForm) -> str:
    """Return *form* on one line, e.g. ``"n^3/8"`` or ``"n^2 if n >= 16; 16*n if 0 <= n - 1 and ..."``."""
    return "; ".join(_piece(piece, _Plain()) for piece in form) or "0"


def latex(form: ClosedForm) -> str:
    """Return *form* as LaTeX without delimiters; several pieces become a ``cases`` environment."""
    if len(form) == 1 and form[0].is_unconditional:
        return _polynomial(form[0], _Latex())
    rows = [f"{_polynomial(piece, _Latex())} & {_conditions(piece, _Latex())}" for piece in form]
    return r"\begin{cases}" + r" \\ ".join(rows) + r"\end{cases}" if rows else "0"


class _Plain:
    times, at_least, conjunction, disjunction = "*", ">=", " and ", " or "

    @staticmethod
    def name(parameter: str) -> str:
        return parameter

    @staticmethod
    def floor(numerator: str, denominator: int) -> str:
        return (
            f"floor({numerator}/{denominator})" if numerator.isidentifier() else f"floor(({numerator})/{denominator})"
        )

    @staticmethod
    def power(base: str, exponent: int) -> str:
        return f"{base}^{exponent}"

    @staticmethod
    def fraction(numerator: str, denominator: int) -> str:
        return f"{numerator}/{denominator}"

    @staticmethod
    def modulo(expression: str, modulus: int) -> str:
        return f"{expression} mod {modulus}"


class _Latex:
    times, at_least, conjunction, disjunction = r" \, ", r"\geq", r" \land ", r" \lor "

    @staticmethod
    def name(parameter: str) -> str:
        escaped = parameter.replace("_", r"\_")
        return parameter if len(parameter) == 1 else rf"\mathit{{{escaped}}}"

    @staticmethod
    def floor(numerator: str, denominator: int) -> str:
        return rf"\left\lfloor \frac{{{numerator}}}{{{denominator}}} \right\rfloor"

    @staticmethod
    def power(base: str, exponent: int) -> str:
        return f"{{{base}}}^{{{exponent}}}"

    @staticmethod
    def fraction(numerator: str, denominator: int) -> str:
        return rf"\frac{{{numerator}}}{{{denominator}}}"

    @staticmethod
    def modulo(expression: str, modulus: int) -> str:
        return rf"{expression} \bmod {modulus}"


_Notation = _Plain | _Latex


def _piece(piece: Piece, notation: _Notation) -> str:
    polynomial = _polynomial(piece, notation)
    return polynomial if piece.is_unconditional else f"{polynomial} if {_conditions(piece, notation)}"


def _conditions(piece: Piece, notation: _Notation) -> str:
    return notation.disjunction.join(_conjunction(conjunction, notation) for conjunction in piece.conditions)


def _conjunction(conjunction: Conjunction, notation: _Notation) -> str:
    tests: list[str] = []
    for constraint in conjunction:
        modulo = _as_modulo(constraint.expression) if constraint.is_equality else None
        if modulo:
            parameter, modulus, residue = modulo
            tests.append(f"{notation.modulo(notation.name(parameter), modulus)} = {residue}")
        elif constraint.is_equality:
            tests.append(_comparison(constraint.expression, "=", notation))
        else:
            tests.append(_comparison(constraint.expression, notation.at_least, notation))
    return notation.conjunction.join(tests)


def _comparison(expression: Affine, sign: str, notation: _Notation) -> str:
    """Return ``variables sign constant``."""
    variables = Affine(expression.coefficients, Fraction(0))
    if all(value < 0 for _, value in variables.coefficients):
        flipped = {notation.at_least: r"\leq" if sign == r"\geq" else "<="}.get(sign, sign)
        return f"{_affine(variables.scaled(-1), notation)} {flipped} {expression.constant}"
    return f"{_affine(variables, notation)} {sign} {-expression.constant}"


def _as_modulo(expression: Affine) -> tuple[str, int, int] | None:
    """Return (n, d, r) where the equality is n - d*floor((n - r)/d) - r = 0, that is n mod d = r."""
    sign = -1 if any(isinstance(atom, Floor) and value > 0 for atom, value in expression.coefficients) else 1
    values = {atom: value * sign for atom, value in expression.coefficients}
    match sorted(values.items(), key=lambda pair: isinstance(pair[0], Floor)):
        case [(str() as name, Fraction(numerator=1, denominator=1)), (Floor() as floor, modulus)]:
            inner = floor.numerator.coefficients
            residue = int(-expression.constant * sign)
            # With n + c in the floor, the equality says that n + c leaves the remainder c + r, if that is one.
            possible = 0 <= residue + floor.numerator.constant < floor.denominator
            if inner == ((name, Fraction(1)),) and floor.denominator == -modulus and possible:
                return name, floor.denominator, residue % floor.denominator
        case _:
            pass
    return None


def _polynomial(piece: Piece, notation: _Notation) -> str:
    return _sum([_term(monomial, value, notation) for monomial, value in piece.terms])


def _term(monomial: Monomial, value: Fraction, notation: _Notation) -> str:
    factors = [_power(atom, exponent, notation) for atom, exponent in monomial]
    if abs(value.numerator) != 1 or not factors:
        factors.insert(0, str(abs(value.numerator)))
    product = notation.times.join(factors)
    sign = "-" if value < 0 else ""
    return sign + (product if value.denominator == 1 else notation.fraction(product, value.denominator))


def _power(atom: Atom, exponent: int, notation: _Notation) -> str:
    base = notation.name(atom) if isinstance(atom, str) else _floor(atom, notation)
    return base if exponent == 1 else notation.power(base, exponent)


def _floor(floor: Floor, notation: _Notation) -> str:
    return notation.floor(_affine(floor.numerator, notation), floor.denominator)


def _affine(expression: Affine, notation: _Notation) -> str:
    ordered = sorted(expression.coefficients, key=lambda pair: pair[1] < 0)
    terms = [_term(((atom, 1),), value, notation) for atom, value in ordered]
    if expression.constant or not terms:
        terms.append(str(expression.constant))
    return _sum(terms)


def _sum(terms: list[str]) -> str:
    first, *rest = terms
    return first + "".join(f" - {term[1:]}" if term.startswith("-") else f" + {term}" for term in rest)
