"""Test the text and the LaTeX code of formulas."""

import islpy as isl
import pytest

from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial


def counted(domain: str, condition: str = "", parameters: str = "m, n") -> QuasiPolynomial:
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
    (
        "{ [i] : 0 <= 16*i < n }",
        "n >= 1",
        "floor((n + 15)/16)",
        r"\left\lfloor \frac{n + 15}{16} \right\rfloor",
    ),
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
            count = counted(domain, condition)
            assert text == str(count)
            if latex is not None:
                assert latex == count.latex()


def test_long_names_are_words_in_latex() -> None:
    count = counted("{ [i] : 0 <= 2*i < row_length }", "row_length mod 2 = 0 and row_length > 0", "row_length")
    assert str(count) == "row_length/2"
    assert count.latex() == r"\frac{\mathit{row\_length}}{2}"


@pytest.mark.parametrize("residue", [0, 1, 5, 15])
def test_known_residues_replace_floors(residue: int) -> None:
    domain = "{ [i, j] : 0 <= 16*i < n and 0 <= 3*j <= 2*n + 7 }"
    plain, folded = counted(domain), counted(domain, f"n mod 48 = {residue}")
    assert "floor" in str(plain)
    assert "floor" not in str(folded)
    for n in range(residue, 1000, 48):
        assert plain(n=n) == folded(n=n)
