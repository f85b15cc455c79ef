"""Test that optimizations of counting do not change counts; ``make benchmark`` measures their speed."""

from typing import Any

import islpy as isl
import loopy as lp
import pytest
from loopy.symbolic import pw_aff_to_pw_aff_implemented_by_expr
from parts.multipole_expansion import multipole_expansion

from loopyperf.counts.conditions import points_where
from loopyperf.counts.counted_kernel import count_properties
from loopyperf.kernel import load_kernel
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial
from tests.counts import (
    small_accesses,  # noqa: F401
    small_loops,  # noqa: F401
)
from tests.counts.small_kernels import SMALL_KERNELS, array, kernel, lanes
from tests.counts.small_schedules import prefetched_tiles


@pytest.fixture(scope="module")
def linearized() -> lp.TranslationUnit:
    """Return a scheduled tiled matrix multiplication; scheduling takes longer than counting."""
    return lp.linearize(lp.preprocess_program(prefetched_tiles()))


@pytest.fixture(scope="module")
def expansion() -> lp.TranslationUnit:
    """Return a scheduled expansion of 120 coefficients: 134 instructions, most of them scalar assignments."""
    return lp.linearize(lp.preprocess_program(multipole_expansion(order=7)))


def count(unit: lp.TranslationUnit) -> None:
    """Load and count a scheduled kernel."""
    count_properties(load_kernel(unit)).properties()


def test_each_distinct_domain_is_counted_once(
    linearized: lp.TranslationUnit, expansion: lp.TranslationUnit, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []
    of_points = QuasiPolynomial.of_points

    def recorded(domain: isl.Set, assumptions: isl.BasicSet) -> QuasiPolynomial:
        counted.append(str(domain))
        return of_points(domain, assumptions)

    monkeypatch.setattr(QuasiPolynomial, "of_points", staticmethod(recorded))
    count(expansion)
    # Domains of the assignments in the loop over boxes, of those before and after it, and of the launch.
    assert len(set(counted)) == len(counted) == 3
    counted.clear()
    count(linearized)
    # Domains of two fetches with their own inames, the update, the assignments around it, the barriers, the launch.
    assert len(set(counted)) == len(counted) == 6


def test_each_condition_is_analyzed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # Ten pieces of a concatenation in nested conditional expressions, as pytato generates them.
    analyzed: list[str] = []

    def where(space: isl.Space, condition: Any, *values: Any) -> isl.Set | None:
        analyzed.append(str(condition))
        return points_where(space, condition, *values)

    monkeypatch.setattr("loopyperf.counts.execution.points_where", where)
    pieces = " else (".join(f"a[i] + {piece} if i < {4 * piece}" for piece in range(1, 11))
    unit = kernel("{[i]: 0<=i<n}", f"b[i] = {pieces} else a[i]{')' * 9}", array("a,b", "n"))
    counts = count_properties(load_kernel(unit)).properties().evaluate(n=48)
    assert counts["f32 add"] == 40
    assert sorted(analyzed) == sorted(f"i < {4 * piece}" for piece in range(1, 11))


def test_grid_is_the_one_that_loopy_launches(subtests: pytest.Subtests) -> None:
    for case in SMALL_KERNELS:
        with subtests.test(case=str(case)):
            kernel = load_kernel(case.build())
            assumed = isl.Set.from_basic_set(kernel.assumptions)
            for launch in kernel.launches:
                ids = frozenset(instruction.id for instruction in launch.instructions)
                loopys = kernel.loopy_kernel.get_grid_sizes_for_insn_ids_as_dicts(ids, kernel.callables)
                for ours, theirs in zip((launch.group_axes, launch.local_axes), loopys, strict=True):
                    assert ours.keys() == theirs.keys()
                    launched = {axis: pw_aff_to_pw_aff_implemented_by_expr(theirs[axis]).floor() for axis in ours}
                    assert all(assumed.is_subset(extent.eq_set(launched[axis])) for axis, extent in ours.items())


def test_grid_has_the_axes_of_called_kernels() -> None:
    callee = lp.make_function("{[i]: 0<=i<10}", "y[i] = 2*x[i]", name="double", lang_version=(2018, 2))
    caller = kernel("{[j]: 0<=j<10}", "[j]: out[j] = double([j]: a[j])", array("a,out", "10"))
    unit = lp.merge([caller, lp.tag_inames(callee, {"i": "l.0"})])
    (launch,) = load_kernel(unit).launches
    assert list(launch.local_axes) == [0]


def test_lane_dependent_temporaries_are_found_in_any_order() -> None:
    unit = kernel(
        "{[l, k]: 0<=l<16 and 0<=k<3}",
        "<> a = 0\n<> b = 0\n<> c = 0\n<> d = 0\n"
        "for k\n d = c + k\n c = b\n b = a\n a = l {inames=l:k}\n e[l] = d {inames=l}\nend",
        array("e", "16"),
    )
    assert load_kernel(lanes(unit, "l")).lane_variables == {"a", "b", "c", "d"}
