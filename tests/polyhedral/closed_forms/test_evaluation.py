"""Test evaluation of counts: exact, vectorized, and only at complete integer sizes that satisfy the assumptions."""

import islpy as isl
import numpy as np
import pytest

from loopyperf.errors import ParameterError
from loopyperf.polyhedral.affine import Affine, Atom, Floor
from loopyperf.polyhedral.closed_form import Constraint, Piece, Total
from loopyperf.polyhedral.evaluation import Evaluator
from loopyperf.polyhedral.polynomial import Polynomial
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial, SizeAssumptions


def counted(domain: str, condition: str = "") -> QuasiPolynomial:
    """Return the number of points of *domain*, a set with parameters m and n, where *condition* holds."""
    assumptions = isl.BasicSet(f"[m, n] -> {{ : {condition} }}").params()
    return QuasiPolynomial.of_points(isl.Set(f"[m, n] -> {domain}"), assumptions)


@pytest.fixture
def rectangle() -> QuasiPolynomial:
    """Return the count of n·m points."""
    return counted("{ [i, j] : 0 <= i < n and 0 <= j < m }", "n >= 1 and m >= 1")


@pytest.fixture
def tiles() -> QuasiPolynomial:
    """Return the count of n/16 points, which does not depend on m."""
    return counted("{ [i] : 0 <= 16*i < n }", "n >= 16 and n mod 16 = 0 and m >= n")


# {{{ numbers


@pytest.mark.parametrize("integer", [3, np.int8(3), np.uint16(3), np.int64(3)])
def test_any_integer_type_is_accepted_as_a_size(rectangle: QuasiPolynomial, integer: int) -> None:
    count = rectangle(n=integer, m=2**40)
    assert count == 3 * 2**40
    assert type(count) is int


@pytest.mark.parametrize("wrong", [3.0, True, np.float64(3), np.bool_(True), "3", None, 3j, [3]])
def test_size_that_is_not_an_integer_is_rejected(rectangle: QuasiPolynomial, wrong: object) -> None:
    with pytest.raises(ParameterError, match=r"size n must be an integer, got .*\("):
        rectangle(n=wrong, m=1)  # pyright: ignore[reportArgumentType]


def test_missing_size_is_named_with_all_needed_sizes(rectangle: QuasiPolynomial) -> None:
    with pytest.raises(ParameterError, match="missing size n; the sizes needed are: m, n"):
        rectangle(m=1)
    with pytest.raises(ParameterError, match="missing size m, n; the sizes needed are: m, n"):
        rectangle.evaluate()


def test_superfluous_size_is_named_with_all_valid_sizes(rectangle: QuasiPolynomial) -> None:
    with pytest.raises(ParameterError, match="no size k, l; its sizes are: m, n"):
        rectangle(m=1, n=1, l=1, k=1)


def test_size_without_effect_may_be_given(tiles: QuasiPolynomial) -> None:
    assert tiles.parameters == {"n"}
    assert tiles(n=32) == tiles(n=32, m=32) == 2


# }}}


# {{{ assumptions


@pytest.mark.parametrize("sizes", [{"n": 0}, {"n": 17}, {"n": -16}, {"n": 32, "m": 31}])
def test_sizes_outside_of_the_assumptions_are_rejected(tiles: QuasiPolynomial, sizes: dict[str, int]) -> None:
    with pytest.raises(ParameterError, match="violates the kernel's assumptions: "):
        tiles(**sizes)
    with pytest.raises(ParameterError, match="violates the kernel's assumptions: "):
        tiles.evaluate(**{name: np.array([size]) for name, size in sizes.items()})


def test_error_names_the_size_and_the_assumptions(tiles: QuasiPolynomial) -> None:
    with pytest.raises(ParameterError, match=r"^n=17 violates the kernel's assumptions: n mod 16 = 0 and n >= 16$"):
        tiles(n=17)
    with pytest.raises(ParameterError, match=r"^n=40 violates"):
        tiles.evaluate(n=np.array([16, 32, 40, 48, 50]))


