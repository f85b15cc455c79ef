"""Test quasi-polynomial counts against isl's enumeration of points."""

import islpy as isl
import numpy as np
import pytest
from hypothesis import given, settings

from loopyperf.errors import EngineError, ParameterError, UnboundedDomainError
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial, number_of_points
from tests.polyhedral.random_sets import ANYTHING, GRID, assuming, conditions, counted, domains, fixed


@settings(max_examples=120, deadline=None, derandomize=True)
@given(domains(), conditions())
def test_counts_equal_enumeration_where_the_assumptions_hold(domain: str, condition: str) -> None:
    count, points = counted(domain, condition), isl.Set(f"[m, n] -> {domain}")
    assumed = isl.Set.from_basic_set(assuming(condition))
    for sizes in GRID:
        if fixed(assumed, sizes).is_empty():
            with pytest.raises(ParameterError):
                count(**sizes)
        else:
            enumerated = fixed(points, sizes).count_val().to_python()
            needed = {name: sizes[name] for name in count.parameters}
            assert enumerated == count(**needed) == count(**sizes), sizes


@settings(max_examples=80, deadline=None, derandomize=True)
@given(domains())
def test_arrays_equal_scalars(domain: str) -> None:
    count = counted(domain)
    one_by_one = [count(**sizes) for sizes in GRID]
    arrays = {name: np.array([sizes[name] for sizes in GRID]) for name in ("m", "n")}
    assert one_by_one == count.evaluate(**arrays).tolist()
    assert one_by_one == count.evaluate(**{name: array.astype(object) for name, array in arrays.items()}).tolist()


def test_equal_assumptions_on_other_sizes_are_distinguished() -> None:
    # isl considers the two sets of sizes equal.
    for name in ("n", "m", "n"):
        universe = isl.BasicSet(f"[{name}] -> {{ : }}").params()
        count = QuasiPolynomial.of_points(isl.Set(f"[{name}] -> {{ [i] : 0 <= i < {name} }}"), universe)
        assert count.parameters == {name}
        assert count(**{name: 3}) == 3


# {{{ large numbers


def test_counts_are_exact_beyond_63_bits() -> None:
    # A square of side n + 1, at n = 10^12.
    count = counted("{ [i, j] : 0 <= i, j <= n }")
    assert count(n=10**12) == (10**12 + 1) ** 2
    assert count.evaluate(n=np.array([10**12, 1])).tolist() == [(10**12 + 1) ** 2, 4]


def test_coefficients_are_exact_beyond_63_bits() -> None:
    # 10^10 · 10^10 · n
    count = counted("{ [i, j, k] : 0 <= i, j < 10000000000 and 0 <= k < n }", "n >= 1")
    assert str(count) == "100000000000000000000*n"
    assert count(n=3) == 3 * 10**20
    assert count.evaluate(n=np.array([3])).tolist() == [3 * 10**20]


def test_constants_are_exact_beyond_63_bits() -> None:
    assert QuasiPolynomial.constant(2**100, ANYTHING)() == 2**100
    assert (QuasiPolynomial.constant(2**100, ANYTHING) * 2**70)() == 2**100 * 2**70
    assert number_of_points(isl.Set("{ [i, j] : 0 <= i, j < 1000000000000 }")) == 10**24


def test_assumptions_with_large_coefficients_are_checked_exactly() -> None:
    # 2^40·2^30 is 2^70: in 64-bit arithmetic it would be 0.
    count = counted("{ [i] : 0 <= i < n }", f"0 <= n and {2**40}*n <= m")
    assert count(n=2**30, m=2**70) == 2**30
    with pytest.raises(ParameterError, match="violates the kernel's assumptions"):
        count.evaluate(n=np.array([2**30]), m=np.array([2**60]))


# }}}


# {{{ extents


@pytest.mark.parametrize(("n", "groups"), [(-20, 0), (-1, 0), (0, 0), (1, 1), (16, 1), (17, 2)])
def test_extent_is_never_negative(n: int, groups: int) -> None:
    extent = isl.PwAff("[n] -> { [(floor((n + 15)/16))] }")
    assert groups == QuasiPolynomial.of_extent(extent, ANYTHING)(n=n)


# }}}


# {{{ errors


@pytest.mark.parametrize("domain", ["{ [i] : i >= 0 }", "{ [i] : i <= n }", "{ [i, j] : 0 <= i < n }"])
def test_infinitely_many_points_are_rejected(domain: str) -> None:
    with pytest.raises(UnboundedDomainError, match="infinitely many points in"):
        counted(domain)


def test_points_bounded_only_by_assumptions_are_counted() -> None:
    assert counted("{ [i] : n <= i <= m }", "m = n")(n=5) == 1
    assert counted("{ [i] : n <= i and 2*i <= m }", "exists(k: m = 2*n + 2*k and 0 <= k <= 3)")(n=5, m=14) == 3


class TestWithoutBarvinok:
    """Plain islpy, as pip installs it over islpy-barvinok."""

    @pytest.fixture(autouse=True)
    def _plain(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("loopyperf.polyhedral.quasipolynomial.engine_is_exact", lambda: False)

    def test_counts_that_depend_on_sizes_raise_with_a_remedy(self) -> None:
        with pytest.raises(EngineError, match=r"lacks barvinok.*pip install .*islpy-barvinok"):
            counted("{ [i] : 0 <= i < n }")

    def test_counts_at_fixed_sizes_are_exact(self) -> None:
        assert counted("{ [i] : 0 <= i < n }", "n = 7")() == 7

    def test_counts_without_sizes_are_exact(self) -> None:
        assert counted("{ [i] : 0 <= i < 5 }")() == 5
        assert number_of_points(isl.Set("{ [i] : 0 <= i < 5 }")) == 5


# }}}
