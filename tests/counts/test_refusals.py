"""Test that constructs without an exact count raise an error that names instruction and construct."""

from fractions import Fraction
from typing import Any

import islpy as isl
import loopy as lp
import pytest
from loopy.symbolic import pw_aff_to_pw_aff_implemented_by_expr
from parts.multipole_expansion import multipole_expansion

from loopyperf.counts.conditions import points_where
from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.errors import ParameterError, UnboundedDomainError, UncountableError
from loopyperf.kernel import load_kernel
from loopyperf.measurement.environment import DeviceLimits
from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial
from tests.brute_force import COUNTINGS, brute_force
from tests.counts import (
    small_accesses,  # noqa: F401
    small_loops,  # noqa: F401
)
from tests.counts.small_kernels import SMALL_KERNELS, array, kernel, lanes, sizes
from tests.counts.small_schedules import prefetched_tiles
from tests.counts.small_uncountable import (
    COLUMNS,
    VALUES,
    complex_minimum,
    condition_on_a_real_argument,
    data_dependent_choice,
    data_dependent_predicate,
    foreign_code,
    image,
    nonlinear_condition,
    random_numbers,
    sparse_rows,
    structure,
)


def wide_groups() -> lp.TranslationUnit:
    """Return a kernel whose division into sub-groups depends on a size."""
    unit = kernel("{[i,j]: 0<=i<n and 0<=j<4}", "out[i,j] = 1 {id=fill}", array("out", "n,4"), sizes("n"))
    return lp.tag_inames(unit, {"i": "l.0", "j": "l.1"})


def test_error_names_the_uncountable_construct(subtests: pytest.Subtests) -> None:
    for build, instruction, construct, keyword in [
        (
            sparse_rows,
            "row_j_update",
            r"loop j is bounded by data \(e, s\); give its typical iteration count, e.g. typical=\{'j': 10\}$",
            "j",
        ),
        (data_dependent_predicate, "some", r"the source does not tell how often m\[i\] > 0 holds", None),
        (data_dependent_choice, "some", r"the source does not tell how often a\[i\] > 0 holds", None),
        (
            condition_on_a_real_argument,
            "some",
            "the source does not tell how often x > 0 holds; .*'x > 0': 0.5",
            "x > 0",
        ),
        (nonlinear_condition, "some", "the source does not tell how often .* < n holds", None),
        (
            foreign_code,
            "text",
            "no count for a CInstruction, whose code Loopy does not parse; .* typical={'text': ",
            "text",
        ),
        (
            random_numbers,
            "draw",
            "no count for philox4x32_f32, a function of 2 results; .* typical={'philox4x32_f32': ",
            "philox4x32_f32",
        ),
        (complex_minimum, "least", r"no count for Min on complex numbers in min\(.*; give the operations", None),
        (image, "look", r"no count for accesses of 'a', of class ImageArg; .* typical=\{'a': ", "a"),
        (structure, "point", r"no count for p\[i\].x, a member of a structure; .* typical=\{'p\[i\].x': ", "p[i].x"),
    ]:
        for counting in ["paper", "executed"]:
            with subtests.test(
                build=build, instruction=instruction, construct=construct, keyword=keyword, counting=counting
            ):
                with pytest.raises(UncountableError, match=f"^instruction '{instruction}': {construct}") as error:
                    count_kernel(load_kernel(build()), counting)
                if keyword is not None:
                    assert error.value.keyword == keyword


@pytest.mark.parametrize("domain", ["{[i]: 0<=i}", "[n] -> {[i]: i<n}", "[n] -> {[i,j]: 0<=i<n and j<=i}"])
def test_error_names_the_instruction_in_an_unbounded_loop(domain: str) -> None:
    unit = kernel(domain, f"out[0] = 1 {{id=write, inames={'i:j' if 'j' in domain else 'i'}}}", array("out", "1"))
    with pytest.raises(UnboundedDomainError, match="instruction 'write': infinitely many points in"):
        count_kernel(load_kernel(unit))