def test_omitted_sizes_may_have_any_admissible_value() -> None:
    count = counted("{ [i] : 0 <= i < n }", "n >= 2*m and m >= 3")
    assert count(n=6) == 6
    with pytest.raises(ParameterError):
        count(n=5)


def test_contradictory_assumptions_admit_no_sizes() -> None:
    count = counted("{ [i] : 0 <= i < n }", "n >= 1 and n <= 0")
    with pytest.raises(ParameterError):
        count()


# }}}


# {{{ long formulas


def piece(condition: Affine[Atom], *terms: tuple[Atom, int]) -> Piece:
    """Return Σ coefficient·atom where *condition* is zero or more."""
    return Piece(
        ((Constraint(condition, is_equality=False),),), Polynomial.total({(atom,): value for atom, value in terms})
    )


def test_formulas_of_thousands_of_terms_and_pieces_are_evaluated() -> None:
    # n + 2·floor(n/2) + 3·floor(n/3) + ... where n >= 5000, and n where 0 <= n < 5000, in pieces of one size each.
    n = Affine[Atom].variable("n")
    floors = [(Floor(n, k), k) for k in range(2, 4000)]
    sums = piece(Affine(n.terms, -5000), ("n", 1), *floors)
    ones = tuple(
        Piece(((Constraint(Affine(n.terms, -k), is_equality=True),),), Polynomial.variable("n")) for k in range(5000)
    )
    disjunction = Piece(tuple(one.conditions[0] for one in ones), Polynomial.number(7))
    anything = SizeAssumptions(isl.BasicSet("[n] -> { : }").params())
    total, pieces, any_of = Total(((0, 1),)), Total(((1, 1),)), Total(((2, 1),))
    evaluator = Evaluator([(sums,), ones, (disjunction,)], [total, pieces, any_of], anything)

    large = sum(k * (6000 // k) for k in range(1, 4000))
    assert evaluator.at({"n": 6000}) == (large, 0, 0)
    assert evaluator.at({"n": 4321}) == (0, 4321, 7)
    arrays = evaluator.at_arrays({"n": np.array([6000, 4321, 0])})
    assert [array.tolist() for array in arrays] == [[large, 0, 0], [0, 4321, 0], [0, 7, 7]]


# }}}


# {{{ arrays


def test_arrays_broadcast_together(rectangle: QuasiPolynomial) -> None:
    counts = rectangle.evaluate(n=np.array([1, 2, 3]), m=np.array([[10], [20]]))
    assert counts.tolist() == [[10, 20, 30], [20, 40, 60]]
    assert rectangle.evaluate(n=np.array([1, 2, 3]), m=10).tolist() == [10, 20, 30]


def test_sizes_without_effect_broadcast(tiles: QuasiPolynomial) -> None:
    assert tiles.evaluate(n=16, m=np.array([16, 100])).tolist() == [1, 1]
    assert counted("{ [i] : 0 <= i < 5 }").evaluate(n=np.array([[1, 2]])).tolist() == [[5, 5]]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2, 3, 4)])
def test_result_has_the_shape_of_the_sizes(rectangle: QuasiPolynomial, shape: tuple[int, ...]) -> None:
    counts = rectangle.evaluate(n=np.full(shape, 7), m=3)
    assert counts.shape == shape
    assert np.array_equal(counts, np.full(shape, 21))


def test_count_without_sizes_is_a_zero_dimensional_array() -> None:
    counts = counted("{ [i] : 0 <= i < 5 }").evaluate()
    assert (counts.shape, counts.tolist()) == ((), 5)


def test_many_sizes_are_evaluated_in_the_order_given(rectangle: QuasiPolynomial) -> None:
    # More sizes than in one chunk of the evaluation.
    sizes = np.arange(1, 30_000)
    assert np.array_equal(3 * sizes, rectangle.evaluate(n=sizes, m=3))


def test_sizes_are_not_modified(rectangle: QuasiPolynomial) -> None:
    sizes = np.array([3, 1, 2], np.uint8)
    rectangle.evaluate(n=sizes, m=sizes)
    assert (sizes.tolist(), sizes.dtype) == ([3, 1, 2], np.uint8)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64, object])
