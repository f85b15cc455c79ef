"""How fast counting and evaluating are, as ratios to Loopy's and islpy's ways within one run: seconds say nothing.

Both sides are taken as the best of several turns, by turns, so that a busy machine slows both, and with Loopy's caches
off: benchmarks/counting_speed.py says why. Measured on one core: a tiled matrix multiplication loaded and counted
2.9 times as fast as by Loopy's maps, an expansion of 134 instructions 12 times; evaluating at one size 17 times, in a
batch 55 times as fast as one by one. What is asserted leaves a margin to other machines.
"""

import time
from collections.abc import Callable
from typing import Any

import islpy as isl
import loopy as lp
import numpy as np
import pytest
import small_accesses  # noqa: F401
import small_loops  # noqa: F401
from loopy.symbolic import pw_aff_to_pw_aff_implemented_by_expr
from multipole_expansion import multipole_expansion
from small_kernels import SMALL_KERNELS, SmallKernel, array, kernel, lanes
from small_schedules import prefetched_tiles

from loopyperf.counts.quasipolynomial import QuasiPolynomial
from loopyperf.kernel import load_kernel
from loopyperf.properties.counted_kernel import count_properties
from loopyperf.properties.vector import PropertyVector

TURNS = 7
Build = Callable[[], lp.TranslationUnit]


def seconds(action: Callable[[Any], object], argument: Any) -> float:
    """Return how much processor time *action* takes: what others run beside it does not matter."""
    start = time.process_time()
    action(argument)
    return time.process_time() - start


def ratio(
    slow: Callable[[Any], object], fast: Callable[[Any], object], fresh: Callable[[], Any], turns: int = TURNS
) -> float:
    """Return how many times *fast* is as fast as *slow*, each turn on something *fresh*."""
    times = [(seconds(slow, fresh()), seconds(fast, fresh())) for _ in range(turns)]
    return min(turn[0] for turn in times) / min(turn[1] for turn in times)


@pytest.fixture(scope="module")
def linearized() -> lp.TranslationUnit:
    """A tiled matrix multiplication, scheduled: both sides need that, and it takes Loopy longer than either."""
    return lp.linearize(lp.preprocess_program(prefetched_tiles()))


@pytest.fixture(scope="module")
def properties(linearized: lp.TranslationUnit) -> PropertyVector:
    """Its properties."""
    return count_properties(load_kernel(linearized)).properties()


@pytest.fixture(scope="module")
def expansion() -> lp.TranslationUnit:
    """An expansion of 120 coefficients, scheduled: 134 instructions, most of them scalar assignments."""
    return lp.linearize(lp.preprocess_program(multipole_expansion(order=7)))


def forgetful(unit: lp.TranslationUnit) -> Build:
    """Return what makes copies of *unit*: Loopy remembers projections by kernel."""
    return lambda: unit.with_kernel(unit.default_entrypoint.copy())


# {{{ counting


def loopys_maps(unit: lp.TranslationUnit) -> None:
    """Count operations, accesses and barriers."""
    lp.get_op_map(unit, subgroup_size=32)
    lp.get_mem_access_map(unit, subgroup_size=32)
    lp.get_synchronization_map(unit, subgroup_size=32)


def count(unit: lp.TranslationUnit) -> None:
    """Load and count a scheduled kernel."""
    count_properties(load_kernel(unit)).properties()


@pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning")
def test_a_tiled_matrix_multiplication_is_counted_faster_than_by_loopys_three_maps(
    linearized: lp.TranslationUnit,
) -> None:
    with lp.CacheMode(False):
        assert ratio(loopys_maps, count, forgetful(linearized)) > 2


@pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning")
def test_hundreds_of_instructions_are_counted_much_faster_than_by_loopys_three_maps(
    expansion: lp.TranslationUnit,
) -> None:
    with lp.CacheMode(False):
        assert ratio(loopys_maps, count, forgetful(expansion), turns=3) > 6


def test_each_distinct_domain_is_counted_once(
    linearized: lp.TranslationUnit, expansion: lp.TranslationUnit, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []
    of_points = QuasiPolynomial.of_points

    def noted(domain: isl.Set, assumptions: isl.BasicSet) -> QuasiPolynomial:
        counted.append(str(domain))
        return of_points(domain, assumptions)

    monkeypatch.setattr(QuasiPolynomial, "of_points", staticmethod(noted))
    count(expansion)
    # The assignments in the loop over boxes; those before and behind it; the launch.
    assert len(set(counted)) == len(counted) == 3
    counted.clear()
    count(linearized)
    # Two fetches with inames of their own; the update, the assignments around it; the barriers; the launch.
    assert len(set(counted)) == len(counted) == 6


# }}}


# {{{ what was sped up is what it was


@pytest.mark.parametrize("case", SMALL_KERNELS, ids=lambda case: case.name)
def test_a_grid_is_what_loopy_launches(case: SmallKernel) -> None:
    kernel = load_kernel(case.build())
    assumed = isl.Set.from_basic_set(kernel.assumptions)
    for launch in kernel.launches:
        ids = frozenset(instruction.id for instruction in launch.instructions)
        loopys = kernel.loopy_kernel.get_grid_sizes_for_insn_ids_as_dicts(ids, kernel.callables)
        for ours, theirs in zip((launch.group_axes, launch.local_axes), loopys, strict=True):
            assert ours.keys() == theirs.keys()
            launched = {axis: pw_aff_to_pw_aff_implemented_by_expr(theirs[axis]).floor() for axis in ours}
            assert all(assumed.is_subset(extent.eq_set(launched[axis])) for axis, extent in ours.items())


def test_a_grid_has_the_axes_of_called_kernels() -> None:
    callee = lp.make_function("{[i]: 0<=i<10}", "y[i] = 2*x[i]", name="double", lang_version=(2018, 2))
    caller = kernel("{[j]: 0<=j<10}", "[j]: out[j] = double([j]: a[j])", array("a,out", "10"))
    unit = lp.merge([caller, lp.tag_inames(callee, {"i": "l.0"})])
    (launch,) = load_kernel(unit).launches
    assert list(launch.local_axes) == [0]


def test_a_chain_of_temporaries_is_followed_whatever_the_order() -> None:
    unit = kernel(
        "{[l, k]: 0<=l<16 and 0<=k<3}",
        "<> a = 0\n<> b = 0\n<> c = 0\n<> d = 0\n"
        "for k\n d = c + k\n c = b\n b = a\n a = l {inames=l:k}\n e[l] = d {inames=l}\nend",
        array("e", "16"),
    )
    assert load_kernel(lanes(unit, "l")).lane_variables == {"a", "b", "c", "d"}


# }}}


# {{{ evaluating


def test_evaluating_is_faster_than_islpys(properties: PropertyVector) -> None:
    polynomials = [properties[name].polynomial for name in properties if not name.startswith("global min")]

    def compiled(sizes: dict[str, int]) -> None:
        for _ in range(100):
            properties.evaluate(**sizes)

    def interpreted(sizes: dict[str, int]) -> None:
        for _ in range(100):
            for polynomial in polynomials:
                polynomial.eval_with_dict(sizes)

    assert ratio(interpreted, compiled, lambda: {"n": 1024}) > 5


def test_a_batch_is_faster_than_size_by_size(properties: PropertyVector) -> None:
    def one_by_one(sizes: np.ndarray) -> None:
        for size in sizes.tolist():
            properties.evaluate(n=size)

    def together(sizes: np.ndarray) -> None:
        properties.evaluate(n=sizes)

    assert ratio(one_by_one, together, lambda: 4 * np.arange(1, 10_001)) > 10


# }}}
