"""Random sets with parameters m and n, random assumptions on these, and the sizes at which both are tested."""

from collections.abc import Mapping

import islpy as isl
from hypothesis import strategies as st

from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial

SPACE = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[], params=["m", "n"]).params()
ANYTHING = isl.BasicSet.universe(SPACE)
GRID = [{"m": m, "n": n} for m in (-5, -1, 0, 2, 7) for n in (-4, -1, 0, 1, 4, 9, 12)]


def assuming(condition: str) -> isl.BasicSet:
    """Return assumptions on the parameters m and n."""
    return isl.BasicSet(f"[m, n] -> {{ : {condition} }}").params()


def counted(domain: str, condition: str = "") -> QuasiPolynomial:
    """Return the number of points of *domain*, a set with parameters m and n, where *condition* holds."""
    return QuasiPolynomial.of_points(isl.Set(f"[m, n] -> {domain}"), assuming(condition))


def fixed(points: isl.Set, sizes: Mapping[str, int]) -> isl.Set:
    """Return *points* at *sizes*, without parameters."""
    for name, (kind, place) in points.get_var_dict(isl.dim_type.param).items():
        points = points.fix_val(kind, place, isl.Val(sizes[name]))
    return points.project_out(isl.dim_type.param, 0, points.dim(isl.dim_type.param))


coefficients = st.integers(-3, 3)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """An affine expression in i, j, m and n."""
    return " + ".join([f"{draw(coefficients)}*{name}" for name in "ijmn"] + [str(draw(st.integers(-8, 8)))])


COLUMNS = ["-4 <= i <= 9", "0 <= i < n", "m <= i < n", "-6 <= 2*i - m <= 11"]
ROWS = ["-3 <= j <= 5", "i <= j <= 8", "0 <= j <= i"]
boxes = st.builds("{} and {}".format, st.sampled_from(COLUMNS), st.sampled_from(ROWS))
constraints = st.builds("{} {} 0".format, expressions(), st.sampled_from([">=", ">=", ">=", "="]))
polyhedra = st.builds(lambda box, cuts: " and ".join([box, *cuts]), boxes, st.lists(constraints, max_size=2))


@st.composite
def domains(draw: st.DrawFn) -> str:
    """One or two polyhedra bounded by a box that may depend on the parameters, with or without holes."""
    pieces = draw(st.lists(polyhedra, min_size=1, max_size=2))
    holes = "0 = 0"
    if draw(st.booleans()):
        modulus = draw(st.integers(2, 4))
        relation = draw(st.sampled_from(["=", ">=", "<="]))
        holes = f"({draw(expressions())}) mod {modulus} {relation} {draw(st.integers(0, modulus - 1))}"
    return f"{{ [i, j] : ({' or '.join(f'({piece})' for piece in pieces)}) and {holes} }}"


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """An assumption on the parameters, or none."""
    modulus = draw(st.sampled_from([2, 3, 4, 16]))
    return draw(
        st.sampled_from(
            [
                "",
                "n >= 1",
                "n >= m",
                "n = 2*m",
                "n <= 7 and m >= 0",
                f"n mod {modulus} = {draw(st.integers(0, modulus - 1))}",
                f"n mod {modulus} = 0 and m mod {modulus} = 1",
                "exists(k: n = 4*k and m = 2*k + 1)",
                f"n - m = {draw(st.integers(-2, 2))}",
            ]
        )
    )