def test_counts_do_not_overflow_the_type_of_the_sizes(rectangle: QuasiPolynomial, dtype: type) -> None:
    sizes = np.array([100, 127], dtype)
    assert rectangle.evaluate(n=sizes, m=sizes).tolist() == [10_000, 16_129]


@pytest.mark.parametrize(("size", "dtype"), [(2**20, np.int64), (2**31, object), (2**62, object), (2**70, object)])
def test_arrays_are_64_bit_integers_if_these_are_exact(rectangle: QuasiPolynomial, size: int, dtype: type) -> None:
    sizes = np.array([1, size], object if size > 2**63 else np.int64)
    counts = rectangle.evaluate(n=sizes, m=sizes)
    assert counts.tolist() == [1, size**2]
    assert counts.dtype == dtype


def test_largest_unsigned_integers_are_exact(rectangle: QuasiPolynomial) -> None:
    sizes = np.array([2**64 - 1], np.uint64)
    assert rectangle.evaluate(n=sizes, m=1).tolist() == [2**64 - 1]


@pytest.mark.parametrize(
    ("wrong", "received"),
    [
        (np.array([1.0]), "an array of float64"),
        (np.array([True]), "an array of bool"),
        (np.array([]), "an array of float64"),
        (np.array(["1"]), "an array of <U1"),
        (np.array([1, True], object), "True"),
        (np.array([1, 2.5], object), "2.5"),
    ],
)
def test_arrays_that_are_not_integers_are_rejected(rectangle: QuasiPolynomial, wrong: object, received: str) -> None:
    with pytest.raises(ParameterError, match=f"n must be .*got {received}"):
        rectangle.evaluate(n=wrong, m=1)  # pyright: ignore[reportArgumentType]


def test_masked_array_of_sizes_is_rejected(rectangle: QuasiPolynomial) -> None:
    with pytest.raises(ParameterError, match="n must be integers, got a masked array"):
        rectangle.evaluate(n=np.ma.array([1, 2], mask=[False, True]), m=1)


def test_arrays_that_do_not_broadcast_are_rejected(rectangle: QuasiPolynomial) -> None:
    with pytest.raises(ParameterError, match=r"do not broadcast together: m \(2,\), n \(3,\)"):
        rectangle.evaluate(n=np.array([1, 2, 3]), m=np.array([1, 2]))


# }}}


# {{{ the text and the LaTeX code of formulas


def formula_counted(domain: str, condition: str = "", parameters: str = "m, n") -> QuasiPolynomial:
    """Return the number of points of *domain* where *condition* holds of the parameters."""
    assumptions = isl.BasicSet(f"[{parameters}] -> {{ : {condition} }}").params()
    return QuasiPolynomial.of_points(isl.Set(f"[{parameters}] -> {domain}"), assumptions)


TILES = "{ [i, j] : 0 <= 16*i < n and 0 <= 16*j < n }"

