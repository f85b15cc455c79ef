"""Test that constructs without an exact count raise an error that names instruction and construct."""

import loopy as lp
import pytest

from loopyperf.counts.counted_kernel import count_properties
from loopyperf.errors import ParameterError, UnboundedDomainError, UncountableError
from loopyperf.kernel import load_kernel
from tests.counts.small_kernels import array, kernel, lanes, sizes
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
        (
            data_dependent_predicate,
            "some",
            r"the source does not tell how often m\[i\] > 0 holds",
            None,
        ),
        (
            data_dependent_choice,
            "some",
            r"the source does not tell how often a\[i\] > 0 holds",
            None,
        ),
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
                    count_properties(load_kernel(build()), counting)
                if keyword is not None:
                    assert error.value.keyword == keyword


@pytest.mark.parametrize("domain", ["{[i]: 0<=i}", "[n] -> {[i]: i<n}", "[n] -> {[i,j]: 0<=i<n and j<=i}"])
def test_error_names_the_instruction_in_an_unbounded_loop(domain: str) -> None:
    unit = kernel(domain, f"out[0] = 1 {{id=write, inames={'i:j' if 'j' in domain else 'i'}}}", array("out", "1"))
    with pytest.raises(UnboundedDomainError, match="instruction 'write': infinitely many points in"):
        count_properties(load_kernel(unit))


def test_error_names_the_unbounded_loop_around_a_barrier() -> None:
    # The domain of k follows that of j, so Loopy does not nest it in the domain of i: k has no bounds.
    domains = ["{[i]: 0<=i<2}", "{[j]: 0<=j<2}", "[i] -> {[k]: i-1<=k<=i+1}"]
    code = "for i, k\n<float32> c[i] = i\nout[i, k+1] = c[1-i]\nend\nfor j\nx[j] = j\nend"
    unit = lp.tag_inames(kernel(domains, code, array("out", "2,4"), array("x", "2")), "i:l.0")
    unit = lp.set_temporary_address_space(unit, "c", "local")
    with pytest.raises(UnboundedDomainError, match=r"barrier before .*: the loops around it \(k\) have no bounds"):
        count_properties(load_kernel(unit))


def test_error_for_an_unknown_counting_lists_the_known_ones() -> None:
    unit = kernel("{[i]: 0<=i<n}", "out[i] = 1", array("out", "n"))
    with pytest.raises(ParameterError, match="unknown counting 'guessed'; choose one of: paper, executed"):
        count_properties(load_kernel(unit), "guessed")  # pyright: ignore[reportArgumentType]


def test_uniform_indirect_access_has_stride_zero() -> None:
    # The element is unknown, but all lanes load the same one: stride 0.
    unit = lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[column[0]]", VALUES, COLUMNS, array("out", "n"), sizes("n")))
    counts = count_properties(load_kernel(unit)).properties().evaluate(n=40)
    assert counts["global load 32-bit stride 0"] == 2 * 40


def test_sub_groups_of_groups_of_parametric_width_are_rejected() -> None:
    with pytest.raises(UncountableError, match=r"^instruction 'fill': .* the extent of l.0 depends on a size"):
        count_properties(load_kernel(wide_groups()), sub_group_size=32)