def test_error_names_the_unbounded_loop_around_a_barrier() -> None:
    # The domain of k follows that of j, so Loopy does not nest it in the domain of i: k has no bounds.
    domains = ["{[i]: 0<=i<2}", "{[j]: 0<=j<2}", "[i] -> {[k]: i-1<=k<=i+1}"]
    code = "for i, k\n<float32> c[i] = i\nout[i, k+1] = c[1-i]\nend\nfor j\nx[j] = j\nend"
    unit = lp.tag_inames(kernel(domains, code, array("out", "2,4"), array("x", "2")), "i:l.0")
    unit = lp.set_temporary_address_space(unit, "c", "local")
    with pytest.raises(UnboundedDomainError, match=r"barrier before .*: the loops around it \(k\) have no bounds"):
        count_kernel(load_kernel(unit))


def test_error_for_an_unknown_counting_lists_the_known_ones() -> None:
    unit = kernel("{[i]: 0<=i<n}", "out[i] = 1", array("out", "n"))
    with pytest.raises(ParameterError, match="unknown counting 'guessed'; choose one of: paper, executed"):
        count_kernel(load_kernel(unit), "guessed")  # pyright: ignore[reportArgumentType]


def test_uniform_indirect_access_has_stride_zero() -> None:
    # The element is unknown, but all lanes load the same one: stride 0.
    unit = lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[column[0]]", VALUES, COLUMNS, array("out", "n"), sizes("n")))
    counts = count_kernel(load_kernel(unit)).properties().evaluate(n=40)
    assert counts["global load 32-bit stride 0"] == 2 * 40


def test_sub_groups_of_groups_of_parametric_width_are_rejected() -> None:
    with pytest.raises(UncountableError, match=r"^instruction 'fill': .* the extent of l.0 depends on a size"):
        count_kernel(load_kernel(wide_groups()), sub_group_size=32)


# {{{ symbolic counts of the kernels of test_kernels/rodinia/ against enumeration, with small groups and sizes

LIMITS = DeviceLimits(group_size=256, local_memory=2**16, global_memory=2**30)
FILES = {file.name: file for file in load_kernel_files(bundled_folder("test_kernels/rodinia"))}
SMALL: dict[str, tuple[Any, dict[str, int]]] = {
    "Fan2": ((4, 2), {"n": 13, "t": 2}),
    "kmeans_kernel_c": (8, {"n": 16, "k": 3, "f": 5}),
    "kmeans_swap": (8, {"n": 16, "f": 5}),
    "lud_perimeter": (4, {"n": 16, "t": 1}),
    "lud_internal": (4, {"n": 16, "t": 1}),
    "hotspot": ((4, 2), {"n": 8, "m": 3}),
    "opt_srad1": (8, {"n": 16}),
    "opt_srad2": (8, {"n": 16}),
    "bpnn_layerforward_ocl": (4, {"n": 8}),
    "bpnn_adjust_weights_ocl": (4, {"n": 8}),
    "compute_step_factor": (8, {"n": 16}),
    "time_step": (8, {"n": 16}),
}
"""kernel -> group shape and sizes"""
HALF = Fraction(1, 2)
"""probability of conditions on data: those of k-means select values, and no count depends on it"""


def test_all_kernels_but_two_are_compared():
    # Enumeration does not support indirect accesses (compute_flux); nw_kernel1 has other strides in small tiles.
    assert FILES.keys() - SMALL.keys() == {"nw_kernel1", "compute_flux"}


def test_symbolic_counts_equal_enumeration(subtests: pytest.Subtests) -> None:
    for name in SMALL:
        with subtests.test(name=name):
            group, sizes = SMALL[name]
            (configuration,) = FILES[name].configurations(LIMITS, group)
            kernel = load_kernel(configuration.build())
            enumerated = brute_force(kernel, sizes, share=HALF)
            for counting in COUNTINGS:
                counts = count_kernel(kernel, counting).properties().evaluate(**sizes)
                assert enumerated[counting] == {name: count for name, count in counts.items() if count}


# }}}


# {{{ optimizations of counting do not change counts; ``make benchmark`` measures their speed


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
    count_kernel(load_kernel(unit)).properties()


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
    counts = count_kernel(load_kernel(unit)).properties().evaluate(n=48)
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


# }}}