FORMULAS = [
    ("{ [i] : i = 3 }", "", "1", "1"),
    ("{ [i] : 0 <= i < n <= 0 }", "", "0", "0"),
    ("{ [i, j] : 0 <= i, j < n }", "n >= 1", "n^2", "{n}^{2}"),
    ("{ [i, j] : 0 <= i, j < n }", "", "n^2 if n >= 1", r"\begin{cases}{n}^{2} & n \geq 1\end{cases}"),
    ("{ [i, j] : 0 <= j <= i < n }", "n >= 1", "n^2/2 + n/2", r"\frac{{n}^{2}}{2} + \frac{n}{2}"),
    ("{ [i, j] : 0 <= i < n and 0 <= j < 3*m }", "n >= 1 and m >= 1", "3*m*n", r"3 \, m \, n"),
    ("{ [i] : m <= i < n }", "m < n", "n - m", "n - m"),
    # A known remainder turns a floor into a fraction ...
    (TILES, "n >= 1 and n mod 16 = 0", "n^2/256", r"\frac{{n}^{2}}{256}"),
    ("{ [i] : 0 <= 16*i < n }", "n >= 1 and n mod 16 = 3", "(n + 13)/16", r"\frac{n + 13}{16}"),
    ("{ [i] : 0 <= 16*i < n + 2*m }", "n + 2*m >= 1 and n mod 16 = 0 and m mod 8 = 0", "m/8 + n/16", None),
    # ... also if the divisor of the floor divides the assumed modulus, but not if it is a multiple of it.
    ("{ [i] : 0 <= 4*i < n }", "n >= 1 and n mod 16 = 0", "n/4", r"\frac{n}{4}"),
    ("{ [i] : 0 <= 16*i < n }", "n >= 1 and n mod 4 = 0", "floor((n + 15)/16)", None),
    ("{ [i] : 0 <= 16*i < n }", "n >= 1", "floor((n + 15)/16)", r"\left\lfloor \frac{n + 15}{16} \right\rfloor"),
    ("{ [i] : i = 0 and n mod 4 = 3 }", "", "1 if n mod 4 = 3", r"\begin{cases}1 & n \bmod 4 = 3\end{cases}"),
    # The common factor of several terms is factored out if that is shorter.
    ("{ [i, j] : 0 <= i < n + 4 and 0 <= j < 3*n }", "n >= 1", "3*n^2 + 12*n", r"3 \, {n}^{2} + 12 \, n"),
    (
        "{ [i, j, k] : 0 <= i < n + m and 0 <= j < n - m and 0 <= k < 100 }",
        "n > m >= 1",
        "100*(n^2 - m^2)",
        r"100 \, \left({n}^{2} - {m}^{2}\right)",
    ),
    # Bounds of the same variable or difference are combined.
    ("{ [i] : i = 0 and 3 <= n <= 9 and -1 <= n - m <= 2 }", "", "1 if -1 <= n - m <= 2 and 3 <= n <= 9", None),
    ("{ [i] : i = 0 and m <= n + 5 and 2*m = n }", "", "1 if n = 2*m and m >= -5", None),
    ("{ [i] : i = 0 and m <= n + 5 and m > 2*n }", "", "1 if n >= m - 5 and m > 2*n", None),
    # Equal pieces are merged.
    (
        "{ [i] : i = 0 and (n <= -3 or n >= 5) }",
        "",
        "1 if n >= 5 or n <= -3",
        r"\begin{cases}1 & n \geq 5 \lor n \leq -3\end{cases}",
    ),
    (
        "{ [i] : 0 <= i < n and i < m }",
        "",
        "m if m >= 1 and n >= m; n if n >= 1 and m > n",
        r"\begin{cases}m & m \geq 1 \land n \geq m \\ n & n \geq 1 \land m > n\end{cases}",
    ),
]


def test_count_is_formatted_as_its_formula(subtests: pytest.Subtests) -> None:
    for domain, condition, text, latex in FORMULAS:
        with subtests.test(domain=domain, condition=condition, text=text, latex=latex):
            count = formula_counted(domain, condition)
            assert text == str(count)
            if latex is not None:
                assert latex == count.latex()


def test_long_names_are_words_in_latex() -> None:
    count = formula_counted("{ [i] : 0 <= 2*i < row_length }", "row_length mod 2 = 0 and row_length > 0", "row_length")
    assert str(count) == "row_length/2"
    assert count.latex() == r"\frac{\mathit{row\_length}}{2}"


@pytest.mark.parametrize("residue", [0, 1, 5, 15])
def test_known_residues_replace_floors(residue: int) -> None:
    domain = "{ [i, j] : 0 <= 16*i < n and 0 <= 3*j <= 2*n + 7 }"
    plain, folded = formula_counted(domain), formula_counted(domain, f"n mod 48 = {residue}")
    assert "floor" in str(plain)
    assert "floor" not in str(folded)
    for n in range(residue, 1000, 48):
        assert plain(n=n) == folded(n=n)


# }}}
